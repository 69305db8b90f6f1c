//! What is shared, as one tree: names of datasets lead to their file systems. What lies between is a file system without contents.
//! A client sees only what it may use, and the way there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use file_system::rights::check_name;
use file_system::{
    Attributes, COOKIE_LAST, Changed, Done, Entry, FileError, FileSystem, FileSystemId, Guard,
    Handle, Identity, Kind, Limits, Made, Make, Node, Object, Permissions, Read, Receipt,
    Removable, Renamed, SetAttributes, Statistics, Time,
};

use crate::activity::{Activity, Book, Moved, Used};
use crate::handles::{BadHandle, HANDLE_BYTES, HandleKey};
use crate::rpc::Credential;
use crate::sharenfs::{Access, Security, Share, Transport};
use crate::snapshots;

/// Names between the root and a file system.
const DEPTH_MAX: usize = 64;
/// Bytes of a name in the tree.
const NAME_BYTES_MAX: usize = 255;
/// Who is no user, in the tree's own directories.
const NOBODY: u32 = 65_534;
/// The root of the tree's own directories. Their numbers are hashes of their paths (FNV-1a), which begin with this.
const ROOT: Node = Node {
    object: 0xcbf2_9ce4_8422_2325,
    generation: 0,
};

/// Where a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The client's address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// How its connection is secured.
    pub transport: Transport,
    /// How the call says who makes it.
    pub security: Security,
}

impl Source {
    /// This machine.
    pub const LOCAL: Self = Self {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 1,
        transport: Transport::Plain,
        security: Security::System,
    };

    /// The IPv4 address or IPv6 network that bounds count for.
    pub fn network(&self) -> IpAddr {
        serving::network(self.address)
    }
}

/// A file system to be shared.
#[derive(Clone)]
pub struct Shared {
    /// Its place in the tree: the name of its dataset, without a `/` in front. Empty is the root.
    pub name: String,
    /// Who may use it, and as whom.
    pub share: Share,
    /// It.
    pub files: Arc<dyn FileSystem>,
}

/// Why something cannot be shared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Two have one identity.
    #[error(
        "the file systems {one:?} and {other:?} have the same identity: share only one of them"
    )]
    SameIdentity {
        /// One.
        one: String,
        /// The other.
        other: String,
    },
    /// The name leads nowhere.
    #[error("{name:?} cannot be the name of a share")]
    BadName {
        /// It.
        name: String,
    },
}

/// A file system that is served.
pub struct Export {
    /// Its name in the tree.
    pub name: Arc<str>,
    /// It.
    pub files: Arc<dyn FileSystem>,
    /// Its identity.
    pub id: FileSystemId,
    /// Where calls are counted that end in it.
    pub activity: Arc<Activity>,
    /// Who may use it; nothing for the tree's own directories, which everybody may look at.
    share: Option<Share>,
    /// Where it hangs.
    junction: u64,
}

impl Export {
    /// A call that ended here, and moved something.
    pub(crate) fn used(&self, moved: Moved) -> Used {
        Used::of(&self.name, &self.activity, moved)
    }

    /// Its root. One that is not open is opened. Of one that cannot be, it is no node; [`Self::check_open`] tells.
    pub fn root(&self) -> Node {
        self.files.root()
    }

    /// [`FileError::NotReady`] if it cannot be opened now.
    pub fn check_open(&self) -> Done {
        if !self.files.is_open() {
            self.files.attributes(self.files.root())?;
        }
        Ok(())
    }

    /// What a client may do.
    pub fn access(&self, from: &Source) -> Option<Access> {
        match &self.share {
            Some(share) if !share.allows(from.transport) => None,
            Some(share) => share.access(from.address, from.port),
            None => Some(Access::ReadOnly),
        }
    }

    /// Whether a client may use it that secures its connection as the share says.
    fn admits(&self, from: &Source) -> bool {
        let share = self.share.as_ref();
        share.is_none_or(|share| share.access(from.address, from.port).is_some())
    }

    /// Whether calls may say so who makes them.
    pub fn takes(&self, security: Security) -> bool {
        let share = self.share.as_ref();
        share.is_none_or(|share| share.securities().contains(&security))
    }

    /// As whom a client acts.
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

    /// The handle of one of its nodes. What is in a snapshot is in a file system of its own.
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

/// An object of an export, by the export's number in [`Exports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The export.
    pub export: usize,
    /// The object.
    pub node: Node,
}

