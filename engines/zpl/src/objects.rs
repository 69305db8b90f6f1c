//! The interface of this crate to a pool: objects with attributes, directories and contents, and transactions that
//! change several of them together. `engines/zpool` implements it with OpenZFS.

use std::fmt;

use block_device::ReadLoan;

/// Why the pool failed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The object, entry or attribute does not exist.
    #[error("there is no such object")]
    Missing,
    /// The entry, or the number of an object, exists.
    #[error("it is there already")]
    Exists,
    /// The pool, or the dataset's quota, is full.
    #[error("no space")]
    NoSpace,
    /// A quota of the dataset is exceeded.
    #[error("the quota is used up")]
    Quota,
    /// It is read-only.
    #[error("read-only")]
    ReadOnly,
    /// The key of the dataset is not loaded.
    #[error("its key is not loaded")]
    KeyMissing,
    /// The file system was closed.
    #[error("it is closed")]
    Closed,
    /// The data is longer than the expected maximum.
    #[error("it is too long")]
    TooLong,
    /// The devices failed, or the stored data is inconsistent. The number is the library's `errno`.
    #[error("error {0}")]
    Io(i32),
}

/// The properties of a file system at its open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Version of the POSIX layer's format.
    pub version: u64,
    /// Stable for the dataset.
    pub identity: u64,
    /// For a snapshot, its number in the pool, otherwise 0.
    pub snapshot: u64,
    /// The root directory.
    pub root: u64,
    /// The list of unlinked objects.
    pub unlinked: u64,
    /// The object with receipts; 0 if there is none.
    pub receipts: u64,
    /// How names are normalized; 0 for none.
    pub normalization: u64,
    /// Whether names must be UTF-8.
    pub utf8_only: bool,
    /// Whether names are case-insensitive; 0: case-sensitive.
    pub case_sensitivity: u64,
    /// Whether access control lists of POSIX are in effect.
    pub has_posix_acls: bool,
    /// Whether attributes have the format of version 5.
    pub has_system_attributes: bool,
    /// Only the replay of a log can change it.
    pub is_read_only: bool,
    /// A log cannot be replayed either.
    pub is_fixed: bool,
    /// An intent log must be replayed first.
    pub log_waits: bool,
    /// The log was written by a host of the other byte order.
    pub log_is_foreign: bool,
}

/// Seconds and nanoseconds as they are stored.
pub type StoredTime = [u64; 2];

/// Attributes of an object as they are stored (`sys/zfs_sa.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stored {
    pub mode: u64,
    pub size: u64,
    pub generation: u64,
    pub uid: u64,
    pub gid: u64,
    pub parent: u64,
    pub flags: u64,
    pub atime: StoredTime,
    pub mtime: StoredTime,
    pub ctime: StoredTime,
    pub crtime: StoredTime,
    pub links: u64,
    pub project: u64,
    pub device: u64,
    /// The directory of extended attributes.
    pub extended: u64,
    /// The attributes that are present.
    pub has: Has,
    /// Bytes of a block; for a new object, of its first one, or 0.
    pub block_size: u64,
    /// Number of its last block; 0 if it has only one.
    pub last_block: u64,
    /// Bytes on disk.
    pub space: u64,
    /// Slots in the dnode object.
    pub slots: u64,
}

/// A set of attributes; the bits of the shim (`BH_HAS_*`).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Has(pub u64);

#[allow(missing_docs)]
impl Has {
    pub const MODE: Self = Self(1 << 0);
    pub const SIZE: Self = Self(1 << 1);
    pub const GENERATION: Self = Self(1 << 2);
    pub const UID: Self = Self(1 << 3);
    pub const GID: Self = Self(1 << 4);
    pub const PARENT: Self = Self(1 << 5);
    pub const FLAGS: Self = Self(1 << 6);
    pub const ATIME: Self = Self(1 << 7);
    pub const MTIME: Self = Self(1 << 8);
    pub const CTIME: Self = Self(1 << 9);
    pub const CRTIME: Self = Self(1 << 10);
    pub const LINKS: Self = Self(1 << 11);
    pub const PROJECT: Self = Self(1 << 12);
    pub const DEVICE: Self = Self(1 << 13);
    pub const EXTENDED: Self = Self(1 << 14);

