//! What an engine can do, a trait for each kind of thing. [`Pool`] is all of them.
//!
//! Everything here waits for the disks (most changes for a whole transaction group) unless it says otherwise. None may be
//! called from an asynchronous executor's thread.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use file_system::FileSystemId;
use labels::HostId;
use units::{ByteCount, PoolName, SnapshotName, VolumeName};

use crate::dataset::{
    Damage, DatasetError, DatasetInfo, DatasetRef, Depth, FileSystemSpec, Property, PropertyEdits,
    Snapshots, UserProperties, Value, VolumeSpec,
};
use crate::files::OpenFileSystem;
use crate::keys::{KeyInfo, KeyMaterial, NewKey};
use crate::pool::{
    Candidate, DeviceState, DiscoverError, GoesOn, GroupSpec, ImportOptions, PoolError, PoolHealth,
    PoolProperty, PoolSpec, PoolStatus, SafeToOwn, ScrubCommand, TrimCommand,
};
use crate::transfer::{
    Base, Bookmark, Initial, Interrupted, ReceiveSpec, Received, ResumeToken, SendSpec,
    TransferError,
};
use crate::volume::{OpenOptions, Volume};

/// A pool that this process has open. Dropping it leaves it open: a pool is closed by [`Ownership::export`], whose failure
/// somebody has to see, or by the end of the process.
pub trait Pool:
    Datasets
    + Volumes
    + FileSystems
    + IntentLogs
    + Snapshotting
    + Properties
    + Sending
    + Receiving
    + Keys
    + Health
    + Upkeep
    + History
    + Devices
    + Ownership
    + std::fmt::Debug
    + Send
    + Sync
{
}

