//! Errors of datasets and volumes: a kind to match on, and a message with the recommended action.

use rustix::io::Errno;

use crate::error::SystemError;
use crate::unsupported::Unsupported;

/// The kind of a failed dataset operation, for callers to match on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatasetErrorKind {
    /// The name exists.
    #[error("it exists already: choose another name")]
    Exists,
    /// No such dataset, or no such parent when one is made.
    #[error("there is no such dataset")]
    NotFound,
    /// The parent of a new dataset does not exist.
    #[error("its parent does not exist: create that first, or ask for parents to be created")]
    ParentMissing,
    /// Like [`Self::ParentMissing`], for operations that cannot create parents.
    #[error("its parent does not exist")]
    ParentOfMissing,
    /// Volumes have no children.
    #[error("its parent cannot have children: only file systems can")]
    ParentUnsuitable,
    /// The dataset is not a volume.
    #[error("it is not a volume")]
    NotAVolume,
    /// The dataset is not a file system.
    #[error("it is not a file system")]
    NotAFileSystem,
    /// The file system has a feature that cannot be served.
    #[error("{why}")]
    FileSystemRefused {
        /// The reason.
        why: String,
    },
    /// In use by this process.
    #[error("it is in use, or shared: close it, or end its share, first")]
    Busy,
    /// Snapshots or children would go too.
    #[error("it has {what}: remove them first, or destroy recursively")]
    HasDependents {
        /// The dependents.
        what: String,
    },
    /// A snapshot has clones.
    #[error("it has clones: destroy them, or promote one")]
    HasClones,
    /// A volume's size.
    #[error("{size} bytes is not a positive multiple of the block size, {block}")]
    SizeNotMultiple {
        /// The requested size.
        size: u64,
        /// The block size.
        block: u64,
    },
    /// A volume's block size.
    #[error("a block size is a power of two from 512 to 16M")]
    BlockSize,
    /// The unit shown to clients.
    #[error("blocks of {block} bytes cannot be shown of a volume of {size}: use 512")]
    LogicalBlock {
        /// The volume's size.
        size: u64,
        /// The requested block size.
        block: u64,
    },
    /// A property.
    #[error("property {property}: {why}")]
    Property {
        /// Its name.
        property: String,
        /// The reason.
        why: &'static str,
    },
    /// Both sides of a promotion have a snapshot or a bookmark of this name.
    #[error("both have {what}: destroy one of the two")]
    Conflict {
        /// The snapshot or bookmark.
        what: String,
    },
    /// The pool is full, or a quota or reservation does not allow it.
    #[error("there is not enough space: free some, or ask for less")]
    NoSpace,
    /// The pool or dataset is read-only.
    #[error("it is open for reading only")]
    ReadOnly,
    /// Another pool.
    #[error("it is in another pool")]
    OtherPool,
    /// Several snapshots of one dataset in one transaction group.
    #[error("a transaction group can hold one snapshot of a volume: create the rest separately")]
    SnapshotTwice,
    /// A dataset cannot be moved below itself, nor below a volume.
    #[error("it cannot be there: below itself, or below a volume")]
    LocationUnsuitable,
    /// A dataset that inherits its key must stay below the dataset with the key.
    #[error(
        "it shares the key of the dataset above it, and has to stay below that: give it a key of \
         its own first, by `bulkhead volume key change`"
    )]
    KeyHoldsIt,
    /// The name of a bookmark.
    #[error("a bookmark's name has letters, digits and - _ . : only")]
    BookmarkName,
    /// A rollback would lose newer snapshots.
    #[error("there are newer snapshots: destroy them first")]
    NotNewest,
    /// A name is longer than ZFS allows.
    #[error("a name would become longer than 255 characters, or nested too deeply")]
    NameTooLong,
    /// The encryption key is not loaded.
    #[error(
        "its encryption key is not loaded: load it by `bulkhead volume key load` or `bulkhead filesystem key load` and its name, a passphrase with --prompt"
    )]
    KeyMissing,
    /// The given key is not the dataset's key.
    #[error("that is not its key")]
    KeyWrong,
    /// The given bytes are not a valid key.
    #[error("{0}")]
    KeyMaterial(crate::keys::MaterialError),
    /// The dataset shares the key of one above it.
    #[error("it has the key of {root}: name that")]
    NotKeyRoot {
        /// The dataset that the key belongs to.
        root: String,
    },
    /// The dataset is not encrypted.
    #[error("it is not encrypted")]
    NotEncrypted,
    /// The library refuses another key.
    #[error(
        "its key cannot be changed in this way: it must be encrypted and no clone, and a parent \
         that provides the key must be encrypted, too"
    )]
    KeyUnchangeable,
    /// The loaded key is not the one that the dataset's key is wrapped with.
    #[error(
        "the loaded key is no longer its key, as when a copy receives a stream that was sent \
         after a change of key: unload it, and load the present one"
    )]
    KeyOutdated,
    /// A record of the intent log, or a block that it modifies, cannot be read.
    #[error(
        "its intent log holds acknowledged writes and cannot be replayed to its end, because a block in the pool \
         cannot be read: bring back the devices that `bulkhead pool status` names, and use the volume \
         again; the log is retained until it is replayed, or until `bulkhead volume discard-log` discards it"
    )]
    LogUnreadable,
    /// The dataset depends on no other.
    #[error("it is no clone")]
    NotAClone,
    /// A clone's origin shares the key of a dataset that the clone is not below.
    #[error(
        "the volume it is a clone of shares the key of the dataset above that: give that volume a \
         key of its own first, by `bulkhead volume key change`"
    )]
    KeyOfOrigin,
    /// A walk along children and clones would not end, or not reach each dataset with the key.
    #[error(
        "a clone and its origin are one below the other: move them next to each other first, by \
         `bulkhead volume rename`"
    )]
    CloneBelowOrigin,
    /// The volume was closed concurrently.
    #[error("it was closed concurrently")]
    Closed,
    /// The engine has no such capability.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// Any other error.
    #[error("the storage library failed")]
    Library,
}

