//! What every file system is to the protocols above it: objects by number and generation, and calls that do one thing each.
//!
//! **Objects.** A [`Node`] names an object for as long as it exists. The number of a removed object may be used again, with another
//! generation; calls with the old node answer [`FileError::Stale`]. An object that lost its last name stays while it is
//! [held](FileSystem::hold).
//!
//! **Durability.** A change is visible to later calls at once. It is durable after the next completed [`FileSystem::commit`]. A protocol
//! that must not answer before that commits before it answers; all that were completed before share one commit.
//!
//! **Atomicity.** Each call is atomic against each other. After a crash all of a change is seen or nothing, and of changes of names and attributes a later
//! one never without an earlier one. A write longer than [`Limits::atomic_write_bytes`] may be seen in part.
//!
//! **Repetitions.** A client that has no answer asks again, after a crash of another head. A change of names or attributes may be given a [`Receipt`], which is
//! durable together with it, so that [`FileSystem::receipt`] tells that the request was executed.
//!
//! **Rights** are checked by the file system, because it knows its ACLs, and because a check apart from the change could be overtaken.
//! [`rights`] has the decisions for those that have none. `read` and `write` check nothing: that is done when a file is opened.
//!
//! **Names** are bytes, neither empty, `.` nor `..`, without `/` and NUL.
//!
//! [`memory`] is one in memory; [`conformance`] has the tests that every one must pass.

#![forbid(unsafe_code)]

pub mod acl;
pub mod check;
pub mod conformance;
mod error;
mod handle;
pub mod memory;
mod receipt;
pub mod rights;
mod snapshots;

use std::time::{SystemTime, UNIX_EPOCH};

use block_device::ReadLoan;

pub use error::FileError;
pub use handle::{FileSystemId, Handle, Node};
pub use receipt::{Place, Receipt};
pub use snapshots::{Snapshot, Snapshots, Visibility};

/// What a node is.
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

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Permissions, with the bits for set-uid, set-gid and sticky.
    pub mode: u32,
    /// Names that it has.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes that it takes on disk.
    pub space: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Different after every change, also after a restart.
    pub change: u64,
    /// Last read.
    pub accessed: Time,
    /// Last change of the contents.
    pub modified: Time,
    /// Last change of contents or attributes.
    pub changed: Time,
    /// When it was made.
    pub created: Time,
}

impl Attributes {
    /// Of an object that was just made, has nothing, and one name. Its owner and group are numbers.
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

/// What is to be changed of a node; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes: shorter is cut, longer has a hole.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Last change of the contents.
    pub modified: Option<SetTime>,
}

/// What is to be made.
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
    /// Whether a kernel can have such an object: its numbers of devices have 12 and 20 bits.
    pub const fn is_possible(&self) -> bool {
        match self {
            Self::BlockDevice(major, minor) | Self::CharacterDevice(major, minor) => {
                *major < 1 << 12 && *minor < 1 << 20
            }
            _ => true,
        }
    }

    /// Whether `who` may make such an object at all. Devices are for root, as in Linux (`CAP_MKNOD`): who is not root at the server
    /// would otherwise have the devices of every machine that mounts the file system.
    pub const fn is_allowed_to(&self, who: &Identity) -> bool {
        !matches!(self, Self::BlockDevice(..) | Self::CharacterDevice(..)) || who.uid == 0
    }
}

/// A node and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The node.
    pub node: Node,
    /// What is known of it.
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
    /// The directory that it was in.
    pub from: Changed,
    /// The directory that it is in. The same as `from` if both are one.
    pub to: Changed,
}

/// What an object must be like still; else the call answers [`FileError::NotSame`] and changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// [`Attributes::changed`] (RFC 1813, 3.3.2).
    pub changed: Option<Time>,
}

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removable {
    /// Anything, a directory only if it is empty.
    Any,
    /// No directory: that is [`FileError::IsDirectory`].
    NoDirectory,
    /// An empty directory: anything else is [`FileError::NotDirectory`].
    Directory,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The number of what it names. [`FileSystem::object`] tells the rest.
    pub object: u64,
    /// Where to go on after this entry: from 3 to [`COOKIE_LAST`]. It stays valid while entries come and go, and after a restart: a name that is there all the
    /// time is told once.
    pub cookie: u64,
}

