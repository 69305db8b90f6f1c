//! Removes opens and locks. All other calls are blocked during that time, so that a client with
//! very many must not delay them for long: a removal visits each file once. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use file_system::{FileSystem, Handle};

use super::grace::ReclaimableState;
use super::opens::{Held, StateKind};
use super::state::State;

impl State {
    /// Returns the lock of an owner that belongs to an open.
    pub(super) fn lock_with(&self, open: u64, owner: &[u8]) -> Option<u64> {
        let StateKind::Open { locks, .. } = &self.held.get(&open)?.what else {
            return None;
        };
        let is_of_owner = |lock: &&u64| self.held.get(lock).is_some_and(|held| held.owner == owner);
        locks.iter().find(is_of_owner).copied()
    }

    /// Whether an open has any locks, also without ranges.
    pub(super) fn has_locks(&self, open: u64) -> bool {
        let what = self.held.get(&open).map(|held| &held.what);
        matches!(what, Some(StateKind::Open { locks, .. }) if !locks.is_empty())
    }

    /// Removes an open with its locks, or a lock.
    pub(super) fn forget_held(&mut self, number: u64) {
        self.forget_all(vec![number]);
    }

    /// Removes opens with their locks, and locks. Each file is visited once, because a client may
    /// have thousands of locks in it.
    pub(super) fn forget_all(&mut self, numbers: Vec<u64>) {
        let mut opens = Vec::new();
        let mut gone: HashMap<Handle, HashSet<u64>> = HashMap::new();
        let mut numbers = numbers;
        while let Some(number) = numbers.pop() {
            let Some(held) = self.remove_from_client(number) else {
                continue;
            };
            match &held.what {
                StateKind::Open { locks, .. } => {
                    numbers.extend(locks);
                    opens.push(held);
                }
                StateKind::Lock { open } => {
                    gone.entry(held.file).or_default().insert(number);
                    if let Some(StateKind::Open { locks, .. }) =
                        self.held.get_mut(open).map(|of| &mut of.what)
                    {
                        locks.remove(&number);
                    }
                }
            }
        }
        for (file, locks) in gone {
            if let Some(found) = self.files.get_mut(&file) {
                found.forget_locks(&locks);
                self.locking.range_released(file);
            }
        }
        for open in opens {
            self.forget_open(open);
        }
    }

    /// Removes an open or a lock from its client.
    fn remove_from_client(&mut self, number: u64) -> Option<Held> {
        let held = self.held.remove(&number)?;
        self.change_seqids(held.client, |seqids| seqids.release(&held.named(), number));
        if let Some(client) = self.clients.get_mut(&held.client) {
            client.held.remove(&number);
            let network = client.network;
            if client.held.is_empty() {
                client.had = ReclaimableState::default();
            }
            self.count_held(network, -1);
        }
        Some(held)
    }

    /// Removes an open without locks.
    fn forget_open(&mut self, held: Held) {
        let StateKind::Open { access, deny, .. } = held.what else {
            return;
        };
        let Some(file) = self.files.get_mut(&held.file) else {
            return;
        };
        if file.forget_open(&(held.client, held.owner), (access, deny)) {
            let files = self.files.remove(&held.file).and_then(|file| file.files);
            self.released.extend(files.map(|files| (files, held.file)));
        }
    }

    /// Removes the state of clients with an expired lease. Returns whether any existed.
    pub(super) fn remove_expired(&mut self, now_ms: u64) -> bool {
        let clients = self.clients.iter();
        let silent =
            clients.filter(|(id, client)| !client.held.is_empty() && self.is_expired(**id, now_ms));
        let silent: Vec<u64> = silent.map(|(id, _)| *id).collect();
        for client in &silent {
            self.forget_client(*client);
        }
        !silent.is_empty()
    }

    /// Detaches files of closed file systems, which stay open. They are not released, because an
    /// unlinked file would be freed.
    pub(super) fn detach(&mut self, concerned: impl Fn(&Handle) -> bool) {
        let files = self.files.iter_mut().filter(|(file, _)| concerned(file));
        files.for_each(|(_, state)| state.files = None);
    }

    /// Returns the detached files.
    pub(super) fn detached_files(&self) -> Vec<Handle> {
        let detached_files = self.files.iter().filter(|(_, state)| state.files.is_none());
        detached_files.map(|(file, _)| *file).collect()
    }

    /// Attaches an open file again. Returns whether it is still open.
    pub(super) fn reattach(&mut self, file: Handle, files: &Arc<dyn FileSystem>) -> bool {
        let found = self.files.get_mut(&file);
        found.is_some_and(|state| state.files.replace(Arc::clone(files)).is_none())
    }

    /// Removes all opens of some files.
    pub(super) fn forget_files(&mut self, concerned: impl Fn(&Handle) -> bool) {
        let files = self.files.iter().filter(|(file, _)| concerned(file));
        let opens: Vec<u64> = files
            .flat_map(|(_, state)| state.opens.values().copied())
            .collect();
        self.forget_all(opens);
    }
}
