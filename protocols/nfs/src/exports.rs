//! The shared file systems as one tree: the names of datasets are paths to their file systems. The
//! directories between them are a file system without files. A client sees only the file systems
//! that it may use, and the paths to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use file_system::rights::check_name;
use file_system::{
    Attributes, COOKIE_LAST, Changed, Done, Entry, FileError, FileSystem, FileSystemId, Guard,
    Handle, Identity, Kind, Limits, Made, Make, Node, Object, Permissions, Read, Receipt,
    Removable, Renamed, SetAttributes, Statistics, Time,
};

use crate::activity::{Activity, ActivityTable, ExportUsage, Transferred};
use crate::handles::{BadHandle, HANDLE_BYTES, HandleKey};
use crate::rpc::Credential;
use crate::sharenfs::{Access, Security, Share, Transport};
use crate::snapshots;

/// Path components between the root and a file system.
const DEPTH_MAX: usize = 64;
/// Bytes of a name in the tree.
const NAME_BYTES_MAX: usize = 255;
/// The owner `nobody` of the tree's own directories.
const NOBODY: u32 = 65_534;
/// The root of the tree's own directories. Node numbers are FNV-1a hashes of the paths, starting
/// with this value.
const ROOT: Node = Node {
    object: 0xcbf2_9ce4_8422_2325,
    generation: 0,
};

/// The source of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The client's address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// How its connection is secured.
    pub transport: Transport,
    /// The security flavor of the call.
    pub security: Security,
}

impl Source {
    /// The local host.
    pub const LOCAL: Self = Self {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 1,
        transport: Transport::Plain,
        security: Security::System,
    };

    /// The IPv4 address or IPv6 network that limits count for.
    pub fn network(&self) -> IpAddr {
        serving::network(self.address)
    }
}

/// A file system to share.
#[derive(Clone)]
pub struct Shared {
    /// Its path in the tree: the name of its dataset, without a leading `/`. Empty is the root.
    pub name: String,
    /// Clients that may use it, and the identity that they get.
    pub share: Share,
    /// The file system.
    pub files: Arc<dyn FileSystem>,
}

/// Why a set of file systems cannot be shared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Two file systems have one identity.
    #[error(
        "the file systems {one:?} and {other:?} have the same identity: share only one of them"
    )]
    SameIdentity {
        /// The first name.
        one: String,
        /// The second name.
        other: String,
    },
    /// The name is invalid.
    #[error("{name:?} cannot be the name of a share")]
    BadName {
        /// The name.
        name: String,
    },
}

/// A shared file system.
pub struct Export {
    /// Its name in the tree.
    pub name: Arc<str>,
    /// The file system.
    pub files: Arc<dyn FileSystem>,
    /// Its identity.
    pub id: FileSystemId,
    /// Counters of its calls.
    pub activity: Arc<Activity>,
    /// Access rules; `None` for the tree's own directories, which are readable by every client.
    share: Option<Share>,
    /// The directory of the tree that it covers.
    junction: u64,
}

impl Export {
    /// Describes a call in this file system that transferred data.
    pub(crate) fn used(&self, moved: Transferred) -> ExportUsage {
        ExportUsage::of(&self.name, &self.activity, moved)
    }

    /// Returns its root and opens the file system if necessary. On failure the root is an invalid
    /// node; [`Self::check_open`] returns the error.
    pub fn root(&self) -> Node {
        self.files.root()
    }

    /// Returns [`FileError::NotReady`] if it cannot be opened now.
    pub fn check_open(&self) -> Done {
        if !self.files.is_open() {
            self.files.attributes(self.files.root())?;
        }
        Ok(())
    }

    /// Returns the access of a client.
    pub fn access(&self, from: &Source) -> Option<Access> {
        match &self.share {
            Some(share) if !share.allows(from.transport) => None,
            Some(share) => share.access(from.address, from.port),
            None => Some(Access::ReadOnly),
        }
    }

    /// Whether a client may use it over a connection secured as the share requires.
    fn admits(&self, from: &Source) -> bool {
        let share = self.share.as_ref();
        share.is_none_or(|share| share.access(from.address, from.port).is_some())
    }

