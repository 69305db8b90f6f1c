//! Serialises overlapping writes to one file that use the page cache and that bypass it.
//!
//! During a resilver, the library has several writes of the same block in flight. If one of them is in the page cache
//! when a second one has just bypassed it, the kernel cannot drop the page, logs that, and fails the next flush: a good
//! device would be given up.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::file::Way;

/// The writes to one file that are in flight.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Bounded by the library's I/O in flight for a device.
    writes: Vec<Write>,
    next_number: u64,
    waiting: usize,
}

struct Write {
    number: u64,
    way: Way,
    pages: Range<u64>,
}

/// A write may run until this is dropped.
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

/// The pages that contain any of these bytes.
fn pages(offset: u64, length: usize) -> Range<u64> {
    let page = rustix::param::page_size() as u64;
    offset / page..(offset + length as u64).div_ceil(page)
}

impl State {
    fn is_met(&self, way: Way, pages: &Range<u64>) -> bool {
        let meets = |one: &Write| {
            one.way != way && one.pages.start < pages.end && pages.start < one.pages.end
        };
        self.writes.iter().any(meets)
    }

    fn add(&mut self, way: Way, pages: Range<u64>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.writes.push(Write { number, way, pages });
        number
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while an overlapping write on the other path is in flight.
    pub(super) fn try_begin(
        self: &Arc<Self>,
        way: Way,
        offset: u64,
        length: usize,
    ) -> Option<Turn> {
        let pages = pages(offset, length);
        let mut state = self.state();
        if state.is_met(way, &pages) {
            return None;
        }
        let number = state.add(way, pages);
        drop(state);
        Some(self.turn(number))
    }

    /// Blocks until no overlapping write on the other path is in flight.
    pub(super) fn begin(self: &Arc<Self>, way: Way, offset: u64, length: usize) -> Turn {
        let pages = pages(offset, length);
        let mut state = self.state();
        state.waiting += 1;
        while state.is_met(way, &pages) {
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        let number = state.add(way, pages);
        drop(state);
        self.turn(number)
    }

    fn turn(self: &Arc<Self>, number: u64) -> Turn {
        Turn {
            turns: Arc::clone(self),
            number,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        let at = state
            .writes
            .iter()
            .position(|one| one.number == self.number);
        state.writes.swap_remove(at.expect("added with this turn"));
        let someone_waits = state.waiting != 0;
        drop(state);
        if someone_waits {
            self.turns.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn direct_and_cached_writes_serialize_on_overlap_only() {
        let page = rustix::param::page_size();
        let turns = Arc::new(Turns::default());
        let large = turns.try_begin(Way::Direct, 0, 4 * page).expect("alone");
        let same_way = turns.try_begin(Way::Direct, 0, 4 * page);
        assert!(same_way.is_some(), "the kernel orders them");
        let inside = (2 * page) as u64 + 512;
        assert!(turns.try_begin(Way::Cached, inside, 512).is_none());
        assert!(turns.try_begin(Way::Cached, 4 * page as u64, 512).is_some());
        drop(large);
        assert!(turns.try_begin(Way::Cached, inside, 512).is_none());
        drop(same_way);
        let small = turns.try_begin(Way::Cached, inside, 512).expect("alone");
        assert!(turns.try_begin(Way::Direct, 0, 4 * page).is_none());
        drop(small);
        assert!(turns.try_begin(Way::Direct, 0, 4 * page).is_some());
    }

    #[test]
    fn overlapping_write_starts_after_the_other_completes() {
        let turns = Arc::new(Turns::default());
        let large = turns.try_begin(Way::Direct, 0, 1 << 20).expect("alone");
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiter = Arc::clone(&turns);
        std::thread::spawn(move || {
            let turn = waiter.begin(Way::Cached, 4096, 4096);
            sender.send(()).expect("somebody waits");
            drop(turn);
        });
        assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err());
        drop(large);
        receiver.recv().expect("it began");
    }
}
