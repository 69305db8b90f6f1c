//! A file system in memory, to try the server on. It forgets everything at its end.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::file_system::{
    Attributes, Content, Done, Entry, FileError, FileSystem, Identity, Kind, Make, Node,
    Permissions, SetAttributes, SetExtended, SetTime, Statistics, Time,
};

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;
/// Names of one object.
const LINKS_MAX: u32 = 32_000;
/// Extended attributes of one object.
const EXTENDED_MAX: usize = 64;
/// The unit of data and holes.
const BLOCK_BYTES: u64 = 4096;
/// The first cookie: lower ones mean something else in the protocol.
const COOKIE_FIRST: u64 = 16;
const ROOT: Node = Node {
    object: 1,
    generation: 1,
};

/// Files, in memory.
pub struct MemoryFileSystem {
    bytes_max: u64,
    state: Mutex<State>,
}

struct State {
    nodes: HashMap<u64, Object>,
    next: u64,
    bytes_used: u64,
}

struct Object {
    attributes: Attributes,
    holds: u32,
    extended: BTreeMap<Vec<u8>, Vec<u8>>,
    body: Body,
}

enum Body {
    /// Blocks that were written, by number.
    File(BTreeMap<u64, Box<[u8]>>),
    Directory(Directory),
    Link(Vec<u8>),
    Nothing,
}

struct Directory {
    parent: u64,
    names: HashMap<Vec<u8>, u64>,
    entries: BTreeMap<u64, (Vec<u8>, u64)>,
    next_cookie: u64,
}

impl Directory {
    fn new(parent: u64) -> Self {
        Self {
            parent,
            names: HashMap::new(),
            entries: BTreeMap::new(),
            next_cookie: COOKIE_FIRST,
        }
    }

    fn object(&self, name: &[u8]) -> Option<u64> {
        self.names.get(name).map(|cookie| self.entries[cookie].1)
    }

    fn insert(&mut self, name: &[u8], object: u64) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.names.insert(name.to_vec(), cookie);
        self.entries.insert(cookie, (name.to_vec(), object));
    }

    fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.names.remove(name) {
            self.entries.remove(&cookie);
        }
    }
}

fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        seconds: since.as_secs().try_into().unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

fn check_name(name: &[u8]) -> Done {
    match name.len() {
        0 => Err(FileError::Invalid),
        length if length > NAME_BYTES_MAX => Err(FileError::NameTooLong),
        _ => Ok(()),
    }
}

