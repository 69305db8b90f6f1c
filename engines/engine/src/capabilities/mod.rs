//! What an engine can do, a trait for each kind of thing. [`Pool`] is those that every engine has; the [optional](crate::Capability)
//! ones are requested from it.
//!
//! Everything here waits for the disks (most changes for a whole transaction group) unless it says otherwise. None may be
//! called from an asynchronous executor's thread.

mod optional;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use units::{ByteCount, HostId, PoolName, SnapshotName, VolumeName};

use crate::dataset::{
    DatasetError, DatasetInfo, DatasetRef, Depth, Property, PropertyEdits, Snapshots,
    UserProperties, Value, VolumeSpec,
};
use crate::pool::{
    Candidate, DiscoverError, ImportOptions, PoolError, PoolHealth, PoolSpec, PoolStatus, SafeToOwn,
};
use crate::volume::{OpenOptions, Volume};

pub use optional::{
    Devices, FileSystems, History, IntentLogs, Keys, Optional, PoolProperties, Promotion,
    Receiving, Sending, Upkeep,
};

/// A pool that this process has open: the capabilities that every engine has. Dropping it leaves it open: a pool is closed by
/// [`Ownership::export`], whose failure must be handled, or by the end of the process.
///
/// The others are returned by methods of `dyn Pool`, such as `pool.devices()`: see [`Capability`](crate::Capability).
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

/// An engine that was started: what makes pools, finds them, and opens them.
pub trait Engine: Send + Sync {
    /// The number under which this host is known in the labels of its pools.
    fn host_id(&self) -> HostId;

    /// What the cache of reads holds, and what it may hold.
    fn cache_bytes(&self) -> (ByteCount, ByteCount);

    /// Makes a pool on the devices of `spec`. What they hold is lost.
    fn create(&self, spec: &PoolSpec) -> Result<Box<dyn Pool>, PoolError>;

    /// Searches `places`: folders (not their subfolders), files and block devices. Reads labels only; takes as long as the
    /// slowest device takes to answer.
    fn discover(&self, places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError>;

    /// The proof that this host used the pool last, and that the process which did is gone: takes the lock of every device.
    fn same_host_and_locked(&self, candidate: &Candidate) -> Result<SafeToOwn, PoolError>;

    /// Keeps the disks of `candidate` from other processes and, where they know reservations, from other hosts; until the
    /// claimed pool is dropped. Refuses a pool whose newest state may be on devices that are missing, and one that somebody
    /// wrote to after its labels had been read.
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

/// A pool whose disks this process keeps from others, and that it has not opened yet.
pub trait Claimed {
    /// Whether the pool is ours whatever the import finds: nothing is left to find out about its previous owner, and if the
    /// import fails, then for another reason.
    fn is_certain(&self) -> bool;

    /// What the owner before left in the labels.
    fn note(&self) -> Option<&str>;

    /// Opens the pool. Takes from 50 ms to some seconds, the longer the more its intent logs hold.
    fn open(self: Box<Self>) -> Result<Box<dyn Pool>, PoolError>;
}

/// Datasets: volumes, and what they are below.
pub trait Datasets {
    /// One dataset or snapshot.
    fn dataset(&self, dataset: DatasetRef<'_>) -> Result<DatasetInfo, DatasetError>;

    /// `below` and everything under it, parents first. Opens every dataset.
    fn datasets(
        &self,
        below: DatasetRef<'_>,
        snapshots: Snapshots,
    ) -> Result<Vec<DatasetInfo>, DatasetError>;

    /// How many volumes the pool has. Opens none of them.
    fn volume_count(&self) -> Result<u64, DatasetError>;

    /// How many volumes the pool had when it was imported, if that is known. Reads nothing.
    fn volume_count_at_import(&self) -> Option<u64> {
        None
    }

    /// Makes a volume in the form that every ZFS knows. If a property or the reservation is
    /// refused, there is no volume.
    fn create_volume(&self, spec: &VolumeSpec) -> Result<(), DatasetError>;

    /// Changes the size of a volume that is not open, and its reservation if it was for the whole
    /// volume. Of an open one: [`Self::adjust_reservation`] before it grows, then [`Volume::resize`]. If the space is
    /// not there, nothing is changed.
    fn resize_volume(&self, name: &VolumeName, size: ByteCount) -> Result<(), DatasetError>;

    /// Before a volume grows to `size`, or after it shrank to it: reserves space for all of that size if `before`, taken before
    /// the resize, shows that all of the old size was reserved. A reservation of more than that is someone's choice: it never
    /// gets smaller.
    fn adjust_reservation(&self, before: &DatasetInfo, size: ByteCount)
    -> Result<(), DatasetError>;

    /// Destroys a volume or file system that is not open.
    fn destroy_dataset(&self, name: &VolumeName, depth: Depth) -> Result<(), DatasetError>;

    /// Renames a dataset with everything below it; it may move to another parent.
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

    /// Takes snapshots, all at the same moment or none, one of each dataset at most. Completed
    /// writes are in them.
    fn snapshot(&self, names: &[SnapshotName]) -> Result<(), DatasetError>;

    /// As [`Self::snapshot`]; each snapshot carries these user properties from its beginning on.
    fn snapshot_marked(
        &self,
        names: &[SnapshotName],
        marks: &[(String, Value)],
    ) -> Result<(), DatasetError>;

    /// Renames a snapshot within its dataset.
    fn rename_snapshot(&self, from: &SnapshotName, tag: &str) -> Result<(), DatasetError>;

    /// Makes a writable volume, or file system, that starts with a snapshot's contents, with properties of its own
    /// from the beginning.
    fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        clone: &VolumeName,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError>;

    /// Takes a volume or file system that is not open back to its newest snapshot; what was written since is
    /// lost.
    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError>;
}

/// Properties of datasets.
pub trait Properties {
    /// Text properties whose name starts with `prefix`, as they are set on each dataset of the
    /// pool (not inherited, not on snapshots). Opens no dataset: reading those of a thousand
    /// volumes takes milliseconds.
    fn user_properties(&self, prefix: &str) -> Result<UserProperties, DatasetError>;

    /// As [`Self::user_properties`], of one dataset, which is no snapshot. Opens nothing: takes microseconds.
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
    /// none. Removing one that is not set is no error. A later edit of a property counts.
    fn edit_user_properties(
        &self,
        edits: Vec<(DatasetRef<'_>, PropertyEdits)>,
    ) -> Result<(), DatasetError>;

    /// Removes a property from a dataset, so that it is inherited or has its default again.
    /// Removing one that is not set is no error.
    fn inherit_property(&self, dataset: DatasetRef<'_>, property: &str)
    -> Result<(), DatasetError>;
}

/// How the pool is doing.
pub trait Health {
    /// Everything there is to say. May wait for a moment for a change of the pool that is under
    /// way, but not for a device.
    fn status(&self) -> Result<PoolStatus, PoolError>;

    /// The little that a monitor needs. Never waits, not even for a lock; `None` while the pool
    /// is being opened or closed.
    fn health(&self) -> Option<PoolHealth>;
}

/// Whose the pool is.
pub trait Ownership {
    /// Its name.
    fn name(&self) -> &PoolName;

    /// Writes everything to the devices, marks them as free for any host, and lets go of them.
    /// All volumes must be closed.
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

    /// Stores `text` where the next owner finds it before it opens the pool
    /// ([`Candidate::note`](crate::pool::Candidate::note)). It is durable after the next [`Self::sync`].
    fn leave_note(&self, text: &str) -> Result<(), PoolError>;

    /// Returns when everything written before the call is on disk.
    fn sync(&self) -> Result<(), PoolError>;
}
