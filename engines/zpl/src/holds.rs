//! What keeps an object when it loses its last name, and what waits to be freed.

use std::collections::{HashMap, HashSet, VecDeque};

/// Who keeps objects without a name.
#[derive(Default)]
pub(crate) struct Holds {
    /// How often an object is held.
    counts: HashMap<u64, u32>,
    /// Objects that are being freed: nobody can hold them any more.
    pub(crate) going: HashSet<u64>,
}

impl Holds {
    /// Holds an object. False if it is being freed.
    pub(crate) fn hold(&mut self, object: u64) -> bool {
        if self.going.contains(&object) {
            return false;
        }
        *self.counts.entry(object).or_default() += 1;
        true
    }

    /// Gives up a hold. Whether it was the last one.
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

    /// The object has no name, and is to be freed, unless it is held. False if nothing is to be done about it.
    pub(crate) fn goes(&mut self, object: u64) -> bool {
        !self.counts.contains_key(&object) && self.going.insert(object)
    }
}

/// Large files that are to be freed.
#[derive(Default)]
pub(crate) struct ToFree {
    pub(crate) waiting: VecDeque<u64>,
    /// Somebody frees them.
    pub(crate) is_running: bool,
}