impl<T> Pool for T where
    T: Datasets
        + Volumes
        + FileSystems
        + IntentLogs
        + IntentLogs
        + Snapshotting
        + Properties
        + Sending
        + Receiving
        + Keys
        + Health
        + Upkeep
        + History
        + Upkeep
        + History
        + Devices
        + Ownership
        + std::fmt::Debug
        + Send
        + Sync
{
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
    fn volume_count_at_import(&self) -> Option<u64>;

    /// Makes a volume in the form that every ZFS knows. If a property or the reservation is
    /// refused, there is no volume.
    fn create_volume(&self, spec: &VolumeSpec) -> Result<(), DatasetError>;

    /// Makes an empty file system in the form that every ZFS knows. If a property is refused, there is none.
    fn create_file_system(&self, spec: &FileSystemSpec) -> Result<(), DatasetError>;

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

    /// Makes a clone the owner of the snapshots it shares with its origin, so that the origin can
    /// be destroyed.
    fn promote(&self, clone: &VolumeName) -> Result<(), DatasetError>;

    /// Makes the file systems above `name` that do not exist.
    fn create_parents(&self, name: &VolumeName) -> Result<(), DatasetError>;

    /// Gives the root file system of a new pool the contents that kernel ZFS expects of one that
    /// it is to mount. Does nothing where they are.
    fn complete_root(&self) -> Result<(), DatasetError>;
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

/// File systems as what protocols for files serve.
pub trait FileSystems {
    /// The file systems of the pool, with their identities. Opens none of them. One that is not received as a whole is left out.
    fn file_systems(&self) -> Result<Vec<(String, FileSystemId)>, DatasetError>;

    /// Opens a file system, or a snapshot of one, and replays its log. `read_only` refuses changes; a log that waits is refused
    /// then. May block.
    fn open_file_system(
        &self,
        dataset: DatasetRef<'_>,
        read_only: bool,
    ) -> Result<Box<dyn OpenFileSystem>, DatasetError>;
}

/// Intent logs that wait for their volumes to be opened.
pub trait IntentLogs {
    /// The volumes whose logs wait. Reads one block of each volume of the pool.
    fn unreplayed_volumes(&self) -> Result<Vec<VolumeName>, DatasetError>;

    /// Whether the log of `name`, a volume or file system, waits.
    fn is_unreplayed(&self, name: &VolumeName) -> Result<bool, DatasetError>;

    /// Replays the log of `name`, a volume or file system, if it waits. A volume must not be open; a file system may be.
    /// May block.
    fn replay(&self, name: &VolumeName) -> Result<(), DatasetError>;

    /// Gives up what the log of `name` holds, which was acknowledged as durable. False if no log waits. May block.
    fn discard_log(&self, name: &VolumeName) -> Result<bool, DatasetError>;
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

/// Streams of other pools. All of it waits for disks and for the other side.
pub trait Receiving {
    /// Receives the stream that `source` has. Nobody may have the volume open. May last as long as
    /// the sender likes: `source` is who gives up. A new volume has, from the moment on that it can be seen,
    /// what `initial` makes of its user properties at the sender.
    fn receive(
        &self,
        spec: &ReceiveSpec,
        initial: Initial<'_>,
        source: &mut dyn Read,
    ) -> Result<Received, TransferError>;

    /// What an interrupted receive left of `volume`; nothing if there is no such volume.
    fn interrupted(&self, volume: &VolumeName) -> Result<Option<Interrupted>, TransferError>;

    /// Forgets what an interrupted receive left: of a new volume everything, of an existing one
    /// the part that its next snapshot would have become of.
    fn abort_receive(&self, volume: &VolumeName) -> Result<(), TransferError>;
}

/// Snapshots on their way to another pool. All of it waits for disks and for the other side.
pub trait Sending {
    /// Writes the stream of `spec` to `to`; bytes written. Writes to the volume go on meanwhile;
    /// the snapshot cannot be destroyed. An error of `to` ends the send at once.
    fn send(&self, spec: &SendSpec, to: &mut dyn Write) -> Result<u64, TransferError>;

    /// About how many bytes the whole stream of `spec` has, resumed or not.
    fn send_estimate(&self, spec: &SendSpec) -> Result<u64, TransferError>;

    /// Understands a token.
    fn parse_token(&self, text: &str) -> Result<ResumeToken, TransferError>;

    /// The send that goes on where `token` says. The snapshot and its base are found by GUID, in
    /// the volume whose name the token has, or else in all of the pool.
    fn resumed_send(&self, token: &ResumeToken) -> Result<SendSpec, TransferError>;

    /// The bookmark of `volume` that the snapshot of this GUID left.
    fn bookmark_of(&self, volume: &VolumeName, guid: u64) -> Result<Option<Base>, TransferError>;

    /// The bookmarks of `volume`, in order of their names.
    fn bookmarks(&self, volume: &VolumeName) -> Result<Vec<Bookmark>, TransferError>;

    /// Keeps `mark` of `snapshot`, so that sends can begin at it after it is destroyed. A bookmark
    /// takes no space.
    fn create_bookmark(&self, snapshot: &SnapshotName, mark: &str) -> Result<(), TransferError>;

    /// Destroys a bookmark. One that is gone already is no error.
    fn destroy_bookmark(&self, mark: &Bookmark) -> Result<(), TransferError>;
}

/// Keys of encrypted datasets.
pub trait Keys {
    /// What is known of the key of one dataset.
    fn key_info(&self, dataset: DatasetRef<'_>) -> Result<KeyInfo, DatasetError>;

    /// All encrypted datasets, parents first. Opens none; a pool without any costs nothing.
    fn encrypted_datasets(&self) -> Result<Vec<KeyInfo>, DatasetError>;

    /// Loads the key of an encryption root. A key that does not fit is refused, and so is one that
    /// is loaded already ([`Exists`](crate::dataset::DatasetErrorKind::Exists)).
    fn load_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError>;

    /// Whether `material` is the key of an encryption root, loaded or not.
    fn check_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError>;

    /// Forgets a loaded key. Refused while a dataset that it opens is in use.
    fn unload_key(&self, root: DatasetRef<'_>) -> Result<(), DatasetError>;

    /// Gives an encrypted dataset, whose present key is loaded, another one of its own. Those that
    /// share it get it, too; all of them may be in use.
    fn change_key(&self, dataset: DatasetRef<'_>, key: &NewKey) -> Result<(), DatasetError>;

    /// Lets an encryption root share the key of its parent.
    fn inherit_key(&self, dataset: DatasetRef<'_>) -> Result<(), DatasetError>;

    /// Makes a parent for volumes that shall share a key: a file system that is encrypted, with
    /// these user properties from the first moment on.
    fn create_key_parent(
        &self,
        name: &VolumeName,
        key: &NewKey,
        properties: &[(String, String)],
    ) -> Result<(), DatasetError>;
}

/// How the pool is doing.
pub trait Health {
    /// What is damaged beyond repair, the first hundred places; one may be named more than once. May wait for the disks.
    fn damage(&self) -> Result<Vec<Damage>, PoolError>;

    /// Clears the errors of `device`, or of all, and lets a suspended pool go on, or says how it can. Answers within
    /// the time that a device may take and some seconds, whatever the devices do.
    ///
    /// # Errors
    ///
    /// `MayLack`, unless `missing_are_not_newer`, if devices that are gone may hold what anybody was told to be durable
    /// and those that are back lack; `SuspendedAgain` if it was resumed in vain; `Suspended` or `FlushOwed` if there are too few for any of that; `Waits` if the
    /// devices do not answer in time.
    fn go_on(&self, device: Option<&str>, missing_are_not_newer: bool)
    -> Result<GoesOn, PoolError>;

    /// Everything there is to say. May wait for a moment for a change of the pool that is under
    /// way, but not for a device.
    fn status(&self) -> Result<PoolStatus, PoolError>;

    /// The little that a monitor needs. Never waits, not even for a lock; `None` while the pool
    /// is being opened or closed.
    fn health(&self) -> Option<PoolHealth>;
}

/// Its upkeep.
pub trait Upkeep {
    /// Reads everything in the background and repairs what is wrong; `status` tells how far it
    /// is.
    fn scrub(&self, command: ScrubCommand) -> Result<(), PoolError>;

    /// Tells the devices about free space.
    fn trim(&self, command: TrimCommand) -> Result<(), PoolError>;

    /// Forgets the errors of a device, or of all, and uses it again. A suspended pool goes on by [`Health::go_on`] only.
    fn clear(&self, device: Option<&str>) -> Result<(), PoolError>;
}

/// The record of what was done to it, which stays in the pool.
pub trait History {
    /// Adds a record. It is on disk with the next transaction group; while the pool is suspended
    /// this waits.
    fn add_to_history(&self, text: &str) -> Result<(), PoolError>;

    /// The newest `bytes_max` of the history at most, as ZFS stores them: records of which the
    /// first may be cut, each with its text somewhere in it, in one piece.
    fn history_tail(&self, bytes_max: usize) -> Result<Vec<u8>, PoolError>;
}

/// What the pool is made of.
pub trait Devices {
    /// Adds groups of devices: more room, a log, a cache, spares. Groups for data cannot always
    /// be removed again.
    fn add(&self, groups: &[GroupSpec], overwrite: bool) -> Result<(), PoolError>;

    /// Makes `new` a mirror of `device`. It is filled in the background.
    fn attach(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError>;

    /// Fills `new` with what `device` holds or held, and then takes `device` out. `new` may be at
    /// the same path, after the disk there was exchanged.
    fn replace(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError>;

    /// Takes a device out of a mirror, or cancels a replacement.
    fn detach(&self, device: &str) -> Result<(), PoolError>;

    /// Removes a cache, a spare, a log, or (moving its data) a group without raidz.
    fn remove(&self, device: &str) -> Result<(), PoolError>;

    /// Takes a device into use again; what it missed is copied in the background. With `expand`
    /// it is used in its present size.
    fn online(&self, device: &str, expand: bool) -> Result<DeviceState, PoolError>;

    /// Takes a device out of use, until it is brought online again or, if `temporary`, until the
    /// pool is opened the next time.
    fn offline(&self, device: &str, temporary: bool) -> Result<(), PoolError>;

    /// Uses a device no more because it had too many errors, until it is cleared or replaced.
    ///
    /// # Errors
    ///
    /// `NoReplicas` if the pool cannot do without it.
    fn fault(&self, device: &str) -> Result<(), PoolError>;

    /// Sets properties, all or none.
    fn set_properties(&self, properties: &[(String, String)]) -> Result<(), PoolError>;

    /// All properties of the pool itself.
    fn properties(&self) -> Result<Vec<PoolProperty>, PoolError>;

    /// Enables all features that the library knows, and that the pool's `compatibility` allows,
    /// after which older software cannot open the pool any more.
    fn upgrade(&self) -> Result<(), PoolError>;
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

    /// Keeps `text` in the labels of the devices, where whoever opens the pool next finds it before he opens it
    /// ([`Candidate::note`](crate::pool::Candidate::note)). The labels are written with the next transaction group.
    fn note_in_labels(&self, text: &str) -> Result<(), PoolError>;

    /// Gives the pool another number, by which its devices are told from copies of them. `NoReplicas` if a device is missing, or lacks something.
    fn change_number(&self) -> Result<(), PoolError>;

    /// Returns when everything written before the call is on disk.
    fn sync(&self) -> Result<(), PoolError>;
}
