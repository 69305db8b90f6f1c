//! Wakes the thread of a connection while it polls its socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// An event that one thread polls for and any thread may raise. Repeated raises count once.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
    raised: AtomicBool,
}

impl Waker {
    /// Creates a waker that is not raised.
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            event,
            raised: AtomicBool::new(false),
        })
    }

    /// Raises the waker: the descriptor is readable until [`take`](Self::take).
    pub fn wake(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            // Cannot fail: the counter is at most one.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Lowers the waker. Returns whether it was raised. Cheap if it was not.
    pub fn take(&self) -> bool {
        if !self.raised.load(Ordering::Acquire) {
            return false;
        }
        // The descriptor is drained before the flag is lowered: a concurrent wake writes nothing,
        // but its cause is handled by the caller after this call.
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
        self.raised.swap(false, Ordering::AcqRel);
        true
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_wakes_are_consumed_together() {
        let waker = Waker::new().unwrap();
        assert!(!waker.take());
        waker.wake();
        waker.wake();
        assert!(waker.take());
        assert!(!waker.take());
        waker.wake();
        assert!(waker.take());
    }
}