impl Place {
    /// Whether it is in a snapshot, or on the way to one: nothing can be changed there.
    pub fn is_fixed(self) -> bool {
        self.export != 0 && snapshots::is_fixed(self.node)
    }
}

/// A directory of the tree. Clients that may use the file system of that name see its root there, others the tree's own directory.
#[derive(Default)]
struct Junction {
    /// The one that it hangs in; of the root itself.
    parent: u64,
    children: BTreeMap<Vec<u8>, u64>,
    export: Option<usize>,
    /// Exports that are here or below.
    exports: Vec<usize>,
}

/// Everything that is shared. It does not change; another one takes its place.
pub struct Exports {
    exports: Vec<Export>,
    by_id: HashMap<FileSystemId, usize>,
    /// Something that is to be shared cannot be read yet.
    is_incomplete: bool,
    /// File systems that are closed for a while.
    closed: Vec<FileSystemId>,
    /// By the object number of the tree's own directory.
    junctions: HashMap<u64, Junction>,
    /// The names of all file systems, also of those that are not shared.
    names: BTreeSet<String>,
    /// Signs the handles of clients.
    key: HandleKey,
}

/// Why the bytes of a handle lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// They are no handle.
    Bad,
    /// Its file system is not shared, or the client was not given this handle. A client that guesses cannot tell which.
    Stale,
    /// Its file system may be one of those that cannot be read yet.
    NotYet,
}

/// What a name in a directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOwner {
    /// The directory itself, which may have an entry of that name.
    Directory,
    /// A file system that the client sees there, or the way to one.
    FileSystem(Place),
    /// A file system that the client does not see. An entry of that name, which is older, can only be taken away.
    Hidden,
}

impl NameOwner {
    /// Refuses a new entry of a name that a file system has: it would be hidden.
    pub fn check_new(self) -> Done {
        match self {
            Self::Directory => Ok(()),
            Self::FileSystem(_) | Self::Hidden => Err(FileError::Exists),
        }
    }

    /// Refuses to remove or move an entry that the client does not see, because a file system hides it.
    pub fn check_old(self) -> Done {
        match self {
            Self::Directory | Self::Hidden => Ok(()),
            Self::FileSystem(_) => Err(FileError::NotPermitted),
        }
    }

    /// What looking for the entry of a directory returns.
    pub fn found(self, found: Done<Object>) -> Done<Object> {
        match self {
            Self::FileSystem(_) => Err(FileError::IsDirectory),
            Self::Directory | Self::Hidden => found,
        }
    }

    /// The same, where a new entry was refused because the name is taken.
    pub fn taken(self, found: Done<Object>) -> Done<Object> {
        match (self, self.found(found)) {
            (Self::Hidden, Err(FileError::NotFound)) => Err(FileError::Exists),
            (_, found) => found,
        }
    }
}

/// A name that hangs in a directory.
pub struct Hanging<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Where it leads.
    pub place: Place,
    /// Where to go on in the directory after it.
    pub cookie: u64,
}

