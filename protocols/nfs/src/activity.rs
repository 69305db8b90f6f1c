//! What clients did in each file system, counted by calls: a few relaxed additions for each, and no lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block_device::Direction;
use file_system::FileSystemId;

/// File systems that are counted by themselves. Those that are shared when so many are counted are counted together.
pub const COUNTED_MAX: usize = 1024;

/// What clients did in a file system. A compound is one call.
#[derive(Debug, Default)]
pub struct Activity {
    /// Calls that read from files.
    pub reads: Direction,
    /// Calls that wrote to files, with waiting for durability where the call asked for it.
    pub writes: Direction,
    /// All others: names, attributes, opens, locks, commits.
    pub others: Direction,
    failed: AtomicU64,
}

impl Activity {
    /// Counts a call that took `time`.
    pub(crate) fn add(&self, moved: Moved, time: Duration) {
        if moved.has_failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Some(bytes) = moved.read {
            self.reads.add(bytes, time);
        }
        if let Some(bytes) = moved.written {
            self.writes.add(bytes, time);
        }
        if (moved.read, moved.written) == (None, None) {
            self.others.add(0, time);
        }
    }

    /// Calls that failed by an error of I/O. They are counted nowhere else.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// What a call moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that it read, if it reads.
    pub read: Option<u64>,
    /// Bytes that it wrote, if it writes.
    pub written: Option<u64>,
    /// It failed by an error of I/O.
    pub has_failed: bool,
}

impl Moved {
    pub(crate) fn read(&mut self, bytes: usize) {
        self.read = Some(self.read.unwrap_or(0) + bytes as u64);
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written = Some(self.written.unwrap_or(0) + bytes);
    }
}

/// What a call had to do with.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// The name of the file system that it ended in.
    pub export: Option<Arc<str>>,
    /// Where it is counted.
    pub activity: Option<Arc<Activity>>,
    /// What it moved there.
    pub moved: Moved,
}

impl Used {
    /// A call that ended in the file system of this name, and moved something there.
    pub(crate) fn of(name: &Arc<str>, activity: &Arc<Activity>, moved: Moved) -> Self {
        Self {
            export: Some(Arc::clone(name)),
            activity: Some(Arc::clone(activity)),
            moved,
        }
    }
}

/// Where each file system is counted.
#[derive(Debug, Default)]
pub(crate) struct Book {
    each: HashMap<FileSystemId, Arc<Activity>>,
    rest: Arc<Activity>,
}

impl Book {
    pub fn keep_only(&mut self, is_there: impl Fn(FileSystemId) -> bool) {
        self.each.retain(|id, _| is_there(*id));
    }

    pub fn of(&mut self, id: FileSystemId) -> Arc<Activity> {
        match self.each.get(&id) {
            Some(known) => Arc::clone(known),
            None if self.each.len() >= COUNTED_MAX => Arc::clone(&self.rest),
            None => Arc::clone(self.each.entry(id).or_default()),
        }
    }

    /// Whether it is counted with others.
    pub fn is_rest(&self, activity: &Arc<Activity>) -> bool {
        Arc::ptr_eq(activity, &self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_micros(100);

    fn counts(activity: &Activity) -> [(u64, u64); 3] {
        [&activity.reads, &activity.writes, &activity.others]
            .map(|one| one.snapshot())
            .map(|one| (one.count(), one.bytes))
    }

    #[test]
    fn calls_are_counted_by_what_they_moved() {
        let activity = Activity::default();
        let (mut reads, mut copies) = (Moved::default(), Moved::default());
        reads.read(4096);
        reads.read(512);
        copies.wrote(1 << 20);
        copies.read(7);
        for moved in [reads, copies, Moved::default(), Moved::default()] {
            activity.add(moved, TIME);
        }
        assert_eq!(counts(&activity), [(2, 4615), (1, 1 << 20), (2, 0)]);
        assert_eq!(activity.reads.snapshot().us, 200);
        activity.add(
            Moved {
                has_failed: true,
                ..reads
            },
            TIME,
        );
        assert_eq!((counts(&activity)[0].0, activity.failed()), (2, 1));
    }

    #[test]
    fn file_systems_beyond_the_bound_are_counted_together() {
        let mut book = Book::default();
        let id = |guid: usize| FileSystemId {
            guid: guid as u64,
            ..FileSystemId::default()
        };
        let all: Vec<_> = (0..COUNTED_MAX).map(|guid| book.of(id(guid))).collect();
        assert!(all.iter().all(|one| !book.is_rest(one)));
        let beyond = [book.of(id(COUNTED_MAX)), book.of(id(COUNTED_MAX + 1))];
        assert!(beyond.iter().all(|one| book.is_rest(one)));
        assert!(
            Arc::ptr_eq(&book.of(id(7)), &all[7]),
            "it goes on where it was"
        );
        book.keep_only(|one| one != id(3));
        let next = book.of(id(COUNTED_MAX));
        assert!(!book.is_rest(&next), "there is room");
    }
}