    /// Whether this security flavor is accepted.
    pub fn takes(&self, security: Security) -> bool {
        let share = self.share.as_ref();
        share.is_none_or(|share| share.securities().contains(&security))
    }

    /// Maps a credential to an identity.
    pub fn identity(&self, who: &Credential) -> Identity {
        match (&self.share, who.user()) {
            (Some(share), Some(user)) => share.identity(user),
            (Some(share), None) => share.anonymous(),
            (None, user) => user.unwrap_or(Identity {
                uid: NOBODY,
                gid: NOBODY,
                groups: Vec::new(),
            }),
        }
    }

    /// Returns the handle of a node. Each snapshot is a file system of its own.
    pub fn handle(&self, node: Node) -> Handle {
        let (snapshot, node) = match &self.share {
            Some(_) => snapshots::split(node),
            None => (self.id.snapshot, node),
        };
        Handle {
            file_system: FileSystemId {
                snapshot,
                ..self.id
            },
            node,
        }
    }
}

/// An object of an export. Exports are identified by their index in [`Exports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The export.
    pub export: usize,
    /// The object.
    pub node: Node,
}

impl Place {
    /// Whether it is in a snapshot or in the path to one, and therefore read-only.
    pub fn is_fixed(self) -> bool {
        self.export != 0 && snapshots::is_fixed(self.node)
    }
}

/// A directory of the tree. Clients that may use the file system of that name see its root instead
/// of the directory.
#[derive(Default)]
struct Junction {
    /// The parent directory; for the root, the root itself.
    parent: u64,
    children: BTreeMap<Vec<u8>, u64>,
    export: Option<usize>,
    /// Exports in this directory or below.
    exports: Vec<usize>,
}

/// All shared file systems. Immutable; an update replaces it.
pub struct Exports {
    exports: Vec<Export>,
    by_id: HashMap<FileSystemId, usize>,
    /// A file system to be shared cannot be read yet.
    is_incomplete: bool,
    /// File systems that are temporarily closed.
    closed: Vec<FileSystemId>,
    /// Directories by their object number.
    junctions: HashMap<u64, Junction>,
    /// The names of all file systems, shared or not.
    names: BTreeSet<String>,
    /// Signs filehandles.
    key: HandleKey,
}

/// Why a filehandle is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidHandle {
    /// It is not a filehandle.
    Bad,
    /// Its file system is not shared, or the signature is wrong. A client that guesses handles
    /// cannot distinguish the two.
    Stale,
    /// Its file system may be one that cannot be read yet.
    Pending,
}

/// The owner of a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOwner {
    /// The directory itself, which may have an entry of that name.
    Directory,
    /// A file system that the client sees there, or a directory in the path to one.
    FileSystem(Place),
    /// A file system that the client does not see. An older entry with that name can only be
    /// removed.
    Hidden,
}

impl NameOwner {
    /// Refuses a new entry with the name of a file system, because it would be hidden.
    pub fn check_new(self) -> Done {
        match self {
            Self::Directory => Ok(()),
            Self::FileSystem(_) | Self::Hidden => Err(FileError::Exists),
        }
    }

    /// Refuses to remove or rename an entry that is hidden by a file system.
    pub fn check_old(self) -> Done {
        match self {
            Self::Directory | Self::Hidden => Ok(()),
            Self::FileSystem(_) => Err(FileError::NotPermitted),
        }
    }

    /// Returns the result of a lookup of the entry.
    pub fn found(self, found: Done<Object>) -> Done<Object> {
        match self {
            Self::FileSystem(_) => Err(FileError::IsDirectory),
            Self::Directory | Self::Hidden => found,
        }
    }

    /// Returns the existing entry, if a new entry was refused because the name exists.
    pub fn taken(self, found: Done<Object>) -> Done<Object> {
        match (self, self.found(found)) {
            (Self::Hidden, Err(FileError::NotFound)) => Err(FileError::Exists),
            (_, found) => found,
        }
    }
}

