//! Holds on objects that lose their last name, and the objects that are pending to be freed.

use std::collections::{HashMap, HashSet, VecDeque};

use file_system::Node;

/// The holds on objects.
#[derive(Default)]
pub(crate) struct Holds {
    /// Hold counts of objects.
    counts: HashMap<u64, u32>,
    /// Objects that are being freed: they cannot be held any more.
    pub(crate) going: HashSet<u64>,
    /// Objects without a name that were held when the file system was closed: their holders acquire them again.
    kept: HashSet<Node>,
    /// An object was held since the file system was opened.
    were_used: bool,
}

impl Holds {
    /// These were held when the file system was closed.
    pub(crate) fn keep(&mut self, kept: impl IntoIterator<Item = Node>) {
        self.kept.extend(kept);
    }

    pub(crate) fn is_kept(&self, node: Node) -> bool {
        self.kept.contains(&node)
    }

    /// One of those objects is held again, or is known to be removed. Returns whether it was one.
    pub(crate) fn take_kept(&mut self, node: Node) -> bool {
        self.kept.remove(&node)
    }

    /// The held objects. If none was held since the file system was opened, for example by a short visit of its names,
    /// this includes the earlier ones.
    pub(crate) fn all(&self) -> (Vec<u64>, Vec<Node>) {
        let kept = self.kept.iter().filter(|_| !self.were_used);
        (
            self.counts.keys().copied().collect(),
            kept.copied().collect(),
        )
    }

    /// Holds an object. Returns false if it is being freed.
    pub(crate) fn hold(&mut self, object: u64) -> bool {
        self.were_used = true;
        if self.going.contains(&object) {
            return false;
        }
        *self.counts.entry(object).or_default() += 1;
        true
    }

    /// Releases a hold. Returns whether it was the last one.
    pub(crate) fn release(&mut self, object: u64) -> bool {
        let Some(count) = self.counts.get_mut(&object) else {
            return false;
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.counts.remove(&object);
        }
        is_last
    }

    pub(crate) fn count(&self, object: u64) -> u32 {
        self.counts.get(&object).copied().unwrap_or(0)
    }

    /// The object has no name, and is to be freed unless it is held. Returns false if there is nothing to do.
    pub(crate) fn mark_unlinked(&mut self, object: u64) -> bool {
        !self.counts.contains_key(&object) && self.going.insert(object)
    }
}

/// Large files that are to be freed.
#[derive(Default)]
pub(crate) struct ToFree {
    pub(crate) waiting: VecDeque<u64>,
    /// A thread is freeing them.
    pub(crate) is_running: bool,
}
