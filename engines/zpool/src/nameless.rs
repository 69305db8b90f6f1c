//! Objects that are open without a name while a file system is closed temporarily.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use file_system::Node;

/// The held objects without a name, by file system, at its close. A server closes a file system and opens it again when
/// `readonly` changes: its clients continue with their open files.
#[derive(Debug, Default)]
pub(crate) struct Nameless(Mutex<HashMap<u64, Vec<Node>>>);

impl Nameless {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Node>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, file_system: u64, held: Vec<Node>) {
        let mut all = self.lock();
        match held.is_empty() {
            true => all.remove(&file_system),
            false => all.insert(file_system, held),
        };
    }

    pub(crate) fn of(&self, file_system: u64) -> Vec<Node> {
        self.lock().get(&file_system).cloned().unwrap_or_default()
    }
}
