//! Legs: devices of a pool that have a record outside the pool of whether their data is complete.
//!
//! **The barrier.** A mirror acknowledges a write once one leg has it. So the failure of a leg is withheld from the
//! library until a record without that leg is durable: its pending and new requests to the leg are held back. No write
//! that the leg misses, and no flush, completes before that. Reads fail at once, and the library reads from another
//! leg. A failed leg stays out until the record's owner admits it again.
//!
//! ```text
//! Excluded --admit--> InUse --failure--> Failed, reported to the watcher --exclude--> Excluded
//!                       ^                   | the last leg, nothing missing
//!                       '------ use again --'
//! ```
//!
//! A failure is an error of a write or a flush, which the library would ignore; a time-out; a device that is gone or
//! cannot be opened; one that the library has stopped writing to, for any reason; and a call of [`fail`].
//!
//! A block that cannot be read, or returns wrong data, is no failure of the leg, nor is a failed discard: the leg
//! misses no write because of it. The library receives the error, reads the block from another leg and repairs it, or
//! reports the error to its client.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::io::Errno;
use zpool_sys as sys;

use super::bridge::{Request, submit_now};
use super::io::{CompletionThread, InFlight, IoKind, LibraryIo};
use super::{OpenFailure, ownership};

/// How a leg failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LegFailure {
    /// It answered with an error.
    #[error("it answered with an error: {0}")]
    Error(Errno),
    /// It did not respond in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// It could not be opened.
    #[error("it cannot be opened: {0}")]
    Open(OpenFailure),
    /// The library found it unusable, or it was removed from use.
    #[error("it is not written to any more")]
    Unusable,
    /// An administrator replaces it with another device.
    #[error("another device replaces it")]
    Replaced,
}

/// Receives failures of legs, and has the failed legs excluded.
pub trait Watcher: Send + Sync {
    /// The leg gets no more I/O, and its errors are withheld. `flushed`: the last uberblock that a flush confirmed on
    /// it since it was admitted, by its transaction group.
    ///
    /// Called on any thread, of the library's too: must neither block nor call the library.
    fn leg_failed(&self, leg: u64, why: LegFailure, flushed: Option<u64>);
}

/// An I/O that is withheld from the library.
struct Held {
    io: LibraryIo,
    /// The request, if the device did not receive it.
    unsent: Option<Request>,
}

enum State {
    /// Not to be opened: its data is incomplete, or it was not admitted yet.
    Excluded,
    InUse,
    /// The I/O that is held until the record is durable.
    Failed {
        held: Vec<Held>,
        /// No other leg is complete: it will not be excluded.
        is_last: bool,
        /// The device may have been disconnected, and may have lost writes that no flush confirmed.
        is_away: bool,
    },
}

/// The state of a leg that may be the last complete one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLeg {
    /// It is in use, or excluded, or its exclusion is pending.
    No,
    /// It failed, but no write or flush did.
    Complete,
    /// A write or flush failed, or the device may have lost some.
    Incomplete,
}

/// Whether a read error concerns the whole device, rather than some blocks.
pub(super) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NXIO | Errno::NODEV)
}

/// A leg, by its ZFS GUID.
pub(super) struct Leg {
    pool: u64,
    guid: u64,
    response_timeout: Duration,
    watcher: Arc<dyn Watcher>,
    /// Whether it failed, for a check on the fast path.
    is_out: AtomicBool,
    /// The last uberblock that was written since it was admitted, by its transaction group; 0 for none.
    root: AtomicU64,
    /// The last uberblock that a flush confirmed; 0 for none. It is not the last group: a group without an uberblock
    /// cannot identify an older image of the leg.
    flushed: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    /// Devices that were opened for it, including closed ones with pending I/O.
    devices: Mutex<Vec<Weak<InFlight>>>,
}

static LEGS: Mutex<Option<HashMap<u64, Arc<Leg>>>> = Mutex::new(None);

/// Called with the path and the number of a leg that the library opens for the first time.
pub type Named = dyn Fn(&Path, u64) + Send + Sync;