impl Exports {
    /// The tree of these.
    pub fn new(shared: Vec<Shared>) -> Result<Self, ExportError> {
        let own = Export {
            name: "".into(),
            files: Arc::new(Nothing),
            id: Nothing.id(),
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

    /// Nothing is shared.
    ///
    /// # Panics
    /// Never: there is nothing to refuse.
    pub fn none() -> Self {
        Self::new(Vec::new()).expect("there is nothing to refuse")
    }

    /// The same, where something else is to be shared that cannot be read yet: clients that ask for it are told to wait.
    #[must_use]
    pub fn with_more_to_come(mut self, more: bool) -> Self {
        self.is_incomplete = more;
        self
    }

    /// The same, where these file systems are closed for a while: what clients have open and locked of them stays theirs.
    #[must_use]
    pub fn with_closed(mut self, closed: Vec<FileSystemId>) -> Self {
        self.is_incomplete |= !closed.is_empty();
        self.closed = closed;
        self
    }

    /// The same, where these are the names of all file systems: those that are not shared have their names, too.
    #[must_use]
    pub fn with_names(mut self, names: BTreeSet<String>) -> Self {
        self.names = names;
        self
    }

    /// The same, with this key for the handles of clients.
    #[must_use]
    pub(crate) fn signed_by(mut self, key: HandleKey) -> Self {
        self.key = key;
        self
    }

    /// The same, counted in `book`, which forgets file systems that are not shared any more.
    #[must_use]
    pub(crate) fn counted_in(mut self, book: &mut Book) -> Self {
        book.keep_only(|id| self.by_id.contains_key(&id) || self.closed.contains(&id));
        for export in &mut self.exports[1..] {
            export.activity = book.of(export.id);
        }
        self
    }

    /// The files of a file system that is shared.
    pub fn files_of(&self, id: FileSystemId) -> Option<&Arc<dyn FileSystem>> {
        let index = self.by_id.get(&id.whole()).filter(|index| **index != 0)?;
        Some(&self.exports[*index].files)
    }

    /// Whether a file system is closed for a while.
    pub fn is_closed(&self, id: FileSystemId) -> bool {
        self.closed.contains(&id.whole())
    }

    /// Whether all is here that is to be shared.
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
            let own = Nothing::node(&parts[..=depth]).object;
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

    /// Whether a client may use anything, or perhaps what is still to come.
    pub fn admits(&self, from: &Source) -> bool {
        let mut shared = self.shared().iter();
        self.is_incomplete || shared.any(|export| export.admits(from))
    }

    /// The ways to say who makes a call that are taken at a place, the best one first as the share says. In the tree's own directories those of
    /// everything that the client may use.
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

    /// What is shared, in the order that it was given in.
    pub fn shared(&self) -> &[Export] {
        &self.exports[1..]
    }

    /// An export by its number.
    pub fn export(&self, index: usize) -> &Export {
        &self.exports[index]
    }

    /// What a client sees at a directory of the tree.
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
                node: Nothing::directory_of(junction),
            },
        })
    }

    /// The root of the tree.
    pub fn root(&self, from: &Source) -> Place {
        self.seen(ROOT.object, from).unwrap_or(Place {
            export: 0,
            node: ROOT,
        })
    }

    /// The handle of a place.
    pub fn handle(&self, place: Place) -> Handle {
        self.exports[place.export].handle(place.node)
    }

    /// Signs the handles of clients.
    pub const fn key(&self) -> &HandleKey {
        &self.key
    }

    /// The handle of a place, for clients.
    pub fn sign(&self, place: Place) -> [u8; HANDLE_BYTES] {
        self.key.sign(self.handle(place))
    }

    /// The place of a handle that a client was given. The handles of roots need no code: each client that may use them finds them.
    ///
    /// A handle with a wrong code is stale, and not bad: a client that had a good one, before the pool had another key, finds the file
    /// again by its name (RFC 8881, 15.1.2.1).
    pub fn found(&self, bytes: &[u8], now_ms: u64) -> Result<Place, NoPlace> {
        let is_root = |handle| {
            let place = self.place(handle);
            place.is_some_and(|place| self.junction(place).is_some())
        };
        let handle = self.key.open(bytes, now_ms, is_root);
        let handle = handle.map_err(|bad| match bad {
            BadHandle::Form { .. } => NoPlace::Bad,
            BadHandle::Code => NoPlace::Stale,
            // The root of one that is not open yet is not known.
            BadHandle::Unsigned if self.is_incomplete => NoPlace::NotYet,
            BadHandle::Unsigned => NoPlace::Stale,
        })?;
        self.place(handle).ok_or(match self.is_incomplete {
            true => NoPlace::NotYet,
            false => NoPlace::Stale,
        })
    }

    /// The place of a handle; nothing if its file system is not shared.
    pub fn place(&self, handle: Handle) -> Option<Place> {
        let place = Place {
            export: *self.by_id.get(&handle.file_system.whole())?,
            node: snapshots::node_of(handle)?,
        };
        // A directory of the tree may be gone. Each node has one handle.
        let is_there =
            (place.export != 0 || self.junction(place).is_some()) && self.handle(place) == handle;
        is_there.then_some(place)
    }

    /// The number of the tree's directory that a place is.
    fn junction(&self, place: Place) -> Option<u64> {
        let export = &self.exports[place.export];
        if place.export != 0 {
            return (place.node == export.root()).then_some(export.junction);
        }
        let number = place.node.object;
        (place.node.generation == 0 && self.junctions.contains_key(&number)).then_some(number)
    }

    /// The number of the directory that the root of a file system covers.
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

    /// What a name in a directory belongs to. Each operation that makes, links, renames, removes or looks up a name asks this first.
    pub fn owner(&self, directory: Place, name: &[u8], from: &Source) -> NameOwner {
        if let Some(place) = self.hanging(directory, name, from) {
            return NameOwner::FileSystem(place);
        }
        match self.is_of_file_system(directory, name) {
            true => NameOwner::Hidden,
            false => NameOwner::Directory,
        }
    }

    /// Whether a name in a directory is that of a file system, or leads to one, whoever may use it.
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

    /// What hangs in a directory under a name.
    fn hanging(&self, directory: Place, name: &[u8], from: &Source) -> Option<Place> {
        let junction = &self.junctions[&self.junction(directory)?];
        let child = *junction.children.get(name)?;
        self.seen(child, from).filter(|_| self.sees(child, from))
    }

    /// Everything that hangs in a directory behind a cookie. What is told of is opened, and no more.
    pub fn all_hanging<'a>(
        &'a self,
        directory: Place,
        cookie: u64,
        from: &'a Source,
    ) -> impl Iterator<Item = Hanging<'a>> {
        let junction = self.junction(directory);
        let children = junction.map(|number| &self.junctions[&number].children);
        let children = (COOKIE_LAST + 1..).zip(children.into_iter().flatten());
        let visible = children
            .filter(move |(number, (_, child))| *number > cookie && self.sees(**child, from));
        visible.filter_map(move |(number, (name, child))| {
            Some(Hanging {
                name,
                place: self.seen(*child, from)?,
                cookie: number,
            })
        })
    }

    /// The directory that a directory hangs in; nothing if it lies in its own file system. The root's is itself.
    pub fn above(&self, directory: Place, from: &Source) -> Option<Place> {
        self.seen(self.junctions[&self.junction(directory)?].parent, from)
    }
}

