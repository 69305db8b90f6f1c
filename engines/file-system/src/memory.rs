//! A file system in memory, for tests of protocols. Its contents are lost when it is dropped.

mod directory;
mod owners;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

use directory::Directory;
use state::{Body, Object, State, new_object, node_of};

use crate::rights::{check_moved, check_name as check_any_name, check_set, permitted};
use crate::{
    Attributes, COOKIE_LAST, Changed, Content, Done, Entry, FileError, FileSystem, FileSystemId,
    Guard, Identity, Kind, Limits, Made, Make, Node, Object as Known, Owner, OwnerKind, OwnerSpace,
    Owners, Permissions, Place, Quota, Read, Receipt, Removable, Renamed, SetAttributes,
    SetExtended, Statistics, Time, acl,
};

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;
/// Names of one object.
const LINKS_MAX: u32 = 32_000;
/// Extended attributes of one object.
const EXTENDED_MAX: usize = 64;
/// The unit of data and holes.
const BLOCK_BYTES: u64 = 4096;
/// The first cookie: lower ones are reserved by the protocol.
const COOKIE_FIRST: u64 = 16;
const ROOT: Node = Node {
    object: 1,
    generation: 1,
};

/// Files, in memory.
pub struct MemoryFileSystem {
    id: FileSystemId,
    bytes_max: u64,
    commits: AtomicU64,
    delayed: RwLock<()>,
    fails_commits: AtomicBool,
    appender: OnceLock<Appender>,
    state: Mutex<State>,
}

/// See [`MemoryFileSystem::grant_append_only`].
#[derive(Clone, Copy)]
struct Appender {
    uid: u32,
    reads: bool,
}

fn check_name(name: &[u8]) -> Done {
    check_any_name(name, NAME_BYTES_MAX)
}

impl MemoryFileSystem {
    /// An empty file system with room for `bytes_max` bytes of contents. Its root is writable by every user.
    pub fn new(bytes_max: u64) -> Self {
        Self::with_guid(1, bytes_max)
    }

    /// Creates a file system with an identity.
    pub fn with_guid(guid: u64, bytes_max: u64) -> Self {
        let attributes = Attributes::of_new(Kind::Directory, 0o777, (0, 0), Time::now());
        let root = Object {
            attributes: Attributes {
                links: 2,
                ..attributes
            },
            holds: 0,
            extended: BTreeMap::new(),
            acl: None,
            body: Body::Directory(Directory::new(ROOT.object)),
        };
        let state = State {
            nodes: HashMap::from([(ROOT.object, root)]),
            receipts: HashMap::new(),
            next: ROOT.object + 1,
            bytes_used: 0,
            quotas: BTreeMap::new(),
        };
        Self {
            id: FileSystemId { guid, snapshot: 0 },
            bytes_max,
            commits: AtomicU64::new(0),
            delayed: RwLock::new(()),
            fails_commits: AtomicBool::new(false),
            appender: OnceLock::new(),
            state: Mutex::new(state),
        }
    }

    /// A copy of the files under another identity, like a clone. It has no holds.
    pub fn copy(&self, guid: u64) -> Self {
        let mut state = self.lock().clone();
        state.nodes.values_mut().for_each(|object| object.holds = 0);
        Self {
            id: FileSystemId { guid, snapshot: 0 },
            bytes_max: self.bytes_max,
            commits: AtomicU64::new(0),
            delayed: RwLock::new(()),
            fails_commits: AtomicBool::new(false),
            appender: OnceLock::new(),
            state: Mutex::new(state),
        }
    }

    /// Drops all holds, as closing the file system does. Held objects without a name stay for a new hold.
    pub fn forget_holds(&self) {
        let mut state = self.lock();
        state.nodes.values_mut().for_each(|object| object.holds = 0);
    }

    /// The number of objects.
    pub fn objects(&self) -> u64 {
        self.lock().nodes.len() as u64
    }

    /// The number of commits.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Blocks all commits, as a slow disk would, until the returned guard is dropped.
    pub fn delay_commits(&self) -> RwLockWriteGuard<'_, ()> {
        self.delayed.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all later commits fail, as a failed disk would, or succeed again.
    pub fn fail_commits(&self, fails: bool) {
        self.fails_commits.store(fails, Ordering::Relaxed);
    }

