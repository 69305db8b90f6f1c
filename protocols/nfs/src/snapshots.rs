//! The directory `.zfs` in the root of a file system, with `snapshot` and one directory per
//! snapshot. They are virtual. To clients each snapshot is a file system of its own, with the
//! access rules of its file system.
//!
//! A node of a snapshot contains the snapshot's number in the bits that object numbers and
//! generations leave unused.

use std::sync::Arc;

use block_device::ReadLoan;
use file_system::rights::check_name;
use file_system::{
    Attributes, COOKIE_LAST, Changed, Content, Done, Entry, FileError, FileSystem, FileSystemId,
    Guard, Handle, Identity, Kind, Limits, Made, Make, Node, Object, Owner, OwnerKind, OwnerSpace,
    Owners, Permissions, Place, Quota, Read, Receipt, Removable, Renamed, SetAttributes,
    SetExtended, Snapshots, Statistics, Visibility, acl,
};

const CONTROL_NAME: &[u8] = b".zfs";
const DIRECTORY_NAME: &[u8] = b"snapshot";
/// Bits of object numbers and generations.
const NODE_BITS: u32 = 48;
const NODE_MASK: u64 = (1 << NODE_BITS) - 1;
/// Bits of a snapshot's number in each of the two.
const PART_BITS: u32 = 64 - NODE_BITS;
/// The numbers of these directories in a kernel (`sys/zfs_ctldir.h`).
const CONTROL: Node = Node {
    object: NODE_MASK,
    generation: 0,
};
const DIRECTORY: Node = Node {
    object: NODE_MASK - 2,
    generation: 0,
};
/// Minus the number of a snapshot: the number of the directory that it is mounted on.
const MOUNTED: u64 = NODE_MASK - 3;
/// The lowest cookie of an entry.
const COOKIE_FIRST: u64 = 16;
/// Attempts to open a snapshot for a call while concurrent calls close it.
const ATTEMPTS_MAX: u32 = 4;
const NAME_BYTES_MAX: usize = 255;

/// Converts a node of a snapshot to a node of its file system; `None` if it does not fit.
pub fn inside(snapshot: u64, node: Node) -> Option<Node> {
    let fits =
        node.object <= NODE_MASK && node.generation <= NODE_MASK && snapshot < 1 << (2 * PART_BITS);
    fits.then_some(Node {
        object: node.object | (snapshot >> PART_BITS) << NODE_BITS,
        generation: node.generation | snapshot << NODE_BITS,
    })
}

/// Returns the snapshot of a node, 0 for none, and the node in it.
pub const fn split(node: Node) -> (u64, Node) {
    let snapshot = (node.object >> NODE_BITS) << PART_BITS | node.generation >> NODE_BITS;
    let node = Node {
        object: node.object & NODE_MASK,
        generation: node.generation & NODE_MASK,
    };
    (snapshot, node)
}

/// Converts a handle to a node of its file system; `None` if it does not fit.
pub fn node_of(handle: Handle) -> Option<Node> {
    match handle.file_system.snapshot {
        0 => Some(handle.node),
        snapshot => inside(snapshot, handle.node),
    }
}

/// Whether it is immutable.
pub fn is_fixed(node: Node) -> bool {
    !matches!(Where::of(node), Where::Live)
}

/// Returns the number of the directory that a snapshot is mounted on.
pub const fn mounted_on(snapshot: u64) -> u64 {
    MOUNTED - snapshot
}

/// The location of a node.
enum Where {
    /// The file system itself.
    Live,
    /// The directory `.zfs`.
    Control,
    /// The directory `.zfs/snapshot`.
    Directory,
    Inside(u64, Node),
}

impl Where {
    fn of(node: Node) -> Self {
        match split(node) {
            _ if node == CONTROL => Self::Control,
            _ if node == DIRECTORY => Self::Directory,
            (0, _) => Self::Live,
            (snapshot, node) => Self::Inside(snapshot, node),
        }
    }
}

/// A file system together with its snapshots.
pub struct WithSnapshots {
    files: Arc<dyn FileSystem>,
    snapshots: Arc<dyn Snapshots>,
}

impl WithSnapshots {
    /// Adds the snapshots.
    pub fn new(files: Arc<dyn FileSystem>, snapshots: Arc<dyn Snapshots>) -> Self {
        Self { files, snapshots }
    }

    fn in_snapshot<T>(
        &self,
        snapshot: u64,
        mut call: impl FnMut(&dyn FileSystem) -> Done<T>,
    ) -> Done<T> {
        if !self.is_shown() {
            return Err(FileError::Stale);
        }
        for _ in 0..ATTEMPTS_MAX {
            let files = self.snapshots.open(snapshot)?;
            match call(&*files) {
                Err(FileError::Gone) => {}
                done => return done,
            }
        }
        Err(FileError::NotReady)
    }

