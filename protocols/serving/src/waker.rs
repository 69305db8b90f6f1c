//! Wakes a connection thread that waits for its socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// An event that one thread polls for and any thread may raise. Raising it twice is once.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
    raised: AtomicBool,
}

impl Waker {
    /// A waker that is not raised.
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            event,
            raised: AtomicBool::new(false),
        })
    }

    /// Makes the descriptor readable until [`take`](Self::take).
    pub fn wake(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            // Cannot fail: the counter is at most one.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Whether it was raised since the last call, which this call ends. Cheap when it was not.
    pub fn take(&self) -> bool {
        if !self.raised.load(Ordering::Acquire) {
            return false;
        }
        // The descriptor is emptied before the flag is lowered: a wake in between writes nothing,
        // but its caller's news is seen by the work that follows this call.
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
    fn two_wakes_are_taken_once() {
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