    /// Grants the user `uid` only append rights from now on, as a list would, with the right to read if `reads`.
    pub fn grant_append_only(&self, uid: u32, reads: bool) {
        self.appender.get_or_init(|| Appender { uid, reads });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl FileSystem for MemoryFileSystem {
    fn id(&self) -> FileSystemId {
        self.id
    }

    fn limits(&self) -> Limits {
        Limits {
            name_bytes_max: NAME_BYTES_MAX as u32,
            file_bytes_max: i64::MAX as u64,
            links_max: LINKS_MAX,
            atomic_write_bytes: u32::MAX,
            is_read_only: false,
            ignores_case: false,
            has_acls: true,
        }
    }

    fn root(&self) -> Node {
        ROOT
    }

    fn statistics(&self) -> Done<Statistics> {
        Ok(Statistics {
            bytes_total: self.bytes_max,
            bytes_free: self.bytes_max - self.lock().bytes_used,
            files_total: 1 << 32,
            files_free: 1 << 31,
        })
    }

    fn attributes(&self, node: Node) -> Done<Attributes> {
        self.lock().get(node).map(|object| object.attributes)
    }

    fn object(&self, _: Node, object: u64) -> Done<Known> {
        self.lock().known(object)
    }

    fn set_attributes(
        &self,
        who: &Identity,
        node: Node,
        changes: &SetAttributes,
        guard: &Guard,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let mut state = self.lock();
        let attributes = state.get(node)?.attributes;
        if guard.changed.is_some_and(|time| time != attributes.changed) {
            return Err(FileError::NotSame);
        }
        check_set(&attributes, who, changes)?;
        let ((), changed) = state.changing(node, |state| state.set(who, node, changes))?;
        state.note(receipt);
        Ok(changed)
    }

    fn acl(&self, _: &Identity, node: Node) -> Done<Vec<acl::Entry>> {
        let state = self.lock();
        let object = state.get(node)?;
        let known = object.attributes;
        let of_mode = || acl::of_mode(known.mode, known.kind).list();
        Ok(object.acl.clone().unwrap_or_else(of_mode))
    }

    fn set_acl(
        &self,
        who: &Identity,
        node: Node,
        list: &[acl::Entry],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let mut state = self.lock();
        let attributes = state.get(node)?.attributes;
        if !acl::is_possible(list, attributes.kind) {
            return Err(FileError::Invalid);
        }
        if who.uid != 0 && who.uid != attributes.uid {
            return Err(FileError::NotPermitted);
        }
        let ((), changed) = state.changing(node, |state| {
            let object = state.get_mut(node)?;
            object.touch(false);
            let owner = (attributes.uid, attributes.gid);
            let mode = attributes.mode & 0o7000 | acl::mode_of(list, owner);
            object.attributes.mode = mode;
            object.acl = Some(list.to_vec());
            Ok(())
        })?;
        state.note(receipt);
        Ok(changed)
    }

    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions> {
        let may = permitted(&self.lock().get(node)?.attributes, who);
        let appender = self.appender.get().filter(|one| one.uid == who.uid);
        Ok(appender.map_or(may, |appender| Permissions {
            read: appender.reads,
            write: false,
            append: true,
            ..may
        }))
    }

    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Known> {
        let state = self.lock();
        let directory = state.searched(who, directory, false)?;
        check_name(name)?;
        state.known(directory.object(name).ok_or(FileError::NotFound)?)
    }

    fn parent(&self, who: &Identity, directory: Node) -> Done<Node> {
        let state = self.lock();
        state
            .searched(who, directory, false)
            .map(|found| node_of(found.parent))
    }

    fn make(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Make<'_>,
        wanted: &SetAttributes,
        receipt: Option<&Receipt>,
    ) -> Done<Made> {
        check_name(name)?;
        let mut state = self.lock();
        let found = state.searched(who, directory, true)?;
        if found.names.contains_key(name) {
            return Err(FileError::Exists);
        }
        let parent = state.get(directory)?.attributes;
        if parent.links == 0 {
            return Err(FileError::Stale);
        }
        if !what.is_allowed_to(who) {
            return Err(FileError::NotPermitted);
        }
        let (attributes, body) = new_object(who, directory, &parent, what);
        let rest = SetAttributes {
            mode: Some(wanted.mode.unwrap_or(attributes.mode)),
            uid: wanted.uid.filter(|uid| *uid != who.uid),
            gid: wanted.gid.filter(|gid| *gid != attributes.gid),
            size: wanted.size.filter(|_| attributes.kind == Kind::File),
            ..*wanted
        };
        check_set(&attributes, who, &rest)?;
        let uid = rest.uid.unwrap_or(attributes.uid);
        let gid = rest.gid.unwrap_or(attributes.gid);
        state.check_quotas(uid, gid, true)?;
        let (object, directory) = state.changing(directory, |state| {
            let object = state.insert(directory, name, attributes, body);
            state.set(who, node_of(object), &rest)?;
            // Also when the requester is not in the group of the directory.
            state.get_mut(node_of(object))?.attributes.mode |= attributes.mode & 0o2000;
            Ok(object)
        })?;
        let object = state.known(object)?;
        state.note(receipt);
        Ok(Made { object, directory })
    }

    fn remove(
        &self,
        who: &Identity,
        directory: Node,
        name: &[u8],
        what: Removable,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        check_name(name)?;
        let mut state = self.lock();
        let found = state.searched(who, directory, true)?;
        let object = found.object(name).ok_or(FileError::NotFound)?;
        state.check_removal(who, directory, object)?;
        match (&state.nodes[&object].body, what) {
            (Body::Directory(_), Removable::NoDirectory) => return Err(FileError::IsDirectory),
            (Body::Directory(there), _) if !there.names.is_empty() => {
                return Err(FileError::NotEmpty);
            }
            (Body::Directory(_), _) => {}
            (_, Removable::Directory) => return Err(FileError::NotDirectory),
            _ => {}
        }
        let ((), changed) = state.changing(directory, |state| {
            state.change_directory(directory.object, |found| found.remove(name));
            state.unlink(object);
            Ok(())
        })?;
        state.note(receipt);
        Ok(changed)
    }

    fn rename(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Renamed> {
        check_name(from.1)?;
        check_name(to.1)?;
        let mut state = self.lock();
        let found = state.searched(who, from.0, true)?.object(from.1);
        let target = state.searched(who, to.0, true)?.object(to.1);
        let moving = found.ok_or(FileError::NotFound)?;
        state.check_removal(who, from.0, moving)?;
        if from.0 != to.0 {
            let object = state.nodes.get(&moving).ok_or(FileError::Stale)?;
            check_moved(object.attributes.kind, permitted(&object.attributes, who))?;
        }
        let replaced = if target == Some(moving) {
            None
        } else {
            if state.is_within(to.0.object, moving) {
                return Err(FileError::Invalid);
            }
            state.replaced(moving, target)?
        };
        if let Some(replaced) = replaced {
            state.check_removal(who, to.0, replaced)?;
        }
        let (((), to), from) = state.changing(from.0, |state| {
            state.changing(to.0, |state| {
                if target != Some(moving) {
                    state.move_name(moving, replaced, from, to);
                }
                Ok(())
            })
        })?;
        state.note(receipt);
        Ok(Renamed { from, to })
    }

    fn link(
        &self,
        who: &Identity,
        node: Node,
        directory: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        check_name(name)?;
        let mut state = self.lock();
        let object = state.get(node)?;
        if object.attributes.kind == Kind::Directory {
            return Err(FileError::IsDirectory);
        }
        if object.attributes.links >= LINKS_MAX {
            return Err(FileError::TooManyLinks);
        }
        if state
            .searched(who, directory, true)?
            .names
            .contains_key(name)
        {
            return Err(FileError::Exists);
        }
        if state.get(directory)?.attributes.links == 0 {
            return Err(FileError::Stale);
        }
        let ((), changed) = state.changing(directory, |state| {
            state.change_directory(directory.object, |found| found.insert(name, node.object));
            let object = state.get_mut(node)?;
            object.attributes.links += 1;
            object.touch(false);
            Ok(())
        })?;
        state.note(receipt);
        Ok(changed)
    }

    fn receipt(&self, place: &Place) -> Option<Receipt> {
        self.lock().receipts.get(place).copied()
    }

    fn read_link(&self, node: Node) -> Done<Vec<u8>> {
        match &self.lock().get(node)?.body {
            Body::Link(text) => Ok(text.clone()),
            _ => Err(FileError::WrongType),
        }
    }

    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Done<bool> {
        let state = self.lock();
        let object = state.get(directory)?;
        let found = object.directory()?;
        if !permitted(&object.attributes, who).read {
            return Err(FileError::Access);
        }
        if cookie > COOKIE_LAST {
            return Err(FileError::BadCookie);
        }
        let rest = (Bound::Excluded(cookie), Bound::Unbounded);
        Ok(found.entries.range(rest).all(|(cookie, (name, object))| {
            visit(Entry {
                name,
                object: *object,
                cookie: *cookie,
            })
        }))
    }

    fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Done<Read> {
        let mut state = self.lock();
        let object = state.get_mut(node)?;
        let size = object.attributes.size;
        let blocks = object.blocks()?;
        let end = offset.saturating_add(into.len() as u64).min(size);
        let length = end.saturating_sub(offset) as usize;
        let mut at = offset;
        let mut rest = &mut into[..length];
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES) as usize;
            let count = rest.len().min(BLOCK_BYTES as usize - within);
            let (piece, behind) = rest.split_at_mut(count);
            match blocks.get(&(at / BLOCK_BYTES)) {
                Some(block) => piece.copy_from_slice(&block[within..][..count]),
                None => piece.fill(0),
            }
            rest = behind;
            at += count as u64;
        }
        object.attributes.accessed = Time::now();
        let is_end = offset.saturating_add(length as u64) >= size;
        Ok(Read { length, is_end })
    }

    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done<Changed> {
        let mut state = self.lock();
        let Attributes { uid, gid, .. } = state.get(node)?.attributes;
        state.check_quotas(uid, gid, false)?;
        let write = |state: &mut State| state.write(node, offset, bytes, self.bytes_max);
        let ((), changed) = state.changing(node, write)?;
        Ok(changed)
    }

    fn append(&self, node: Node, offset: u64, bytes: &[u8], repeats: bool) -> Done<Changed> {
        let size = self.attributes(node)?.size;
        let before = size.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let mut there = vec![0; before];
        self.read(node, offset, &mut there)?;
        match there[..] == bytes[..before] && (before == 0 || repeats) {
            true => self.write(node, offset, bytes),
            false => Err(FileError::Access),
        }
    }

    fn commit(&self, node: Option<Node>) -> Done {
        self.commits.fetch_add(1, Ordering::Relaxed);
        drop(self.delayed.read());
        if self.fails_commits.load(Ordering::Relaxed) {
            return Err(FileError::Io);
        }
        match node {
            Some(node) => self.lock().get(node).map(|_| ()),
            None => Ok(()),
        }
    }

    fn seek(&self, node: Node, offset: u64, content: Content) -> Done<u64> {
        let mut state = self.lock();
        let object = state.get_mut(node)?;
        let size = object.attributes.size;
        let blocks = object.blocks()?;
        if offset >= size {
            return Err(FileError::BeyondEnd);
        }
        let first = offset / BLOCK_BYTES;
        let found = match content {
            Content::Data => {
                let next = blocks.range(first..).next();
                *next.ok_or(FileError::BeyondEnd)?.0
            }
            Content::Hole => {
                let mut hole = first;
                for (number, _) in blocks.range(first..) {
                    if *number != hole {
                        break;
                    }
                    hole += 1;
                }
                hole
            }
        };
        Ok((found * BLOCK_BYTES).max(offset).min(size))
    }

    fn allocate(&self, node: Node, offset: u64, length: u64) -> Done {
        let end = offset.checked_add(length).ok_or(FileError::TooLarge)?;
        let mut state = self.lock();
        if state.bytes_used.saturating_add(length) > self.bytes_max {
            return Err(FileError::NoSpace);
        }
        let object = state.get_mut(node)?;
        object.blocks()?;
        if end > object.attributes.size {
            object.attributes.size = end;
        }
        object.touch(true);
        Ok(())
    }

    fn deallocate(&self, node: Node, offset: u64, length: u64) -> Done {
        self.lock().punch(node, offset, length)
    }

    fn clone_range(&self, from: (Node, u64), to: (Node, u64), length: u64) -> Done {
        let mut buffer = vec![0; length.min(1 << 20) as usize];
        let mut done = 0;
        while done < length {
            let count = (length - done).min(1 << 20) as usize;
            let read = self.read(from.0, from.1 + done, &mut buffer[..count])?;
            if read.length == 0 {
                return Err(FileError::Invalid);
            }
            self.write(to.0, to.1 + done, &buffer[..read.length])?;
            done += read.length as u64;
        }
        Ok(())
    }

    fn extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done<Vec<u8>> {
        let state = self.lock();
        let object = state.get(node)?;
        if !permitted(&object.attributes, who).read {
            return Err(FileError::Access);
        }
        object
            .extended
            .get(name)
            .cloned()
            .ok_or(FileError::NoExtended)
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
        let mut state = self.lock();
        let object = state.get_mut(node)?;
        if !permitted(&object.attributes, who).write {
            return Err(FileError::Access);
        }
        match (how, object.extended.contains_key(name)) {
            (SetExtended::Create, true) => return Err(FileError::Exists),
            (SetExtended::Replace, false) => return Err(FileError::NoExtended),
            (_, false) if object.extended.len() >= EXTENDED_MAX => return Err(FileError::NoSpace),
            _ => {}
        }
        let before = object.attributes;
        object.extended.insert(name.to_vec(), value.to_vec());
        object.touch(false);
        let after = object.attributes;
        state.note(receipt);
        Ok(Changed { before, after })
    }

    fn remove_extended(
        &self,
        who: &Identity,
        node: Node,
        name: &[u8],
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let mut state = self.lock();
        let object = state.get_mut(node)?;
        if !permitted(&object.attributes, who).write {
            return Err(FileError::Access);
        }
        let before = object.attributes;
        object.extended.remove(name).ok_or(FileError::NoExtended)?;
        object.touch(false);
        let after = object.attributes;
        state.note(receipt);
        Ok(Changed { before, after })
    }

    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        let state = self.lock();
        let object = state.get(node)?;
        if !permitted(&object.attributes, who).read {
            return Err(FileError::Access);
        }
        Ok(object.extended.keys().cloned().collect())
    }

