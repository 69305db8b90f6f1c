//! One connection: executes its calls in order and sends their replies.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serving::{
    Budget, Connection, Directive, Job, Link, ListenAddress, Peer, Reservation, TlsTransport, Turn,
};

use super::together::{BytesElsewhere, Elsewhere, Given, Waiting};
use super::{End, Live, Replied, Shared};
use crate::exports::Source;
use crate::programs::{CallListener, accepts, slow_payload};
use crate::rpc::{self, Accepted, BadRecord, Call, Found, NotExecutable};
use crate::secured::{Opened, Seal};
use crate::sharenfs::{Security, Transport};
use crate::v4::{Caller, Long, MESSAGE_BYTES_MAX};
use crate::xdr::Reader;

/// Input buffer: one record with the headers of its fragments.
const BUFFER_BYTES_MAX: usize = RECORD_BYTES_MAX + 8192;
/// Input buffer of a client that sends no large record. More is reserved from the budget.
const BUFFER_BYTES: usize = 64 << 10;
/// The large buffer is released after this time without input.
const LARGE_INPUT_PAUSE: Duration = Duration::from_secs(1);
/// An idle connection is closed. The client reconnects when necessary.
const IDLE_TIMEOUT: Duration = Duration::from_secs(900);
/// Time-out of a client's first call, and of the rest of a partial call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time-out of the last replies during a drain.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// A reply of this size is reserved from the budget.
pub(super) const LARGE_ANSWER_BYTES: usize = 16 << 10;
/// Time-out of a reservation. Within it other replies are sent, or their connections are dropped.
const BUDGET_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a record besides the agreed arguments of a session: header, credential, verifier and
/// protection of the arguments.
const CALL_HEADER_BYTES: usize = 2048;
/// Maximum bytes of a record.
const RECORD_BYTES_MAX: usize = MESSAGE_BYTES_MAX as usize + CALL_HEADER_BYTES;

/// Serves one connection until it is closed.
pub(super) fn serve(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    listener: &ListenAddress,
    door: CallListener,
) {
    let peer = connection.peer;
    let (from, here) = match peer {
        Peer::Tcp { remote, local } => {
            let from = Source {
                address: remote.ip().to_canonical(),
                port: remote.port(),
                transport: Transport::Plain,
                security: Security::System,
            };
            (from.behind(door), local.ip().to_canonical())
        }
        Peer::Unix { .. } => (Source::LOCAL, Source::LOCAL.address),
    };
    let exports = shared.service.exports();
    let is_at_home = exports.admits(&Source { port: 0, ..from });
    let door = match exports.admits(&from) {
        true => door,
        false => CallListener::Unprivileged,
    };
    let ended = if is_at_home {
        let mut session = Session {
            shared,
            connection,
            listener,
            from,
            here,
            door,
            link: link(shared, connection, Arc::clone(&connection.stream) as _),
            tls: None,
            large_input: None,
            elsewhere: Arc::default(),
            waiting: Arc::default(),
            is_known: false,
            export: "".into(),
            arrived: Instant::now(),
        };
        let ended = session.run();
        if ended.is_err() {
            session.link.outbound().abandon();
        }
        ended
    } else {
        Err(End::UnauthorizedClient)
    };
    if matches!(ended, Err(End::UnauthorizedClient)) {
        log_unauthorized(shared, peer, &from, is_at_home);
    }
    match ended {
        Ok(()) => tracing::debug!(%peer, "NFS connection ended"),
        Err(reason) => tracing::debug!(%peer, %reason, "NFS connection ended"),
    }
    connection.changes_in_flight.end();
    shared.live().remove(&connection.id);
}

/// Clients retry as long as a mount is pending, so the log lines are limited.
fn log_unauthorized(shared: &Shared, peer: Peer, from: &Source, is_at_home: bool) {
    if let Some(swallowed) = shared.refusals.take(&from.network(), Instant::now()) {
        let why = match is_at_home {
            true => {
                "it came from a port from 1024 on, and no share that names its address has `insecure`"
            }
            false => {
                "no share names its address: `bulkhead filesystem show NAME` shows the rule of a share (`sharenfs`)"
            }
        };
        tracing::warn!(%peer, swallowed, "NFS client refused: {why}");
    }
}

fn link(shared: &Shared, connection: &Connection, transport: Arc<dyn serving::Transport>) -> Link {
    let waker = Arc::clone(&connection.waker);
    let limits = shared.limits.outbound;
    Link::growing(transport, waker, limits, BUFFER_BYTES, BUFFER_BYTES_MAX)
}

