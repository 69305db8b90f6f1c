//! The capabilities of an engine, one trait each. [`Pool`] comprises those that every engine has; the
//! [optional](crate::Capability) ones are requested from it.
//!
//! Unless stated otherwise, every method blocks on the disks, most changes for a whole transaction group. None may be
//! called from an asynchronous executor's thread.

mod optional;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use units::{ByteCount, HostId, PoolName, SnapshotName, VolumeName};

use crate::dataset::{
    Change, DatasetError, DatasetInfo, DatasetRef, Depth, Property, PropertyEdits, Snapshots,
    UserProperties, Value, VolumeSpec,
};
use crate::pool::{
    Candidate, DiscoverError, ImportOptions, PoolError, PoolHealth, PoolSpec, PoolStatus, SafeToOwn,
};
use crate::volume::{OpenOptions, Volume};

pub use optional::{
    Devices, FileSystems, History, HistoryRecord, IntentLogs, Keys, Optional, PoolProperties,
    Promotion, Receiving, Sending, Upkeep,
};

/// A pool that this process has open: the capabilities that every engine has. Dropping it does not close the pool. A
/// pool is closed by [`Ownership::export`], which returns an error that must be handled, or by the exit of the process.
///
/// Methods of `dyn Pool`, such as `pool.devices()`, return the optional ones: see [`Capability`](crate::Capability).
pub trait Pool:
    Datasets + Volumes + Snapshotting + Properties + Health + Ownership + std::fmt::Debug + Send + Sync
{
    /// The name of its engine in messages.
    fn engine_name(&self) -> &'static str;

    /// The optional capabilities that it has.
    fn optional(&self) -> Optional<'_> {
        Optional::default()
    }
}

/// A running engine: creates, discovers and opens pools.
pub trait Engine: Send + Sync {
    /// The host ID that this host has in the labels of its pools.
    fn host_id(&self) -> HostId;

    /// Returns the used size and the maximum size of the read cache.
    fn cache_bytes(&self) -> (ByteCount, ByteCount);

    /// Creates a pool on the devices of `spec`. Their contents are lost.
    fn create(&self, spec: &PoolSpec) -> Result<Box<dyn Pool>, PoolError>;

    /// Searches `places`: directories (not their subdirectories), files and block devices. Reads labels only. The
    /// duration is that of the slowest device.
    fn discover(&self, places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError>;

    /// Proves that this host used the pool last and that the process that did has exited: acquires the lock of every
    /// device.
    fn same_host_and_locked(&self, candidate: &Candidate) -> Result<SafeToOwn, PoolError>;

    /// Has the storage itself refuse each later request of the pool's last owner, and returns the proof of that. `None`
    /// where the storage has no such means: then the host of the last owner must be stopped.
    fn refuse_last_owner(&self, candidate: &Candidate) -> Option<Result<SafeToOwn, PoolError>> {
        let _ = candidate;
        None
    }

    /// Claims the disks of `candidate` against other processes and, if they support reservations, against other hosts,
    /// until the claimed pool is dropped. Refuses a pool with a newest state that might be on missing devices, and one
    /// that was written after its labels were read.
    ///
    /// # Panics
    /// If the proof is about another pool.
    fn claim<'a>(
        &self,
        candidate: &'a Candidate,
        proof: SafeToOwn,
        options: &'a ImportOptions,
    ) -> Result<Box<dyn Claimed + 'a>, PoolError>;

    /// Claims the disks of `candidate` and opens the pool on them: [`Self::claim`], then [`Claimed::open`].
    fn import(
        &self,
        candidate: &Candidate,
        proof: SafeToOwn,
        options: &ImportOptions,
    ) -> Result<Box<dyn Pool>, PoolError> {
        self.claim(candidate, proof, options)?.open()
    }
}

/// A claimed pool that is not open yet.
pub trait Claimed {
    /// Whether the pool is ours whatever the import finds: nothing is left to find out about its previous owner, and if the
    /// import fails, then for another reason.
    fn is_certain(&self) -> bool;

    /// Returns the note that the previous owner stored in the labels.
    fn note(&self) -> Option<&str>;