    fn owners(&self, kind: OwnerKind, _: &dyn Fn() -> bool) -> Done<Owners> {
        match kind {
            OwnerKind::Project => Err(FileError::Unsupported),
            _ => Ok(self.lock().owners(kind)),
        }
    }

    fn owner_space(&self, owner: Owner) -> Done<OwnerSpace> {
        match owner.kind {
            OwnerKind::Project => Err(FileError::Unsupported),
            _ => Ok(self.lock().owner_space(owner)),
        }
    }

    fn set_quotas(&self, quotas: &[Quota]) -> Done {
        self.lock().set_quotas(quotas)
    }

    fn path(&self, node: Node, names_left: &mut u64) -> Option<String> {
        let state = self.lock();
        state.get(node).ok()?;
        let (mut at, mut names) = (node.object, Vec::new());
        while at != self.root().object {
            *names_left = names_left.checked_sub(1)?;
            let (directory, name) = state.named(at)?;
            names.push(String::from_utf8_lossy(name));
            at = directory;
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }

    fn hold(&self, node: Node) -> Done {
        self.lock().get_mut(node)?.holds += 1;
        Ok(())
    }

    fn release(&self, node: Node) {
        let mut state = self.lock();
        if let Ok(object) = state.get_mut(node) {
            object.holds = object.holds.saturating_sub(1);
            state.forget_if_gone(node.object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_file_system_passes_conformance() {
        for (_, test) in crate::conformance::ALL {
            test(&MemoryFileSystem::new(1 << 30));
        }
    }
}