/// Devices that are about to be added to a pool. The library chooses their numbers when it opens them.
#[derive(Clone)]
struct Joining {
    pool: u64,
    /// The time-out of an I/O of each.
    devices: BTreeMap<PathBuf, Duration>,
    watcher: Arc<dyn Watcher>,
    named: Arc<Named>,
}

static JOINING: Mutex<Option<Joining>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers the devices `legs` of `pool` as legs; each must be admitted before it can be opened. Call it before the
/// pool is opened. `response_timeout`: a slower I/O is a failure.
pub fn register_legs(
    pool: u64,
    legs: impl IntoIterator<Item = u64>,
    response_timeout: Duration,
    watcher: &Arc<dyn Watcher>,
) {
    let mut all = lock(&LEGS);
    let all = all.get_or_insert_default();
    for guid in legs {
        let leg = Leg {
            pool,
            guid,
            response_timeout,
            watcher: Arc::clone(watcher),
            is_out: AtomicBool::new(true),
            root: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            state: Mutex::new(State::Excluded),
            changed: Condvar::new(),
            devices: Mutex::default(),
        };
        all.insert(guid, Arc::new(leg));
    }
}

/// Runs `add`, which adds `devices` to `pool`, with the time-out of an I/O of each. They are legs in use from their
/// first I/O on; `named` is called before it. They are no legs any more if it fails. One thread at a time.
///
/// # Errors
///
/// As `add`.
pub fn add<E>(
    (pool, devices): (u64, BTreeMap<PathBuf, Duration>),
    watcher: &Arc<dyn Watcher>,
    named: Arc<Named>,
    add: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let numbers: Arc<Mutex<Vec<u64>>> = Arc::default();
    let noted = Arc::clone(&numbers);
    let both = move |path: &Path, leg: u64| {
        lock(&noted).push(leg);
        named(path, leg);
    };
    *lock(&JOINING) = Some(Joining {
        pool,
        devices,
        watcher: Arc::clone(watcher),
        named: Arc::new(both),
    });
    let added = add();
    *lock(&JOINING) = None;
    if added.is_err() {
        if let Some(all) = &mut *lock(&LEGS) {
            let numbers = lock(&numbers);
            all.retain(|leg, _| !numbers.contains(leg));
        }
    }
    added
}

/// The leg with that GUID which the library opens at `path`.
pub(super) fn find_at(guid: u64, path: &Path) -> Option<Arc<Leg>> {
    let found = find(guid);
    if found.is_some() {
        return found;
    }
    let joining = lock(&JOINING).clone()?;
    let response_timeout = *joining.devices.get(path)?;
    register_legs(joining.pool, [guid], response_timeout, &joining.watcher);
    (joining.named)(path, guid);
    admit(guid);
    find(guid)
}

/// The pool is closed: its devices are no longer legs.
pub fn forget(pool: u64) {
    if let Some(all) = &mut *lock(&LEGS) {
        all.retain(|_, leg| leg.pool != pool);
    }
}

/// The record allows the leg to be opened and written to.
pub fn admit(leg: u64) {
    if let Some(leg) = find(leg) {
        leg.admit();
    }
}

/// The record that excludes the leg is durable; its data is incomplete since a transaction group. The library is
/// notified of the failure.
pub fn exclude(leg: u64, since: u64) {
    if let Some(leg) = find(leg) {
        leg.exclude(since);
    }
}

/// No other leg is complete: this one is not excluded. The pool is suspended, so that its state shows the stall.
pub fn keep_last(leg: u64) {
    if let Some(leg) = find(leg) {
        leg.keep_last();
    }
}

/// The state of the last leg after [`keep_last`].
pub fn last_leg(leg: u64) -> LastLeg {
    find(leg).map_or(LastLeg::No, |leg| leg.last_leg())
}

/// Resumes the last leg if its data is complete, and sends the held I/O to its device; returns whether it did.
pub fn use_again(leg: u64) -> bool {
    find(leg).is_some_and(|leg| leg.use_again())
}

/// Reports a failure of the leg that was detected by other means than its I/O.
pub fn fail(leg: u64, why: LegFailure) {
    if let Some(leg) = find(leg) {
        leg.fail(why);
    }
}