    /// Opens the pool. The duration is 50 ms to some seconds, depending on the size of its intent
    /// logs.
    fn open(self: Box<Self>) -> Result<Box<dyn Pool>, PoolError>;
}

/// Datasets: volumes and their parents.
pub trait Datasets {
    /// One dataset or snapshot.
    fn dataset(&self, dataset: DatasetRef<'_>) -> Result<DatasetInfo, DatasetError>;

    /// Lists `below` and all its descendants, parents first. Opens every dataset, except with [`Snapshots::Only`].
    fn datasets(
        &self,
        below: DatasetRef<'_>,
        snapshots: Snapshots,
    ) -> Result<Vec<DatasetInfo>, DatasetError>;

    /// How many volumes the pool has. Opens none of them.
    fn volume_count(&self) -> Result<u64, DatasetError>;

    /// Returns the number of volumes at the time of the import, if known. Reads nothing.
    fn volume_count_at_import(&self) -> Option<u64> {
        None
    }

    /// Creates a volume in the format that every ZFS supports. If a property or the reservation is
    /// refused, no volume is created.
    fn create_volume(&self, spec: &VolumeSpec) -> Result<(), DatasetError>;

    /// Changes the size of a volume that is not open, and its reservation if it was for the whole
    /// volume. Of an open one: [`Self::adjust_reservation`] before it grows, then [`Volume::resize`]. If the space is
    /// not there, nothing is changed.
    fn resize_volume(&self, name: &VolumeName, size: ByteCount) -> Result<(), DatasetError>;

    /// Adjusts the reservation before a volume grows to `size`, or after it shrank to it: reserves the full size if
    /// `before`, read before the resize, shows that the full old size was reserved. A larger reservation was set
    /// explicitly and is never reduced.
    fn adjust_reservation(&self, before: &DatasetInfo, size: ByteCount)
    -> Result<(), DatasetError>;

    /// Destroys a volume or file system that is not open.
    fn destroy_dataset(&self, name: &VolumeName, depth: Depth) -> Result<(), DatasetError>;

    /// Renames a dataset with all its descendants, possibly to another parent.
    fn rename(&self, from: &VolumeName, to: &VolumeName) -> Result<(), DatasetError>;
}

/// Volumes as block devices.
pub trait Volumes {
    /// Opens a volume for I/O and replays its log; see [`Volume`].
    fn open_volume(
        &self,
        name: &VolumeName,
        options: OpenOptions,
    ) -> Result<Arc<dyn Volume>, DatasetError>;

    /// Opens a snapshot of a volume for reading.
    fn open_snapshot(
        &self,
        name: &SnapshotName,
        options: OpenOptions,
    ) -> Result<Arc<dyn Volume>, DatasetError>;
}

/// Snapshots and clones.
pub trait Snapshotting {
    /// Destroys snapshots, all or none.
    fn destroy_snapshots(&self, names: &[SnapshotName]) -> Result<(), DatasetError>;

    /// Creates snapshots atomically, at most one of each dataset. Completed writes are in them.
    fn snapshot(&self, names: &[SnapshotName]) -> Result<(), DatasetError>;

    /// As [`Self::snapshot`]; each snapshot carries these user properties from its beginning on.
    fn snapshot_marked(
        &self,
        names: &[SnapshotName],
        marks: &[(String, Value)],
    ) -> Result<(), DatasetError>;

    /// Renames a snapshot within its dataset.
    fn rename_snapshot(&self, from: &SnapshotName, tag: &str) -> Result<(), DatasetError>;

    /// Creates a writable volume or file system with a snapshot's contents, and sets its properties in the same
    /// operation.
    fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        clone: &VolumeName,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError>;

    /// Adds a hold named `tag` to snapshots, all or none: a held snapshot cannot be destroyed. A snapshot that has it
    /// already is an error.
    fn hold_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError>;

    /// Removes the hold named `tag` from snapshots, all or none. A snapshot without it is an error.
    fn release_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError>;

    /// The holds of a snapshot, by their names, with their times in seconds since 1970.
    fn holds(&self, name: &SnapshotName) -> Result<BTreeMap<String, u64>, DatasetError>;

