//! A leg over NBD.

mod input;
mod reception;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use leg_record::Session;
use nbd::protocol::wire::PAYLOAD_BYTES_MAX;
use rustix::io::Errno;
use rustls::ClientConfig;

use crate::handshake::connect;
use crate::life::alive_at;
use crate::request::{REQUEST_BYTES, encode};
use crate::wire::Wire;
use crate::{Done, Identity, LegError, Operation, Transport};

use input::Input;
pub use reception::Awaited;
use reception::Duty;

/// Operations under way.
const OPERATIONS_MAX: usize = 4096;
/// Bytes of operations under way.
const BYTES_MAX: u64 = 256 << 20;
/// Checks of the clock per deadline.
const CHECKS_PER_DEADLINE: u32 = 16;
/// As many times its silence a leg has as deadline, at least: how often the clock is looked at follows from the shorter.
const SILENCES_PER_DEADLINE: u32 = 4;
/// A check of the clock that is late by this was stopped, with the whole process or host.
const STALL_MIN: Duration = Duration::from_secs(1);

/// How a lender is reached, and how long is waited.
#[derive(Clone, Debug)]
pub struct Settings {
    /// TLS, if any. It has to know the lender by its certificate.
    pub tls: Option<Arc<ClientConfig>>,
    /// The leg is read-only. Its lender needs no session for that, and need not accept writes.
    pub only_looks: bool,
    /// For an operation, from its submission to its reply, across reconnects.
    pub deadline: Duration,
    /// For a connection and its handshake.
    pub connect_wait: Duration,
    /// If no data arrives for this time while an operation is pending, the lender is probed.
    pub silence: Duration,
    /// So long it may take to say so.
    pub life_wait: Duration,
}

/// The grant of a lender: session, incarnation, export, addresses.
#[derive(Clone, Debug)]
pub struct Access {
    /// The session that was admitted.
    pub session: Session,
    /// The start of the lender.
    pub incarnation: u64,
    /// Name of the export.
    pub export: String,
    /// Where the lender is, tried in this order.
    pub addresses: Vec<SocketAddr>,
}

/// An event of a leg. Reported on its threads, which hold no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection ended. Pending operations continue with [`NbdLeg::resume`], until their
    /// deadline.
    Lost,
    /// The leg failed, for good. Its operations fail with this error after this report.
    Failed(LegError),
}

type OnEvent = dyn Fn(Event) + Send + Sync;

struct Pending {
    operation: Operation,
    done: Done,
    submitted: Instant,
    /// The thread that submitted it receives its reply.
    is_awaited: bool,
}

/// A connection, and received data that is not used yet. One thread at a time has the input.
struct Line {
    wire: Arc<Wire>,
    generation: u64,
    input: Mutex<Input>,
}

enum Link {
    Up(Arc<Line>, SocketAddr),
    Down { since: Instant },
    Failed(LegError),
}

struct State {
    identity: Identity,
    link: Link,
    /// Counts connections: data of an earlier one is ignored.
    generation: u64,
    /// By cookie, so in the order of their submission.
    pending: BTreeMap<u64, Pending>,
    pending_bytes: u64,
    cookie: u64,
    /// Cookies of requests to be sent.
    unsent: VecDeque<u64>,
    /// Where the lender is.
    addresses: Vec<SocketAddr>,
    /// The time of the last received data.
    heard: Instant,
    /// The receiving thread.
    duty: Duty,
}

/// A request that is partly sent.
struct Sending {
    generation: u64,
    socket: Arc<Wire>,
    header: [u8; REQUEST_BYTES],
    data: Option<Arc<Vec<u8>>>,
    sent: usize,
}

struct Inner {
    settings: Settings,
    bytes: u64,
    state: Mutex<State>,
    /// A request is to be sent, or no more will be.
    wake: Condvar,
    /// The leg's own thread is to receive.
    turn: Condvar,
    /// The holder sends; a request that the socket did not accept completely is left in it.
    sending: Mutex<Option<Sending>>,
    notify: Box<OnEvent>,
}

/// A leg over NBD. Dropping it closes it and fails all pending operations.
pub struct NbdLeg(Arc<Inner>);