/// Like [`fail`], and blocks until the failure is on record or cannot be.
pub fn fail_and_wait(leg: u64, why: LegFailure) {
    if let Some(leg) = find(leg) {
        leg.fail(why);
        // Either way it is not in use any more.
        let _ = leg.await_exclusion(OpenFailure::Excluded);
    }
}

/// The last uberblock that a flush confirmed on the leg since it was admitted, by its transaction group; `None` if
/// none, or if it is not in use.
pub fn flushed_group(leg: u64) -> Option<u64> {
    let leg = find(leg).filter(|leg| leg.is_in_use())?;
    Some(leg.flushed.load(Ordering::Acquire)).filter(|group| *group != 0)
}

/// Terminates the process without any reply, because another owner has the pool.
pub fn end(why: &str) {
    ownership::lost(why);
}

/// Terminates the process, because only a restart can determine the contents of the returned device.
pub fn exit_for_restart(why: &str) {
    ownership::exit_for_restart(why);
}

/// Whether the leg gets I/O.
pub fn is_in_use(leg: u64) -> bool {
    find(leg).is_some_and(|leg| leg.is_in_use())
}

/// The leg with that GUID, if it is one.
pub(super) fn find(guid: u64) -> Option<Arc<Leg>> {
    lock(&LEGS).as_ref()?.get(&guid).cloned()
}

impl State {
    fn last_leg(&self) -> LastLeg {
        match self {
            Self::Failed {
                held,
                is_last: true,
                is_away,
            } => match *is_away || held.iter().any(|one| one.unsent.is_none()) {
                true => LastLeg::Incomplete,
                false => LastLeg::Complete,
            },
            _ => LastLeg::No,
        }
    }
}

impl Leg {
    /// Whether it gets I/O.
    pub(super) fn is_in_use(&self) -> bool {
        !self.is_out.load(Ordering::Acquire)
    }

    /// Whether a durable record excludes it, or it was not admitted.
    pub(super) fn is_excluded(&self) -> bool {
        matches!(*lock(&self.state), State::Excluded)
    }

    pub(super) fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    /// The last uberblock that was written since it was admitted; 0 for none.
    pub(super) fn root_written(&self) -> u64 {
        self.root.load(Ordering::Acquire)
    }

    /// A device was opened for it.
    pub(super) fn opened(&self, in_flight: &Arc<InFlight>) {
        let mut devices = lock(&self.devices);
        devices.retain(|device| device.strong_count() != 0);
        devices.push(Arc::downgrade(in_flight));
    }

    /// Runs `open` if the leg may be opened. A failure is one of the leg and reaches the library when the leg is
    /// excluded.
    pub(super) fn open<T>(
        &self,
        open: impl FnOnce() -> Result<T, OpenFailure>,
    ) -> Result<T, OpenFailure> {
        self.await_exclusion(OpenFailure::Excluded)?;
        open().or_else(|failure| {
            self.fail(LegFailure::Open(failure.clone()));
            self.await_exclusion(failure.clone())?;
            Err(failure)
        })
    }

