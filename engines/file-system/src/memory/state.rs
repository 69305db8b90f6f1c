//! The state of a file system in memory: objects by number, their names, and their changes.

use std::collections::{BTreeMap, HashMap};

use super::BLOCK_BYTES;
use super::directory::Directory;
use crate::rights::{check_directory, check_sticky, mode_after, without_set_id};
use crate::{
    Attributes, Changed, Done, FileError, Identity, Kind, Make, Measure, Node, Object as Known,
    Owner, Place, Receipt, SetAttributes, SetTime, Time, acl,
};

#[derive(Clone)]
pub(super) struct State {
    pub(super) nodes: HashMap<u64, Object>,
    pub(super) receipts: HashMap<Place, Receipt>,
    pub(super) next: u64,
    pub(super) bytes_used: u64,
    /// The limits that are set.
    pub(super) quotas: BTreeMap<(Owner, Measure), u64>,
}

#[derive(Clone)]
pub(super) struct Object {
    pub(super) attributes: Attributes,
    pub(super) holds: u32,
    pub(super) extended: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The ACL, if it differs from that of the mode. It is not evaluated here.
    pub(super) acl: Option<Vec<acl::Entry>>,
    pub(super) body: Body,
}

#[derive(Clone)]
pub(super) enum Body {
    /// Written blocks, by number.
    File(BTreeMap<u64, Box<[u8]>>),
    Directory(Directory),
    Link(Vec<u8>),
    Nothing,
}

impl Object {
    pub(super) fn touch(&mut self, contents: bool) {
        let time = Time::now();
        self.attributes.change += 1;
        self.attributes.changed = time;
        if contents {
            self.attributes.modified = time;
        }
    }

    pub(super) fn directory(&self) -> Done<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FileError::NotDirectory),
        }
    }

    pub(super) fn blocks(&mut self) -> Done<&mut BTreeMap<u64, Box<[u8]>>> {
        match &mut self.body {
            Body::File(blocks) => Ok(blocks),
            Body::Directory(_) => Err(FileError::IsDirectory),
            _ => Err(FileError::WrongType),
        }
    }
}

impl State {
    pub(super) fn note(&mut self, receipt: Option<&Receipt>) {
        if let Some(receipt) = receipt {
            self.receipts.insert(receipt.place, *receipt);
        }
    }

    pub(super) fn get(&self, node: Node) -> Done<&Object> {
        let found = (node.generation == 1).then(|| self.nodes.get(&node.object));
        found.flatten().ok_or(FileError::Stale)
    }

    pub(super) fn get_mut(&mut self, node: Node) -> Done<&mut Object> {
        let found = (node.generation == 1).then(|| self.nodes.get_mut(&node.object));
        found.flatten().ok_or(FileError::Stale)
    }

    /// A directory that names an object, and the name.
    pub(super) fn named(&self, object: u64) -> Option<(u64, &[u8])> {
        self.nodes.iter().find_map(|(directory, found)| {
            let mut entries = found.directory().ok()?.entries.values();
            let (name, _) = entries.find(|(_, named)| *named == object)?;
            Some((*directory, &name[..]))
        })
    }

    /// A directory in which `who` may look names up, and which `who` may change if `write` is set.
    pub(super) fn searched(&self, who: &Identity, node: Node, write: bool) -> Done<&Directory> {
        let object = self.get(node)?;
        check_directory(&object.attributes, who, write)?;
        object.directory()
    }

    pub(super) fn known(&self, object: u64) -> Done<Known> {
        let found = self.nodes.get(&object).ok_or(FileError::Stale)?;
        Ok(Known {
            node: node_of(object),
            attributes: found.attributes,
        })
    }

    /// Applies a change to `node`; returns its attributes before and after.
    pub(super) fn changing<T>(
        &mut self,
        node: Node,
        change: impl FnOnce(&mut Self) -> Done<T>,
    ) -> Done<(T, Changed)> {
        let before = self.get(node)?.attributes;
        let done = change(self)?;
        let after = self.get(node)?.attributes;
        Ok((done, Changed { before, after }))
    }

    pub(super) fn change_directory(&mut self, object: u64, change: impl FnOnce(&mut Directory)) {
        if let Some(found) = self.nodes.get_mut(&object) {
            if let Body::Directory(directory) = &mut found.body {
                change(directory);
            }
            found.touch(true);
        }
    }

    /// Whether `who` may remove a name of `object` from `directory`.
    pub(super) fn check_removal(&self, who: &Identity, directory: Node, object: u64) -> Done {
        let directory = &self.get(directory)?.attributes;
        let object = self.nodes.get(&object).ok_or(FileError::Stale)?;
        check_sticky(directory, &object.attributes, who)
    }

    /// One name less.
    pub(super) fn unlink(&mut self, object: u64) {
        let Some(found) = self.nodes.get_mut(&object) else {
            return;
        };
        found.attributes.links = match found.attributes.kind {
            Kind::Directory => 0,
            _ => found.attributes.links - 1,
        };
        found.touch(false);
        self.forget_if_gone(object);
    }