    /// Those of every new object.
    pub const NEW: Self = Self((1 << 12) - 1);
    /// The attributes that a file, directory or link must have.
    pub const ESSENTIAL: Self = Self::NEW;

    /// Both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it includes all of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Debug for Has {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Attributes of variable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The target of a symbolic link.
    Link,
    /// The entries of the access control list.
    Acl,
    /// The list of extended attributes.
    Extended,
}

/// The effect of `chmod` on a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMode {
    /// The trivial list of the mode replaces it.
    #[default]
    Discard,
    /// All entries are limited to the group's permissions.
    GroupMask,
    /// Entries that name users and groups stay.
    Passthrough,
    /// The mode of an object with a list cannot be set.
    Restricted,
}

/// The entries that a new object inherits from its directory's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inheriting {
    /// Nothing.
    Discard,
    /// The deny entries.
    NoAllow,
    /// All entries, except for the rights to change list and owner.
    #[default]
    Restricted,
    /// All entries, and no mode of its own.
    Passthrough,
    /// Like passthrough, but files are executable only if the requested mode is.
    PassthroughX,
}

/// Settings of a file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// `aclmode`.
    pub on_mode: OnMode,
    /// `aclinherit`.
    pub inheriting: Inheriting,
    /// Lists may be set (`acltype`).
    pub has_lists: bool,
}

/// One step of a change. Names contain no NUL.
#[derive(Clone, Debug)]
pub enum Step<'a> {
    /// Creates an object. A generation of 0 becomes the transaction group.
    Make {
        /// The required number.
        claims: Option<u64>,
        /// Its attributes.
        stored: &'a Stored,
        /// Its access control list.
        acl: &'a [u8],
        /// The target of a symbolic link.
        link: Option<&'a [u8]>,
    },
    /// Sets the attributes that are present in `stored`.
    Set {
        /// The object.
        object: u64,
        /// The attributes.
        stored: Stored,
        /// The access control list, if it changes.
        acl: Option<Vec<u8>>,
    },
    /// Adds a name to a directory.
    Enter {
        /// The directory.
        directory: u64,
        /// The name.
        name: &'a [u8],
        /// The entry. The number of the object that an earlier step has created is added.
        value: u64,
        /// Whether that applies.
        is_new: bool,
        /// Whether the name may exist.
        replaces: bool,
    },
    /// Removes a name from a directory.
    Leave {
        /// The directory.
        directory: u64,
        /// The name.
        name: &'a [u8],
    },
    /// Adds an object to the list of unlinked ones.
    Unlink {
        /// Which.
        object: u64,
    },
    /// Removes it from the list.
    Forget {
        /// Which.
        object: u64,
    },
    /// Frees an object with all its blocks.
    Free {
        /// Which.
        object: u64,
    },
    /// Writes contents.
    Write {
        /// The object.
        object: u64,
        /// Where.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
        /// The new size of the file's only block.
        block_size: Option<u64>,
    },
    /// Punches a hole; `None`: up to the end. Only for ranges that one transaction can free: see [`Objects::free`].
    Hole {
        /// The object.
        object: u64,
        /// Where.
        offset: u64,
        /// How much.
        length: Option<u64>,
    },
    /// Sets the list of extended attributes.
    Extend {
        /// The object.
        object: u64,
        /// The list.
        list: &'a [u8],
    },
    /// Lets a range share blocks with another file.
    Clone {
        /// The object.
        object: u64,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
        /// Their pointers.
        pointers: &'a [u8],
        /// The new size of the file's only block.
        block_size: Option<u64>,
    },
    /// Adds a record to the intent log.
    Log {
        /// Its type.
        kind: u64,
        /// The record after the common header.
        body: Vec<u8>,
        /// Whether it is about the object that an earlier step has created.
        is_new: bool,
        /// For a write, the generation of the file; 0 if its bytes are in the body already.
        generation: u64,
    },
}

/// The result of a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The created object, or 0.
    pub object: u64,
    /// The transaction group.
    pub group: u64,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct ListedEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The stored entry.
    pub value: u64,
    /// The position after it.
    pub cursor: u64,
}

/// The complete counts of the owners of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes of users and groups.
    pub bytes: bool,
    /// Objects of them.
    pub objects: bool,
    /// Both of projects.
    pub projects: bool,
}

