//! An open shelf: its entries, its open volumes, and the changes of both.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ceph_sys::{Access, CephError, Image, Namespace, ObjectChange};
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use engine::gate::Gate;
use engine::volume::OpenOptions;
use units::PoolName;

use crate::SHELF_OBJECT;
use crate::claimant::Claimant;
use crate::collector::Collector;
use crate::errors::of_dataset;
use crate::ranges::RangeLocks;
use crate::records::{Edits, Number, OWNER, Records};
use crate::space::Space;
use crate::start::Location;
use crate::watch::Watch;

/// Objects of an image have 2^22 bytes, RBD's default.
pub(crate) const OBJECT_ORDER: u64 = 22;
/// Bits of `RBD_FEATURE_…`: layering, exclusive lock, object map, fast diff, deep flatten.
pub(crate) const FEATURES: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;

/// Runs the completions of asynchronous reads, on a thread of its own: the threads of librbd only enqueue. Its queue is
/// bounded by the ranges that volumes have locked.
pub(crate) type Completion = Box<dyn FnOnce() + Send>;

/// The state of an open shelf that its volumes and threads share.
pub(crate) struct Shelf {
    pub(crate) claimant: Claimant,
    pub(crate) location: Location,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) is_read_only: bool,
    records: RwLock<Arc<Records>>,
    /// Held during each change of the structure: images, snapshots and entries.
    changes: Mutex<()>,
    pub(crate) open: Mutex<BTreeMap<Number, Arc<OpenVolume>>>,
    pub(crate) completions: Sender<Completion>,
    pub(crate) space: Space,
    pub(crate) watch: Watch,
    pub(crate) collector: Collector,
    is_lost: AtomicBool,
    change_count: AtomicU64,
}

/// An open volume or snapshot.
pub(crate) struct OpenVolume {
    pub(crate) shelf: Arc<Shelf>,
    /// The full name by which it was opened.
    pub(crate) name: String,
    pub(crate) guid: Number,
    pub(crate) options: OpenOptions,
    pub(crate) block: u64,
    pub(crate) gate: Gate,
    pub(crate) ranges: Arc<RangeLocks>,
    pub(crate) size: AtomicU64,
    /// `None` when it is closed.
    pub(crate) image: RwLock<Option<Arc<Image>>>,
}

/// The right to change the structure of a shelf, until it is dropped.
pub(crate) struct Changing<'a> {
    pub(crate) shelf: &'a Arc<Shelf>,
    _held: MutexGuard<'a, ()>,
}

impl Shelf {
    /// A shelf with these entries, without its threads.
    pub(crate) fn new(
        claimant: Claimant,
        location: Location,
        namespace: Arc<Namespace>,
        records: Records,
        is_read_only: bool,
        completions: Sender<Completion>,
    ) -> Self {
        Self {
            claimant,
            location,
            namespace,
            is_read_only,
            records: RwLock::new(Arc::new(records)),
            changes: Mutex::new(()),
            open: Mutex::default(),
            completions,
            space: Space::default(),
            watch: Watch::default(),
            collector: Collector::default(),
            is_lost: AtomicBool::new(false),
            change_count: AtomicU64::new(0),
        }
    }

    pub(crate) fn name(&self) -> &PoolName {
        &self.claimant.name
    }