impl MemoryFileSystem {
    /// An empty one that takes `bytes_max` bytes of contents. Everybody may write to its root.
    pub fn new(bytes_max: u64) -> Self {
        let attributes = fresh(Kind::Directory, 0o777, 0, 0);
        let root = Object {
            attributes: Attributes {
                links: 2,
                ..attributes
            },
            holds: 0,
            extended: BTreeMap::new(),
            body: Body::Directory(Directory::new(ROOT.object)),
        };
        let state = State {
            nodes: HashMap::from([(ROOT.object, root)]),
            next: ROOT.object + 1,
            bytes_used: 0,
        };
        Self {
            bytes_max,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

fn fresh(kind: Kind, mode: u32, uid: u32, gid: u32) -> Attributes {
    let time = now();
    Attributes {
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

fn permitted(attributes: &Attributes, who: &Identity) -> Permissions {
    if who.uid == 0 {
        let runs = attributes.kind == Kind::Directory || attributes.mode & 0o111 != 0;
        return Permissions {
            read: true,
            write: true,
            execute: runs,
        };
    }
    let shift = if who.uid == attributes.uid {
        6
    } else if who.gid == attributes.gid || who.groups.contains(&attributes.gid) {
        3
    } else {
        0
    };
    let bits = attributes.mode >> shift;
    Permissions {
        read: bits & 4 != 0,
        write: bits & 2 != 0,
        execute: bits & 1 != 0,
    }
}

impl Object {
    fn touch(&mut self, contents: bool) {
        let time = now();
        self.attributes.change += 1;
        self.attributes.changed = time;
        if contents {
            self.attributes.modified = time;
        }
    }

    fn directory(&self) -> Done<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FileError::NotDirectory),
        }
    }

    fn blocks(&mut self) -> Done<&mut BTreeMap<u64, Box<[u8]>>> {
        match &mut self.body {
            Body::File(blocks) => Ok(blocks),
            Body::Directory(_) => Err(FileError::IsDirectory),
            _ => Err(FileError::Invalid),
        }
    }
}

impl State {
    fn get(&self, node: Node) -> Done<&Object> {
        let found = (node.generation == 1).then(|| self.nodes.get(&node.object));
        found.flatten().ok_or(FileError::Stale)
    }

    fn get_mut(&mut self, node: Node) -> Done<&mut Object> {
        let found = (node.generation == 1).then(|| self.nodes.get_mut(&node.object));
        found.flatten().ok_or(FileError::Stale)
    }

    /// A directory that `who` may look names up in, and change if `write` says so.
    fn searched(&self, who: &Identity, node: Node, write: bool) -> Done<&Directory> {
        let object = self.get(node)?;
        let directory = object.directory()?;
        let may = permitted(&object.attributes, who);
        if !may.execute || (write && !may.write) {
            return Err(FileError::Access);
        }
        Ok(directory)
    }

    fn change_directory(&mut self, object: u64, change: impl FnOnce(&mut Directory)) {
        if let Some(found) = self.nodes.get_mut(&object) {
            if let Body::Directory(directory) = &mut found.body {
                change(directory);
            }
            found.touch(true);
        }
    }

    /// The sticky bit: only the owner of the name's object or of the directory may take the name away.
    fn check_sticky(&self, who: &Identity, directory: Node, object: u64) -> Done {
        let attributes = &self.get(directory)?.attributes;
        let owner = self.nodes.get(&object).map(|found| found.attributes.uid);
        let is_owner = who.uid == 0 || who.uid == attributes.uid || Some(who.uid) == owner;
        if attributes.mode & 0o1000 != 0 && !is_owner {
            return Err(FileError::NotPermitted);
        }
        Ok(())
    }

    /// One name less.
    fn unlink(&mut self, object: u64) {
        let Some(found) = self.nodes.get_mut(&object) else {
            return;
        };
        let is_directory = found.attributes.kind == Kind::Directory;
        found.attributes.links = if is_directory {
            0
        } else {
            found.attributes.links - 1
        };
        found.touch(false);
        self.forget_if_gone(object);
    }

    fn forget_if_gone(&mut self, object: u64) {
        let gone = self
            .nodes
            .get(&object)
            .is_some_and(|found| found.attributes.links == 0 && found.holds == 0);
        if gone {
            let space = self
                .nodes
                .remove(&object)
                .map_or(0, |found| found.attributes.space);
            self.bytes_used -= space;
        }
    }

    fn truncate(&mut self, node: Node, size: u64) -> Done {
        let object = self.get_mut(node)?;
        let keep = size.div_ceil(BLOCK_BYTES);
        let blocks = object.blocks()?;
        let dropped = blocks.split_off(&keep).len() as u64 * BLOCK_BYTES;
        let cut = usize::try_from(size % BLOCK_BYTES).unwrap_or(0);
        if cut != 0 {
            if let Some(block) = blocks.get_mut(&(size / BLOCK_BYTES)) {
                block[cut..].fill(0);
            }
        }
        object.attributes.size = size;
        object.attributes.space -= dropped;
        object.touch(true);
        self.bytes_used -= dropped;
        Ok(())
    }

    fn write(&mut self, node: Node, offset: u64, bytes: &[u8], bytes_max: u64) -> Done {
        let end = offset
            .checked_add(bytes.len() as u64)
            .ok_or(FileError::TooLarge)?;
        if end > i64::MAX as u64 {
            return Err(FileError::TooLarge);
        }
        let used = self.bytes_used;
        let object = self.get_mut(node)?;
        let blocks = object.blocks()?;
        let numbers = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        let present = blocks.range(numbers.clone()).count() as u64;
        let added = (numbers.end.saturating_sub(numbers.start) - present) * BLOCK_BYTES;
        if used + added > bytes_max {
            return Err(FileError::NoSpace);
        }
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES) as usize;
            let count = rest.len().min(BLOCK_BYTES as usize - within);
            let block = blocks
                .entry(at / BLOCK_BYTES)
                .or_insert_with(|| vec![0; BLOCK_BYTES as usize].into());
            block[within..within + count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            at += count as u64;
        }
        object.attributes.space += added;
        object.attributes.size = object.attributes.size.max(end);
        object.touch(true);
        self.bytes_used += added;
        Ok(())
    }

    /// Whether `directory` is `ancestor` or lies in it.
    fn is_within(&self, mut directory: u64, ancestor: u64) -> bool {
        while directory != ancestor {
            let parent = match self.nodes.get(&directory).map(|found| &found.body) {
                Some(Body::Directory(found)) => found.parent,
                _ => return false,
            };
            if parent == directory {
                return false;
            }
            directory = parent;
        }
        true
    }

    /// What the rename replaces, if it may.
    fn replaced(&self, moving: u64, target: Option<u64>) -> Done<Option<u64>> {
        let Some(target) = target else {
            return Ok(None);
        };
        let (from, to) = (&self.nodes[&moving], &self.nodes[&target]);
        match (&from.body, &to.body) {
            (Body::Directory(_), Body::Directory(there)) if there.names.is_empty() => {}
            (Body::Directory(_), Body::Directory(_)) => return Err(FileError::NotEmpty),
            (Body::Directory(_), _) | (_, Body::Directory(_)) => return Err(FileError::Exists),
            _ => {}
        }
        Ok(Some(target))
    }

    /// Writes or makes a hole.
    fn punch(&mut self, node: Node, offset: u64, length: u64) -> Done {
        let size = self.get(node)?.attributes.size;
        let end = offset
            .checked_add(length)
            .ok_or(FileError::Invalid)?
            .min(size);
        let object = self.get_mut(node)?;
        let blocks = object.blocks()?;
        let numbers: Vec<u64> = blocks
            .range(offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES).max(offset / BLOCK_BYTES))
            .map(|(number, _)| *number)
            .collect();
        let mut freed = 0;
        for number in numbers {
            let start = number * BLOCK_BYTES;
            if start >= offset && start + BLOCK_BYTES <= end {
                blocks.remove(&number);
                freed += BLOCK_BYTES;
            } else if let Some(block) = blocks.get_mut(&number) {
                let from = offset.saturating_sub(start).min(BLOCK_BYTES) as usize;
                let to = (end - start).min(BLOCK_BYTES) as usize;
                block[from..to].fill(0);
            }
        }
        object.attributes.space -= freed;
        object.touch(true);
        self.bytes_used -= freed;
        Ok(())
    }
}