    /// Visits the ranges of a volume that were written or freed from one of its snapshots to a later one, in ascending
    /// order and in whole blocks. Reads no data. `visit` is called without a change after other metadata was read.
    ///
    /// # Errors
    ///
    /// `EINTR` if `visit` ends the comparison.
    fn changes(
        &self,
        from: &SnapshotName,
        to: &SnapshotName,
        visit: &mut dyn FnMut(Option<Change>) -> ControlFlow<()>,
    ) -> Result<(), DatasetError>;

    /// Rolls a closed volume or file system back to its newest snapshot; later writes are lost.
    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError>;
}

/// Properties of datasets.
pub trait Properties {
    /// Returns the text properties with the prefix `prefix` that are set locally on each dataset of
    /// the pool (not inherited, not on snapshots). Opens no dataset: reading those of a thousand
    /// volumes needs milliseconds.
    fn user_properties(&self, prefix: &str) -> Result<UserProperties, DatasetError>;

    /// Like [`Self::user_properties`], for one dataset that is not a snapshot. Opens nothing; needs microseconds.
    fn own_user_properties(
        &self,
        dataset: DatasetRef<'_>,
        prefix: &str,
    ) -> Result<BTreeMap<String, String>, DatasetError>;

    /// All properties in effect on a dataset or snapshot.
    fn dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
    ) -> Result<BTreeMap<String, Property>, DatasetError>;

    /// Sets properties; user properties all in one transaction group. None is set if one is
    /// refused by its name or value.
    fn set_dataset_properties(
        &self,
        dataset: DatasetRef<'_>,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError>;

    /// Changes user properties of several datasets in one transaction group: all are changed, or
    /// none. Removing one that is not set is no error. The last edit of a property is effective.
    fn edit_user_properties(
        &self,
        edits: Vec<(DatasetRef<'_>, PropertyEdits)>,
    ) -> Result<(), DatasetError>;

    /// Removes a local property from a dataset, so that it is inherited or has its default.
    /// Removing one that is not set is no error.
    fn inherit_property(&self, dataset: DatasetRef<'_>, property: &str)
    -> Result<(), DatasetError>;

    /// Describes the values of a native property, such as `on | off`; `None` for an unknown name.
    fn property_values(&self, property: &str) -> Option<String>;
}

/// How the pool is doing.
pub trait Health {
    /// Returns the full status. Can block briefly on a change of the pool in progress, but not on a
    /// device.
    fn status(&self) -> Result<PoolStatus, PoolError>;

    /// Returns the state that a monitor needs. Never blocks, not even on a lock; `None` while the
    /// pool is being opened or closed.
    fn health(&self) -> Option<PoolHealth>;

    /// Returns whether the pool has another owner, so that this process can never use it again. Never blocks.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns the paths of devices with a failed last request, and of those that could not be opened. While a pool is
    /// suspended, its status can be older than that. Does not block on a device.
    fn failing_devices(&self) -> BTreeSet<PathBuf> {
        BTreeSet::new()
    }
}

/// The ownership of a pool.
pub trait Ownership {
    /// Its name.
    fn name(&self) -> &PoolName;

    /// Writes all data to the devices, marks them as exported and releases them. All volumes must
    /// be closed.
    #[expect(
        clippy::result_large_err,
        reason = "a pool that stays open is handed back"
    )]
    fn export(self: Box<Self>) -> Result<(), (Box<dyn Pool>, PoolError)>;

    /// Destroys the pool and all that it holds.
    #[expect(
        clippy::result_large_err,
        reason = "a pool that stays open is handed back"
    )]
    fn destroy(self: Box<Self>) -> Result<(), (Box<dyn Pool>, PoolError)>;

    /// Stores `text` for the next owner, which reads it before it opens the pool
    /// ([`Candidate::note`](crate::pool::Candidate::note)). It is durable after the next [`Self::sync`].
    fn leave_note(&self, text: &str) -> Result<(), PoolError>;

    /// Returns when all data written before the call is on disk.
    fn sync(&self) -> Result<(), PoolError>;
}
