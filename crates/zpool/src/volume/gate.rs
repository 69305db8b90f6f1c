//! Counts the uses of something that can be taken away: closing waits for the last use, and no
//! new one begins.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

const CLOSED: u64 = 1 << 63;
const PAUSED: u64 = 1 << 62;
const USES: u64 = PAUSED - 1;

/// See the module. Entering and leaving cost one atomic operation each.
#[derive(Default)]
pub(super) struct Gate {
    /// The flags, and the number of uses.
    state: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

/// Why one may not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shut {
    /// For good.
    Closed,
    /// For a moment.
    Paused,
}

impl Gate {
    /// Begins a use; [`Self::leave`] ends it.
    pub(super) fn enter(&self) -> Result<(), Shut> {
        let before = self.state.fetch_add(1, Ordering::Acquire);
        if before & (CLOSED | PAUSED) == 0 {
            return Ok(());
        }
        self.leave();
        Err(if before & CLOSED != 0 {
            Shut::Closed
        } else {
            Shut::Paused
        })
    }

    /// Begins a use, after a pause if there is one. `false` when closed.
    pub(super) fn enter_patiently(&self) -> bool {
        loop {
            match self.enter() {
                Ok(()) => return true,
                Err(Shut::Closed) => return false,
                Err(Shut::Paused) => self.wait_until(|state| state & PAUSED == 0),
            }
        }
    }

    pub(super) fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::Release);
        if before & (CLOSED | PAUSED) != 0 && before & USES == 1 {
            self.announce();
        }
    }

    /// Lets nobody in any more and waits for the last use, or a pause, to end. `false` if it was
    /// closed before.
    pub(super) fn close(&self) -> bool {
        let before = self.state.fetch_or(CLOSED, Ordering::AcqRel);
        self.announce();
        if before & CLOSED != 0 {
            return false;
        }
        self.wait_until(|state| state & (USES | PAUSED) == 0);
        true
    }

    /// Keeps newcomers waiting and waits for the last use to end. `false`, and nothing was done,
    /// if it is closed or paused already.
    pub(super) fn pause(&self) -> bool {
        let paused = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & (CLOSED | PAUSED) == 0).then_some(state | PAUSED)
            });
        if paused.is_err() {
            return false;
        }
        self.wait_until(|state| state & USES == 0);
        true
    }

    /// Ends a pause.
    pub(super) fn resume(&self) {
        self.state.fetch_and(!PAUSED, Ordering::AcqRel);
        self.announce();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    fn announce(&self) {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    fn wait_until(&self, done: impl Fn(u64) -> bool) {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !done(self.state.load(Ordering::Acquire)) {
            held = self
                .changed
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn closing_waits_for_the_last_use_and_then_refuses() {
        let gate = Gate::default();
        gate.enter().unwrap();
        std::thread::scope(|scope| {
            let (sender, closed) = mpsc::channel();
            let gate = &gate;
            scope.spawn(move || sender.send(gate.close()).unwrap());
            while !gate.is_closed() {
                std::thread::yield_now();
            }
            assert_eq!(gate.enter(), Err(Shut::Closed));
            assert!(closed.try_recv().is_err(), "a use is left");
            gate.leave();
            assert!(closed.recv().unwrap());
        });
        assert!(!gate.close(), "closed once");
        assert!(!gate.enter_patiently());
    }

    #[test]
    fn a_pause_holds_newcomers_until_it_ends() {
        let gate = Gate::default();
        assert!(gate.pause());
        assert_eq!(gate.enter(), Err(Shut::Paused));
        std::thread::scope(|scope| {
            let newcomer = scope.spawn(|| gate.enter_patiently());
            gate.resume();
            assert!(newcomer.join().unwrap());
        });
        gate.leave();
        assert!(gate.close());
        assert!(!gate.pause());
    }
}
