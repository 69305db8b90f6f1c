//! The interface of a file system to the protocols above it: objects by number and generation, and calls that each
//! perform one operation.
//!
//! **Objects.** A [`Node`] names an object for as long as it exists. The number of a removed object may be used again,
//! with another generation; calls with the old node return [`FileError::Stale`]. An object that lost its last name
//! stays while it is [held](FileSystem::hold).
//!
//! **Durability.** A change is visible to later calls at once. It is durable after the next completed
//! [`FileSystem::commit`]. A protocol that must not reply before that calls it before it replies; all changes completed
//! before share one commit.
//!
//! **Atomicity.** Each call is atomic with respect to concurrent ones. After a crash, a change is present completely or
//! not at all, and a later change of names or attributes never without an earlier one. A write longer than
//! [`Limits::atomic_write_bytes`] may be present in part.
//!
//! **Retries.** A client without a reply retries its request, also after the crash of another head. A change of names
//! or attributes can carry a [`Receipt`], which becomes durable together with it, so that [`FileSystem::receipt`]
//! reports whether the request was executed.
//!
//! **Rights** are checked by the file system, because it has the ACLs and because a separate check could race with the
//! change. [`rights`] implements the decisions for file systems without ACLs. `read` and `write` check no rights: the
//! caller does so when a file is opened.
//!
//! **Names** are bytes: not empty, `.` or `..`, and without `/` and NUL.
//!
//! [`memory`] is one in memory; [`conformance`] has the tests that every implementation must pass.

#![forbid(unsafe_code)]

pub mod acl;
pub mod check;
pub mod conformance;
mod error;
mod handle;
pub mod memory;
pub mod owners;
mod receipt;
pub mod rights;
mod snapshots;

use std::time::{SystemTime, UNIX_EPOCH};

use block_device::ReadLoan;

pub use error::FileError;
pub use handle::{FileSystemId, Handle, Node};
pub use owners::{Measure, Owner, OwnerKind, OwnerSpace, Owners, Quota};
pub use receipt::{Place, Receipt};
pub use snapshots::{Snapshot, Snapshots, Visibility};

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A socket.
    Socket,
    /// A named pipe.
    Pipe,
}

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Time {
    /// The clock.
    pub fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            seconds: since.as_secs().try_into().unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its type.
    pub kind: Kind,
    /// Permissions, with the bits for set-uid, set-gid and sticky.
    pub mode: u32,
    /// Number of its names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes allocated on disk.
    pub space: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Differs after every change, also after a restart.
    pub change: u64,
    /// Last read.
    pub accessed: Time,
    /// Last change of the contents.
    pub modified: Time,
    /// Last change of contents or attributes.
    pub changed: Time,
    /// Creation time.
    pub created: Time,
}

impl Attributes {
    /// The attributes of a new, empty object with one name. Its owner and group are numbers.
    pub const fn of_new(kind: Kind, mode: u32, (uid, gid): (u32, u32), time: Time) -> Self {
        Self {
            kind,
            mode,
            links: 1,
            uid,
            gid,
            size: 0,
            space: 0,
            device: (0, 0),
            change: 1,
            accessed: time,
            modified: time,
            changed: time,
            created: time,
        }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's.
    Now,
    /// The client's.
    To(Time),
}

/// The attributes to change; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes: a smaller size truncates, a larger one adds a hole.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Last change of the contents.
    pub modified: Option<SetTime>,
}

/// The type of object to create.
#[derive(Clone, Copy, Debug)]
pub enum Make<'a> {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this text.
    Link(&'a [u8]),
    /// A device with major and minor number.
    BlockDevice(u32, u32),
    /// A device with major and minor number.
    CharacterDevice(u32, u32),
    /// A socket.
    Socket,
    /// A named pipe.
    Pipe,
}

impl Make<'_> {
    /// Whether the kernel supports such an object: its device numbers have 12 and 20 bits.
    pub const fn is_possible(&self) -> bool {
        match self {
            Self::BlockDevice(major, minor) | Self::CharacterDevice(major, minor) => {
                *major < 1 << 12 && *minor < 1 << 20
            }
            _ => true,
        }
    }

    /// Whether `who` may create such an object at all. Devices are for root, as in Linux (`CAP_MKNOD`): a user other
    /// than root could otherwise reach the devices of every host that mounts the file system.
    pub const fn is_allowed_to(&self, who: &Identity) -> bool {
        !matches!(self, Self::BlockDevice(..) | Self::CharacterDevice(..)) || who.uid == 0
    }
}