const fn node_of(object: u64) -> Node {
    Node {
        object,
        generation: 1,
    }
}

impl FileSystem for MemoryFileSystem {
    fn identity(&self) -> u64 {
        1
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

    fn set_attributes(&self, who: &Identity, node: Node, changes: &SetAttributes) -> Done {
        let mut state = self.lock();
        let object = state.get(node)?;
        let may = permitted(&object.attributes, who);
        let is_owner = who.uid == 0 || who.uid == object.attributes.uid;
        let gives_away = changes.uid.is_some_and(|uid| uid != object.attributes.uid);
        let only_now = |time: Option<SetTime>| time.is_none_or(|time| time == SetTime::Now);
        let times = changes.accessed.or(changes.modified);
        let harmless_times = only_now(changes.accessed) && only_now(changes.modified) && may.write;
        if (changes.mode.or(changes.uid).or(changes.gid).is_some() && !is_owner)
            || (gives_away && who.uid != 0)
            || (times.is_some() && !is_owner && !harmless_times)
        {
            return Err(FileError::NotPermitted);
        }
        if let Some(size) = changes.size {
            if !may.write && !is_owner {
                return Err(FileError::Access);
            }
            if size > i64::MAX as u64 {
                return Err(FileError::TooLarge);
            }
            state.truncate(node, size)?;
        }
        let object = state.get_mut(node)?;
        let attributes = &mut object.attributes;
        attributes.mode = changes.mode.unwrap_or(attributes.mode);
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
        let time = |set: Option<SetTime>, before: Time| match set {
            Some(SetTime::Now) => now(),
            Some(SetTime::To(time)) => time,
            None => before,
        };
        object.touch(false);
        let attributes = &mut object.attributes;
        attributes.accessed = time(changes.accessed, attributes.accessed);
        attributes.modified = time(changes.modified, attributes.modified);
        Ok(())
    }

    fn permissions(&self, who: &Identity, node: Node) -> Done<Permissions> {
        let state = self.lock();
        Ok(permitted(&state.get(node)?.attributes, who))
    }

    fn look_up(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<Node> {
        let state = self.lock();
        let directory = state.searched(who, directory, false)?;
        check_name(name)?;
        directory
            .object(name)
            .map(node_of)
            .ok_or(FileError::NotFound)
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
    ) -> Done<Node> {
        check_name(name)?;
        let mut state = self.lock();
        if state
            .searched(who, directory, true)?
            .names
            .contains_key(name)
        {
            return Err(FileError::Exists);
        }
        let parent = &state.get(directory)?.attributes;
        if parent.links == 0 {
            return Err(FileError::Stale);
        }
        let inherits = parent.mode & 0o2000 != 0;
        let gid = if inherits { parent.gid } else { who.gid };
        let object = state.next;
        state.next += 1;
        let none = Body::Nothing;
        let (kind, body, device) = match what {
            Make::File => (Kind::File, Body::File(BTreeMap::new()), (0, 0)),
            Make::Directory => {
                let body = Body::Directory(Directory::new(directory.object));
                (Kind::Directory, body, (0, 0))
            }
            Make::Link(text) => (Kind::Link, Body::Link(text.to_vec()), (0, 0)),
            Make::BlockDevice(major, minor) => (Kind::BlockDevice, none, (major, minor)),
            Make::CharacterDevice(major, minor) => (Kind::CharacterDevice, none, (major, minor)),
            Make::Socket => (Kind::Socket, none, (0, 0)),
            Make::Pipe => (Kind::Pipe, none, (0, 0)),
        };
        let default_mode = if kind == Kind::Link { 0o777 } else { 0o644 };
        let mode = wanted.mode.unwrap_or(default_mode);
        let attributes = Attributes {
            device,
            links: if kind == Kind::Directory { 2 } else { 1 },
            size: if let Make::Link(text) = what {
                text.len() as u64
            } else {
                0
            },
            ..fresh(kind, mode, who.uid, wanted.gid.unwrap_or(gid))
        };
        let holds = 0;
        let extended = BTreeMap::new();
        state.nodes.insert(
            object,
            Object {
                attributes,
                holds,
                extended,
                body,
            },
        );
        state.change_directory(directory.object, |found| found.insert(name, object));
        drop(state);
        let rest = SetAttributes {
            mode: None,
            gid: None,
            uid: wanted.uid.filter(|uid| *uid != who.uid),
            size: wanted.size.filter(|_| kind == Kind::File),
            ..*wanted
        };
        if rest != SetAttributes::default() {
            self.set_attributes(who, node_of(object), &rest)?;
        }
        Ok(node_of(object))
    }

    fn remove(&self, who: &Identity, directory: Node, name: &[u8]) -> Done {
        check_name(name)?;
        let mut state = self.lock();
        let found = state.searched(who, directory, true)?;
        let object = found.object(name).ok_or(FileError::NotFound)?;
        state.check_sticky(who, directory, object)?;
        if let Body::Directory(there) = &state.nodes[&object].body {
            if !there.names.is_empty() {
                return Err(FileError::NotEmpty);
            }
        }
        state.change_directory(directory.object, |found| found.remove(name));
        state.unlink(object);
        Ok(())
    }

    fn rename(&self, who: &Identity, from: (Node, &[u8]), to: (Node, &[u8])) -> Done {
        check_name(from.1)?;
        check_name(to.1)?;
        let mut state = self.lock();
        let found = state.searched(who, from.0, true)?.object(from.1);
        let target = state.searched(who, to.0, true)?.object(to.1);
        let moving = found.ok_or(FileError::NotFound)?;
        if target == Some(moving) {
            return Ok(());
        }
        state.check_sticky(who, from.0, moving)?;
        if state.is_within(to.0.object, moving) {
            return Err(FileError::Invalid);
        }
        if let Some(replaced) = state.replaced(moving, target)? {
            state.check_sticky(who, to.0, replaced)?;
            state.change_directory(to.0.object, |found| found.remove(to.1));
            state.unlink(replaced);
        }
        state.change_directory(from.0.object, |found| found.remove(from.1));
        state.change_directory(to.0.object, |found| found.insert(to.1, moving));
        if let Some(object) = state.nodes.get_mut(&moving) {
            if let Body::Directory(directory) = &mut object.body {
                directory.parent = to.0.object;
            }
            object.touch(false);
        }
        Ok(())
    }

    fn link(&self, who: &Identity, node: Node, directory: Node, name: &[u8]) -> Done {
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
        state.change_directory(directory.object, |found| found.insert(name, node.object));
        let object = state.get_mut(node)?;
        object.attributes.links += 1;
        object.touch(false);
        Ok(())
    }

    fn read_link(&self, node: Node) -> Done<Vec<u8>> {
        match &self.lock().get(node)?.body {
            Body::Link(text) => Ok(text.clone()),
            _ => Err(FileError::Invalid),
        }
    }

    fn read_directory(
        &self,
        who: &Identity,
        directory: Node,
        cookie: u64,
        entries_max: usize,
    ) -> Done<(Vec<Entry>, bool)> {
        let state = self.lock();
        let object = state.get(directory)?;
        let found = object.directory()?;
        if !permitted(&object.attributes, who).read {
            return Err(FileError::Access);
        }
        let mut rest = found
            .entries
            .range((Bound::Excluded(cookie), Bound::Unbounded));
        let taken = rest.by_ref().take(entries_max);
        let entries = taken.map(|(cookie, (name, object))| Entry {
            name: name.clone(),
            node: node_of(*object),
            cookie: *cookie,
        });
        let entries = entries.collect();
        Ok((entries, rest.next().is_none()))
    }

    fn read(&self, node: Node, offset: u64, count: usize) -> Done<(Vec<u8>, bool)> {
        let mut state = self.lock();
        let object = state.get_mut(node)?;
        let size = object.attributes.size;
        let blocks = object.blocks()?;
        let end = offset.saturating_add(count as u64).min(size);
        let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut at = offset;
        while at < end {
            let within = at % BLOCK_BYTES;
            let length = (end - at).min(BLOCK_BYTES - within) as usize;
            match blocks.get(&(at / BLOCK_BYTES)) {
                Some(block) => bytes.extend_from_slice(&block[within as usize..][..length]),
                None => bytes.resize(bytes.len() + length, 0),
            }
            at += length as u64;
        }
        object.attributes.accessed = now();
        Ok((bytes, end == size || offset >= size))
    }

    fn write(&self, node: Node, offset: u64, bytes: &[u8]) -> Done {
        self.lock().write(node, offset, bytes, self.bytes_max)
    }

    fn commit(&self, node: Node) -> Done {
        self.lock().get_mut(node)?.blocks().map(|_| ())
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
        let mut done = 0;
        while done < length {
            let count = (length - done).min(1 << 20);
            let (bytes, _) = self.read(from.0, from.1 + done, count as usize)?;
            if bytes.is_empty() {
                return Err(FileError::Invalid);
            }
            self.write(to.0, to.1 + done, &bytes)?;
            done += bytes.len() as u64;
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
    ) -> Done {
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
        object.extended.insert(name.to_vec(), value.to_vec());
        object.touch(false);
        Ok(())
    }

    fn remove_extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done {
        let mut state = self.lock();
        let object = state.get_mut(node)?;
        if !permitted(&object.attributes, who).write {
            return Err(FileError::Access);
        }
        object.extended.remove(name).ok_or(FileError::NoExtended)?;
        object.touch(false);
        Ok(())
    }

    fn extended_names(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        let state = self.lock();
        let object = state.get(node)?;
        if !permitted(&object.attributes, who).read {
            return Err(FileError::Access);
        }
        Ok(object.extended.keys().cloned().collect())
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
