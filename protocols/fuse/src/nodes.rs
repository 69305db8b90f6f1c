//! The nodes that the kernel has references to, with their reference counts. Each node is held
//! once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use file_system::{Done, FileError, FileSystem, Node};
use fuser::INodeNo;

struct ReferencedNode {
    node: Node,
    /// References that the kernel has obtained and not forgotten.
    count: u64,
}

/// The nodes by their number.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<HashMap<u64, ReferencedNode>>);

impl Nodes {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, ReferencedNode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the node of a number. The root has a separate number.
    pub fn find(&self, files: &dyn FileSystem, number: INodeNo) -> Done<Node> {
        if number == INodeNo::ROOT {
            return Ok(files.root());
        }
        let known = self.lock();
        let known = known.get(&number.0).ok_or(FileError::Stale)?;
        Ok(known.node)
    }

    /// Adds a reference of the kernel to `node`.
    pub fn add_reference(&self, files: &dyn FileSystem, node: Node) -> Done {
        files.hold(node)?;
        let is_new = match self.lock().entry(node.object) {
            Entry::Occupied(known) => {
                known.into_mut().count += 1;
                false
            }
            Entry::Vacant(place) => {
                place.insert(ReferencedNode { node, count: 1 });
                true
            }
        };
        if !is_new {
            files.release(node);
        }
        Ok(())
    }

    /// Removes `count` references of the kernel.
    pub fn forget(&self, files: &dyn FileSystem, number: INodeNo, count: u64) {
        let forgotten = {
            let mut all = self.lock();
            let Some(known) = all.get_mut(&number.0) else {
                return;
            };
            known.count = known.count.saturating_sub(count);
            match known.count {
                0 => all.remove(&number.0),
                _ => None,
            }
        };
        if let Some(forgotten) = forgotten {
            files.release(forgotten.node);
        }
    }

    /// Removes all references after an unmount, for which the kernel sends no further messages.
    pub fn release_all(&self, files: &dyn FileSystem) {
        let all = std::mem::take(&mut *self.lock());
        all.values().for_each(|known| files.release(known.node));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use file_system::memory::MemoryFileSystem;
    use file_system::{Make, Removable, SetAttributes};

    use super::*;
    use crate::identity::ROOT;

    #[test]
    fn unlinked_file_is_held_until_its_lookups_are_forgotten() {
        let files: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new(1 << 20));
        let (files, root) = (&*files, files.root());
        let nodes = Nodes::default();
        let as_usual = SetAttributes::default();
        let made = files.make(&ROOT, root, b"a", Make::File, &as_usual, None);
        let node = made.expect("made").object.node;
        let number = INodeNo(node.object);
        assert_eq!(nodes.find(files, number), Err(FileError::Stale));
        for _ in 0..3 {
            nodes.add_reference(files, node).expect("there");
        }
        let removed = files.remove(&ROOT, root, b"a", Removable::Any, None);
        removed.expect("removed");
        nodes.forget(files, number, 2);
        assert_eq!(nodes.find(files, number), Ok(node));
        files.attributes(node).expect("held");
        nodes.forget(files, number, 1);
        assert_eq!(nodes.find(files, number), Err(FileError::Stale));
        assert_eq!(files.attributes(node).err(), Some(FileError::Stale));
        assert_eq!(nodes.add_reference(files, node), Err(FileError::Stale));
    }

    #[test]
    fn all_files_are_released_on_unmount() {
        let files: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new(1 << 20));
        let (files, root) = (&*files, files.root());
        let nodes = Nodes::default();
        let as_usual = SetAttributes::default();
        let made = files.make(&ROOT, root, b"a", Make::File, &as_usual, None);
        let node = made.expect("made").object.node;
        nodes.add_reference(files, node).expect("there");
        let removed = files.remove(&ROOT, root, b"a", Removable::Any, None);
        removed.expect("removed");
        nodes.release_all(files);
        assert_eq!(files.attributes(node).err(), Some(FileError::Stale));
    }
}
