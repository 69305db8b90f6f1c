//! Optional capabilities of an engine: one trait each, obtained from a [`Pool`](super::Pool) by its own method, which
//! returns [`Unsupported`] if the engine does not have the capability.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use file_system::FileSystemId;
use units::{SnapshotName, VolumeName};

use super::Pool;
use crate::dataset::{Damage, DatasetError, DatasetErrorKind, DatasetRef, FileSystemSpec};
use crate::files::OpenFileSystem;
use crate::keys::{KeyInfo, KeyMaterial, NewKey};
use crate::pool::{
    DeviceState, GroupSpec, PoolError, PoolErrorKind, PoolProperty, ReadBalancing, Resumption,
    ScrubCommand, TrimCommand,
};
use crate::transfer::{
    Base, Bookmark, Initial, Interrupted, ReceiveSpec, Received, ResumeToken, SendSpec,
    TransferError,
};
use crate::unsupported::{Capability, Unsupported};

/// Declares the method of a pool that returns each capability.
macro_rules! optional {
    ($($method:ident: $capability:ident),* $(,)?) => {
        /// The optional capabilities of one pool. By default it has none.
        #[derive(Clone, Copy, Default)]
        pub struct Optional<'a> {
            $(#[doc = concat!("[`", stringify!($capability), "`].")] pub $method: Option<&'a dyn $capability>,)*
        }

        impl dyn Pool + '_ {
            $(
                #[doc = concat!("Its [`", stringify!($capability), "`], if its engine has that capability.")]
                pub fn $method(&self) -> Result<&dyn $capability, Unsupported> {
                    let capability = self.optional().$method;
                    capability.ok_or_else(|| self.unsupported_error(Capability::$capability))
                }
            )*

            /// Whether it has `capability`.
            pub fn has(&self, capability: Capability) -> bool {
                let has = self.optional();
                match capability {
                    $(Capability::$capability => has.$method.is_some(),)*
                }
            }

            /// The error of a pool without `capability`.
            pub fn unsupported_error(&self, capability: Capability) -> Unsupported {
                Unsupported {
                    pool: self.name().to_string(),
                    engine: self.engine_name(),
                    capability,
                }
            }
        }
    };
}

optional! {
    files: FileSystems,
    logs: IntentLogs,
    promotion: Promotion,
    sending: Sending,
    receiving: Receiving,
    keys: Keys,
    upkeep: Upkeep,
    history: History,
    devices: Devices,
    pool_properties: PoolProperties,
}

impl From<Unsupported> for PoolError {
    fn from(missing: Unsupported) -> Self {
        let pool = missing.pool.clone();
        Self::new("use", &pool, PoolErrorKind::Unsupported(missing))
    }
}

impl From<Unsupported> for DatasetError {
    fn from(missing: Unsupported) -> Self {
        let pool = missing.pool.clone();
        Self::new("use", &pool, DatasetErrorKind::Unsupported(missing))
    }
}

impl From<Unsupported> for TransferError {
    fn from(missing: Unsupported) -> Self {
        Self::dataset(missing.into())
    }
}

/// File systems, for file protocols.
pub trait FileSystems {
    /// Returns the file systems of the pool, with their identities. Opens none of them. Incompletely received ones are
    /// left out.
    fn file_systems(&self) -> Result<Vec<(String, FileSystemId)>, DatasetError>;

    /// Opens a file system, or a snapshot of one, and replays its log. `read_only` refuses changes; a pending log is
    /// refused then. May block.
    fn open_file_system(
        &self,
        dataset: DatasetRef<'_>,
        read_only: bool,
    ) -> Result<Box<dyn OpenFileSystem>, DatasetError>;

    /// Creates an empty file system in the format that every ZFS supports. If a property is refused, none is created.
    fn create_file_system(&self, spec: &FileSystemSpec) -> Result<(), DatasetError>;

    /// Creates the missing parent file systems of `name`.
    fn create_parents(&self, name: &VolumeName) -> Result<(), DatasetError>;

    /// Adds the contents that kernel ZFS expects in a mountable file system to the root file system
    /// of a new pool. Does nothing if they exist.
    fn complete_root(&self) -> Result<(), DatasetError>;
}

/// Pending intent logs, which are replayed when their volumes are opened.
pub trait IntentLogs {
    /// Returns the volumes with pending logs. Reads one block of each volume of the pool.
    fn unreplayed_volumes(&self) -> Result<Vec<VolumeName>, DatasetError>;

    /// Returns whether the log of `name`, a volume or file system, is pending.
    fn is_unreplayed(&self, name: &VolumeName) -> Result<bool, DatasetError>;

    /// Replays the log of `name`, a volume or file system, if it is pending. A volume must not be open; a file system
    /// can be. May block.
    fn replay(&self, name: &VolumeName) -> Result<(), DatasetError>;

    /// Discards the contents of the log of `name`, which were acknowledged as durable. Returns false without a pending
    /// log. May block.
    fn discard_log(&self, name: &VolumeName) -> Result<bool, DatasetError>;
}

