//! The results of the watch over an open shelf, which are read without a lock, and the writes in progress.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::pool::DeviceState;

/// Time between two polls of the cluster.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A write without an acknowledgement for this long means that the shelf is suspended.
const WRITE_OVERDUE: Duration = Duration::from_secs(5);

/// The results of the watch, and the writes in progress.
pub(crate) struct Watch {
    is_stopped: Mutex<bool>,
    stopped: Condvar,
    groups: AtomicU8,
    created: Instant,
    writes: Mutex<Writes>,
    /// The beginning of the oldest write in progress, in milliseconds since `created`, plus one; zero without a write.
    oldest_ms: AtomicU64,
}

/// The beginnings of the writes in progress, by number.
#[derive(Default)]
struct Writes {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            is_stopped: Mutex::new(false),
            stopped: Condvar::new(),
            groups: AtomicU8::new(Groups::Complete as u8),
            created: Instant::now(),
            writes: Mutex::default(),
            oldest_ms: AtomicU64::new(0),
        }
    }
}

/// The states of the cluster's placement groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Groups {
    Complete = 0,
    Degraded = 1,
    Inactive = 2,
}

/// A write in progress.
pub(crate) struct Writing<'a> {
    watch: &'a Watch,
    number: u64,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.watch
            .change(|writes| writes.since.remove(&self.number));
    }
}

impl Watch {
    fn change<T>(&self, change: impl FnOnce(&mut Writes) -> T) -> T {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut writes);
        let oldest = writes.since.first_key_value();
        let oldest = oldest.map_or(0, |(_, since)| self.milliseconds(*since) + 1);
        self.oldest_ms.store(oldest, Ordering::Relaxed);
        result
    }

    fn milliseconds(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.created).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX - 1)
    }

    /// A write begins.
    pub(crate) fn write(&self) -> Writing<'_> {
        let number = self.change(|writes| {
            writes.next += 1;
            writes.since.insert(writes.next, Instant::now());
            writes.next
        });
        Writing {
            watch: self,
            number,
        }
    }

    pub(crate) fn stop(&self) {
        *self
            .is_stopped
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    /// Blocks until the next poll is due. Returns `false` at the end.
    pub(crate) fn pause(&self) -> bool {
        let held = self
            .is_stopped
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .stopped
            .wait_timeout_while(held, POLL_INTERVAL, |is_stopped| !*is_stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Whether the oldest write has had no acknowledgement for too long. Without a lock.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        let oldest = self.oldest_ms.load(Ordering::Relaxed);
        let age = self
            .milliseconds(now)
            .saturating_sub(oldest.saturating_sub(1));
        oldest > 0 && u128::from(age) > WRITE_OVERDUE.as_millis()
    }

    pub(crate) fn set_groups(&self, groups: Groups) {
        self.groups.store(groups as u8, Ordering::Relaxed);
    }

    /// The state, as a device's.
    pub(crate) fn state(&self) -> DeviceState {
        match self.groups.load(Ordering::Relaxed) {
            0 => DeviceState::Online,
            1 => DeviceState::Degraded,
            _ => DeviceState::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_write_in_progress_determines_whether_the_shelf_is_suspended() {
        let (watch, later) = (Watch::default(), |watch: &Watch, ms| {
            watch.created + Duration::from_millis(ms)
        });
        assert!(!watch.is_overdue(later(&watch, 1_000_000)));
        let (first, second) = (watch.write(), watch.write());
        assert!(!watch.is_overdue(later(&watch, 4000)));
        assert!(watch.is_overdue(later(&watch, 60_000)));
        drop(first);
        assert!(watch.is_overdue(later(&watch, 60_000)));
        drop(second);
        assert!(!watch.is_overdue(later(&watch, 60_000)));
    }
}