    /// The entries now.
    pub(crate) fn records(&self) -> Arc<Records> {
        Arc::clone(&self.records.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn open_volumes(&self) -> MutexGuard<'_, BTreeMap<Number, Arc<OpenVolume>>> {
        self.open.lock().expect("no holder panics")
    }

    /// The next step changes the cluster.
    pub(crate) fn step(&self, name: &'static str) {
        if let Some(probe) = &self.claimant.engine.0.options.probe {
            probe(name);
        }
    }

    /// Begins a change of the structure.
    pub(crate) fn changing(self: &Arc<Self>) -> Changing<'_> {
        Changing {
            shelf: self,
            _held: self.changes.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The shelf has another owner: nothing is written any more.
    pub(crate) fn lose(&self, error: CephError) {
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            tracing::error!(pool = %self.name(), "the shelf has another owner, or its entries cannot be written: {error}");
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Changes of the entries since the shelf was opened.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Relaxed)
    }

    /// The name of a dataset or snapshot in the shelf, without the name of the shelf; empty for the shelf itself.
    pub(crate) fn local<'a>(
        &self,
        doing: &'static str,
        of: DatasetRef<'a>,
    ) -> Result<&'a str, DatasetError> {
        if of.pool() != self.name().as_str() {
            return Err(DatasetError::new(
                doing,
                of.as_str(),
                DatasetErrorKind::OtherPool,
            ));
        }
        let rest = &of.as_str()[of.pool().len()..];
        Ok(rest.strip_prefix('/').unwrap_or(rest))
    }

    /// As [`Self::local`], for a change.
    pub(crate) fn local_to_change<'a>(
        &self,
        doing: &'static str,
        of: DatasetRef<'a>,
    ) -> Result<&'a str, DatasetError> {
        let local = self.local(doing, of)?;
        let kind = match (self.is_read_only, self.is_lost()) {
            (true, _) => DatasetErrorKind::ReadOnly,
            (false, true) => DatasetErrorKind::Closed,
            (false, false) => return Ok(local),
        };
        Err(DatasetError::new(doing, of.as_str(), kind))
    }

    /// Opens an image for reading.
    pub(crate) fn image_to_read(
        &self,
        image: Number,
        snapshot: Option<Number>,
    ) -> Result<Arc<Image>, CephError> {
        let snapshot = snapshot.map(Number::name);
        Image::open(
            &self.namespace,
            &image.name(),
            snapshot.as_deref(),
            Access::ReadOnly,
        )
    }
}

impl Changing<'_> {
    /// Stores a change: all of it, or nothing, and only if this process is still the owner. After an error the entries
    /// are unknown, so that the shelf is given up.
    pub(crate) fn commit(&self, edits: Edits) -> Result<(), CephError> {
        let records = self.shelf.records();
        if self.shelf.is_lost() {
            return Err(CephError::CANCELED);
        }
        let guard = records.owner.bytes();
        let change = ObjectChange {
            creates: false,
            guard: Some((OWNER, &guard)),
            set: &edits.set,
            remove: &edits.remove,
        };
        self.shelf.step("change the entries");
        if let Err(error) = self.shelf.namespace.change(SHELF_OBJECT, &change) {
            self.shelf.lose(error);
            return Err(error);
        }
        let mut next = (*records).clone();
        let set = edits
            .set
            .iter()
            .map(|(key, value)| (key, Some(value.as_slice())));
        let all = set.chain(edits.remove.iter().map(|key| (key, None)));
        for (key, value) in all {
            next.apply(key, value).expect("entries that were just made");
        }
        let mut current = self
            .shelf
            .records
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(next);
        self.shelf.change_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The image of a volume for writing: that of the open volume, or one that is opened for the caller.
    pub(crate) fn image_to_write(
        &self,
        volume: Number,
        image: Number,
    ) -> Result<Arc<Image>, CephError> {
        let open = self.shelf.open_volumes().get(&volume).cloned();
        let open = open.filter(|open| !open.options.read_only);
        match open.and_then(|open| open.image()) {
            Some(open) => Ok(open),
            None => self.locked_image(image),
        }
    }

    /// Opens an image, and acquires its lock.
    pub(crate) fn locked_image(&self, image: Number) -> Result<Arc<Image>, CephError> {
        let open = Image::open(
            &self.shelf.namespace,
            &image.name(),
            None,
            Access::ReadWrite,
        )?;
        open.acquire_lock()?;
        Ok(open)
    }
}

/// An error of a dataset in the cluster.
pub(crate) fn failed(doing: &'static str, dataset: &str) -> impl Fn(CephError) -> DatasetError {
    move |error| of_dataset(doing, dataset, error)
}