/// Clones that outlive their origin.
pub trait Promotion {
    /// Transfers the snapshots that a clone shares with its origin to the clone, so that the origin
    /// can be destroyed.
    fn promote(&self, clone: &VolumeName) -> Result<(), DatasetError>;
}

/// Sends snapshots to another pool. All methods block on the disks and on the peer.
pub trait Sending {
    /// The format of its streams.
    fn format(&self) -> &'static str;

    /// Writes the stream of `spec` to `to` and returns the bytes written. The volume stays
    /// writable; the snapshot cannot be destroyed. An error of `to` stops the send at once.
    fn send(&self, spec: &SendSpec, to: &mut dyn Write) -> Result<u64, TransferError>;

    /// About how many bytes the whole stream of `spec` has, resumed or not.
    fn send_estimate(&self, spec: &SendSpec) -> Result<u64, TransferError>;

    /// Parses a token that an engine of the same format made.
    fn parse_token(&self, text: &str) -> Result<ResumeToken, TransferError>;

    /// Returns the send that resumes at `token`. The snapshot and its base are found by GUID, in
    /// the volume that the token names, or else in the whole pool.
    fn resumed_send(&self, token: &ResumeToken) -> Result<SendSpec, TransferError>;

    /// The bookmark of `volume` that the snapshot of this GUID left.
    fn bookmark_of(&self, volume: &VolumeName, guid: u64) -> Result<Option<Base>, TransferError>;

    /// The bookmarks of `volume`, in order of their names.
    fn bookmarks(&self, volume: &VolumeName) -> Result<Vec<Bookmark>, TransferError>;

    /// Creates the bookmark `mark` of `snapshot`, as the base of later sends after the snapshot is
    /// destroyed. A bookmark uses no space.
    fn create_bookmark(&self, snapshot: &SnapshotName, mark: &str) -> Result<(), TransferError>;

    /// Destroys a bookmark. A missing one is no error.
    fn destroy_bookmark(&self, mark: &Bookmark) -> Result<(), TransferError>;
}

/// Receives streams of other pools. All methods block on the disks and on the peer.
pub trait Receiving {
    /// The formats of streams that it receives.
    fn formats(&self) -> &'static [&'static str];

    /// Receives the stream of `source`. The volume must not be open. The duration depends on the sender: `source` must
    /// implement a time-out. From the time it becomes visible, a new volume has the properties that `initial` returns
    /// for its user properties at the sender.
    fn receive(
        &self,
        spec: &ReceiveSpec,
        initial: Initial<'_>,
        source: &mut dyn Read,
    ) -> Result<Received, TransferError>;

    /// Returns the partial state of an interrupted receive of `volume`; none if there is no such
    /// volume.
    fn interrupted(&self, volume: &VolumeName) -> Result<Option<Interrupted>, TransferError>;

    /// Discards the partial state of an interrupted receive: a new volume completely, of an
    /// existing one the part of its next snapshot.
    fn abort_receive(&self, volume: &VolumeName) -> Result<(), TransferError>;
}