/// A child of a directory in the tree.
pub struct ChildMount<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The object.
    pub place: Place,
    /// The cookie to continue a listing after it.
    pub cookie: u64,
}

impl Exports {
    /// Builds the tree.
    pub fn new(shared: Vec<Shared>) -> Result<Self, ExportError> {
        let own = Export {
            name: "".into(),
            files: Arc::new(EmptyDirectories),
            id: EmptyDirectories.id(),
            activity: Arc::default(),
            share: None,
            junction: ROOT.object,
        };
        let root = Junction {
            parent: ROOT.object,
            ..Junction::default()
        };
        let mut tree = Self {
            by_id: HashMap::from([(own.id, 0)]),
            is_incomplete: false,
            closed: Vec::new(),
            exports: vec![own],
            junctions: HashMap::from([(ROOT.object, root)]),
            names: BTreeSet::new(),
            key: HandleKey::random(),
        };
        for one in shared {
            tree.add(one)?;
        }
        Ok(tree)
    }

    /// Creates an empty tree.
    ///
    /// # Panics
    /// Never: an empty set has no conflict.
    pub fn none() -> Self {
        Self::new(Vec::new()).expect("there is nothing to refuse")
    }

    /// Marks the tree as incomplete: some file systems cannot be read yet. Clients that use them
    /// are delayed.
    #[must_use]
    pub fn with_more_to_come(mut self, more: bool) -> Self {
        self.is_incomplete = more;
        self
    }

    /// Adds file systems that are temporarily closed. Clients retain their opens and locks of them.
    #[must_use]
    pub fn with_closed(mut self, closed: Vec<FileSystemId>) -> Self {
        self.is_incomplete |= !closed.is_empty();
        self.closed = closed;
        self
    }

    /// Adds the names of all file systems, including those that are not shared.
    #[must_use]
    pub fn with_names(mut self, names: BTreeSet<String>) -> Self {
        self.names = names;
        self
    }

    /// Sets the key that signs filehandles.
    #[must_use]
    pub(crate) fn signed_by(mut self, key: HandleKey) -> Self {
        self.key = key;
        self
    }

    /// Counts in `activity_table`, which drops file systems that are no longer shared.
    #[must_use]
    pub(crate) fn counted_in(mut self, activity_table: &mut ActivityTable) -> Self {
        activity_table.keep_only(|id| self.by_id.contains_key(&id) || self.closed.contains(&id));
        for export in &mut self.exports[1..] {
            export.activity = activity_table.of(export.id);
        }
        self
    }

    /// Returns the files of a shared file system.
    pub fn files_of(&self, id: FileSystemId) -> Option<&Arc<dyn FileSystem>> {
        let index = self.by_id.get(&id.whole()).filter(|index| **index != 0)?;
        Some(&self.exports[*index].files)
    }

    /// Whether a file system is temporarily closed.
    pub fn is_closed(&self, id: FileSystemId) -> bool {
        self.closed.contains(&id.whole())
    }

    /// Whether all file systems to be shared are present.
    pub fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    fn add(&mut self, Shared { name, share, files }: Shared) -> Result<(), ExportError> {
        let index = self.exports.len();
        let id = files.id();
        if let Some(other) = self.by_id.insert(id, index) {
            return Err(ExportError::SameIdentity {
                one: self.exports[other].name.to_string(),
                other: name,
            });
        }
        let bad = || ExportError::BadName { name: name.clone() };
        let parts: Vec<&str> = name.split('/').filter(|_| !name.is_empty()).collect();
        if parts.len() > DEPTH_MAX {
            return Err(bad());
        }
        let mut at = ROOT.object;
        for (depth, part) in parts.iter().enumerate() {
            let part = part.as_bytes();
            file_system::rights::check_name(part, NAME_BYTES_MAX).map_err(|_| bad())?;
            let own = EmptyDirectories::node(&parts[..=depth]).object;
            let junction = self.junctions.entry(at).or_default();
            junction.exports.push(index);
            let child = *junction.children.entry(part.to_vec()).or_insert(own);
            self.junctions.entry(child).or_default().parent = at;
            at = child;
        }
        let junction = self.junctions.entry(at).or_default();
        junction.exports.push(index);
        if junction.export.replace(index).is_some() {
            return Err(bad());
        }
        self.exports.push(Export {
            id,
            activity: Arc::default(),
            name: name.into(),
            files,
            share: Some(share),
            junction: at,
        });
        Ok(())
    }

