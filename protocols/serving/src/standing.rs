//! Whether what a connection asked for may still change anything, and how to wait until it cannot.
//!
//! A client whose connection broke comes back and repeats what was not answered. What its old
//! connection still had in a queue must not take effect after that: it would undo what the client
//! has written, and was answered, in between. So the end of a connection is an end for its changes,
//! too: a change asks at the last moment whether its connection still stands, and whoever lets the
//! client in again waits for those that have been told yes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use block_device::Permit;

/// How far a change on another thread has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It may wait for a thread, a lock or a disk.
    Waiting,
    /// It was told that it may take effect.
    InEffect,
}

/// The changes of one connection.
#[derive(Default)]
pub struct Standing {
    over: AtomicBool,
    /// Changes on the connection's own thread, which is the only writer of both.
    own_begun: AtomicU64,
    own_ended: AtomicU64,
    /// Threads that wait for changes to end.
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
    /// Nothing that has not taken effect by now ever will. Does not wait for what is doing so:
    /// see [`wait_for`](Self::wait_for).
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

    /// A change on the connection's own thread, which does not wait for anything. `None` if it must
    /// not be made any more.
    pub fn own_change(&self) -> Option<OwnChange<'_>> {
        self.own_begun.fetch_add(1, Ordering::SeqCst);
        let change = OwnChange(self);
        (!self.is_over()).then_some(change)
    }

    /// A change that will be made on a thread that may wait. It counts from now on.
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

    /// What has been asked for by now.
    pub fn asked(&self) -> Asked {
        let elsewhere = self.lock().next;
        let own = self.own_begun.load(Ordering::SeqCst);
        Asked { own, elsewhere }
    }

    /// Waits until every change among `asked` has taken effect or never will; `false` if one is left
    /// at `deadline`. Of a connection that is over only those are waited for that were in effect
    /// already.
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

/// The changes that a connection had asked for at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    own: u64,
    elsewhere: u64,
}

/// A change on the connection's own thread, until it is dropped.
pub struct OwnChange<'a>(&'a Standing);

impl Drop for OwnChange<'_> {
    fn drop(&mut self) {
        self.0.own_ended.fetch_add(1, Ordering::SeqCst);
        if self.0.watchers.load(Ordering::SeqCst) > 0 {
            // Under the lock, so that a watcher that looked before waits by now.
            let _elsewhere = self.0.lock();
            self.0.ended.notify_all();
        }
    }
}

/// A change on another thread, until it is dropped. Begun twice it is one change still.
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
        assert!(!standing.change().begin(), "nor what comes later");
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
