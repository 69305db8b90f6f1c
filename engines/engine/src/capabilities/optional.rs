//! Capabilities that an engine may have: a trait each, obtained from a [`Pool`](super::Pool) by a method of its own, which
//! returns [`Unsupported`] where the engine has no such capability.

use std::io::{Read, Write};
use std::path::Path;

use file_system::FileSystemId;
use units::{SnapshotName, VolumeName};

use super::Pool;
use crate::dataset::{Damage, DatasetError, DatasetErrorKind, DatasetRef, FileSystemSpec};
use crate::files::OpenFileSystem;
use crate::keys::{KeyInfo, KeyMaterial, NewKey};
use crate::pool::{
    DeviceState, GoesOn, GroupSpec, PoolError, PoolErrorKind, PoolProperty, ScrubCommand,
    TrimCommand,
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
                    capability.ok_or_else(|| self.lacks(Capability::$capability))
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
            pub fn lacks(&self, capability: Capability) -> Unsupported {
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

    /// Makes an empty file system in the form that every ZFS knows. If a property is refused, there is none.
    fn create_file_system(&self, spec: &FileSystemSpec) -> Result<(), DatasetError>;

    /// Makes the file systems above `name` that do not exist.
    fn create_parents(&self, name: &VolumeName) -> Result<(), DatasetError>;

    /// Gives the root file system of a new pool the contents that kernel ZFS expects of one that
    /// it is to mount. Does nothing where they are.
    fn complete_root(&self) -> Result<(), DatasetError>;
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

/// Clones that outlive their origin.
pub trait Promotion {
    /// Makes a clone the owner of the snapshots it shares with its origin, so that the origin can
    /// be destroyed.
    fn promote(&self, clone: &VolumeName) -> Result<(), DatasetError>;
}

/// Snapshots on their way to another pool. All of it waits for disks and for the other side.
pub trait Sending {
    /// The format of its streams.
    fn format(&self) -> &'static str;

    /// Writes the stream of `spec` to `to`; bytes written. Writes to the volume go on meanwhile;
    /// the snapshot cannot be destroyed. An error of `to` ends the send at once.
    fn send(&self, spec: &SendSpec, to: &mut dyn Write) -> Result<u64, TransferError>;

    /// About how many bytes the whole stream of `spec` has, resumed or not.
    fn send_estimate(&self, spec: &SendSpec) -> Result<u64, TransferError>;

    /// Parses a token that an engine of the same format made.
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

/// Streams of other pools. All of it waits for disks and for the other side.
pub trait Receiving {
    /// The formats of streams that it receives.
    fn formats(&self) -> &'static [&'static str];

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

/// Its upkeep.
pub trait Upkeep {
    /// Reads everything in the background and repairs what is wrong; `status` tells how far it
    /// is.
    fn scrub(&self, command: ScrubCommand) -> Result<(), PoolError>;

    /// Tells the devices about free space.
    fn trim(&self, command: TrimCommand) -> Result<(), PoolError>;

    /// Forgets the errors of a device, or of all, and uses it again. A suspended pool resumes by [`Self::go_on`] only.
    fn clear(&self, device: Option<&str>) -> Result<(), PoolError>;

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

    /// Gives the pool another number, by which its devices are told from copies of them. `NoReplicas` if a device is missing, or lacks something.
    fn change_number(&self) -> Result<(), PoolError>;
}

/// Properties of the pool itself, not of its datasets.
pub trait PoolProperties {
    /// Sets properties, all or none.
    fn set_properties(&self, properties: &[(String, String)]) -> Result<(), PoolError>;

    /// All properties of the pool itself.
    fn properties(&self) -> Result<Vec<PoolProperty>, PoolError>;

    /// Enables all features that the library knows, and that the pool's `compatibility` allows,
    /// after which older software cannot open the pool any more.
    fn upgrade(&self) -> Result<(), PoolError>;
}