    /// Whether a client may use any file system, possibly one that is not present yet.
    pub fn admits(&self, from: &Source) -> bool {
        let mut shared = self.shared().iter();
        self.is_incomplete || shared.any(|export| export.admits(from))
    }

    /// Returns the accepted security flavors of an object, in the order of the share's preference.
    /// The tree's own directories accept the flavors of every file system that the client may use.
    pub fn securities(&self, place: Place, from: &Source) -> Vec<Security> {
        if let Some(share) = &self.exports[place.export].share {
            return share.securities().to_vec();
        }
        let usable = self
            .shared()
            .iter()
            .filter(|one| one.access(from).is_some());
        let shares = usable.filter_map(|one| one.share.as_ref());
        let taken: Vec<Security> = shares
            .flat_map(|share| share.securities())
            .copied()
            .collect();
        let secured = Security::SECURED
            .into_iter()
            .filter(|one| taken.contains(one));
        std::iter::once(Security::System).chain(secured).collect()
    }

    /// Returns the shared file systems in their given order.
    pub fn shared(&self) -> &[Export] {
        &self.exports[1..]
    }

    /// Returns an export by its index.
    pub fn export(&self, index: usize) -> &Export {
        &self.exports[index]
    }

    /// Returns the object that a client sees at a directory of the tree.
    fn seen(&self, junction: u64, from: &Source) -> Option<Place> {
        let export = self.junctions.get(&junction)?.export;
        let export = export.filter(|index| self.exports[*index].access(from).is_some());
        Some(match export {
            Some(index) => Place {
                export: index,
                node: self.exports[index].root(),
            },
            None => Place {
                export: 0,
                node: EmptyDirectories::directory_of(junction),
            },
        })
    }

    /// Returns the root of the tree.
    pub fn root(&self, from: &Source) -> Place {
        self.seen(ROOT.object, from).unwrap_or(Place {
            export: 0,
            node: ROOT,
        })
    }

    /// Returns the handle of an object.
    pub fn handle(&self, place: Place) -> Handle {
        self.exports[place.export].handle(place.node)
    }

    /// The key that signs filehandles.
    pub const fn key(&self) -> &HandleKey {
        &self.key
    }

    /// Returns the signed filehandle of an object.
    pub fn sign(&self, place: Place) -> [u8; HANDLE_BYTES] {
        self.key.sign(self.handle(place))
    }

    /// Resolves a filehandle of a client. Filehandles of roots need no signature, because each
    /// client that may use them can look them up.
    ///
    /// A filehandle with a wrong signature is stale, not bad: a client with a filehandle signed by
    /// an earlier key repeats the lookup by name (RFC 8881, 15.1.2.1).
    pub fn found(&self, bytes: &[u8], now_ms: u64) -> Result<Place, InvalidHandle> {
        let is_root = |handle| {
            let place = self.place(handle);
            place.is_some_and(|place| self.junction(place).is_some())
        };
        let handle = self.key.open(bytes, now_ms, is_root);
        let handle = handle.map_err(|bad| match bad {
            BadHandle::Form { .. } => InvalidHandle::Bad,
            BadHandle::Code => InvalidHandle::Stale,
            // The root of a file system that is not open yet is unknown.
            BadHandle::Unsigned if self.is_incomplete => InvalidHandle::Pending,
            BadHandle::Unsigned => InvalidHandle::Stale,
        })?;
        self.place(handle).ok_or(match self.is_incomplete {
            true => InvalidHandle::Pending,
            false => InvalidHandle::Stale,
        })
    }

