//! What the server asks of a file system. A file system checks rights itself, because it knows its
//! ACLs, and because a check apart from the change could be overtaken.

/// A file, directory or other object. The generation tells an object from a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// Its number in the file system.
    pub object: u64,
    /// Changes when the number is used again.
    pub generation: u64,
}

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanoseconds: u32,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
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
    /// Different after every change.
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

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// What it names.
    pub node: Node,
    /// Where to go on after this entry; neither 0, 1 nor 2. It stays valid while entries come and go.
    pub cookie: u64,
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

/// What somebody may do with a node, in the words of `access(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Read it.
    pub read: bool,
    /// Change it.
    pub write: bool,
    /// Run it, or look names up in it.
    pub execute: bool,
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

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The node is no more.
    #[error("no such object any more")]
    Stale,
    /// There is no such name.
    #[error("no such name")]
    NotFound,
    /// The name is taken.
    #[error("the name is taken")]
    Exists,
    /// It is no directory.
    #[error("no directory")]
    NotDirectory,
    /// It is a directory.
    #[error("a directory")]
    IsDirectory,
    /// A directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The permissions do not allow it.
    #[error("access denied")]
    Access,
    /// Only the owner or root may do it.
    #[error("not permitted")]
    NotPermitted,
    /// It makes no sense for this object.
    #[error("invalid")]
    Invalid,
    /// The name is too long.
    #[error("the name is too long")]
    NameTooLong,
    /// The file would be too large.
    #[error("the file is too large")]
    TooLarge,
    /// There is no space.
    #[error("no space")]
    NoSpace,
    /// A quota is used up.
    #[error("the quota is used up")]
    Quota,
    /// Nothing can be changed.
    #[error("read-only")]
    ReadOnly,
    /// There are too many names for the object.
    #[error("too many links")]
    TooManyLinks,
    /// The offset is behind the end.
    #[error("nothing there")]
    BeyondEnd,
    /// The file system cannot do it.
    #[error("not supported")]
    Unsupported,
    /// There is no such extended attribute.
    #[error("no such extended attribute")]
    NoExtended,
    /// The disks failed.
    #[error("I/O error")]
    Io,
}

/// What operations answer.
pub type Done<T = ()> = Result<T, FileError>;

/// A file system. All changes of names and attributes are durable when the call returns; contents are
/// after [`commit`](Self::commit).
pub trait FileSystem: Send + Sync {
    /// Its identity, the same on every head and after every import.
    fn identity(&self) -> u64;
    /// Its root directory.
    fn root(&self) -> Node;
    /// Space and files.
    fn statistics(&self) -> Done<Statistics>;
    /// What is known of `node`.
    fn attributes(&self, node: Node) -> Done<Attributes>;
    /// Changes attributes.
    fn set_attributes(&self, who: &Identity, node: Node, changes: &SetAttributes) -> Done;
    /// What `who` may do with `node`.
    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions>;
    /// The node that `name` has in `directory`.
    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Node>;
    /// The directory that `directory` is in; the root's is itself.
    fn parent(&self, who: &Identity, directory: Node) -> Done<Node>;
    /// Makes an object with a name that is not taken.
    fn make(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        attributes: &SetAttributes,
    ) -> Done<Node>;
    /// Takes a name away.
    fn remove(&self, who: &Identity, directory: Node, name: &[u8]) -> Done;
    /// Gives an object another name; what had it before goes.
    fn rename(&self, who: &Identity, from: (Node, &[u8]), to: (Node, &[u8])) -> Done;
    /// Gives an object one more name.
    fn link(&self, who: &Identity, node: Node, directory: Node, name: &[u8]) -> Done;
    /// The text of a symbolic link.
    fn read_link(&self, node: Node) -> Done<Vec<u8>>;
    /// At most `entries_max` entries behind `cookie`, without `.` and `..`; 0 begins. Whether they are the last.
    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        entries_max: usize,
    ) -> Done<(Vec<Entry>, bool)>;
    /// Bytes of a file, and whether it ends with them. Rights were checked when it was opened.
    fn read(&self, node: Node, offset: u64, count: usize) -> Done<(Vec<u8>, bool)>;
    /// Writes all of `bytes`.
    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done;
    /// Makes the contents durable.
    fn commit(&self, node: Node) -> Done;
    /// The first offset from `offset` on with such content.
    fn seek(&self, node: Node, offset: u64, content: Content) -> Done<u64>;
    /// Makes sure that there is space for a range.
    fn allocate(&self, node: Node, offset: u64, length: u64) -> Done;
    /// Makes a range a hole.
    fn deallocate(&self, node: Node, offset: u64, length: u64) -> Done;
    /// Makes a range of `to` share the contents of a range of `from`.
    fn clone_range(&self, from: (Node, u64), to: (Node, u64), length: u64) -> Done;
    /// The value of an extended attribute, whose name is without `user.`.
    fn extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done<Vec<u8>>;
    /// Sets an extended attribute.
    fn set_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetExtended,
    ) -> Done;
    /// Takes an extended attribute away.
    fn remove_extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done;
    /// The names of the extended attributes, in an order that stays.
    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>>;
    /// Keeps an object that loses its last name, until as many [`release`](Self::release).
    fn hold(&self, node: Node) -> Done;
    /// Ends one [`hold`](Self::hold).
    fn release(&self, node: Node);
}
