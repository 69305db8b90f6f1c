//! Counts the uses of an object that can be closed: closing blocks until the last use is over, and no new use
//! begins. Lent buffers block a close, but not a pause, because a client can be arbitrarily slow to
//! fill one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

const CLOSED: u64 = 1 << 63;
const PAUSED: u64 = 1 << 62;
/// One thing that is lent; those lent are counted above the uses.
const LENT_ONE: u64 = 1 << 32;
const USES: u64 = LENT_ONE - 1;
const LENT: u64 = (PAUSED - 1) & !USES;

/// See the module. Entering and leaving cost one atomic operation each.
#[derive(Default)]
pub struct Gate {
    /// The flags, the number of things lent, and the number of uses.
    state: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

/// Why one may not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// For good.
    Closed,
    /// Temporarily.
    Paused,
}

/// Why there is no pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPause {
    /// It is closed.
    Closed,
    /// Paused by another caller, or a use exceeded the time-out.
    InUse,
}

impl Gate {
    /// Begins a use, until [`Self::leave`].
    pub fn enter(&self) -> Result<(), Shut> {
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
    pub fn enter_blocking(&self) -> bool {
        loop {
            match self.enter() {
                Ok(()) => return true,
                Err(Shut::Closed) => return false,
                Err(Shut::Paused) => self.wait_until(|state| state & PAUSED == 0),
            }
        }
    }

    /// Completes a use.
    pub fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::Release);
        if before & (CLOSED | PAUSED) != 0 && before & USES == 1 {
            self.announce();
        }
    }

    /// Completes a use that lent a buffer. The loan lasts until [`Self::give_back`].
    pub fn leave_with_loan(&self) {
        let before = self.state.fetch_add(LENT_ONE - 1, Ordering::Release);
        if before & (CLOSED | PAUSED) != 0 && before & USES == 1 {
            self.announce();
        }
    }

    /// Begins a use of a lent buffer. This is permitted during a close, because that needs the loans back.
    /// During a pause it blocks if `waits`, else returns `false`.
    pub fn enter_with_loan(&self, waits: bool) -> bool {
        loop {
            let before = self.state.fetch_add(1, Ordering::Acquire);
            if before & PAUSED == 0 {
                return true;
            }
            self.leave();
            if !waits {
                return false;
            }
            self.wait_until(|state| state & PAUSED == 0);
        }
    }

    /// Completes a loan.
    pub fn give_back(&self) {
        let before = self.state.fetch_sub(LENT_ONE, Ordering::Release);
        if before & CLOSED != 0 && before & LENT == LENT_ONE {
            self.announce();
        }
    }

    /// Refuses new uses and blocks until the last use, loan or pause is over. Returns `false` if already
    /// closed.
    pub fn close(&self) -> bool {
        let before = self.state.fetch_or(CLOSED, Ordering::AcqRel);
        self.announce();
        if before & CLOSED != 0 {
            return false;
        }
        self.wait_until(|state| state & (USES | LENT | PAUSED) == 0);
        true
    }

    /// Blocks new uses, and the caller until active ones are over. Fails without effect if the gate is closed or
    /// already paused, or if a use exceeds `wait`.
    pub fn pause(&self, wait: Duration) -> Result<(), NoPause> {
        let paused = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & (CLOSED | PAUSED) == 0).then_some(state | PAUSED)
            });
        match paused {
            Err(state) if state & CLOSED != 0 => return Err(NoPause::Closed),
            Err(_) => return Err(NoPause::InUse),
            Ok(_) => {}
        }
        if self.wait_until_or(|state| state & USES == 0, Instant::now() + wait) {
            return Ok(());
        }
        self.resume();
        Err(NoPause::InUse)
    }

    /// Resumes after a pause.
    pub fn resume(&self) {
        self.state.fetch_and(!PAUSED, Ordering::AcqRel);
        self.announce();
    }

    /// Returns whether new uses are refused.
    pub fn is_closed(&self) -> bool {
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

    /// The same, but not beyond `deadline`; whether it is done.
    fn wait_until_or(&self, done: impl Fn(u64) -> bool, deadline: Instant) -> bool {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(held, left, |()| !done(self.state.load(Ordering::Acquire)));
        // The state is not read again: a refused new use counts as a use for an instant.
        let (_held, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn rejected_callers_do_not_end_a_pause() {
        let gate = Gate::default();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        if gate.enter().is_ok() {
                            std::thread::yield_now();
                            gate.leave();
                        }
                    }
                });
            }
            let pauses: Vec<_> = (0..100_000)
                .map(|_| gate.pause(LONG).map(|()| gate.resume()))
                .collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(pauses.iter().all(Result::is_ok));
        });
    }

    #[test]
    fn close_blocks_until_last_use_ends_then_refuses_callers() {
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
        assert!(!gate.enter_blocking());
    }

    #[test]
    fn pause_blocks_new_callers_until_resumed() {
        let gate = Gate::default();
        assert_eq!(gate.pause(LONG), Ok(()));
        assert_eq!(gate.pause(LONG), Err(NoPause::InUse));
        assert_eq!(gate.enter(), Err(Shut::Paused));
        std::thread::scope(|scope| {
            let newcomer = scope.spawn(|| gate.enter_blocking());
            gate.resume();
            assert!(newcomer.join().unwrap());
        });
        gate.leave();
        assert!(gate.close());
        assert_eq!(gate.pause(LONG), Err(NoPause::Closed));
    }

    #[test]
    fn stuck_use_fails_the_pause_and_callers_resume() {
        let gate = Gate::default();
        gate.enter().unwrap();
        assert_eq!(gate.pause(Duration::ZERO), Err(NoPause::InUse));
        assert_eq!(gate.enter(), Ok(()));
        gate.leave();
        gate.leave();
        assert_eq!(gate.pause(LONG), Ok(()));
    }

    #[test]
    fn outstanding_loans_block_close_but_not_pause() {
        let gate = Gate::default();
        gate.enter().unwrap();
        gate.leave_with_loan();
        assert_eq!(gate.pause(Duration::ZERO), Ok(()));
        assert!(!gate.enter_with_loan(false), "paused");
        gate.resume();
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| gate.close());
            while !gate.is_closed() {
                std::thread::yield_now();
            }
            assert!(gate.enter_with_loan(true), "a lent buffer can be used");
            gate.leave();
            assert!(!closer.is_finished(), "it is still lent");
            gate.give_back();
            assert!(closer.join().unwrap());
        });
    }
}
