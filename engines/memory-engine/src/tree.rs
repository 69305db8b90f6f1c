//! The tree of datasets of a pool.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use engine::dataset::{DatasetErrorKind, Value};
use file_system::memory::MemoryFileSystem;

use crate::encryption::Encryption;
use crate::image::Image;
use crate::numbers::{new_guid, now_s};
use crate::partial::Partial;
use crate::volume::SharedImage;

/// Longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A snapshot.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) guid: u64,
    pub(crate) tag: String,
    pub(crate) txg: u64,
    pub(crate) time_s: u64,
    pub(crate) image: Arc<Image>,
    /// Of a file system that was opened before.
    pub(crate) files: Option<Arc<MemoryFileSystem>>,
    pub(crate) properties: BTreeMap<String, Value>,
    /// Its holds by name, with their times.
    pub(crate) holds: BTreeMap<String, u64>,
}

/// A bookmark: the remainder of a snapshot as a base for sends.
#[derive(Clone)]
pub(crate) struct Mark {
    pub(crate) guid: u64,
    pub(crate) txg: u64,
    pub(crate) time_s: u64,
    /// The contents of the snapshot, from which a difference can be computed.
    pub(crate) image: Arc<Image>,
}

/// The state of a volume's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitingLog {
    /// No log is pending.
    #[default]
    None,
    /// Pending until the volume is opened.
    Waits,
    /// Pending and unreadable.
    Unreadable,
}

/// A file system or volume.
pub(crate) struct Dataset {
    pub(crate) guid: u64,
    pub(crate) txg: u64,
    pub(crate) time_s: u64,
    /// Of a volume.
    pub(crate) volume: Option<SharedImage>,
    /// Local properties.
    pub(crate) properties: BTreeMap<String, Value>,
    /// Oldest first.
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) bookmarks: BTreeMap<String, Mark>,
    /// GUID of a clone's origin.
    pub(crate) origin: Option<u64>,
    pub(crate) encryption: Option<Encryption>,
    pub(crate) is_open: bool,
    pub(crate) log: WaitingLog,
    pub(crate) partial: Option<Partial>,
    /// Of a file system that was opened.
    pub(crate) files: Option<Arc<MemoryFileSystem>>,
}

impl Dataset {
    /// One without contents.
    pub(crate) fn new(txg: u64, volume: Option<Image>) -> Self {
        Self {
            guid: new_guid(),
            txg,
            time_s: now_s(),
            volume: volume.map(|image| Arc::new(Mutex::new(image))),
            properties: BTreeMap::new(),
            snapshots: Vec::new(),
            bookmarks: BTreeMap::new(),
            origin: None,
            encryption: None,
            is_open: false,
            log: WaitingLog::None,
            partial: None,
            files: None,
        }
    }

    /// The contents of a volume.
    pub(crate) fn image(&self) -> Option<MutexGuard<'_, Image>> {
        let image = self.volume.as_ref()?;
        Some(image.lock().expect("no holder panics"))
    }

    /// Returns a copy of its contents; empty for a file system.
    pub(crate) fn contents(&self) -> Image {
        self.image().map(|image| image.clone()).unwrap_or_default()
    }

    pub(crate) fn snapshot(&self, tag: &str) -> Option<&Snapshot> {
        self.snapshots.iter().find(|one| one.tag == tag)
    }

    /// A native number that is set here; zero if it is not.
    pub(crate) fn number(&self, property: &str) -> u64 {
        match self.properties.get(property) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    }

    /// Whether an unfinished receive is creating it.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial.as_ref().is_some_and(|one| one.is_new)
    }
}

/// All datasets by their full names.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) datasets: BTreeMap<String, Dataset>,
    /// The newest transaction group.
    pub(crate) txg: u64,
}

/// The object with a name.
pub(crate) enum Found<'a> {
    /// A file system or volume.
    Head(&'a Dataset),
    /// A snapshot, and its dataset.
    Snapshot(&'a Dataset, &'a Snapshot),
}

/// `tank/a` of `tank/a/b`.
pub(crate) fn parent_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Whether `name` is `of`, or below it.
pub(crate) fn is_at_or_below(name: &str, of: &str) -> bool {
    name.strip_prefix(of)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Tree {
    /// Returns the object with the name `name`.
    pub(crate) fn find(&self, name: &str) -> Result<Found<'_>, DatasetErrorKind> {
        let (head, tag) = match name.split_once('@') {
            Some((head, tag)) => (head, Some(tag)),
            None => (name, None),
        };
        let dataset = self.get(head)?;
        match tag {
            None => Ok(Found::Head(dataset)),
            Some(tag) => match dataset.snapshot(tag) {
                Some(snapshot) => Ok(Found::Snapshot(dataset, snapshot)),
                None => Err(DatasetErrorKind::NotFound),
            },
        }
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Dataset, DatasetErrorKind> {
        self.datasets.get(name).ok_or(DatasetErrorKind::NotFound)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Result<&mut Dataset, DatasetErrorKind> {
        let found = self.datasets.get_mut(name);
        found.ok_or(DatasetErrorKind::NotFound)
    }

    /// The dataset of that number, with its name.
    pub(crate) fn by_guid(&self, guid: u64) -> Option<(&String, &Dataset)> {
        self.datasets.iter().find(|(_, one)| one.guid == guid)
    }

    /// The snapshot of that number, with the name of its dataset.
    pub(crate) fn snapshot_by_guid(&self, guid: u64) -> Option<(&String, &Snapshot)> {
        self.datasets.iter().find_map(|(name, one)| {
            let snapshot = one.snapshots.iter().find(|one| one.guid == guid)?;
            Some((name, snapshot))
        })
    }

    /// Returns the names of `below` and all its descendants, parents first.
    pub(crate) fn names(&self, below: &str) -> Vec<String> {
        let names = self.datasets.keys();
        let mut names: Vec<String> = names
            .filter(|name| is_at_or_below(name, below))
            .cloned()
            .collect();
        names.sort_by_cached_key(|name| name.replace('/', "\u{1}"));
        names
    }

    pub(crate) fn has_children(&self, name: &str) -> bool {
        self.names(name).len() > 1
    }

    /// Names of the clones of a snapshot.
    pub(crate) fn clones_of(&self, snapshot: u64) -> Vec<&String> {
        let all = self.datasets.iter();
        all.filter(|(_, one)| one.origin == Some(snapshot))
            .map(|(name, _)| name)
            .collect()
    }

    /// Begins another transaction group.
    pub(crate) fn next_txg(&mut self) -> u64 {
        self.txg += 1;
        self.txg
    }

    /// Whether a new dataset may be at `name`.
    pub(crate) fn place(&self, name: &str) -> Result<(), DatasetErrorKind> {
        if self.datasets.contains_key(name) {
            return Err(DatasetErrorKind::Exists);
        }
        match self.datasets.get(parent_of(name)) {
            None => Err(DatasetErrorKind::ParentMissing),
            Some(parent) if parent.volume.is_some() => Err(DatasetErrorKind::ParentUnsuitable),
            Some(_) => Ok(()),
        }
    }
}
