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
pub struct Standing {
    over: AtomicBool,
    /// Changes on the connection's own thread, which is the only writer of both.
    own_begun: AtomicU64,
    own_ended: AtomicU64,
    /// Threads that wait for changes to complete.
    watchers: AtomicUsize,
    elsewhere: Mutex<Elsewhere>,
    ended: Condvar,
}

#[derive(Default)]
struct Elsewhere {
    next: u64,
    changes: BTreeMap<u64, Stage>,
}

impl Standing {
    /// Cancels all changes that have not taken effect. Does not wait for those in progress: see
    /// [`wait_for`](Self::wait_for).
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        let mut elsewhere = self.lock();
        elsewhere
            .changes
            .retain(|_, stage| *stage == Stage::InEffect);
        drop(elsewhere);
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
        let mut elsewhere = self.lock();
        let number = elsewhere.next;
        elsewhere.next += 1;
        if !self.is_over() {
            elsewhere.changes.insert(number, Stage::Waiting);
        }
        drop(elsewhere);
        Change {
            standing: Arc::clone(self),
            number,
        }
    }

    /// Returns the changes that have been requested so far.
    pub fn asked(&self) -> Asked {
        let elsewhere = self.lock().next;
        let own = self.own_begun.load(Ordering::SeqCst);
        Asked { own, elsewhere }
    }

    /// Blocks until every change in `asked` has taken effect or is cancelled. Returns `false` if
    /// one is left at `deadline`. If the connection is over, only changes already in effect are
    /// awaited.
    pub fn wait_for(&self, asked: Asked, deadline: Instant) -> bool {
        let mut elsewhere = self.lock();
        self.watchers.fetch_add(1, Ordering::SeqCst);
        let settled = loop {
            let oldest = elsewhere.changes.keys().next();
            let others = oldest.is_none_or(|oldest| *oldest >= asked.elsewhere);
            if others && self.own_ended.load(Ordering::SeqCst) >= asked.own {
                break true;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                break false;
            };
            let waited = self.ended.wait_timeout(elsewhere, left);
            elsewhere = waited.expect("no holder panics").0;
        };
        self.watchers.fetch_sub(1, Ordering::SeqCst);
        settled
    }

    fn lock(&self) -> MutexGuard<'_, Elsewhere> {
        self.elsewhere.lock().expect("no holder panics")
    }
}

/// The changes that were requested at some time.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    own: u64,
    elsewhere: u64,
}

/// A change on the connection's own thread, completed on drop.
pub struct OwnChange<'a>(&'a Standing);

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
    standing: Arc<Standing>,
    number: u64,
}

impl Permit for Change {
    fn begin(&self) -> bool {
        let mut elsewhere = self.standing.lock();
        match elsewhere.changes.get_mut(&self.number) {
            Some(stage) if !self.standing.is_over() => {
                *stage = Stage::InEffect;
                true
            }
            _ => false,
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.standing.lock().changes.remove(&self.number);
        self.standing.ended.notify_all();
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

    fn is_settled(standing: &Standing) -> bool {
        standing.wait_for(standing.asked(), now())
    }

    #[test]
    fn what_waits_when_the_end_comes_never_takes_effect_and_is_not_waited_for() {
        let standing = Arc::new(Standing::default());
        let (waiting, in_effect) = (standing.change(), standing.change());
        assert!(in_effect.begin());
        assert!(!is_settled(&standing), "both may take effect");
        standing.end();
        assert!(!waiting.begin());
        assert!(!standing.change().begin(), "nor a later change");
        assert!(standing.own_change().is_none());
        assert!(!is_settled(&standing), "one is in effect");
        drop(in_effect);
        assert!(is_settled(&standing));
    }

    #[test]
    fn a_step_after_the_end_is_refused_although_an_earlier_one_was_permitted() {
        let standing = Arc::new(Standing::default());
        let change = standing.change();
        assert!(change.begin() && change.begin());
        standing.end();
        assert!(!change.begin());
    }

    #[test]
    fn only_what_was_asked_for_before_is_waited_for() {
        let standing = Arc::new(Standing::default());
        let earlier = standing.change();
        let asked = standing.asked();
        let later = standing.change();
        assert!(!standing.wait_for(asked, now()));
        drop(earlier);
        assert!(standing.wait_for(asked, now()) && later.begin());
    }

    #[test]
    fn a_change_on_the_own_thread_is_waited_for() {
        let standing = Standing::default();
        let own = standing.own_change();
        standing.end();
        assert!(!is_settled(&standing));
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| standing.wait_for(standing.asked(), now() + LONG));
            drop(own);
            assert!(watcher.join().unwrap());
        });
    }
}