    pub(super) fn forget_if_gone(&mut self, object: u64) {
        let is_gone = |found: &Object| found.attributes.links == 0 && found.holds == 0;
        if self.nodes.get(&object).is_some_and(is_gone) {
            let space = self
                .nodes
                .remove(&object)
                .map_or(0, |found| found.attributes.space);
            self.bytes_used -= space;
        }
    }

    pub(super) fn truncate(&mut self, node: Node, size: u64) -> Done {
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

    pub(super) fn write(&mut self, node: Node, offset: u64, bytes: &[u8], bytes_max: u64) -> Done {
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
        object.attributes.mode = without_set_id(object.attributes.mode);
        object.touch(true);
        self.bytes_used += added;
        Ok(())
    }

    /// The change of a checked rename.
    pub(super) fn move_name(
        &mut self,
        moving: u64,
        replaced: Option<u64>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
    ) {
        if let Some(replaced) = replaced {
            self.change_directory(to.0.object, |found| found.remove(to.1));
            self.unlink(replaced);
        }
        self.change_directory(from.0.object, |found| found.remove(from.1));
        self.change_directory(to.0.object, |found| found.insert(to.1, moving));
        if let Some(object) = self.nodes.get_mut(&moving) {
            if let Body::Directory(directory) = &mut object.body {
                directory.parent = to.0.object;
            }
            object.touch(false);
        }
    }

    /// Whether `directory` is `ancestor` or a descendant of it.
    pub(super) fn is_within(&self, mut directory: u64, ancestor: u64) -> bool {
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

    /// The object that the rename replaces, if the requester may replace it.
    pub(super) fn replaced(&self, moving: u64, target: Option<u64>) -> Done<Option<u64>> {
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

    pub(super) fn set(&mut self, who: &Identity, node: Node, changes: &SetAttributes) -> Done {
        if let Some(size) = changes.size {
            if size > i64::MAX as u64 {
                return Err(FileError::TooLarge);
            }
            self.truncate(node, size)?;
        }
        let object = self.get_mut(node)?;
        let mode = mode_after(&object.attributes, who, changes);
        object.touch(false);
        let attributes = &mut object.attributes;
        attributes.mode = mode;
        if changes.mode.is_some() {
            object.acl = None;
        }
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
        let time = |set: Option<SetTime>, before: Time| match set {
            Some(SetTime::Now) => Time::now(),
            Some(SetTime::To(time)) => time,
            None => before,
        };
        attributes.accessed = time(changes.accessed, attributes.accessed);
        attributes.modified = time(changes.modified, attributes.modified);
        Ok(())
    }

    /// Adds a new object to a checked directory; returns its number.
    pub(super) fn insert(
        &mut self,
        directory: Node,
        name: &[u8],
        attributes: Attributes,
        body: Body,
    ) -> u64 {
        let object = self.next;
        self.next += 1;
        let created = Object {
            attributes,
            holds: 0,
            extended: BTreeMap::new(),
            acl: None,
            body,
        };
        self.nodes.insert(object, created);
        self.change_directory(directory.object, |found| found.insert(name, object));
        object
    }

    /// Punches a hole.
    pub(super) fn punch(&mut self, node: Node, offset: u64, length: u64) -> Done {
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
        object.attributes.mode = without_set_id(object.attributes.mode);
        object.touch(true);
        self.bytes_used -= freed;
        Ok(())
    }
}

/// A new object of `what` in a directory with the attributes `parent`.
pub(super) fn new_object(
    who: &Identity,
    directory: Node,
    parent: &Attributes,
    what: Make<'_>,
) -> (Attributes, Body) {
    let inherits = parent.mode & 0o2000 != 0;
    let gid = if inherits { parent.gid } else { who.gid };
    let (kind, mode, body) = match what {
        Make::File => (Kind::File, 0o644, Body::File(BTreeMap::new())),
        Make::Directory => {
            let mode = 0o755 | (parent.mode & 0o2000);
            let body = Body::Directory(Directory::new(directory.object));
            (Kind::Directory, mode, body)
        }
        Make::Link(text) => (Kind::Link, 0o777, Body::Link(text.to_vec())),
        Make::BlockDevice(..) => (Kind::BlockDevice, 0o644, Body::Nothing),
        Make::CharacterDevice(..) => (Kind::CharacterDevice, 0o644, Body::Nothing),
        Make::Socket => (Kind::Socket, 0o644, Body::Nothing),
        Make::Pipe => (Kind::Pipe, 0o644, Body::Nothing),
    };
    let device = match what {
        Make::BlockDevice(major, minor) | Make::CharacterDevice(major, minor) => (major, minor),
        _ => (0, 0),
    };
    let size = match what {
        Make::Link(text) => text.len() as u64,
        _ => 0,
    };
    let attributes = Attributes {
        device,
        links: if kind == Kind::Directory { 2 } else { 1 },
        size,
        ..Attributes::of_new(kind, mode, (who.uid, gid), Time::now())
    };
    (attributes, body)
}

pub(super) const fn node_of(object: u64) -> Node {
    Node {
        object,
        generation: 1,
    }
}