/// One connection.
struct Session<'a> {
    shared: &'a Arc<Shared>,
    connection: &'a Arc<Connection>,
    listener: &'a ListenAddress,
    from: Source,
    /// The server's address that the client connected to.
    here: IpAddr,
    door: CallListener,
    link: Link,
    tls: Option<Arc<TlsTransport>>,
    /// Held while the link's buffer is larger than usual.
    large_input: Option<Reservation>,
    /// Bytes of calls at workers and of their replies, until these are queued.
    elsewhere: Arc<AtomicU64>,
    /// Calls that wait for a worker and may share a commit.
    waiting: Arc<Waiting>,
    is_known: bool,
    /// The file system used last.
    export: Arc<str>,
    /// When the last input was received.
    arrived: Instant,
}

impl Session<'_> {
    fn run(&mut self) -> Result<(), End> {
        loop {
            let needs = self.execute_all()?;
            self.grow_buffer(needs)?;
            let has_begun = !self.link.bytes().is_empty() || !self.is_known;
            let patience = if has_begun {
                CALL_TIMEOUT
            } else {
                IDLE_TIMEOUT
            };
            if self.wait(Instant::now() + patience)? {
                self.link.settle(Instant::now() + SETTLE_TIMEOUT);
                self.link.finish();
                return Ok(());
            }
        }
    }

    /// Grows the buffer for a record of this size.
    fn grow_buffer(&mut self, needs: usize) -> Result<(), End> {
        if needs > BUFFER_BYTES_MAX {
            return Err(BadRecord::TooLong(RECORD_BYTES_MAX).into());
        }
        if self.link.must_grow_for(needs) {
            let paid = self.reserve_budget(&self.shared.input, BUFFER_BYTES_MAX);
            self.large_input = Some(paid.ok_or(End::Stalled)?);
        } else if self.shared.input.is_wanted() {
            self.shrink();
        }
        self.link.require(needs);
        Ok(())
    }

    /// Reserves bytes of a budget, waiting for them.
    fn reserve_budget(&self, budget: &Arc<Budget>, bytes: usize) -> Option<Reservation> {
        // Queued replies are already reserved and must not wait for this reservation.
        self.link.flush();
        let until = Instant::now() + BUDGET_TIMEOUT;
        budget.reserve_until(bytes as u64, until)
    }

    fn shrink(&mut self) {
        if self.large_input.is_some() && self.link.shrink() {
            self.large_input = None;
        }
    }

    /// Blocks until input arrives. Returns whether the server is being drained.
    fn wait(&mut self, deadline: Instant) -> Result<bool, End> {
        loop {
            let pause = Instant::now() + LARGE_INPUT_PAUSE;
            let until = match self.large_input {
                Some(_) if self.link.bytes().is_empty() => pause.min(deadline),
                _ => deadline,
            };
            match self.link.turn(Some(until))? {
                Turn::Input(_) => {
                    self.arrived = Instant::now();
                    return Ok(false);
                }
                Turn::Closed => return Err(End::Closed),
                Turn::Stalled => return Err(End::Stalled),
                Turn::Deadline if until < deadline => self.shrink(),
                Turn::Deadline => return Err(End::Idle),
                Turn::Woken => match self.connection.directive() {
                    Directive::Serve => {}
                    Directive::Drain => return Ok(true),
                    Directive::Drop => return Err(End::Dropped),
                },
            }
        }
    }

    /// Records how the connection is secured. It is decided when the first bytes have been
    /// received.
    fn note_security(&mut self) {
        if let Some(tls) = self.tls.as_ref().filter(|_| !self.link.bytes().is_empty()) {
            self.from.transport = match tls.client_certificate() {
                Some(_) => Transport::Mutual,
                None => Transport::Tls,
            };
        }
    }

    /// Starts TLS after its announcement.
    fn start_tls(&mut self, config: Arc<rustls::ServerConfig>) -> Result<(), End> {
        // Plain bytes after the call may come from another sender.
        let is_alone = self.link.bytes().is_empty();
        if !is_alone || !self.link.settle(Instant::now() + CALL_TIMEOUT) {
            return Err(End::PlainAfterTls);
        }
        let stream = Arc::clone(&self.connection.stream);
        let tls = Arc::new(TlsTransport::new(stream, config)?);
        self.link = link(self.shared, self.connection, Arc::clone(&tls) as _);
        self.large_input = None;
        self.tls = Some(tls);
        Ok(())
    }

    /// Returns the TLS configuration, if this connection may use TLS.
    fn tls_to_begin(&self) -> Option<Arc<rustls::ServerConfig>> {
        let is_first = self.door == CallListener::Files
            && self.tls.is_none()
            && self.elsewhere.load(Ordering::Relaxed) == 0;
        let config = self.shared.tls.lock().expect("no holder panics");
        config.clone().filter(|_| is_first)
    }

    /// Executes the calls in the input. Returns the bytes that the next call needs.
    fn execute_all(&mut self) -> Result<usize, End> {
        self.note_security();
        loop {
            let input = self.link.bytes();
            let (input_bytes, is_one_fragment) = match rpc::find_record(input, RECORD_BYTES_MAX)? {
                Found::Needs(bytes) => return Ok(bytes),
                Found::Whole {
                    input_bytes,
                    is_one_fragment,
                } => (input_bytes, is_one_fragment),
            };
            let has_more = input.len() > input_bytes;
            let joined;
            let record = if is_one_fragment {
                &input[4..input_bytes]
            } else {
                joined = rpc::join_fragments(&input[..input_bytes]);
                &joined
            };
            let executed = self.execute(record, has_more)?;
            self.link.consume(input_bytes);
            // A connection without such a call is unauthenticated. It is dropped first if there are
            // too many.
            if executed.is_call && !self.is_known && self.door == CallListener::Files {
                if !self.connection.admit_peer() {
                    return Err(End::Full);
                }
                self.is_known = true;
                self.enter();
            }
            if let Some(answered) = executed.answered {
                self.push(answered)?;
            }
            if let Some(config) = executed.tls {
                self.start_tls(config)?;
            }
            if self.link.outbound().is_congested() {
                match self.link.make_room(Some(Instant::now() + IDLE_TIMEOUT))? {
                    // The client was slow to read replies. Its queued calls start now.
                    Turn::Input(_) | Turn::Woken => self.arrived = Instant::now(),
                    Turn::Closed => return Err(End::Closed),
                    Turn::Stalled | Turn::Deadline => return Err(End::Stalled),
                }
            }
            if self.connection.directive() == Directive::Drop {
                return Err(End::Dropped);
            }
        }
    }

    /// Registers the connection of a known client.
    fn enter(&self) {
        let live = Live {
            connection: Arc::clone(self.connection),
            listener: self.listener.clone(),
            export: "".into(),
        };
        self.shared.live().insert(self.connection.id, live);
        let listening = self.shared.listening.lock().expect("no holder panics");
        if !listening.contains(self.listener) {
            self.connection.direct(Directive::Drain);
        }
    }

    fn push(&mut self, mut answered: Replied) -> Result<(), End> {
        if let Some(export) = &answered.export {
            if self.export != *export {
                self.export = Arc::clone(export);
                if let Some(live) = self.shared.live().get_mut(&self.connection.id) {
                    live.export = Arc::clone(export);
                }
            }
        }
        let bytes = answered.out.len();
        let budget = &self.shared.budget;
        let reservation = match bytes {
            LARGE_ANSWER_BYTES.. => match budget.try_reserve(bytes as u64) {
                None => {
                    // A writer that needs the borrowed buffers must not wait as long.
                    answered.out.own();
                    Some(self.reserve_budget(budget, bytes).ok_or(End::Stalled)?)
                }
                paid => paid,
            },
            _ => None,
        };
        let is_lent = answered.out.is_lent();
        self.link.outbound().push(answered.into_answer(reservation));
        if is_lent {
            // The next call may change the file.
            self.link.flush();
        }
        Ok(())
    }

    /// Executes a record or passes it to a worker.
    fn execute(&self, record: &[u8], has_more: bool) -> Result<Executed, End> {
        let incoming = match self.read(record)? {
            Ok(incoming) => incoming,
            Err(executed) => return Ok(executed),
        };
        let Incoming {
            call,
            arguments,
            seal,
        } = &incoming;
        if self.door == CallListener::Unprivileged && call.procedure != rpc::NULL {
            return Err(End::UnauthorizedClient);
        }
        let is_call = matches!(accepts(call, self.door), Accepted::Success);
        let long = self.payload_for_worker(call, arguments, has_more);
        if long.is_some_and(|long| self.execute_on_worker(&incoming, long)) {
            return Ok(Executed {
                answered: None,
                is_call,
                tls: None,
            });
        }
        let change = self.connection.changes_in_flight.own_change();
        let _change = change.ok_or(End::Dropped)?;
        let caller = self.caller(&incoming);
        let (door, seal) = (self.door, seal.as_ref());
        let arrived = self.arrived;
        let answered = self
            .shared
            .answer(arrived, call, arguments, &caller, door, seal)?;
        Ok(Executed {
            answered: Some(answered),
            is_call,
            tls: None,
        })
    }

    /// Decodes the call of a record. If there is no call to execute, returns the outcome.
    fn read<'r>(&self, record: &'r [u8]) -> Result<Result<Incoming<'r>, Executed>, End> {
        let mut reader = Reader::new(record);
        let (bytes, config) = match rpc::read_call(&mut reader) {
            Ok(call) => {
                return Ok(Ok(Incoming {
                    call,
                    arguments: reader.rest().into(),
                    seal: None,
                }));
            }
            Err(NotExecutable::Reply(bytes)) => (bytes, None),
            Err(NotExecutable::StartTls { transaction }) => {
                let config = self.tls_to_begin();
                let bytes = match config {
                    Some(_) => rpc::begin_tls(transaction),
                    None => rpc::bad_credential(transaction),
                };
                (bytes, config)
            }
            Err(NotExecutable::Secured(secured)) => {
                let contexts = &self.shared.contexts;
                match contexts.open(&secured, reader.rest(), self.from.network()) {
                    Opened::Call {
                        call,
                        arguments,
                        seal,
                    } => {
                        return Ok(Ok(Incoming {
                            call,
                            arguments,
                            seal: Some(seal),
                        }));
                    }
                    Opened::Reply(bytes) => (bytes, None),
                    Opened::Nothing => return Ok(Err(Executed::default())),
                    Opened::TooLate => return Err(End::TooLate),
                }
            }
            Err(NotExecutable::Malformed) => return Err(End::NotExecutable),
        };
        Ok(Err(Executed::of_bytes(bytes, config)))
    }

    fn source(&self, seal: Option<&Seal>) -> Source {
        Source {
            security: seal.map_or(Security::System, |seal| seal.security),
            ..self.from
        }
    }

    fn caller<'c>(&self, incoming: &'c Incoming<'_>) -> Caller<'c> {
        Caller {
            credential: &incoming.call.credential,
            transaction: incoming.call.transaction,
            connection: self.connection.id,
            from: self.source(incoming.seal.as_ref()),
            here: self.here,
            now_ms: self.shared.now_ms(),
        }
    }

    /// Returns why a worker should execute the call: the following calls would be blocked here. While
    /// a worker executes one, the client has several calls in progress and sends more. These can be
    /// read concurrently and share a commit.
    fn payload_for_worker(&self, call: &Call, arguments: &[u8], has_more: bool) -> Option<Long> {
        let is_alone = !has_more && self.elsewhere.load(Ordering::Relaxed) == 0;
        if is_alone {
            return None;
        }
        slow_payload(call, arguments).filter(|long| has_more || !matches!(long, Long::Payload(_)))
    }

    /// Passes a call to a worker, so that the following calls need not wait. Returns false if there
    /// is no memory, or if the client already has enough unread replies.
    fn execute_on_worker(&self, incoming: &Incoming<'_>, long: Long) -> bool {
        let payload = match long {
            Long::Payload(bytes) => bytes,
            Long::Contents | Long::Names => 0,
        };
        let bytes = incoming.arguments.len() as u64 + u64::from(payload);
        let waiting =
            self.elsewhere.load(Ordering::Relaxed) + self.link.outbound().queued_bytes() as u64;
        if waiting + bytes > self.shared.limits.outbound.queued_bytes_max as u64 {
            return false;
        }
        let paid = self.shared.budget.try_reserve(bytes);
        let Some(reservation) = paid else {
            return false;
        };
        let seal = incoming.seal.clone();
        let given = Given {
            call: incoming.call.clone(),
            arguments: incoming.arguments.to_vec(),
            from: self.source(seal.as_ref()),
            seal,
            arrived: self.arrived,
            change: self.connection.changes_in_flight.change(),
            reservation,
            pending: self.link.outbound().pending(),
            bytes: BytesElsewhere::new(&self.elsewhere, bytes),
        };
        self.submit(given, long);
        true
    }

    /// Has a worker execute a call, or executes it here if there is none.
    fn submit(&self, given: Given, long: Long) {
        let place = Elsewhere {
            shared: Arc::clone(self.shared),
            connection: Arc::clone(self.connection),
            outbound: Arc::clone(self.link.outbound()),
            here: self.here,
            door: self.door,
            waiting: Arc::clone(&self.waiting),
        };
        let job: Job =
            if long == Long::Names && given.seal.is_none() && self.door == CallListener::Files {
                if !self.waiting.push(given) {
                    return;
                }
                Box::new(move || place.execute_waiting())
            } else {
                Box::new(move || place.execute(given))
            };
        // A call without a long reply blocks on the disks. Cached reads must not queue behind it.
        let workers = &self.shared.workers;
        let submitted = match long {
            Long::Payload(_) => workers.submit(job),
            Long::Contents | Long::Names => workers.submit_waiting(job),
        };
        if let Err(job) = submitted {
            job();
        }
    }
}

/// A call to execute.
struct Incoming<'r> {
    call: Call,
    arguments: Cow<'r, [u8]>,
    /// The protection of its reply.
    seal: Option<Seal>,
}

/// The outcome of a record.
#[derive(Default)]
struct Executed {
    /// The reply, unless a worker sends it.
    answered: Option<Replied>,
    /// Whether it was an NFS call.
    is_call: bool,
    /// The TLS configuration to start with after the reply.
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Executed {
    fn of_bytes(bytes: Vec<u8>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        Self {
            answered: Some(Replied {
                out: bytes.into(),
                export: None,
            }),
            is_call: false,
            tls,
        }
    }
}
