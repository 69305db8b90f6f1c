//! Unique numbers, and the time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

/// The next number that nothing in this process has.
pub(crate) fn new_guid() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Large and far from each other, as those of disks are.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD)
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}
