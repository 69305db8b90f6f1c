//! A file system that its first use opens. A start must not take longer with more shares: each open reads from the
//! disks and perhaps replays a log, and most file systems are not used in the first second.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use ::nfs::snapshots::WithSnapshots;
use block_device::ReadLoan;
use engine::OpenFileSystem;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use file_system::{
    Attributes, Changed, Content, Done, Entry, FileError, FileSystem, FileSystemId, Guard, Identity, Limits, Made, Make, Node, Object,
    Owner, OwnerKind, OwnerSpace, Owners, Permissions, Place, Quota, Read, Receipt, Removable, Renamed, SetAttributes, SetExtended, Statistics,
    acl,
};

use super::super::super::shared_pool::SharedPool;

/// Delay between two attempts to open one after a failure.
const HELD_BACK: Duration = Duration::from_secs(1);

/// See the module.
pub struct LazyFiles {
    id: FileSystemId,
    pool: Arc<SharedPool>,
    open: OnceLock<Open>,
    /// Serializes open and close.
    gate: Mutex<Gate>,
}

struct Gate {
    /// The name of its dataset.
    name: String,
    is_closed: bool,
    /// The server has collected the failure and replaces this object.
    is_given_up: bool,
    /// The time and cause of a failed open. Clients must retry; the open is retried after a delay.
    failure: Option<(Instant, DatasetError)>,
}

struct Open {
    dataset: Box<dyn OpenFileSystem>,
    /// Includes its snapshots.
    files: Arc<dyn FileSystem>,
}

impl Open {
    fn new(dataset: Box<dyn OpenFileSystem>) -> Self {
        let files = dataset.files();
        let files = match dataset.snapshots() {
            Some(snapshots) => Arc::new(WithSnapshots::new(files, snapshots)),
            None => files,
        };
        Self { dataset, files }
    }
}

impl LazyFiles {
    /// The file system of the dataset `name` with this identity. Reads nothing yet.
    pub fn new(pool: Arc<SharedPool>, name: String, id: FileSystemId) -> Self {
        Self {
            id,
            pool,
            open: OnceLock::new(),
            gate: Mutex::new(Gate {
                name,
                is_closed: false,
                is_given_up: false,
                failure: None,
            }),
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().expect("no holder panics")
    }

    fn files(&self) -> Done<&dyn FileSystem> {
        match self.open.get() {
            Some(open) => Ok(&*open.files),
            None => self.open().map(|open| &*open.files),
        }
    }

    /// Opens it now, as its first use would. Fails with [`FileError::NotReady`]; [`Self::take_failure`] returns the
    /// cause. May block.
    fn open(&self) -> Done<&Open> {
        let mut gate = self.gate();
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        if gate.is_closed {
            return Err(FileError::Gone);
        }
        let is_recent = |(at, _): &(Instant, DatasetError)| at.elapsed() < HELD_BACK;
        if gate.is_given_up || gate.failure.as_ref().is_some_and(is_recent) {
            return Err(FileError::NotReady);
        }
        let pool = self.pool.get().ok_or(FileError::Gone)?;
        let files = pool.files().map_err(DatasetError::from);
        let opened = files.and_then(|files| files.open_file_system(DatasetRef::from_checked(&gate.name), false)).and_then(|dataset| {
            let open = Open::new(dataset);
            match open.files.id() == self.id {
                true => Ok(open),
                false => {
                    let why = "its identity differs from that of its dataset".to_owned();
                    let kind = DatasetErrorKind::FileSystemRefused { why };
                    Err(DatasetError::new("open", &gate.name, kind))
                }
            }
        });
        match opened {
            Ok(open) => {
                gate.failure = None;
                Ok(self.open.get_or_init(|| open))
            }
            Err(error) => {
                gate.failure = Some((Instant::now(), error));
                Err(FileError::NotReady)
            }
        }
    }

    /// Opens it, used or not. May block.
    pub fn open_now(&self) {
        // [`Self::take_failure`] returns the failure.
        let _ = self.files();
    }

    /// Whether the open failed. Never blocks.
    pub fn has_failed(&self) -> bool {
        self.gate.try_lock().is_ok_and(|gate| gate.failure.is_some())
    }

    /// Returns the cause of a failed open, once. Afterwards it is never opened, and calls return
    /// [`FileError::NotReady`]. `None` without a failure.
    pub fn take_failure(&self) -> Option<DatasetError> {
        let mut gate = self.gate.try_lock().ok()?;
        let (_, failure) = gate.failure.take()?;
        gate.is_given_up = true;
        Some(failure)
    }

    /// Its dataset was renamed.
    pub fn renamed(&self, name: String) {
        let mut gate = self.gate();
        gate.name = name;
        // The open may have failed under the earlier name.
        gate.failure = None;
    }

    /// Changes refused for lack of space.
    pub fn refused_for_space(&self) -> u64 {
        self.open.get().map_or(0, |open| open.dataset.refused_for_space())
    }

    /// Closes it for good: later calls return [`FileError::Gone`]. May block.
    pub fn close(&self) {
        self.gate().is_closed = true;
        if let Some(open) = self.open.get() {
            open.dataset.close();
        }
    }
}

impl FileSystem for LazyFiles {
    fn id(&self) -> FileSystemId {
        self.id
    }

    fn is_open(&self) -> bool {
        self.open.get().is_some()
    }

    fn limits(&self) -> Limits {
        self.files().map_or_else(|_| NOTHING, FileSystem::limits)
    }

    fn root(&self) -> Node {
        self.files().map_or(NO_NODE, FileSystem::root)
    }