/// An entry of a list of quotas.
#[derive(Clone, Debug)]
pub struct ListedQuota<'a> {
    /// The name of the list in the master node.
    pub list: &'a [u8],
    /// The key.
    pub key: String,
    /// The limit; 0 removes the entry.
    pub limit: u64,
}

/// Consumes a record of a log: its type, and its bytes after the common header. It may apply changes.
pub type Visitor<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), ObjectError>;

/// The objects of an open file system. Attributes and directories can be read during every change. The caller of a
/// change must exclude concurrent changes of the object and reads of its contents.
pub trait Objects: Send + Sync {
    /// The properties at the open.
    fn facts(&self) -> Facts;
    /// The attributes of a file, directory or other object of a file system.
    fn stored(&self, object: u64) -> Result<Stored, ObjectError>;
    /// An attribute of variable length, of `bytes_max` at most.
    fn text(&self, object: u64, which: Text, bytes_max: usize) -> Result<Vec<u8>, ObjectError>;
    /// The entry of a name in a directory.
    fn look_up(&self, directory: u64, name: &[u8]) -> Result<u64, ObjectError>;
    /// Visits entries from `cursor` on until `visit` refuses one. Returns whether the last one was accepted.
    fn list(
        &self,
        directory: u64,
        cursor: u64,
        visit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<bool, ObjectError>;
    /// The number of entries of a directory.
    fn count(&self, directory: u64) -> Result<u64, ObjectError>;
    /// Reads contents. Ranges that were never written are zeros.
    fn read(&self, object: u64, offset: u64, into: &mut [u8]) -> Result<(), ObjectError>;
    /// Like `read`, for this many bytes, which are appended to `onto`. A failed read appends nothing.
    fn read_onto(
        &self,
        object: u64,
        offset: u64,
        length: usize,
        onto: &mut Vec<u8>,
    ) -> Result<(), ObjectError>;
    /// Like `read` without a copy, if that is possible. Changes of the object block until the loan is dropped, by any
    /// thread.
    fn lend(
        &self,
        object: u64,
        offset: u64,
        length: usize,
    ) -> Result<Option<Box<dyn ReadLoan>>, ObjectError> {
        let _ = (object, offset, length);
        Ok(None)
    }
    /// The next data, or hole, from `offset` on.
    fn next(&self, object: u64, offset: u64, hole: bool) -> Result<Option<u64>, ObjectError>;
    /// Bytes used and available, objects used and available.
    fn space(&self) -> Result<[u64; 4], ObjectError>;
    /// Bytes of a block of a large file.
    fn record_size(&self) -> u64;
    /// The current settings.
    fn settings(&self) -> Settings {
        Settings::default()
    }
    /// Applies steps: all or none. `frees`: even if there is no space.
    fn change(&self, steps: &[Step<'_>], frees: bool) -> Result<Outcome, ObjectError>;
    /// Punches a hole; `None`: up to the end. After a crash part of it may be done.
    fn free(&self, object: u64, offset: u64, length: Option<u64>) -> Result<(), ObjectError>;
    /// Commits all earlier changes.
    fn commit(&self) -> Result<(), ObjectError>;
    /// Creates the object for receipts, which must not exist yet. It is on disk on return, so that no log can claim its
    /// number.
    fn make_receipts(&self) -> Result<u64, ObjectError>;
    /// Blocks until all earlier changes are in a synced transaction group.
    fn settle(&self) -> Result<(), ObjectError>;
    /// The counts that are complete.
    fn counted(&self) -> Counted {
        Counted::default()
    }
    /// Sets quotas, all or none. They are on disk after the next [`Self::settle`]. The caller excludes concurrent calls.
    fn set_quotas(&self, quotas: &[ListedQuota<'_>]) -> Result<(), ObjectError>;
    /// Visits the records that must be replayed.
    fn walk_log(&self, visit: Visitor<'_>) -> Result<(), ObjectError>;
    /// The next object after one, of any type: objects other than files, directories and similar ones have no
    /// attributes.
    fn next_object(&self, after: u64) -> Result<Option<u64>, ObjectError>;
    /// Replays the log. The visitor applies one change with a [`Step::Log`] for each record.
    fn replay_log(&self, visit: Visitor<'_>) -> Result<(), ObjectError>;
}