/// The highest cookie of an entry. Those above are free for protocols, like 1 and 2; 0 begins. Clients keep cookies in signed numbers.
pub const COOKIE_LAST: u64 = (1 << 62) - 1;

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Bytes read.
    pub length: usize,
    /// Whether the file ends with them, or before.
    pub is_end: bool,
}

/// What a file system can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a name.
    pub name_bytes_max: u32,
    /// Bytes of a file.
    pub file_bytes_max: u64,
    /// Names of one object.
    pub links_max: u32,
    /// Bytes of a write that is seen whole or not at all after a crash.
    pub atomic_write_bytes: u32,
    /// Whether every change is refused.
    pub is_read_only: bool,
    /// Whether names that differ only in case are one.
    pub ignores_case: bool,
    /// Whether access control lists can be set.
    pub has_acls: bool,
}

/// Whether a number can be that of a user or group: to a kernel the last one is none, and what belongs to it cannot be used there.
pub const fn is_owner(number: u32) -> bool {
    number != u32::MAX
}

/// Who wants something.
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

/// What somebody may do with a node. By a mode that is three things; a list tells more apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Read it.
    pub read: bool,
    /// Change it; of a directory: enter what is none.
    pub write: bool,
    /// Add to its end, as whoever may change it also may; of a directory: enter directories.
    pub append: bool,
    /// Run it, or look names up in it.
    pub execute: bool,
    /// Of a directory: take names away, as far as what they name does not say otherwise.
    pub remove: bool,
    /// Read and list its extended attributes.
    pub read_extended: bool,
    /// Set and take away its extended attributes.
    pub write_extended: bool,
}

impl Permissions {
    /// Those of the bits of a mode.
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

    /// What remains where nothing can be changed.
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
    /// Files that can still be made.
    pub files_free: u64,
}

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetExtended {
    /// Whether it is there or not.
    Either,
    /// Only if it is not there.
    Create,
    /// Only if it is there.
    Replace,
}

/// Data or hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes that were written.
    Data,
    /// Zeros that take no space. There is one behind the end of every file.
    Hole,
}

/// What operations answer.
pub type Done<T = ()> = Result<T, FileError>;