    fn receipt(&self, place: &Place) -> Option<Receipt> {
        self.files().ok()?.receipt(place)
    }

    fn release(&self, node: Node) {
        // A held node implies an open file system.
        if let Some(open) = self.open.get() {
            open.files.release(node);
        }
    }

    fn path(&self, node: Node, names_left: &mut u64) -> Option<String> {
        self.files().ok()?.path(node, names_left)
    }

    fn statistics(&self) -> Done<Statistics> {
        self.files()?.statistics()
    }

    fn attributes(&self, node: Node) -> Done<Attributes> {
        self.files()?.attributes(node)
    }

    fn object(&self, directory: Node, object: u64) -> Done<Object> {
        self.files()?.object(directory, object)
    }

    fn set_attributes(&self, who: &Identity, node: Node, changes: &SetAttributes, guard: &Guard, receipt: Option<&Receipt>) -> Done<Changed> {
        self.files()?.set_attributes(who, node, changes, guard, receipt)
    }

    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions> {
        self.files()?.permissions(who, node)
    }

    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Object> {
        self.files()?.look_up(who, directory, name)
    }

    fn parent(&self, who: &Identity, directory: Node) -> Done<Node> {
        self.files()?.parent(who, directory)
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
        self.files()?.make(who, directory, name, what, attributes, receipt)
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
        self.files()?
            .make_with_acl(who, directory, (name, what), attributes, list, receipt)
    }

    fn remove(&self, who: &Identity, directory: Node, name: &[u8], what: Removable, receipt: Option<&Receipt>) -> Done<Changed> {
        self.files()?.remove(who, directory, name, what, receipt)
    }

    fn rename(&self, who: &Identity, from: (Node, &[u8]), to: (Node, &[u8]), receipt: Option<&Receipt>) -> Done<Renamed> {
        self.files()?.rename(who, from, to, receipt)
    }

    fn link(&self, who: &Identity, node: Node, directory: Node, name: &[u8], receipt: Option<&Receipt>) -> Done<Changed> {
        self.files()?.link(who, node, directory, name, receipt)
    }

    fn read_link(&self, node: Node) -> Done<Vec<u8>> {
        self.files()?.read_link(node)
    }

    fn read_directory(&self, who: &Identity, directory: Node, cookie: u64, visit: &mut dyn FnMut(Entry<'_>) -> bool) -> Done<bool> {
        self.files()?.read_directory(who, directory, cookie, visit)
    }

    fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Done<Read> {
        self.files()?.read(node, offset, into)
    }

    fn read_onto(&self, node: Node, offset: u64, length_max: usize, onto: &mut Vec<u8>) -> Done<Read> {
        self.files()?.read_onto(node, offset, length_max, onto)
    }

    fn read_or_lend(&self, node: Node, offset: u64, length_max: usize, onto: &mut Vec<u8>) -> Done<(Read, Option<Box<dyn ReadLoan>>)> {
        self.files()?.read_or_lend(node, offset, length_max, onto)
    }

    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done<Changed> {
        self.files()?.write(node, offset, bytes)
    }

    fn append(&self, node: Node, offset: u64, bytes: &[u8], repeats: bool) -> Done<Changed> {
        self.files()?.append(node, offset, bytes, repeats)
    }

    fn commit(&self, node: Option<Node>) -> Done {
        self.files()?.commit(node)
    }

    fn seek(&self, node: Node, offset: u64, content: Content) -> Done<u64> {
        self.files()?.seek(node, offset, content)
    }

    fn allocate(&self, node: Node, offset: u64, length: u64) -> Done {
        self.files()?.allocate(node, offset, length)
    }

    fn deallocate(&self, node: Node, offset: u64, length: u64) -> Done {
        self.files()?.deallocate(node, offset, length)
    }

    fn clone_range(&self, from: (Node, u64), to: (Node, u64), length: u64) -> Done {
        self.files()?.clone_range(from, to, length)
    }

    fn acl(&self, who: &Identity, node: Node) -> Done<Vec<acl::Entry>> {
        self.files()?.acl(who, node)
    }

    fn set_acl(&self, who: &Identity, node: Node, list: &[acl::Entry], receipt: Option<&Receipt>) -> Done<Changed> {
        self.files()?.set_acl(who, node, list, receipt)
    }

    fn extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done<Vec<u8>> {
        self.files()?.extended(who, node, name)
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
        self.files()?.set_extended(who, node, name, value, how, receipt)
    }

    fn remove_extended(&self, who: &Identity, node: Node, name: &[u8], receipt: Option<&Receipt>) -> Done<Changed> {
        self.files()?.remove_extended(who, node, name, receipt)
    }

    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        self.files()?.extended_names(who, node)
    }

    fn hold(&self, node: Node) -> Done {
        self.files()?.hold(node)
    }

    fn owners(&self, kind: OwnerKind, may_continue: &dyn Fn() -> bool) -> Done<Owners> {
        self.files()?.owners(kind, may_continue)
    }

    fn owner_space(&self, owner: Owner) -> Done<OwnerSpace> {
        self.files()?.owner_space(owner)
    }

    fn set_quotas(&self, quotas: &[Quota]) -> Done {
        self.files()?.set_quotas(quotas)
    }
}

/// The node of a file system that cannot be opened.
const NO_NODE: Node = Node { object: 0, generation: 0 };
const NOTHING: Limits = Limits {
    name_bytes_max: 255,
    file_bytes_max: 0,
    links_max: 1,
    atomic_write_bytes: 0,
    is_read_only: true,
    ignores_case: false,
    has_acls: false,
};