    /// Calls the file system or snapshot of a node.
    fn on<T>(&self, node: Node, mut call: impl FnMut(&dyn FileSystem, Node) -> Done<T>) -> Done<T> {
        match Where::of(node) {
            Where::Live => call(&*self.files, node),
            Where::Inside(snapshot, node) => self.in_snapshot(snapshot, |files| call(files, node)),
            Where::Control | Where::Directory => Err(FileError::IsDirectory),
        }
    }

    /// Refuses to change a snapshot.
    fn check_live(node: Node) -> Done {
        match is_fixed(node) {
            true => Err(FileError::ReadOnly),
            false => Ok(()),
        }
    }

    /// Refuses to change a name in a snapshot, or the name `.zfs`.
    fn check_live_name(&self, directory: Node, name: &[u8]) -> Done {
        Self::check_live(directory)?;
        match self.is_control(directory, name) {
            true => Err(FileError::NotPermitted),
            false => Ok(()),
        }
    }

    /// Refuses to create a name in a snapshot, or the name `.zfs`.
    fn check_new_name(&self, directory: Node, name: &[u8]) -> Done {
        Self::check_live(directory)?;
        match self.is_control(directory, name) {
            true => Err(FileError::Exists),
            false => Ok(()),
        }
    }

    fn is_control(&self, directory: Node, name: &[u8]) -> bool {
        name == CONTROL_NAME && directory == self.files.root() && self.is_shown()
    }

    fn is_shown(&self) -> bool {
        self.snapshots.visibility() != Visibility::Disabled
    }

    /// Returns the attributes of a virtual directory. The list of snapshots has the times of its
    /// last change.
    fn attributes_of_own(&self, is_list: bool) -> Done<Attributes> {
        if !self.is_shown() {
            return Err(FileError::Stale);
        }
        let created = self.files.attributes(self.files.root())?.created;
        let changed = match is_list {
            true => self.snapshots.changed()?.max(created),
            false => created,
        };
        let nanoseconds = (changed.seconds as u64).wrapping_mul(1_000_000_000);
        Ok(Attributes {
            links: 2,
            size: 2,
            created,
            change: nanoseconds.wrapping_add(changed.nanoseconds.into()),
            ..Attributes::of_new(Kind::Directory, 0o555, (0, 0), changed)
        })
    }

    fn own(&self, node: Node) -> Done<Object> {
        let attributes = self.attributes_of_own(node == DIRECTORY)?;
        Ok(Object { node, attributes })
    }

    /// Returns an entry of the list of snapshots. It has the current attributes of the root
    /// directory, because its own attributes would require the snapshot to be opened. Clients
    /// request these when they enter it.
    fn unopened(&self, object: u64) -> Done<Object> {
        let root = self.files.root();
        let snapshot = MOUNTED.checked_sub(object).ok_or(FileError::Stale)?;
        let node = inside(snapshot, root).filter(|node| is_fixed(*node));
        Ok(Object {
            node: node.ok_or(FileError::Stale)?,
            attributes: self.files.attributes(root)?,
        })
    }

    fn enter_snapshot(&self, name: &[u8]) -> Done<Object> {
        check_name(name, NAME_BYTES_MAX)?;
        let snapshot = self.snapshots.find(name)?;
        let entered = self.in_snapshot(snapshot, |files| {
            let node = files.root();
            let attributes = files.attributes(node)?;
            Ok(Object { node, attributes })
        });
        match entered {
            // It was destroyed concurrently.
            Err(FileError::Stale) => Err(FileError::NotFound),
            entered => moved_in(snapshot, entered?),
        }
    }

