//! Counters of the client requests to a device. The protocol servers update them, because they see
//! when a request arrives and when its reply is sent. Each request costs a few relaxed additions
//! and no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Classes of latency: up to 64 us, then each up to four times the one before, the last without
/// end.
pub const TIME_CLASSES: usize = 10;
/// Times of the first class, as a power of two of microseconds.
const FIRST_CLASS_BITS: u32 = 6;

/// Reads or writes of a device.
#[derive(Debug, Default)]
pub struct Direction {
    bytes: AtomicU64,
    us: AtomicU64,
    times: [AtomicU64; TIME_CLASSES],
}

/// A snapshot of a [`Direction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionSnapshot {
    /// Bytes moved.
    pub bytes: u64,
    /// Total latency of all requests, in microseconds.
    pub us: u64,
    /// Requests by latency class.
    pub times: [u64; TIME_CLASSES],
}

impl DirectionSnapshot {
    /// Requests in all.
    pub fn count(&self) -> u64 {
        self.times.iter().sum()
    }
}

impl Direction {
    /// Counts a request for `bytes` with the latency `time`.
    pub fn add(&self, bytes: u64, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.us.fetch_add(us, Ordering::Relaxed);
        self.times[class(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// The current values, not read atomically as a whole.
    pub fn snapshot(&self) -> DirectionSnapshot {
        DirectionSnapshot {
            bytes: self.bytes.load(Ordering::Relaxed),
            us: self.us.load(Ordering::Relaxed),
            times: std::array::from_fn(|class| self.times[class].load(Ordering::Relaxed)),
        }
    }
}

/// The class of a latency.
const fn class(us: u64) -> usize {
    // The power of two that is not below the latency.
    let bits = u64::BITS - us.saturating_sub(1).leading_zeros();
    let class = bits.saturating_sub(FIRST_CLASS_BITS).div_ceil(2) as usize;
    if class < TIME_CLASSES {
        class
    } else {
        TIME_CLASSES - 1
    }
}

/// Counters of the client requests to a device.
#[derive(Debug, Default)]
pub struct Activity {
    /// Reads.
    pub reads: Direction,
    /// Writes, including the wait for durability where a client requested it.
    pub writes: Direction,
    errors: AtomicU64,
    refused_for_space: AtomicU64,
}

impl Activity {
    /// Counts a request that failed.
    pub fn add_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a write that was refused for lack of space; it is also counted as an error.
    pub fn add_refused_for_space(&self) {
        self.refused_for_space.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes that were refused for lack of space.
    pub fn refused_for_space(&self) -> u64 {
        self.refused_for_space.load(Ordering::Relaxed)
    }

    /// Requests that failed.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_classes_grow_by_a_factor_of_four() {
        for (us, expected) in [
            (0, 0),
            (64, 0),
            (65, 1),
            (256, 1),
            (257, 2),
            (1024, 2),
            (1 << 20, 7),
            (u64::MAX, TIME_CLASSES - 1),
        ] {
            assert_eq!(class(us), expected, "{us}");
        }
    }

    #[test]
    fn counters_return_the_added_operations() {
        let activity = Activity::default();
        activity.reads.add(4096, Duration::from_micros(100));
        activity.reads.add(512, Duration::from_micros(10));
        activity.add_error();
        let reads = activity.reads.snapshot();
        assert_eq!((reads.count(), reads.bytes, reads.us), (2, 4608, 110));
        assert_eq!((reads.times[0], reads.times[1]), (1, 1));
        assert_eq!(activity.writes.snapshot().count(), 0);
        assert_eq!(activity.errors(), 1);
    }
}
