//! Whether requests of a connection may still change data, and how to wait until they cannot.
//!
//! A client with a failed connection reconnects and retries its unacknowledged requests. Queued
//! requests of the old connection must not take effect after that: they would undo acknowledged
//! writes of the new connection. So the end of a connection also cancels its changes. Immediately
//! before its effect, a change checks whether its connection is still valid. A new login of the
//! client is blocked by changes that passed this check.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use block_device::Permit;

/// The progress of a change on another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It may be waiting for a thread, a lock or a disk.
    Waiting,
    /// It has been permitted to take effect.
    InEffect,
}

/// The changes of one connection.
#[derive(Default)]
pub struct ConnectionChanges {
    over: AtomicBool,
    /// Changes on the connection's own thread, which is the only writer of both.
    own_begun: AtomicU64,
    own_ended: AtomicU64,
    /// Threads that wait for changes to complete.
    watchers: AtomicUsize,
    on_workers: Mutex<WorkerChanges>,
    ended: Condvar,
}

#[derive(Default)]
struct WorkerChanges {
    next: u64,
    changes: BTreeMap<u64, Stage>,
}

impl ConnectionChanges {
    /// Cancels all changes that have not taken effect. Does not wait for those in progress: see
    /// [`wait_for`](Self::wait_for).
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        let mut on_workers = self.lock();
        on_workers
            .changes
            .retain(|_, stage| *stage == Stage::InEffect);
        drop(on_workers);
        self.ended.notify_all();
    }

    /// Whether it was ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Begins a change on the connection's own thread, which must not block. Returns `None` if it
    /// is no longer permitted.
    pub fn own_change(&self) -> Option<OwnChange<'_>> {
        self.own_begun.fetch_add(1, Ordering::SeqCst);
        let change = OwnChange(self);
        (!self.is_over()).then_some(change)
    }

    /// Begins a change that another thread will make, which may block. It is counted from now on.
    pub fn change(self: &Arc<Self>) -> Change {
        let mut on_workers = self.lock();
        let number = on_workers.next;
        on_workers.next += 1;
        if !self.is_over() {
            on_workers.changes.insert(number, Stage::Waiting);
        }
        drop(on_workers);
        Change {
            changes_in_flight: Arc::clone(self),
            number,
        }
    }

    /// Returns the changes that have been requested so far.
    pub fn requested_changes(&self) -> RequestedChanges {
        let on_workers = self.lock().next;
        let own = self.own_begun.load(Ordering::SeqCst);
        RequestedChanges { own, on_workers }
    }

    /// Blocks until every change in `requested_changes` has taken effect or is cancelled. Returns `false` if
    /// one is left at `deadline`. If the connection is over, only changes already in effect are
    /// awaited.
    pub fn wait_for(&self, requested_changes: RequestedChanges, deadline: Instant) -> bool {
        let mut on_workers = self.lock();
        self.watchers.fetch_add(1, Ordering::SeqCst);
        let settled = loop {
            let oldest = on_workers.changes.keys().next();
            let others = oldest.is_none_or(|oldest| *oldest >= requested_changes.on_workers);
            if others && self.own_ended.load(Ordering::SeqCst) >= requested_changes.own {
                break true;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                break false;
            };
            let waited = self.ended.wait_timeout(on_workers, left);
            on_workers = waited.expect("no holder panics").0;
        };
        self.watchers.fetch_sub(1, Ordering::SeqCst);
        settled
    }

    fn lock(&self) -> MutexGuard<'_, WorkerChanges> {
        self.on_workers.lock().expect("no holder panics")
    }
}

/// The changes that were requested at some time.
#[derive(Clone, Copy, Debug)]
pub struct RequestedChanges {
    own: u64,
    on_workers: u64,
}

/// A change on the connection's own thread, completed on drop.
pub struct OwnChange<'a>(&'a ConnectionChanges);

impl Drop for OwnChange<'_> {
    fn drop(&mut self) {
        self.0.own_ended.fetch_add(1, Ordering::SeqCst);
        if self.0.watchers.load(Ordering::SeqCst) > 0 {
            // Locked, so that a watcher that has checked before is already waiting.
            let _elsewhere = self.0.lock();
            self.0.ended.notify_all();
        }
    }
}

/// A change on another thread, completed on drop. Repeated `begin` calls count once.
pub struct Change {
    changes_in_flight: Arc<ConnectionChanges>,
    number: u64,
}

impl Permit for Change {
    fn begin(&self) -> bool {
        let mut on_workers = self.changes_in_flight.lock();
        match on_workers.changes.get_mut(&self.number) {
            Some(stage) if !self.changes_in_flight.is_over() => {
                *stage = Stage::InEffect;
                true
            }
            _ => false,
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.changes_in_flight.lock().changes.remove(&self.number);
        self.changes_in_flight.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    fn now() -> Instant {
        Instant::now()
    }

    fn is_settled(changes_in_flight: &ConnectionChanges) -> bool {
        changes_in_flight.wait_for(changes_in_flight.requested_changes(), now())
    }

    #[test]
    fn waiting_change_is_cancelled_and_not_awaited_after_end() {
        let changes_in_flight = Arc::new(ConnectionChanges::default());
        let (waiting, in_effect) = (changes_in_flight.change(), changes_in_flight.change());
        assert!(in_effect.begin());
        assert!(!is_settled(&changes_in_flight), "both may take effect");
        changes_in_flight.end();
        assert!(!waiting.begin());
        assert!(!changes_in_flight.change().begin(), "nor a later change");
        assert!(changes_in_flight.own_change().is_none());
        assert!(!is_settled(&changes_in_flight), "one is in effect");
        drop(in_effect);
        assert!(is_settled(&changes_in_flight));
    }

    #[test]
    fn later_step_of_a_change_is_refused_after_end() {
        let changes_in_flight = Arc::new(ConnectionChanges::default());
        let change = changes_in_flight.change();
        assert!(change.begin() && change.begin());
        changes_in_flight.end();
        assert!(!change.begin());
    }

    #[test]
    fn only_earlier_changes_are_awaited() {
        let changes_in_flight = Arc::new(ConnectionChanges::default());
        let earlier = changes_in_flight.change();
        let requested_changes = changes_in_flight.requested_changes();
        let later = changes_in_flight.change();
        assert!(!changes_in_flight.wait_for(requested_changes, now()));
        drop(earlier);
        assert!(changes_in_flight.wait_for(requested_changes, now()) && later.begin());
    }

    #[test]
    fn change_on_the_connection_thread_is_awaited() {
        let changes_in_flight = ConnectionChanges::default();
        let own = changes_in_flight.own_change();
        changes_in_flight.end();
        assert!(!is_settled(&changes_in_flight));
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                changes_in_flight.wait_for(changes_in_flight.requested_changes(), now() + LONG)
            });
            drop(own);
            assert!(watcher.join().unwrap());
        });
    }
}