/// A dataset operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {dataset}: {kind}")]
pub struct DatasetError {
    /// The step: "create", "destroy", ...
    pub doing: &'static str,
    /// The dataset's name.
    pub dataset: String,
    /// The kind to match on.
    pub kind: DatasetErrorKind,
    /// The library's error.
    #[source]
    pub cause: Option<SystemError>,
}

impl DatasetError {
    /// Of the step `doing`.
    pub fn new(doing: &'static str, dataset: &str, kind: DatasetErrorKind) -> Self {
        Self {
            doing,
            dataset: dataset.to_owned(),
            kind,
            cause: None,
        }
    }

    /// Creates the error with the engine's error as its cause.
    pub fn because(
        doing: &'static str,
        dataset: &str,
        kind: DatasetErrorKind,
        cause: SystemError,
    ) -> Self {
        Self {
            cause: Some(cause),
            ..Self::new(doing, dataset, kind)
        }
    }

    /// With the meaning that an errno has in most dataset operations.
    pub fn common(doing: &'static str, dataset: &str, cause: SystemError) -> Self {
        let kind = match Errno::from_raw_os_error(cause.0) {
            Errno::EXIST => DatasetErrorKind::Exists,
            Errno::NOENT => DatasetErrorKind::NotFound,
            Errno::BUSY => DatasetErrorKind::Busy,
            Errno::NOSPC | Errno::DQUOT => DatasetErrorKind::NoSpace,
            Errno::ROFS => DatasetErrorKind::ReadOnly,
            Errno::XDEV => DatasetErrorKind::OtherPool,
            Errno::NAMETOOLONG => DatasetErrorKind::NameTooLong,
            Errno::ACCESS => DatasetErrorKind::KeyMissing,
            Errno::NOTRECOVERABLE => DatasetErrorKind::LogUnreadable,
            _ => DatasetErrorKind::Library,
        };
        Self::because(doing, dataset, kind, cause)
    }
}
