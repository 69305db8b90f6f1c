//! Locks of ranges of one volume, in the order of arrival: overlapping changes run one after the other, and reads share.
//! COMPARE AND WRITE is atomic by these locks, because a shelf has one owner.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use block_device::Extent;

/// Ranges that are locked or awaited at the same time, at most.
pub(crate) const RANGES_MAX: usize = 4096;

/// Whether a lock admits other locks of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

struct Entry {
    ticket: u64,
    extent: Extent,
    mode: Mode,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    /// In the order of arrival.
    entries: Vec<Entry>,
}

impl State {
    /// Whether an entry before `ticket` excludes it.
    fn is_blocked(&self, ticket: u64, extent: Extent, mode: Mode) -> bool {
        let before = self
            .entries
            .iter()
            .take_while(|entry| entry.ticket < ticket);
        before.into_iter().any(|entry| {
            let excludes = entry.mode == Mode::Exclusive || mode == Mode::Exclusive;
            excludes && entry.extent.overlaps(extent)
        })
    }

    fn enter(&mut self, extent: Extent, mode: Mode) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.entries.push(Entry {
            ticket,
            extent,
            mode,
        });
        ticket
    }
}

/// The locks of a volume.
#[derive(Default)]
pub(crate) struct RangeLocks {
    state: Mutex<State>,
    changed: Condvar,
}

/// A locked range; dropping it unlocks the range.
pub(crate) struct Locked {
    locks: Arc<RangeLocks>,
    ticket: u64,
}

impl RangeLocks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Locks `extent`, after all earlier requests that exclude it.
    pub(crate) fn lock(self: &Arc<Self>, extent: Extent, mode: Mode) -> Locked {
        let state = self.state();
        let full = |state: &mut State| state.entries.len() >= RANGES_MAX;
        let mut state = self
            .changed
            .wait_while(state, full)
            .expect("no holder panics");
        let ticket = state.enter(extent, mode);
        let blocked = |state: &mut State| state.is_blocked(ticket, extent, mode);
        drop(self.changed.wait_while(state, blocked));
        self.locked(ticket)
    }

    /// Locks `extent` unless that blocks.
    pub(crate) fn try_lock(self: &Arc<Self>, extent: Extent, mode: Mode) -> Option<Locked> {
        let mut state = self.state();
        let next = state.next_ticket;
        if state.entries.len() >= RANGES_MAX || state.is_blocked(next, extent, mode) {
            return None;
        }
        let ticket = state.enter(extent, mode);
        drop(state);
        Some(self.locked(ticket))
    }

    fn locked(self: &Arc<Self>, ticket: u64) -> Locked {
        Locked {
            locks: Arc::clone(self),
            ticket,
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.locks
            .state()
            .entries
            .retain(|entry| entry.ticket != self.ticket);
        self.locks.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const A: Extent = Extent::new(0, 4096);
    const B: Extent = Extent::new(4096, 4096);
    const BOTH: Extent = Extent::new(0, 8192);

    #[test]
    fn overlapping_change_is_refused_until_the_range_is_unlocked() {
        let locks = Arc::new(RangeLocks::default());
        let held = locks.try_lock(A, Mode::Exclusive).expect("free");
        assert!(locks.try_lock(BOTH, Mode::Shared).is_none());
        assert!(locks.try_lock(B, Mode::Exclusive).is_some());
        drop(held);
        let first = locks.try_lock(A, Mode::Shared);
        assert!(first.is_some() && locks.try_lock(BOTH, Mode::Shared).is_some());
        assert!(locks.try_lock(BOTH, Mode::Exclusive).is_none());
    }

    #[test]
    fn waiting_change_is_not_overtaken_by_later_reads() {
        let locks = Arc::new(RangeLocks::default());
        let held = locks.lock(A, Mode::Shared);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| drop(locks.lock(BOTH, Mode::Exclusive)));
            while locks.state().entries.len() < 2 {
                std::thread::yield_now();
            }
            assert!(
                locks.try_lock(A, Mode::Shared).is_none(),
                "the writer is first"
            );
            drop(held);
            writer.join().expect("locked");
        });
        assert!(locks.try_lock(A, Mode::Shared).is_some());
    }

    #[test]
    fn concurrent_increments_under_one_lock_are_all_counted() {
        let (locks, count) = (Arc::new(RangeLocks::default()), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _held = locks.lock(A, Mode::Exclusive);
                        let before = count.load(Ordering::Relaxed);
                        std::thread::yield_now();
                        count.store(before + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 2000);
    }
}