/// Keys of encrypted datasets.
pub trait Keys {
    /// Returns the state of the key of one dataset.
    fn key_info(&self, dataset: DatasetRef<'_>) -> Result<KeyInfo, DatasetError>;

    /// All encrypted datasets, parents first. Opens none; a pool without any costs nothing.
    fn encrypted_datasets(&self) -> Result<Vec<KeyInfo>, DatasetError>;

    /// Loads the key of an encryption root. A wrong key is refused, and so is a second load
    /// ([`Exists`](crate::dataset::DatasetErrorKind::Exists)).
    fn load_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError>;

    /// Whether `material` is the key of an encryption root, loaded or not.
    fn check_key(&self, root: DatasetRef<'_>, material: &KeyMaterial) -> Result<(), DatasetError>;

    /// Unloads a key. Refused while a dataset that needs it is in use.
    fn unload_key(&self, root: DatasetRef<'_>) -> Result<(), DatasetError>;

    /// Changes the key of an encrypted dataset with a loaded key to one of its own. Descendants
    /// that inherit the key get the new one, too; all of them can be in use.
    fn change_key(&self, dataset: DatasetRef<'_>, key: &NewKey) -> Result<(), DatasetError>;

    /// Removes the own key of an encryption root, so that it inherits the key of its parent.
    fn inherit_key(&self, dataset: DatasetRef<'_>) -> Result<(), DatasetError>;

    /// Creates a parent for volumes that share a key: an encrypted file system, created with these
    /// user properties.
    fn create_key_parent(
        &self,
        name: &VolumeName,
        key: &NewKey,
        properties: &[(String, String)],
    ) -> Result<(), DatasetError>;
}

/// Its upkeep.
pub trait Upkeep {
    /// Reads all data in the background and repairs errors; `status` reports the progress.
    fn scrub(&self, command: ScrubCommand) -> Result<(), PoolError>;

    /// Bounds the bytes that scrubs and resilvers read in a second, each block counted once; `None`: without a bound.
    /// Takes effect at once, until the pool is closed.
    fn bound_copies(&self, bytes_per_s_max: Option<u64>);

    /// Chooses the devices that reads of mirrors use. Takes effect at once, until the pool is closed.
    fn balance_reads(&self, mode: ReadBalancing);

    /// Discards free space on the devices.
    fn trim(&self, command: TrimCommand) -> Result<(), PoolError>;

    /// Clears the errors of a device, or of all, and uses it again. A suspended pool is resumed by [`Self::resume_pool`]
    /// only.
    fn clear(&self, device: Option<&str>) -> Result<(), PoolError>;

    /// Returns the unrepairable damage, the first hundred ranges; a range can occur more than once. Can block on the
    /// disks.
    fn damage(&self) -> Result<Vec<Damage>, PoolError>;

    /// Clears the errors of `device`, or of all devices, and resumes a suspended pool, or returns how it can be
    /// resumed. Returns within the time-out of a device plus some seconds, in any state of the devices.
    ///
    /// # Errors
    ///
    /// `MayMissData`, unless `missing_are_not_newer`, if missing devices might hold acknowledged durable writes that the
    /// available ones do not; `SuspendedAgain` if a resumed pool was suspended again; `Suspended` or `FlushOwed` if
    /// there are too few devices for any of that; `Waits` if the devices do not respond in time.
    fn resume_pool(
        &self,
        device: Option<&str>,
        missing_are_not_newer: bool,
    ) -> Result<Resumption, PoolError>;
}

/// The history of a pool, which is stored in it.
pub trait History {
    /// Adds a record. It is on disk with the next transaction group. Blocks while the pool is
    /// suspended.
    fn add_to_history(&self, text: &str) -> Result<(), PoolError>;

    /// The newest `bytes_max` of the history at most, as ZFS stores them: records of which the
    /// first may be cut, each with its text somewhere in it, in one piece.
    fn history_tail(&self, bytes_max: usize) -> Result<Vec<u8>, PoolError>;

    /// The complete records in that tail, the oldest first.
    fn history_records(&self, bytes_max: usize) -> Result<Vec<HistoryRecord>, PoolError>;
}

/// A record of the history of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// The time, in seconds since 1970.
    pub at_unix_s: u64,
    /// The transaction group.
    pub txg: Option<u64>,
    /// The change, such as `create` or `snapshot`; `command` if the details are a command line or a text.
    pub what: String,
    /// The dataset.
    pub of: Option<String>,
    /// More about it.
    pub details: Option<String>,
}

/// The devices of a pool.
pub trait Devices {
    /// Adds groups of devices: more room, a log, a cache, spares. Groups for data cannot always
    /// be removed again.
    fn add(&self, groups: &[GroupSpec], overwrite: bool) -> Result<(), PoolError>;

    /// Attaches `new` as a mirror of `device`. It is resilvered in the background.
    fn attach(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError>;

    /// Resilvers `new` with the data of `device`, and then detaches `device`. `new` can have the
    /// same path, after the disk there was exchanged.
    fn replace(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError>;

    /// Checks `new` as [`Self::add`] and [`Self::attach`] do before their change. Changes nothing.
    fn check_new(&self, new: &[PathBuf]) -> Result<(), PoolError>;

    /// Checks `new` as [`Self::replace`] does before its change, and that it has `needed_bytes`. Changes nothing.
    fn check_replace(
        &self,
        device: &str,
        new: &Path,
        needed_bytes: u64,
        overwrite: bool,
    ) -> Result<(), PoolError>;

    /// Detaches a device from a mirror, or cancels a replacement.
    fn detach(&self, device: &str) -> Result<(), PoolError>;

    /// Removes a cache, a spare, a log, or (moving its data) a group without raidz.
    fn remove(&self, device: &str) -> Result<(), PoolError>;

    /// Brings a device online; missed writes are resilvered in the background. With `expand` its
    /// full present size is used.
    fn online(&self, device: &str, expand: bool) -> Result<DeviceState, PoolError>;

    /// Sets a device offline, until it is brought online again or, if `temporary`, until the pool
    /// is next opened.
    fn offline(&self, device: &str, temporary: bool) -> Result<(), PoolError>;

    /// Faults a device because it had too many errors, until it is cleared or replaced.
    ///
    /// # Errors
    ///
    /// `NoReplicas` if the pool cannot do without it.
    fn fault(&self, device: &str) -> Result<(), PoolError>;

    /// Changes the GUID of the pool, which distinguishes its devices from copies of them. Fails with `NoReplicas` if a
    /// device is missing or out of date.
    fn change_number(&self) -> Result<(), PoolError>;
}

/// Properties of the pool itself, not of its datasets.
pub trait PoolProperties {
    /// Sets properties, all or none.
    fn set_properties(&self, properties: &[(String, String)]) -> Result<(), PoolError>;

    /// All properties of the pool itself.
    fn properties(&self) -> Result<Vec<PoolProperty>, PoolError>;

    /// Describes the values of a property, such as `on | off`; `None` for an unknown name.
    fn property_values(&self, property: &str) -> Option<String>;

    /// Enables all features that the library supports and the pool's `compatibility` allows. Older
    /// software cannot open the pool afterwards.
    fn upgrade(&self) -> Result<(), PoolError>;
}