impl NbdLeg {
    /// Connects to a disk that a lender granted. `notify` receives the events of the leg.
    ///
    /// # Errors
    ///
    /// No address of the lender accepts the session.
    pub fn connect(
        disk: leg_record::DiskId,
        access: &Access,
        settings: Settings,
        notify: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, LegError> {
        let (reached, bytes) = reach(access, &settings)?;
        let state = State {
            identity: Identity {
                disk,
                session: access.session,
                incarnation: access.incarnation,
            },
            link: Link::Down {
                since: Instant::now(),
            },
            generation: 0,
            pending: BTreeMap::new(),
            pending_bytes: 0,
            cookie: 0,
            unsent: VecDeque::new(),
            addresses: access.addresses.clone(),
            heard: Instant::now(),
            duty: Duty::default(),
        };
        let inner = Arc::new(Inner {
            settings,
            bytes,
            state: Mutex::new(state),
            wake: Condvar::new(),
            turn: Condvar::new(),
            sending: Mutex::default(),
            notify: Box::new(notify),
        });
        let leg = Self(Arc::clone(&inner));
        let sender = Arc::clone(&inner);
        spawn("leg-send", move || sender.send_always())?;
        let clock = Arc::clone(&inner);
        spawn("leg-clock", move || clock.watch())?;
        inner.use_stream(reached, access.session)?;
        Ok(leg)
    }

    /// Resumes with another session, which the lender admitted after it had ended all I/O of the former one. Blocks
    /// until it is connected; must not be called by `notify`.
    ///
    /// # Errors
    ///
    /// The lender was restarted, or the disk is another: the leg has failed. Or no address accepts the session: the
    /// call can be retried.
    pub fn resume(&self, access: &Access) -> Result<(), LegError> {
        let known = self.0.lock().identity;
        if access.incarnation != known.incarnation {
            self.0.fail(LegError::OtherIncarnation);
            return Err(LegError::OtherIncarnation);
        }
        let (reached, bytes) = reach(access, &self.0.settings)?;
        if bytes != self.0.bytes {
            let error = LegError::Protocol("the disk has another size");
            self.0.fail(error.clone());
            return Err(error);
        }
        self.0.use_stream(reached, access.session)
    }

    /// Submits an operation as [`Transport::submit`] does, and leaves its reply to the calling thread, which has no
    /// other work. `None` if `done` was called.
    pub fn submit_awaited(&self, operation: Operation, done: Done) -> Option<Awaited> {
        let cookie = self.0.submit(operation, done, true)?;
        Some(Awaited::new(&self.0, cookie))
    }

    /// Closes the leg: all pending operations fail.
    pub fn close(&self) {
        self.0.fail(LegError::Closed);
    }
}

impl Drop for NbdLeg {
    fn drop(&mut self) {
        self.close();
    }
}

impl Transport for NbdLeg {
    fn identity(&self) -> Identity {
        self.0.lock().identity
    }

    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    fn submit(&self, operation: Operation, done: Done) {
        self.0.submit(operation, done, false);
    }
}

/// The first address that accepts the session, and the size of the disk.
fn reach(access: &Access, settings: &Settings) -> Result<((Wire, SocketAddr), u64), LegError> {
    let mut last = LegError::Unreachable("it has no address".to_owned());
    for address in &access.addresses {
        match connect(*address, &access.export, settings) {
            Ok((wire, bytes)) => return Ok(((wire, *address), bytes)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), LegError> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(run);
    spawned
        .map(drop)
        .map_err(|error| LegError::Unreachable(format!("start a thread: {error}")))
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Sends requests on `stream` from now on, pending ones first.
    fn use_stream(
        self: &Arc<Self>,
        (stream, address): (Wire, SocketAddr),
        session: Session,
    ) -> Result<(), LegError> {
        let wire = Arc::new(stream);
        let line = {
            let mut state = self.lock();
            match &state.link {
                Link::Failed(error) => return Err(error.clone()),
                Link::Up(old, _) => old.wire.shut(),
                Link::Down { .. } => {}
            }
            state.generation += 1;
            state.identity.session = session;
            let line = Arc::new(Line {
                input: Mutex::new(Input::new(wire.receiver())),
                wire,
                generation: state.generation,
            });
            state.link = Link::Up(Arc::clone(&line), address);
            state.heard = Instant::now();
            state.unsent = state.pending.keys().copied().collect();
            state.duty.begin_anew();
            line
        };
        self.wake.notify_all();
        self.turn.notify_all();
        let (inner, generation) = (Arc::clone(self), line.generation);
        spawn("leg-receive", move || inner.receive_always(&line))
            .inspect_err(|_| self.lost(generation))
    }

    /// The cookie of the operation, unless it is done: `done` was called then.
    fn submit(&self, operation: Operation, done: Done, is_awaited: bool) -> Option<u64> {
        let extent = operation.extent();
        let is_inside = extent.fits(self.bytes) && extent.length <= u64::from(PAYLOAD_BYTES_MAX);
        let mut cookie = 0;
        let refused = {
            let mut state = self.lock();
            let refused = match &state.link {
                Link::Failed(error) => Some(error.clone()),
                _ if !is_inside => Some(LegError::Range),
                _ if state.pending.len() >= OPERATIONS_MAX
                    || state.pending_bytes + extent.length > BYTES_MAX =>
                {
                    Some(LegError::TooMuch)
                }
                Link::Up(..) | Link::Down { .. } => None,
            };
            match refused {
                Some(error) => Some((done, error)),
                None => {
                    cookie = state.add(operation, done, is_awaited);
                    self.leave(state);
                    None
                }
            }
        };
        if let Some((done, error)) = refused {
            done(Err(error));
            return None;
        }
        // Here, if no other thread sends: it avoids a hand-over.
        match self.sending.try_lock() {
            Ok(mut sending) => {
                if !self.send(&mut sending) {
                    self.wake.notify_all();
                }
            }
            Err(TryLockError::WouldBlock) => self.wake.notify_all(),
            Err(TryLockError::Poisoned(_)) => unreachable!("no holder panics"),
        }
        Some(cookie)
    }

    /// Sends as much as the socket accepts without blocking; returns whether that is all.
    fn send(&self, sending: &mut Option<Sending>) -> bool {
        loop {
            let Some(current) = self.next(sending) else {
                return true;
            };
            match current.push() {
                Ok(true) => *sending = None,
                Ok(false) => {}
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => {
                    // The thread that receives finds the end.
                    current.socket.shut();
                    *sending = None;
                    return true;
                }
            }
        }
    }

    /// The request to be sent now.
    fn next<'a>(&self, sending: &'a mut Option<Sending>) -> Option<&'a mut Sending> {
        let mut state = self.lock();
        let generation = state.generation;
        let Link::Up(line, _) = &state.link else {
            *sending = None;
            return None;
        };
        let socket = Arc::clone(&line.wire);
        let is_current = |current: &Sending| current.generation == generation;
        if !sending.as_ref().is_some_and(is_current) {
            let cookie = state.unsent.pop_front();
            let waiting = cookie.and_then(|cookie| Some((cookie, state.pending.get(&cookie)?)));
            *sending = waiting.map(|(cookie, pending)| Sending {
                generation,
                socket,
                header: encode(&pending.operation, cookie),
                data: match &pending.operation {
                    Operation::Write { data, .. } => Some(Arc::clone(data)),
                    _ => None,
                },
                sent: 0,
            });
        }
        sending.as_mut()
    }

    /// The thread that sends the rest of requests.
    fn send_always(&self) {
        loop {
            {
                let mut state = self.lock();
                loop {
                    match &state.link {
                        Link::Failed(_) => return,
                        Link::Up(..) if !state.unsent.is_empty() || self.is_partly_sent() => break,
                        _ => {}
                    }
                    state = self.wake.wait(state).expect("no holder panics");
                }
            }
            let mut sending = self.sending.lock().expect("no holder panics");
            while !self.send(&mut sending) {
                if let Some(current) = sending.as_ref() {
                    current.socket.wait();
                }
            }
        }
    }

    /// Whether a request is partly sent, or being sent.
    fn is_partly_sent(&self) -> bool {
        self.sending
            .try_lock()
            .map_or(true, |sending| sending.is_some())
    }

    /// The connection ended.
    fn lost(&self, generation: u64) {
        {
            let mut state = self.lock();
            let is_current = state.generation == generation && matches!(state.link, Link::Up(..));
            if !is_current {
                return;
            }
            let since = Instant::now();
            state.link = Link::Down { since };
        }
        self.turn.notify_all();
        (self.notify)(Event::Lost);
    }

    fn fail_if(&self, generation: u64, error: LegError) {
        let is_current = self.lock().generation == generation;
        if is_current {
            self.fail(error);
        }
    }

    /// Fails the leg for good.
    fn fail(&self, error: LegError) {
        let pending = {
            let mut state = self.lock();
            match &state.link {
                Link::Failed(_) => return,
                Link::Up(line, _) => line.wire.shut(),
                Link::Down { .. } => {}
            }
            state.link = Link::Failed(error.clone());
            state.unsent.clear();
            state.pending_bytes = 0;
            state.duty.awaited = 0;
            std::mem::take(&mut state.pending)
        };
        self.wake.notify_all();
        self.turn.notify_all();
        (self.notify)(Event::Failed(error.clone()));
        for pending in pending.into_values() {
            (pending.done)(Err(error.clone()));
        }
    }

    /// The thread that checks the clock.
    fn watch(&self) {
        let shortest = self
            .settings
            .deadline
            .min(self.settings.silence * SILENCES_PER_DEADLINE);
        let pause = shortest / CHECKS_PER_DEADLINE;
        loop {
            let is_overdue = {
                let state = self.lock();
                let began = Instant::now();
                let waited = self.wake.wait_timeout(state, pause);
                let (mut state, _) = waited.expect("no holder panics");
                if matches!(state.link, Link::Failed(_)) {
                    return;
                }
                if began.elapsed() > pause + STALL_MIN {
                    state.restart_timers();
                    continue;
                }
                let is_overdue = state.is_overdue(self.settings.deadline);
                if !is_overdue && !state.is_silent(self.settings.silence) {
                    continue;
                }
                is_overdue
            };
            match is_overdue {
                true => self.fail(LegError::Deadline),
                false => self.check_liveness(),
            }
        }
    }

    /// No data arrived for a while: probes whether the lender is alive.
    fn check_liveness(&self) {
        let (generation, addresses) = {
            let state = self.lock();
            (state.generation, state.addresses.clone())
        };
        let alive = alive_at(&addresses, self.settings.life_wait);
        let mut state = self.lock();
        // Data arrived in the meantime, or the connection ended, which is handled elsewhere.
        if state.generation != generation || !state.is_silent(self.settings.silence) {
            return;
        }
        match &state.link {
            Link::Up(_, address) if alive.contains(address) => state.heard = Instant::now(),
            // It is alive, and this connection is dead: the receiving thread detects its end.
            Link::Up(line, _) if !alive.is_empty() => line.wire.shut(),
            _ => {
                drop(state);
                self.fail(LegError::Silent);
            }
        }
    }
}

impl State {
    fn add(&mut self, operation: Operation, done: Done, is_awaited: bool) -> u64 {
        self.cookie += 1;
        let cookie = self.cookie;
        self.pending_bytes += operation.extent().length;
        let pending = Pending {
            operation,
            done,
            submitted: Instant::now(),
            is_awaited,
        };
        if is_awaited {
            self.duty.note_awaited();
        }
        self.pending.insert(cookie, pending);
        self.unsent.push_back(cookie);
        cookie
    }

