//! A bound on the payload bytes in memory of all connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::Waker;

/// Bytes to reserve before buffers are filled. They are released when the [`Reservation`] is
/// dropped.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    bytes_used: AtomicU64,
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<Arc<Waker>>>,
    returned: Condvar,
}

/// Reserved bytes of a [`Budget`], released on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// Creates a budget of `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            bytes_used: AtomicU64::new(0),
            has_waiters: AtomicBool::new(false),
            waiters: Mutex::default(),
            returned: Condvar::new(),
        })
    }

    /// Bytes reserved now.
    pub fn bytes_used(&self) -> u64 {
        self.bytes_used.load(Ordering::Relaxed)
    }

    /// Whether a thread is waiting for bytes, or was when some were released. Holders of
    /// dispensable bytes should release them.
    pub fn is_wanted(&self) -> bool {
        self.has_waiters.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` if they are free. A request larger than the whole budget is granted when no
    /// byte is reserved, so that it cannot block forever.
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let fits = |used: u64| {
            let total = used.checked_add(bytes)?;
            (total <= self.bytes_max || used == 0).then_some(total)
        };
        self.bytes_used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits)
            .ok()?;
        Some(Reservation {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// Like [`try_reserve`](Self::try_reserve); on failure `waker` is raised once, when bytes are
    /// released.
    pub fn reserve_or_wake(
        self: &Arc<Self>,
        bytes: u64,
        waker: &Arc<Waker>,
    ) -> Option<Reservation> {
        if let Some(reservation) = self.try_reserve(bytes) {
            return Some(reservation);
        }
        {
            let mut waiters = self.waiters.lock().expect("no holder panics");
            if !waiters.iter().any(|known| Arc::ptr_eq(known, waker)) {
                waiters.push(Arc::clone(waker));
            }
            self.has_waiters.store(true, Ordering::SeqCst);
        }
        // Bytes released before the registration would not raise the waker.
        self.try_reserve(bytes)
    }

    /// Reserves `bytes`, blocking until `deadline` at most. For threads without a [`Waker`].
    pub fn reserve_until(self: &Arc<Self>, bytes: u64, deadline: Instant) -> Option<Reservation> {
        if let Some(reservation) = self.try_reserve(bytes) {
            return Some(reservation);
        }
        loop {
            let waiters = self.waiters.lock().expect("no holder panics");
            self.has_waiters.store(true, Ordering::SeqCst);
            if let Some(reservation) = self.try_reserve(bytes) {
                return Some(reservation);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            drop(
                self.returned
                    .wait_timeout(waiters, left)
                    .expect("no holder panics"),
            );
        }
    }

    fn release_bytes(&self, bytes: u64) {
        self.bytes_used.fetch_sub(bytes, Ordering::SeqCst);
        if self.has_waiters.load(Ordering::SeqCst) {
            let mut waiters = self.waiters.lock().expect("no holder panics");
            self.has_waiters.store(false, Ordering::SeqCst);
            for waker in waiters.drain(..) {
                waker.wake();
            }
            self.returned.notify_all();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release_bytes(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn exhausted_budget_refuses_and_wakes_on_release() {
        let budget = Budget::new(100);
        let waker = Arc::new(Waker::new().unwrap());
        let first = budget.try_reserve(70).unwrap();
        assert!(budget.reserve_or_wake(40, &waker).is_none());
        assert!(!waker.take());
        drop(first);
        assert!(waker.take());
        assert_eq!(budget.bytes_used(), 0);
        assert!(budget.reserve_or_wake(40, &waker).is_some());
    }

    #[test]
    fn oversized_request_is_granted_alone() {
        let budget = Budget::new(100);
        let small = budget.try_reserve(1).unwrap();
        assert!(budget.try_reserve(500).is_none());
        drop(small);
        let large = budget.try_reserve(500).unwrap();
        assert!(budget.try_reserve(1).is_none());
        drop(large);
        assert_eq!(budget.bytes_used(), 0);
    }

    #[test]
    fn reserve_returns_on_deadline_or_release() {
        let budget = Budget::new(10);
        let held = budget.try_reserve(10).unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(budget.reserve_until(5, soon).is_none());
        let waiting = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                budget
                    .reserve_until(5, Instant::now() + Duration::from_secs(30))
                    .is_some()
            }
        });
        drop(held);
        assert!(waiting.join().unwrap());
    }
}
