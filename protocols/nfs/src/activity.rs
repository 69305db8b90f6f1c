//! Counters of client calls per file system: a few relaxed additions per call, without a lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block_device::Direction;
use file_system::FileSystemId;

/// File systems with their own counters. Further ones share one set of counters.
pub const COUNTED_MAX: usize = 1024;

/// Activity of clients in a file system. A compound counts as one call.
#[derive(Debug, Default)]
pub struct Activity {
    /// Calls that read from files.
    pub reads: Direction,
    /// Calls that wrote to files, including the commit if the call requested one.
    pub writes: Direction,
    /// All other calls: names, attributes, opens, locks, commits.
    pub others: Direction,
    failed: AtomicU64,
}

impl Activity {
    /// Counts a call that took `time`.
    pub(crate) fn add(&self, moved: Transferred, time: Duration) {
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

    /// Calls that failed with an I/O error. They are counted only here.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Bytes that a call transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Bytes that it read, if it reads.
    pub read: Option<u64>,
    /// Bytes that it wrote, if it writes.
    pub written: Option<u64>,
    /// The call failed with an I/O error.
    pub has_failed: bool,
}

impl Transferred {
    pub(crate) fn read(&mut self, bytes: usize) {
        self.read = Some(self.read.unwrap_or(0) + bytes as u64);
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written = Some(self.written.unwrap_or(0) + bytes);
    }
}

/// The use of a file system by a call.
#[derive(Clone, Debug, Default)]
pub struct ExportUsage {
    /// The name of the last file system of the call.
    pub export: Option<Arc<str>>,
    /// Its counters.
    pub activity: Option<Arc<Activity>>,
    /// The transferred bytes.
    pub moved: Transferred,
}

impl ExportUsage {
    /// Describes a call in the file system of this name.
    pub(crate) fn of(name: &Arc<str>, activity: &Arc<Activity>, moved: Transferred) -> Self {
        Self {
            export: Some(Arc::clone(name)),
            activity: Some(Arc::clone(activity)),
            moved,
        }
    }
}

/// The counters of all file systems.
#[derive(Debug, Default)]
pub(crate) struct ActivityTable {
    each: HashMap<FileSystemId, Arc<Activity>>,
    rest: Arc<Activity>,
}

impl ActivityTable {
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

    /// Whether these are the shared counters.
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
    fn calls_are_counted_by_bytes_transferred() {
        let activity = Activity::default();
        let (mut reads, mut copies) = (Transferred::default(), Transferred::default());
        reads.read(4096);
        reads.read(512);
        copies.wrote(1 << 20);
        copies.read(7);
        for moved in [
            reads,
            copies,
            Transferred::default(),
            Transferred::default(),
        ] {
            activity.add(moved, TIME);
        }
        assert_eq!(counts(&activity), [(2, 4615), (1, 1 << 20), (2, 0)]);
        assert_eq!(activity.reads.snapshot().us, 200);
        activity.add(
            Transferred {
                has_failed: true,
                ..reads
            },
            TIME,
        );
        assert_eq!((counts(&activity)[0].0, activity.failed()), (2, 1));
    }

    #[test]
    fn file_systems_beyond_the_bound_are_counted_together() {
        let mut activity_table = ActivityTable::default();
        let id = |guid: usize| FileSystemId {
            guid: guid as u64,
            ..FileSystemId::default()
        };
        let all: Vec<_> = (0..COUNTED_MAX)
            .map(|guid| activity_table.of(id(guid)))
            .collect();
        assert!(all.iter().all(|one| !activity_table.is_rest(one)));
        let beyond = [
            activity_table.of(id(COUNTED_MAX)),
            activity_table.of(id(COUNTED_MAX + 1)),
        ];
        assert!(beyond.iter().all(|one| activity_table.is_rest(one)));
        assert!(
            Arc::ptr_eq(&activity_table.of(id(7)), &all[7]),
            "it continues with its counters"
        );
        activity_table.keep_only(|one| one != id(3));
        let next = activity_table.of(id(COUNTED_MAX));
        assert!(!activity_table.is_rest(&next), "there is room");
    }
}