/// A file system that is open. Calls may wait for the disks; several threads may call at a time.
pub trait FileSystem: Send + Sync {
    /// Its identity, the same on every head and after every import.
    fn id(&self) -> FileSystemId;
    /// Whether it is open already. One that is not is opened by the first call that needs it, which waits for that; [`FileError::NotReady`] if it
    /// cannot be opened now.
    fn is_open(&self) -> bool {
        true
    }
    /// What it can hold.
    fn limits(&self) -> Limits;
    /// Its root directory.
    fn root(&self) -> Node;
    /// Space and files.
    fn statistics(&self) -> Done<Statistics>;
    /// What is known of `node`.
    fn attributes(&self, node: Node) -> Done<Attributes>;
    /// The object that the number in an [`Entry`] of `directory` has now. [`FileError::Stale`] if there is none.
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
    /// What `who` may do with `node`.
    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions>;
    /// What `name` means in `directory`.
    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Object>;
    /// The directory that `directory` is in; the root's is itself.
    fn parent(&self, who: &Identity, directory: Node) -> Done<Node>;
    /// Makes an object with a name that is not taken. It belongs to `who`, in a directory with set-group-id to the directory's
    /// group. `attributes` are its first ones, the times too: an exclusive create keeps its verifier there (RFC 8881, 18.16.3). The mode is
    /// 0644 if none is given, of a directory 0755, of a link 0777.
    fn make(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        attributes: &SetAttributes,
        receipt: Option<&Receipt>,
    ) -> Done<Made>;
    /// The same, with an access control list in the place of what its directory passes on, and with the permissions that follow from it: after a
    /// crash the object has the list, or is not there. [`FileError::Invalid`] as for [`set_acl`](Self::set_acl).
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
    /// Takes a name away.
    fn remove(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Removable,
        receipt: Option<&Receipt>,
    ) -> Done<Changed>;
    /// Gives an object another name; what had it before goes. A directory replaces an empty directory only, anything else no directory:
    /// [`FileError::Exists`], or [`FileError::NotEmpty`]. Two names of one object stay both. [`FileError::Invalid`] if a directory would be moved into itself.
    fn rename(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Renamed>;
    /// Gives an object that is no directory one more name. The change of the directory.
    fn link(
        &self,
        who: &Identity,
        node: Node,
        directory: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed>;
    /// The last receipt of a place, of this start or an earlier one, if it is kept still.
    fn receipt(&self, place: &Place) -> Option<Receipt>;
    /// The text of a symbolic link; [`FileError::WrongType`] if it is none.
    fn read_link(&self, node: Node) -> Done<Vec<u8>>;
    /// Visits the entries behind `cookie`, without `.` and `..`, until there are no more or `visit` answers that it did not take one. Whether the last one
    /// was taken. `visit` must not call the file system.
    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Done<bool>;
    /// Bytes of a file. Fewer than `into` takes only at its end.
    fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Done<Read>;
    /// The same, of at most `length_max` bytes, which are appended to `onto`: their place need not hold anything before. Nothing is appended by a read
    /// that fails.
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
    /// The same, but what is long may be lent instead of appended: then `onto` stays as it is. Changes of the file, and of others, wait until the loan is
    /// dropped, by whichever thread. Whoever has one must not call the file system before that, nor wait for anybody.
    fn read_or_lend(
        &self,
        node: Node,
        offset: u64,
        length_max: usize,
        onto: &mut Vec<u8>,
    ) -> Done<(Read, Option<Box<dyn ReadLoan>>)> {
        Ok((self.read_onto(node, offset, length_max, onto)?, None))
    }
    /// Writes all of `bytes`, or nothing.
    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done<Changed>;
    /// The same, but only behind the end of the file, for whom may add to it alone: else [`FileError::Access`]. `repeats`: bytes before the end
    /// may be given if they are there already, as by a client that writes whole pages. Only who may read them may find that out. A file
    /// system without lists allows nobody to add alone.
    fn append(&self, node: Node, offset: u64, bytes: &[u8], repeats: bool) -> Done<Changed> {
        let _ = (node, offset, bytes, repeats);
        Err(FileError::Unsupported)
    }
    /// Makes durable all changes of names and attributes that were completed before, and the contents of `node`, of all files if
    /// it is `None`.
    fn commit(&self, node: Option<Node>) -> Done;
    /// The first offset from `offset` on with such content; [`FileError::BeyondEnd`] if there is none. A file system that does not know
    /// its holes has none.
    fn seek(&self, node: Node, offset: u64, content: Content) -> Done<u64> {
        let size = self.attributes(node)?.size;
        match content {
            _ if offset >= size => Err(FileError::BeyondEnd),
            Content::Data => Ok(offset),
            Content::Hole => Ok(size),
        }
    }
    /// Makes sure that there is space for a range.
    fn allocate(&self, node: Node, offset: u64, length: u64) -> Done {
        let _ = (node, offset, length);
        Err(FileError::Unsupported)
    }
    /// Makes a range a hole. The size stays.
    fn deallocate(&self, node: Node, offset: u64, length: u64) -> Done {
        let _ = (node, offset, length);
        Err(FileError::Unsupported)
    }
    /// Makes a range of `to` share the contents of a range of `from`.
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
    /// Sets the access control list of an object, and with it the permissions that follow from it. [`FileError::Invalid`]: it has no entry, too
    /// many, or some that make no sense.
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
    /// The value of an extended attribute, whose name is without `user.`.
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
    /// Takes an extended attribute away.
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
    /// The names of the extended attributes, in an order that stays.
    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        let _ = (who, node);
        Err(FileError::Unsupported)
    }
    /// A path to `node` from the root, for people: of one of its names. Nothing if none is found by looking at `names_left` names, which
    /// are counted down.
    fn path(&self, node: Node, names_left: &mut u64) -> Option<String> {
        let _ = (node, names_left);
        None
    }
    /// Keeps an object that loses its last name, until as many [`release`](Self::release). A file system that is closed forgets that, and
    /// keeps what has no name by then for who holds it again after the next open in the same process.
    fn hold(&self, node: Node) -> Done;
    /// Ends one [`hold`](Self::hold).
    fn release(&self, node: Node);
}
