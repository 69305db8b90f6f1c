//! Names of a directory, each with a stable cookie.

use std::collections::{BTreeMap, HashMap};

use super::COOKIE_FIRST;

#[derive(Clone)]
pub(super) struct Directory {
    pub(super) parent: u64,
    pub(super) names: HashMap<Vec<u8>, u64>,
    pub(super) entries: BTreeMap<u64, (Vec<u8>, u64)>,
    next_cookie: u64,
}

impl Directory {
    pub(super) fn new(parent: u64) -> Self {
        Self {
            parent,
            names: HashMap::new(),
            entries: BTreeMap::new(),
            next_cookie: COOKIE_FIRST,
        }
    }

    pub(super) fn object(&self, name: &[u8]) -> Option<u64> {
        self.names.get(name).map(|cookie| self.entries[cookie].1)
    }

    pub(super) fn insert(&mut self, name: &[u8], object: u64) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.names.insert(name.to_vec(), cookie);
        self.entries.insert(cookie, (name.to_vec(), object));
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.names.remove(name) {
            self.entries.remove(&cookie);
        }
    }
}