    /// Returns the object of a handle; `None` if its file system is not shared.
    pub fn place(&self, handle: Handle) -> Option<Place> {
        let place = Place {
            export: *self.by_id.get(&handle.file_system.whole())?,
            node: snapshots::node_of(handle)?,
        };
        // A directory of the tree may have been removed. Each node has one handle.
        let is_there =
            (place.export != 0 || self.junction(place).is_some()) && self.handle(place) == handle;
        is_there.then_some(place)
    }

    /// Returns the number of the directory in the tree.
    fn junction(&self, place: Place) -> Option<u64> {
        let export = &self.exports[place.export];
        if place.export != 0 {
            return (place.node == export.root()).then_some(export.junction);
        }
        let number = place.node.object;
        (place.node.generation == 0 && self.junctions.contains_key(&number)).then_some(number)
    }

    /// Returns the number of the directory that the root of a file system covers.
    pub fn covered(&self, place: Place) -> Option<u64> {
        let (snapshot, node) = snapshots::split(place.node);
        if place.export != 0 && snapshot != 0 {
            let is_root = node.object == self.exports[place.export].root().object;
            return is_root.then(|| snapshots::mounted_on(snapshot));
        }
        self.junction(place).filter(|_| place.export != 0)
    }

    fn sees(&self, junction: u64, from: &Source) -> bool {
        let below = self.junctions.get(&junction);
        let mut below = below.into_iter().flat_map(|found| &found.exports);
        below.any(|index| self.exports[*index].access(from).is_some())
    }

    /// Returns the owner of a name in a directory. Each operation that creates, links, renames,
    /// removes or resolves a name must call it first.
    pub fn owner(&self, directory: Place, name: &[u8], from: &Source) -> NameOwner {
        if let Some(place) = self.child_mount(directory, name, from) {
            return NameOwner::FileSystem(place);
        }
        match self.is_of_file_system(directory, name) {
            true => NameOwner::Hidden,
            false => NameOwner::Directory,
        }
    }

    /// Whether a name in a directory belongs to a file system or to the path to one, visible or
    /// not.
    fn is_of_file_system(&self, directory: Place, name: &[u8]) -> bool {
        let Some(junction) = self.junction(directory) else {
            return false;
        };
        if self.junctions[&junction].children.contains_key(name) {
            return true;
        }
        let Ok(name) = std::str::from_utf8(name) else {
            return false;
        };
        let above = &self.exports[directory.export].name;
        directory.export != 0 && self.names.contains(&format!("{above}/{name}"))
    }

    /// Returns the child of a directory by name.
    fn child_mount(&self, directory: Place, name: &[u8], from: &Source) -> Option<Place> {
        let junction = &self.junctions[&self.junction(directory)?];
        let child = *junction.children.get(name)?;
        self.seen(child, from).filter(|_| self.sees(child, from))
    }

    /// Returns the children of a directory after a cookie. Each returned file system is opened, and
    /// no further one.
    pub fn child_mounts<'a>(
        &'a self,
        directory: Place,
        cookie: u64,
        from: &'a Source,
    ) -> impl Iterator<Item = ChildMount<'a>> {
        let junction = self.junction(directory);
        let children = junction.map(|number| &self.junctions[&number].children);
        let children = (COOKIE_LAST + 1..).zip(children.into_iter().flatten());
        let visible = children
            .filter(move |(number, (_, child))| *number > cookie && self.sees(**child, from));
        visible.filter_map(move |(number, (name, child))| {
            Some(ChildMount {
                name,
                place: self.seen(*child, from)?,
                cookie: number,
            })
        })
    }

    /// Returns the parent of a directory in the tree; `None` if it lies in its own file system. The
    /// parent of the root is the root.
    pub fn above(&self, directory: Place, from: &Source) -> Option<Place> {
        self.seen(self.junctions[&self.junction(directory)?].parent, from)
    }
}

/// The file system of the tree's own directories. All are empty, with numbers derived from their
/// names.
struct EmptyDirectories;