    /// Blocks while its failure is withheld. Returns an error once it is excluded or will not be.
    fn await_exclusion(&self, failure: OpenFailure) -> Result<(), OpenFailure> {
        let mut state = lock(&self.state);
        loop {
            match &*state {
                State::InUse => return Ok(()),
                State::Excluded | State::Failed { is_last: true, .. } => return Err(failure),
                State::Failed { .. } => {
                    let waited = self.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Completes an I/O of the library, or withholds its error. `root`: for a write, the uberblock that it contains;
    /// for a flush, the last one that was on disk when the flush was issued; 0 for none.
    pub(super) fn complete(
        &self,
        kind: IoKind,
        root: u64,
        io: LibraryIo,
        result: Result<(), Errno>,
        place: CompletionThread,
    ) {
        let Err(errno) = result else {
            match kind {
                IoKind::Write if root != 0 => {
                    self.root.fetch_max(root, Ordering::AcqRel);
                }
                IoKind::Flush => {
                    self.flushed.fetch_max(root, Ordering::AcqRel);
                }
                _ => {}
            }
            return io.complete(result, place);
        };
        // A device without a volatile cache.
        let is_needless = kind == IoKind::Flush && errno == Errno::OPNOTSUPP;
        let is_binding = kind != IoKind::Trim && io.is_binding();
        if is_needless || !is_binding && !is_gone(errno) {
            return io.complete(result, place);
        }
        self.fail(LegFailure::Error(errno));
        self.hold(io, None);
    }

    /// Withholds an I/O of the library that failed, or that the device did not receive (`unsent`).
    pub(super) fn hold(&self, io: LibraryIo, unsent: Option<Request>) {
        let mut state = lock(&self.state);
        match (&mut *state, unsent) {
            (State::Failed { held, is_last, .. }, unsent) => {
                io.read_elsewhere();
                if io.is_binding() {
                    if *is_last {
                        io.suspend();
                    }
                    return held.push(Held { io, unsent });
                }
            }
            (State::Excluded, _) => {}
            // It was resumed since the decision.
            (State::InUse, Some(request)) => {
                drop(state);
                return submit_now(request);
            }
            (State::InUse, None) => {
                drop(state);
                self.fail(LegFailure::Error(Errno::IO));
                return self.hold(io, None);
            }
        }
        drop(state);
        io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
    }

    /// It failed permanently.
    pub(super) fn fail(&self, why: LegFailure) {
        {
            let mut state = lock(&self.state);
            if !matches!(*state, State::InUse) {
                return;
            }
            *state = State::Failed {
                held: Vec::new(),
                is_last: false,
                is_away: match &why {
                    LegFailure::TimedOut | LegFailure::Open(_) => true,
                    LegFailure::Error(errno) => is_gone(*errno),
                    LegFailure::Unusable | LegFailure::Replaced => false,
                },
            };
            self.is_out.store(true, Ordering::Release);
            // SAFETY: passes only a number.
            unsafe { sys::bh_leg_failed(self.guid) };
        }
        let flushed = Some(self.flushed.load(Ordering::Acquire)).filter(|group| *group != 0);
        tracing::warn!(guid = self.guid, %why, flushed, "a leg of the pool failed: writes wait until that is on record");
        self.watcher.leg_failed(self.guid, why, flushed);
    }

    fn admit(&self) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Excluded) {
            *state = State::InUse;
            self.root.store(0, Ordering::Release);
            self.flushed.store(0, Ordering::Release);
            self.is_out.store(false, Ordering::Release);
        }
    }

    fn exclude(&self, since: u64) {
        let held = {
            let mut state = lock(&self.state);
            self.is_out.store(true, Ordering::Release);
            // Before the library receives any of the errors: it handles them as those of a leg that is given up.
            // SAFETY: passes only numbers, and calls no callback.
            unsafe { sys::bh_leg_excluded(self.pool, self.guid, since) };
            match std::mem::replace(&mut *state, State::Excluded) {
                State::Failed { held, .. } => held,
                State::Excluded | State::InUse => Vec::new(),
            }
        };
        self.changed.notify_all();
        for Held { io, .. } in held {
            io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
        }
        let devices = lock(&self.devices).clone();
        for device in devices.iter().filter_map(Weak::upgrade) {
            device.give_back();
        }
    }

    fn keep_last(&self) {
        if let State::Failed { held, is_last, .. } = &mut *lock(&self.state) {
            *is_last = true;
            if let Some(Held { io, .. }) = held.first() {
                io.suspend();
            }
        }
        self.changed.notify_all();
    }

    fn last_leg(&self) -> LastLeg {
        lock(&self.state).last_leg()
    }

    fn use_again(&self) -> bool {
        let held = {
            let mut state = lock(&self.state);
            if state.last_leg() != LastLeg::Complete {
                return false;
            }
            let State::Failed { held, .. } = std::mem::replace(&mut *state, State::InUse) else {
                return false;
            };
            self.is_out.store(false, Ordering::Release);
            // SAFETY: passes only a number.
            unsafe { sys::bh_leg_used_again(self.guid) };
            held
        };
        tracing::info!(
            guid = self.guid,
            "the last leg of the pool is used again: its data is complete"
        );
        self.changed.notify_all();
        if let Some(Held { io, .. }) = held.first() {
            io.resume();
        }
        for Held { io, unsent } in held {
            io.read_here();
            submit_now(unsent.expect("it is complete"));
        }
        true
    }
}