/// The file system of the tree's own directories: empty ones, by a number that follows from their name.
struct Nothing;

impl Nothing {
    /// The same on every head.
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

impl FileSystem for Nothing {
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
        let hanging = exports.all_hanging(directory, 0, from);
        hanging
            .map(|one| String::from_utf8_lossy(one.name).into_owned())
            .collect()
    }

    #[test]
    fn file_systems_hang_at_the_names_of_their_datasets() {
        let all = "rw=192.0.2.0/24";
        let exports = Exports::new(vec![
            shared("tank/home/alice", 7, all),
            shared("tank/home", 8, all),
            shared("tank/a/b", 9, "ro=198.51.100.1"),
        ]);
        let exports = exports.expect("a tree");
        let (from, other) = (source("192.0.2.1"), source("198.51.100.1"));
        let root = exports.root(&from);
        let tank = exports.hanging(root, b"tank", &from).expect("on the way");
        assert_eq!((root.export, tank.export), (0, 0));
        assert_eq!(names(&exports, tank, &from), ["home"]);
        assert_eq!(names(&exports, tank, &other), ["a"]);
        let home = exports.hanging(tank, b"home", &from).expect("shared");
        assert_eq!(exports.export(home.export).name.as_ref(), "tank/home");
        let alice = exports.hanging(home, b"alice", &from).expect("shared");
        assert_eq!(
            exports.export(alice.export).name.as_ref(),
            "tank/home/alice"
        );
        assert_eq!(exports.above(alice, &from), Some(home));
        assert_eq!(exports.above(root, &from), Some(root));
        assert!(exports.hanging(tank, b"a", &from).is_none(), "not theirs");
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

    /// A client that may use a file system, but not the one above, finds its way.
    #[test]
    fn what_is_closed_above_does_not_close_what_is_below() {
        let exports = Exports::new(vec![
            shared("tank", 7, "rw=192.0.2.1"),
            shared("tank/open", 8, "rw=192.0.2.0/24"),
        ]);
        let exports = exports.expect("a tree");
        let from = source("192.0.2.9");
        let root = exports.root(&from);
        let tank = exports.hanging(root, b"tank", &from).expect("on the way");
        assert_eq!(tank.export, 0);
        let open = exports.hanging(tank, b"open", &from).expect("shared");
        assert_eq!(exports.export(open.export).name.as_ref(), "tank/open");
        assert_eq!(exports.above(open, &from), Some(tank));
        assert!(
            exports
                .hanging(root, b"tank", &source("192.0.3.1"))
                .is_none()
        );
    }

    #[test]
    fn what_would_be_ambiguous_is_refused() {
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