impl EmptyDirectories {
    /// The result is equal on every head.
    fn node(path: &[&str]) -> Node {
        let bytes = path.iter().flat_map(|part| part.bytes().chain([0]));
        let object = bytes.fold(ROOT.object, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self::directory_of(object)
    }

    const fn directory_of(object: u64) -> Node {
        Node {
            object,
            generation: 0,
        }
    }

    fn directory() -> Attributes {
        Attributes {
            links: 2,
            ..Attributes::of_new(Kind::Directory, 0o555, (0, 0), Time::default())
        }
    }
}

impl FileSystem for EmptyDirectories {
    fn id(&self) -> FileSystemId {
        FileSystemId::default()
    }

    fn limits(&self) -> Limits {
        Limits {
            name_bytes_max: NAME_BYTES_MAX as u32,
            file_bytes_max: 0,
            links_max: 1,
            atomic_write_bytes: 0,
            is_read_only: true,
            ignores_case: false,
            has_acls: false,
        }
    }

    fn root(&self) -> Node {
        ROOT
    }

    fn statistics(&self) -> Done<Statistics> {
        Ok(Statistics::default())
    }

    fn attributes(&self, _: Node) -> Done<Attributes> {
        Ok(Self::directory())
    }

    fn object(&self, _: Node, _: u64) -> Done<Object> {
        Err(FileError::Stale)
    }

    fn set_attributes(
        &self,
        _: &Identity,
        _: Node,
        _: &SetAttributes,
        _: &Guard,
        _: Option<&Receipt>,
    ) -> Done<Changed> {
        Err(FileError::ReadOnly)
    }

    fn permissions(&self, _: &Identity, _: Node) -> Done<Permissions> {
        Ok(Permissions::of_mode(true, false, true))
    }

    fn look_up(&self, _: &Identity, _: Node, name: &[u8]) -> Done<Object> {
        check_name(name, NAME_BYTES_MAX)?;
        Err(FileError::NotFound)
    }

    fn parent(&self, _: &Identity, _: Node) -> Done<Node> {
        Ok(self.root())
    }

    fn make(
        &self,
        _: &Identity,
        _: Node,
        _: &[u8],
        _: Make<'_>,
        _: &SetAttributes,
        _: Option<&Receipt>,
    ) -> Done<Made> {
        Err(FileError::ReadOnly)
    }

    fn remove(
        &self,
        _: &Identity,
        _: Node,
        _: &[u8],
        _: Removable,
        _: Option<&Receipt>,
    ) -> Done<Changed> {
        Err(FileError::ReadOnly)
    }

    fn rename(
        &self,
        _: &Identity,
        _: (Node, &[u8]),
        _: (Node, &[u8]),
        _: Option<&Receipt>,
    ) -> Done<Renamed> {
        Err(FileError::ReadOnly)
    }

    fn link(&self, _: &Identity, _: Node, _: Node, _: &[u8], _: Option<&Receipt>) -> Done<Changed> {
        Err(FileError::ReadOnly)
    }

    fn receipt(&self, _: &file_system::Place) -> Option<Receipt> {
        None
    }

    fn read_link(&self, _: Node) -> Done<Vec<u8>> {
        Err(FileError::WrongType)
    }