/// A node and its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The node.
    pub node: Node,
    /// Its attributes.
    pub attributes: Attributes,
}

/// An object before and after a change, with no other change in between.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// Before.
    pub before: Attributes,
    /// After.
    pub after: Attributes,
}

/// A new object.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// It.
    pub object: Object,
    /// Its directory.
    pub directory: Changed,
}

/// A name that was moved.
#[derive(Clone, Copy, Debug)]
pub struct Renamed {
    /// The directory that contained it.
    pub from: Changed,
    /// The directory that contains it now. The same as `from` for a rename within it.
    pub to: Changed,
}

/// The expected state of an object; if it differs, the call returns [`FileError::NotSame`] and changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// [`Attributes::changed`] (RFC 1813, 3.3.2).
    pub changed: Option<Time>,
}

/// The types of objects that a call may remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removable {
    /// Any object; a directory only if it is empty.
    Any,
    /// Any object except a directory: that is [`FileError::IsDirectory`].
    NoDirectory,
    /// An empty directory: other objects return [`FileError::NotDirectory`].
    Directory,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The number of the object that it names. [`FileSystem::object`] returns the rest.
    pub object: u64,
    /// The position after this entry: from 3 to [`COOKIE_LAST`]. It stays valid while entries are created and removed,
    /// and after a restart: a name that exists throughout the scan is returned exactly once.
    pub cookie: u64,
}

/// The highest cookie of an entry. Higher ones are free for protocols, like 1 and 2; 0 is the start. Clients store
/// cookies in signed numbers.
pub const COOKIE_LAST: u64 = (1 << 62) - 1;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Bytes read.
    pub length: usize,
    /// Whether the read reached the end of the file.
    pub is_end: bool,
}

/// The limits of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a name.
    pub name_bytes_max: u32,
    /// Bytes of a file.
    pub file_bytes_max: u64,
    /// Names of one object.
    pub links_max: u32,
    /// Maximum bytes of a write that is atomic with respect to a crash.
    pub atomic_write_bytes: u32,
    /// Whether it is read-only.
    pub is_read_only: bool,
    /// Whether names are case-insensitive.
    pub ignores_case: bool,
    /// Whether access control lists are supported.
    pub has_acls: bool,
}

/// Whether a number can identify a user or group: the kernel treats the last one as invalid, and objects that belong to
/// it cannot be used there.
pub const fn is_owner(number: u32) -> bool {
    number != u32::MAX
}

/// The credentials of a requester.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Whether it is in a group.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// The rights of a requester on a node. A mode has three rights; an ACL has finer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Read it.
    pub read: bool,
    /// Change it; on a directory: add entries other than directories.
    pub write: bool,
    /// Append to it, which the right to change it includes; on a directory: add subdirectories.
    pub append: bool,
    /// Execute it, or look names up in it.
    pub execute: bool,
    /// On a directory: remove entries, unless the ACL of the entry denies it.
    pub remove: bool,
    /// Read and list its extended attributes.
    pub read_extended: bool,
    /// Set and remove its extended attributes.
    pub write_extended: bool,
}

impl Permissions {
    /// From the bits of a mode.
    pub const fn of_mode(read: bool, write: bool, execute: bool) -> Self {
        Self {
            read,
            write,
            append: write,
            execute,
            remove: write,
            read_extended: read,
            write_extended: write,
        }
    }

    /// The rights that remain on a read-only file system.
    pub const fn fixed(self) -> Self {
        Self {
            write: false,
            append: false,
            remove: false,
            write_extended: false,
            ..self
        }
    }
}

/// A file system's space and files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Files in all.
    pub files_total: u64,
    /// Number of files that can still be created.
    pub files_free: u64,
}

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetExtended {
    /// Create or replace it.
    Either,
    /// Only create it.
    Create,
    /// Only replace it.
    Replace,
}

/// Data or hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes that were written.
    Data,
    /// Zeros without allocated space. There is an implicit one after the end of every file.
    Hole,
}

/// The result of an operation.
pub type Done<T = ()> = Result<T, FileError>;