    fn list_snapshots(&self, cookie: u64, visit: &mut dyn FnMut(Entry<'_>) -> bool) -> Done<bool> {
        let cursor = match cookie {
            0 => 0,
            COOKIE_FIRST..=COOKIE_LAST => cookie - COOKIE_FIRST,
            _ => return Err(FileError::BadCookie),
        };
        self.snapshots.list(cursor, &mut |snapshot| {
            visit(Entry {
                name: snapshot.name,
                object: MOUNTED.saturating_sub(snapshot.number),
                cookie: snapshot
                    .cursor
                    .saturating_add(COOKIE_FIRST)
                    .min(COOKIE_LAST),
            })
        })
    }

    /// The entry `.zfs` is the last one of the root directory.
    fn list_root(
        &self,
        who: &Identity,
        cookie: u64,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Done<bool> {
        let is_visible = self.snapshots.visibility() == Visibility::Visible;
        if cookie == COOKIE_LAST {
            return Ok(true);
        }
        let root = self.files.root();
        let is_end = self.files.read_directory(who, root, cookie, visit)?;
        Ok(is_end
            && (!is_visible
                || visit(Entry {
                    name: CONTROL_NAME,
                    object: CONTROL.object,
                    cookie: COOKIE_LAST,
                })))
    }
}

/// Converts an object of a snapshot to an object of its file system.
fn moved_in(snapshot: u64, object: Object) -> Done<Object> {
    Ok(Object {
        node: inside(snapshot, object.node).ok_or(FileError::Stale)?,
        ..object
    })
}

impl FileSystem for WithSnapshots {
    fn id(&self) -> FileSystemId {
        self.files.id()
    }

    fn limits(&self) -> Limits {
        self.files.limits()
    }

    fn root(&self) -> Node {
        self.files.root()
    }

    fn statistics(&self) -> Done<Statistics> {
        self.files.statistics()
    }

    fn attributes(&self, node: Node) -> Done<Attributes> {
        match Where::of(node) {
            Where::Control | Where::Directory => self.own(node).map(|own| own.attributes),
            _ => self.on(node, |files, node| files.attributes(node)),
        }
    }

    fn object(&self, directory: Node, object: u64) -> Done<Object> {
        match Where::of(directory) {
            Where::Live if object == CONTROL.object => self.own(CONTROL),
            Where::Live => self.files.object(directory, object),
            Where::Control => self.own(DIRECTORY),
            Where::Directory => self.unopened(object),
            Where::Inside(snapshot, directory) => {
                let found = self.in_snapshot(snapshot, |files| files.object(directory, object))?;
                moved_in(snapshot, found)
            }
        }
    }

    fn set_attributes(
        &self,
        who: &Identity,
        node: Node,
        changes: &SetAttributes,
        guard: &Guard,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        Self::check_live(node)?;
        self.files
            .set_attributes(who, node, changes, guard, receipt)
    }

    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions> {
        let may = match Where::of(node) {
            Where::Live => return self.files.permissions(who, node),
            Where::Control | Where::Directory => {
                file_system::rights::permitted(&self.own(node)?.attributes, who)
            }
            Where::Inside(snapshot, node) => {
                self.in_snapshot(snapshot, |files| files.permissions(who, node))?
            }
        };
        Ok(may.fixed())
    }

    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Object> {
        match Where::of(directory) {
            Where::Live if self.is_control(directory, name) => {
                match self.files.permissions(who, directory)?.execute {
                    true => self.own(CONTROL),
                    false => Err(FileError::Access),
                }
            }
            Where::Live => self.files.look_up(who, directory, name),
            Where::Control if name == DIRECTORY_NAME => self.own(DIRECTORY),
            Where::Control => Err(FileError::NotFound),
            Where::Directory => self.enter_snapshot(name),
            Where::Inside(snapshot, directory) => {
                let found =
                    self.in_snapshot(snapshot, |files| files.look_up(who, directory, name))?;
                moved_in(snapshot, found)
            }
        }
    }

    fn parent(&self, who: &Identity, directory: Node) -> Done<Node> {
        match Where::of(directory) {
            Where::Live => self.files.parent(who, directory),
            Where::Control => Ok(self.files.root()),
            Where::Directory => Ok(CONTROL),
            Where::Inside(snapshot, directory) => self.in_snapshot(snapshot, |files| {
                if directory == files.root() {
                    return Ok(DIRECTORY);
                }
                let parent = files.parent(who, directory)?;
                inside(snapshot, parent).ok_or(FileError::Stale)
            }),
        }
    }

    fn make(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        attributes: &SetAttributes,
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        self.check_new_name(directory, name)?;
        self.files
            .make(who, directory, name, what, attributes, receipt)
    }

    fn make_with_acl(
        &self,
        who: &Identity,
        directory: Node,
        (name, what): (&[u8], Make<'_>),
        attributes: &SetAttributes,
        list: &[acl::Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        self.check_new_name(directory, name)?;
        self.files
            .make_with_acl(who, directory, (name, what), attributes, list, receipt)
    }

    fn remove(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Removable,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.check_live_name(directory, name)?;
        self.files.remove(who, directory, name, what, receipt)
    }

    fn rename(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Renamed> {
        self.check_live_name(from.0, from.1)?;
        self.check_new_name(to.0, to.1)?;
        self.files.rename(who, from, to, receipt)
    }

    fn link(
        &self,
        who: &Identity,
        node: Node,
        directory: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        Self::check_live(node)?;
        self.check_new_name(directory, name)?;
        self.files.link(who, node, directory, name, receipt)
    }

    fn receipt(&self, place: &Place) -> Option<Receipt> {
        self.files.receipt(place)
    }

    fn read_link(&self, node: Node) -> Done<Vec<u8>> {
        self.on(node, |files, node| files.read_link(node))
    }

    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Done<bool> {
        match Where::of(directory) {
            Where::Live if directory == self.files.root() => self.list_root(who, cookie, visit),
            Where::Live => self.files.read_directory(who, directory, cookie, visit),
            Where::Control if cookie == 0 && self.is_shown() => Ok(visit(Entry {
                name: DIRECTORY_NAME,
                object: DIRECTORY.object,
                cookie: COOKIE_FIRST,
            })),
            Where::Control => Ok(true),
            Where::Directory if self.is_shown() => self.list_snapshots(cookie, visit),
            Where::Directory => Err(FileError::Stale),
            Where::Inside(snapshot, directory) => self.in_snapshot(snapshot, |files| {
                files.read_directory(who, directory, cookie, visit)
            }),
        }
    }

    fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Done<Read> {
        self.on(node, |files, node| files.read(node, offset, into))
    }

    fn read_onto(
        &self,
        node: Node,
        offset: u64,
        length_max: usize,
        onto: &mut Vec<u8>,
    ) -> Done<Read> {
        self.on(node, |files, node| {
            files.read_onto(node, offset, length_max, onto)
        })
    }

    fn read_or_lend(
        &self,
        node: Node,
        offset: u64,
        length_max: usize,
        onto: &mut Vec<u8>,
    ) -> Done<(Read, Option<Box<dyn ReadLoan>>)> {
        self.on(node, |files, node| {
            files.read_or_lend(node, offset, length_max, onto)
        })
    }

    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done<Changed> {
        Self::check_live(node)?;
        self.files.write(node, offset, bytes)
    }

    fn append(&self, node: Node, offset: u64, bytes: &[u8], repeats: bool) -> Done<Changed> {
        Self::check_live(node)?;
        self.files.append(node, offset, bytes, repeats)
    }

    fn commit(&self, node: Option<Node>) -> Done {
        match node {
            Some(node) if is_fixed(node) => self.attributes(node).map(drop),
            node => self.files.commit(node),
        }
    }

    fn seek(&self, node: Node, offset: u64, content: Content) -> Done<u64> {
        self.on(node, |files, node| files.seek(node, offset, content))
    }

    fn allocate(&self, node: Node, offset: u64, length: u64) -> Done {
        Self::check_live(node)?;
        self.files.allocate(node, offset, length)
    }

    fn deallocate(&self, node: Node, offset: u64, length: u64) -> Done {
        Self::check_live(node)?;
        self.files.deallocate(node, offset, length)
    }

    fn clone_range(&self, from: (Node, u64), to: (Node, u64), length: u64) -> Done {
        Self::check_live(from.0)?;
        Self::check_live(to.0)?;
        self.files.clone_range(from, to, length)
    }

    fn acl(&self, who: &Identity, node: Node) -> Done<Vec<acl::Entry>> {
        match Where::of(node) {
            Where::Control | Where::Directory => {
                let known = self.own(node)?.attributes;
                Ok(acl::of_mode(known.mode, known.kind).list())
            }
            _ => self.on(node, |files, node| files.acl(who, node)),
        }
    }

    fn set_acl(
        &self,
        who: &Identity,
        node: Node,
        list: &[acl::Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        Self::check_live(node)?;
        self.files.set_acl(who, node, list, receipt)
    }

    fn extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done<Vec<u8>> {
        self.on(node, |files, node| files.extended(who, node, name))
    }

    fn set_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetExtended,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        Self::check_live(node)?;
        self.files
            .set_extended(who, node, name, value, how, receipt)
    }

    fn remove_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        Self::check_live(node)?;
        self.files.remove_extended(who, node, name, receipt)
    }

    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        self.on(node, |files, node| files.extended_names(who, node))
    }

    fn path(&self, node: Node, names_left: &mut u64) -> Option<String> {
        match Where::of(node) {
            Where::Live => self.files.path(node, names_left),
            _ => None,
        }
    }

    fn owners(&self, kind: OwnerKind, may_continue: &dyn Fn() -> bool) -> Done<Owners> {
        self.files.owners(kind, may_continue)
    }

    fn owner_space(&self, owner: Owner) -> Done<OwnerSpace> {
        self.files.owner_space(owner)
    }

    fn set_quotas(&self, quotas: &[Quota]) -> Done {
        self.files.set_quotas(quotas)
    }

    /// A snapshot cannot lose a file.
    fn hold(&self, node: Node) -> Done {
        match Where::of(node) {
            Where::Live => self.files.hold(node),
            _ => self.attributes(node).map(drop),
        }
    }

    fn release(&self, node: Node) {
        if let Where::Live = Where::of(node) {
            self.files.release(node);
        }
    }
}

#[cfg(test)]
#[path = "snapshots_tests.rs"]
pub(crate) mod tests;