    fn read_directory(
        &self,
        _: &Identity,
        _: Node,
        _: u64,
        _: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Done<bool> {
        Ok(true)
    }

    fn read(&self, _: Node, _: u64, _: &mut [u8]) -> Done<Read> {
        Err(FileError::IsDirectory)
    }

    fn write(&self, _: Node, _: u64, _: &[u8]) -> Done<Changed> {
        Err(FileError::IsDirectory)
    }

    fn commit(&self, _: Option<Node>) -> Done {
        Ok(())
    }

    fn hold(&self, _: Node) -> Done {
        Err(FileError::IsDirectory)
    }

    fn release(&self, _: Node) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use file_system::memory::MemoryFileSystem;

    fn shared(name: &str, guid: u64, share: &str) -> Shared {
        Shared {
            name: name.to_owned(),
            share: Share::parse(share).expect("a share").expect("not off"),
            files: Arc::new(MemoryFileSystem::with_guid(guid, 1 << 20)),
        }
    }

    fn source(address: &str) -> Source {
        Source {
            address: address.parse().expect("an address"),
            port: 700,
            ..Source::LOCAL
        }
    }

    fn names(exports: &Exports, directory: Place, from: &Source) -> Vec<String> {
        let child_mount = exports.child_mounts(directory, 0, from);
        child_mount
            .map(|one| String::from_utf8_lossy(one.name).into_owned())
            .collect()
    }

    #[test]
    fn file_systems_are_mounted_at_their_dataset_names() {
        let all = "rw=192.0.2.0/24";
        let exports = Exports::new(vec![
            shared("tank/home/alice", 7, all),
            shared("tank/home", 8, all),
            shared("tank/a/b", 9, "ro=198.51.100.1"),
        ]);
        let exports = exports.expect("a tree");
        let (from, other) = (source("192.0.2.1"), source("198.51.100.1"));
        let root = exports.root(&from);
        let tank = exports
            .child_mount(root, b"tank", &from)
            .expect("on the way");
        assert_eq!((root.export, tank.export), (0, 0));
        assert_eq!(names(&exports, tank, &from), ["home"]);
        assert_eq!(names(&exports, tank, &other), ["a"]);
        let home = exports.child_mount(tank, b"home", &from).expect("shared");
        assert_eq!(exports.export(home.export).name.as_ref(), "tank/home");
        let alice = exports.child_mount(home, b"alice", &from).expect("shared");
        assert_eq!(
            exports.export(alice.export).name.as_ref(),
            "tank/home/alice"
        );
        assert_eq!(exports.above(alice, &from), Some(home));
        assert_eq!(exports.above(root, &from), Some(root));
        assert!(
            exports.child_mount(tank, b"a", &from).is_none(),
            "not theirs"
        );
        let nobody = Identity {
            uid: 65_534,
            gid: 65_534,
            groups: Vec::new(),
        };
        let look_up = |name: &[u8]| {
            let found = exports.export(0).files.look_up(&nobody, root.node, name);
            found.map(|_| ()).expect_err("nothing is there")
        };
        assert_eq!(look_up(b"none"), FileError::NotFound);
        assert_eq!(look_up(&[b'n'; 512]), FileError::NameTooLong);
        assert_eq!(exports.place(exports.handle(alice)), Some(alice));
        assert_eq!(exports.place(exports.handle(tank)), Some(tank));
        let without = Exports::none();
        assert_eq!(without.place(exports.handle(alice)), None);
        assert_eq!(without.place(exports.handle(tank)), None);
        assert_eq!(without.place(exports.handle(root)), Some(root));
    }

    /// A client that may use a file system, but not its parent, can reach it.
    #[test]
    fn unshared_parent_does_not_hide_a_shared_child() {
        let exports = Exports::new(vec![
            shared("tank", 7, "rw=192.0.2.1"),
            shared("tank/open", 8, "rw=192.0.2.0/24"),
        ]);
        let exports = exports.expect("a tree");
        let from = source("192.0.2.9");
        let root = exports.root(&from);
        let tank = exports
            .child_mount(root, b"tank", &from)
            .expect("on the way");
        assert_eq!(tank.export, 0);
        let open = exports.child_mount(tank, b"open", &from).expect("shared");
        assert_eq!(exports.export(open.export).name.as_ref(), "tank/open");
        assert_eq!(exports.above(open, &from), Some(tank));
        assert!(
            exports
                .child_mount(root, b"tank", &source("192.0.3.1"))
                .is_none()
        );
    }

    #[test]
    fn ambiguous_exports_are_refused() {
        let all = "rw=192.0.2.0/24";
        let same = Exports::new(vec![shared("a", 1, all), shared("b", 1, all)]);
        assert!(matches!(same, Err(ExportError::SameIdentity { .. })));
        for name in ["a//b", "/a", "a/..", "a/"] {
            let bad = Exports::new(vec![shared(name, 1, all)]);
            assert!(matches!(bad, Err(ExportError::BadName { .. })), "{name}");
        }
        let twice = Exports::new(vec![shared("a", 1, all), shared("a", 2, all)]);
        assert!(matches!(twice, Err(ExportError::BadName { .. })));
    }
}