/// An open file system. Calls may block on the disks; threads may call concurrently.
pub trait FileSystem: Send + Sync {
    /// Its identity, the same on every head and after every import.
    fn id(&self) -> FileSystemId;
    /// Whether it is open already. A file system that is not is opened by the first call that needs it, which blocks
    /// for that; [`FileError::NotReady`] if it cannot be opened now.
    fn is_open(&self) -> bool {
        true
    }
    /// Its limits.
    fn limits(&self) -> Limits;
    /// Its root directory.
    fn root(&self) -> Node;
    /// Space and files.
    fn statistics(&self) -> Done<Statistics>;
    /// The attributes of `node`.
    fn attributes(&self, node: Node) -> Done<Attributes>;
    /// The object that the number in an [`Entry`] of `directory` refers to now. [`FileError::Stale`] if there is none.
    fn object(&self, directory: Node, object: u64) -> Done<Object>;
    /// Changes attributes: all of them or none.
    fn set_attributes(
        &self,
        who: &Identity,
        node: Node,
        changes: &SetAttributes,
        guard: &Guard,
        receipt: Option<&Receipt>,
    ) -> Done<Changed>;
    /// The rights of `who` on `node`.
    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions>;
    /// Finds `name` in `directory`.
    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Object>;
    /// The parent of `directory`; the root's is itself.
    fn parent(&self, who: &Identity, directory: Node) -> Done<Node>;
    /// Creates an object under an unused name. It belongs to `who`, in a directory with set-group-id to the directory's
    /// group. `attributes` are its initial ones, including the times: an exclusive create stores its verifier there
    /// (RFC 8881, 18.16.3). The default mode is 0644, for a directory 0755, for a link 0777.
    fn make(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        attributes: &SetAttributes,
        receipt: Option<&Receipt>,
    ) -> Done<Made>;
    /// Like [`make`](Self::make), with an access control list instead of the inherited one, and with the permissions
    /// that follow from it: after a crash the object either has the list or does not exist. [`FileError::Invalid`] as
    /// for [`set_acl`](Self::set_acl).
    fn make_with_acl(
        &self,
        who: &Identity,
        directory: Node,
        (name, what): (&[u8], Make<'_>),
        attributes: &SetAttributes,
        list: &[acl::Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        let made = self.make(who, directory, name, what, attributes, receipt)?;
        let node = made.object.node;
        let attributes = self.set_acl(who, node, list, None)?.after;
        let object = Object { node, attributes };
        Ok(Made { object, ..made })
    }
    /// Removes a name.
    fn remove(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Removable,
        receipt: Option<&Receipt>,
    ) -> Done<Changed>;
    /// Renames an object and replaces an existing target. A directory replaces only an empty directory, and other
    /// objects replace no directory: [`FileError::Exists`], or [`FileError::NotEmpty`]. If both names refer to one
    /// object, both stay. [`FileError::Invalid`] if a directory would be moved into itself.
    fn rename(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Renamed>;
    /// Adds a name to an object that is not a directory. Returns the change of the directory.
    fn link(
        &self,
        who: &Identity,
        node: Node,
        directory: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed>;
    /// The last receipt of a slot, from this start or an earlier one, if it is still stored.
    fn receipt(&self, place: &Place) -> Option<Receipt>;
    /// The text of a symbolic link; [`FileError::WrongType`] if it is not one.
    fn read_link(&self, node: Node) -> Done<Vec<u8>>;
    /// Visits the entries after `cookie`, without `.` and `..`, until the end or until `visit` refuses one. Returns
    /// whether the last entry was accepted. `visit` must not call the file system.
    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Done<bool>;
    /// Reads bytes of a file. Returns fewer bytes than `into` holds only at the end of the file.
    fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Done<Read>;
    /// Like [`read`](Self::read), for at most `length_max` bytes, which are appended to `onto`: the memory need not be
    /// initialised. A failed read appends nothing.
    fn read_onto(
        &self,
        node: Node,
        offset: u64,
        length_max: usize,
        onto: &mut Vec<u8>,
    ) -> Done<Read> {
        let start = onto.len();
        onto.resize(start + length_max, 0);
        let read = self.read(node, offset, &mut onto[start..]);
        onto.truncate(start + read.as_ref().map_or(0, |read| read.length));
        read
    }
    /// Like [`read_onto`](Self::read_onto), but a long read may be lent instead of appended: then `onto` is unchanged.
    /// Changes of this and other files, by any thread, block until the loan is dropped. The holder must not call the
    /// file system before that, nor block on another thread.
    fn read_or_lend(
        &self,
        node: Node,
        offset: u64,
        length_max: usize,
        onto: &mut Vec<u8>,
    ) -> Done<(Read, Option<Box<dyn ReadLoan>>)> {
        Ok((self.read_onto(node, offset, length_max, onto)?, None))
    }
    /// Writes all of `bytes`, or none.
    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done<Changed>;
    /// Like a write, but only at the end of the file, for requesters with append-only rights: any other offset returns
    /// [`FileError::Access`]. `repeats`: the bytes may begin before the end if the file already has the same bytes
    /// there, as from a client that writes whole pages. That comparison requires the right to read. A file system
    /// without ACLs grants append-only rights to no user.
    fn append(&self, node: Node, offset: u64, bytes: &[u8], repeats: bool) -> Done<Changed> {
        let _ = (node, offset, bytes, repeats);
        Err(FileError::Unsupported)
    }
    /// Commits all completed changes of names and attributes, and the contents of `node`, or of all files if it
    /// is `None`.
    fn commit(&self, node: Option<Node>) -> Done;
    /// The first offset from `offset` on with such contents; [`FileError::BeyondEnd`] if there is none. A file system
    /// that does not track its holes reports none.
    fn seek(&self, node: Node, offset: u64, content: Content) -> Done<u64> {
        let size = self.attributes(node)?.size;
        match content {
            _ if offset >= size => Err(FileError::BeyondEnd),
            Content::Data => Ok(offset),
            Content::Hole => Ok(size),
        }
    }
    /// Ensures that there is space for a range.
    fn allocate(&self, node: Node, offset: u64, length: u64) -> Done {
        let _ = (node, offset, length);
        Err(FileError::Unsupported)
    }
    /// Punches a hole. The size is unchanged.
    fn deallocate(&self, node: Node, offset: u64, length: u64) -> Done {
        let _ = (node, offset, length);
        Err(FileError::Unsupported)
    }
    /// Clones the blocks of a range of `from` into a range of `to`.
    fn clone_range(&self, from: (Node, u64), to: (Node, u64), length: u64) -> Done {
        let _ = (from, to, length);
        Err(FileError::Unsupported)
    }
    /// The access control list of an object.
    fn acl(&self, who: &Identity, node: Node) -> Done<Vec<acl::Entry>> {
        let _ = who;
        let known = self.attributes(node)?;
        Ok(acl::of_mode(known.mode, known.kind).list())
    }
    /// Sets the access control list of an object, and with it the permissions that follow from it.
    /// [`FileError::Invalid`]: it has no entry, too many, or inconsistent ones.
    fn set_acl(
        &self,
        who: &Identity,
        node: Node,
        list: &[acl::Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let _ = (who, node, list, receipt);
        Err(FileError::Unsupported)
    }
    /// The value of an extended attribute; `name` excludes the prefix `user.`.
    fn extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done<Vec<u8>> {
        let _ = (who, node, name);
        Err(FileError::Unsupported)
    }
    /// Sets an extended attribute.
    fn set_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetExtended,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let _ = (who, node, name, value, how, receipt);
        Err(FileError::Unsupported)
    }
    /// Removes an extended attribute.
    fn remove_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let _ = (who, node, name, receipt);
        Err(FileError::Unsupported)
    }
    /// The names of the extended attributes, in a stable order.
    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        let _ = (who, node);
        Err(FileError::Unsupported)
    }
    /// The users, groups or projects that use space or have a quota, as of the last transaction group. Stops with
    /// [`FileError::Gone`] when `may_continue` returns false. [`FileError::Unsupported`] where they are not counted,
    /// [`FileError::TooLarge`] if there are too many.
    fn owners(&self, kind: OwnerKind, may_continue: &dyn Fn() -> bool) -> Done<Owners> {
        let _ = (kind, may_continue);
        Err(FileError::Unsupported)
    }
    /// The space of one owner, and its quotas.
    fn owner_space(&self, owner: Owner) -> Done<OwnerSpace> {
        let _ = owner;
        Err(FileError::Unsupported)
    }
    /// Sets quotas, all or none, and returns when they are on disk. Later changes are checked against them.
    fn set_quotas(&self, quotas: &[Quota]) -> Done {
        let _ = quotas;
        Err(FileError::Unsupported)
    }
    /// A path to `node` from the root, for display; it uses one of its names. `None` if none is found among
    /// `names_left` names, which is decremented.
    fn path(&self, node: Node, names_left: &mut u64) -> Option<String> {
        let _ = (node, names_left);
        None
    }
    /// Retains an object that loses its last name until as many calls of [`release`](Self::release). Closing the file
    /// system drops the holds; objects without a name at that time stay for a new hold after the next open in the same
    /// process.
    fn hold(&self, node: Node) -> Done;
    /// Releases one [`hold`](Self::hold).
    fn release(&self, node: Node);
}