    /// Whether an operation is pending on a connection that was silent for this time.
    fn is_silent(&self, silence: Duration) -> bool {
        let oldest = self.pending.values().next();
        let is_late = oldest.is_some_and(|oldest| oldest.submitted.elapsed() >= silence);
        is_late && matches!(self.link, Link::Up(..)) && self.heard.elapsed() >= silence
    }

    /// This process was stopped, including its receiving thread: no reply is late yet.
    fn restart_timers(&mut self) {
        let now = Instant::now();
        self.heard = now;
        for pending in self.pending.values_mut() {
            pending.submitted = now;
        }
        if let Link::Down { since } = &mut self.link {
            *since = now;
        }
    }

    /// Whether the oldest operation, or a pending reconnect, exceeded `deadline`.
    fn is_overdue(&self, deadline: Duration) -> bool {
        let oldest = self.pending.values().next();
        let is_late = oldest.is_some_and(|oldest| oldest.submitted.elapsed() >= deadline);
        let is_down = matches!(self.link, Link::Down { since } if since.elapsed() >= deadline);
        is_late || is_down
    }
}

impl Sending {
    /// Writes as much as the socket accepts; returns whether that is the rest.
    fn push(&mut self) -> Result<bool, Errno> {
        let data = self.data.as_deref().map_or(&[][..], Vec::as_slice);
        let total = REQUEST_BYTES + data.len();
        if self.sent < total {
            let header = self.header.get(self.sent..).unwrap_or_default();
            let sent_data = self.sent.saturating_sub(REQUEST_BYTES);
            self.sent += self.socket.send([header, &data[sent_data..]])?;
        }
        // The last of it is on its way only when TLS holds nothing back.
        self.socket.flush()?;
        Ok(self.sent == total)
    }
}
