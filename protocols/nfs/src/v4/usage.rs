//! Reports opens, locks and activity of clients to operators, and removes the state of a client on
//! request.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use file_system::{FileSystemId, Handle};

use super::compound::Service;
use super::grace::Recovery;
use super::opens::{LockUse, OpenUse};
use super::state::State;
use crate::activity::Activity;

/// Files that are listed individually, and opens, locks and blocked locks listed for one of them.
const FILES_MAX: usize = 500;
const PER_FILE_MAX: usize = 50;
/// Clients are delayed this long after state of other clients was removed for its space: freeing it
/// needs a few transaction groups.
const SPACE_RELEASE_MS: u64 = 6000;
/// Maximum directory entries that the search for paths reads.
const PATH_NAMES_MAX: u64 = 1 << 20;

/// Opens and locks in a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Clients with opens or blocked locks there.
    pub clients: Vec<ClientUse>,
    /// Number of open files.
    pub file_count: u64,
    /// The first open files.
    pub files: Vec<FileUse>,
}

/// A client and its state in this file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientUse {
    /// The client ID.
    pub client: u64,
    /// Its owner string.
    pub name: Vec<u8>,
    /// The NFS version; 4.1 and 4.2 are not distinguished.
    pub version: &'static str,
    /// Its IPv4 address or IPv6 network; of a version 3 client its address.
    pub address: IpAddr,
    /// Milliseconds since its last call.
    pub silent_ms: u64,
    /// Its lease has expired: its state is removed if it conflicts with a request.
    pub is_expired: bool,
    /// Number of opens.
    pub opens: u64,
    /// Number of locked ranges.
    pub locks: u64,
    /// Number of blocked ranges. Only version 3 reports them.
    pub waiting: u64,
}

/// An open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUse {
    /// Its object number.
    pub object: u64,
    /// A path in its file system, if one was found; `None` in a snapshot.
    pub path: Option<String>,
    /// Whether it is in a snapshot.
    pub is_of_snapshot: bool,
    /// The first opens.
    pub opens: Vec<OpenUse>,
    /// Number of opens.
    pub open_count: u64,
    /// The first locked ranges.
    pub locks: Vec<LockUse>,
    /// Number of locked ranges.
    pub lock_count: u64,
    /// Blocked ranges.
    pub waiting: Vec<LockUse>,
}

impl State {
    fn client_use(&self, client: u64, now_ms: u64) -> Option<ClientUse> {
        let found = self.clients.get(&client)?;
        let (version, name) = match (&found.host, &found.without_sessions) {
            // The name follows the address that distinguishes hosts.
            (Some(_), _) => ("3", found.owner().get(16..).unwrap_or_default()),
            (None, Some(_)) => ("4.0", found.owner()),
            (None, None) => ("4.1+", found.owner()),
        };
        Some(ClientUse {
            client,
            name: name.to_vec(),
            version,
            address: found
                .host
                .as_ref()
                .map_or(found.network, |host| host.address),
            silent_ms: now_ms.saturating_sub(found.renewed_ms),
            is_expired: self.is_expired(client, now_ms),
            opens: 0,
            locks: 0,
            waiting: 0,
        })
    }

    /// Returns the opens in a file system without paths, and the handles of the listed files.
    fn usage(&self, file_system: FileSystemId, now_ms: u64) -> (Usage, Vec<Handle>) {
        let is_there = |file: &Handle| file.file_system.whole() == file_system.whole();
        let mut waiting: HashMap<Handle, Vec<LockUse>> = HashMap::new();
        for (file, lock) in self.waiting().filter(|(file, _)| is_there(file)) {
            waiting.entry(file).or_default().push(lock);
        }
        let mut files: Vec<Handle> = self.files.keys().copied().filter(is_there).collect();
        files.sort_unstable_by_key(|file| (file.node.object, file.file_system.snapshot));
        let mut clients: BTreeMap<u64, ClientUse> = BTreeMap::new();
        let mut told = Vec::new();
        let mut count = |client, add: &dyn Fn(&mut ClientUse)| {
            let known = clients.contains_key(&client);
            if let Some(new) = (!known).then(|| self.client_use(client, now_ms)).flatten() {
                clients.insert(client, new);
            }
            if let Some(client) = clients.get_mut(&client) {
                add(client);
            }
        };
        for file in &files {
            let (opens, locks) = self.holders_of(*file);
            let mut waiting = waiting.remove(file).unwrap_or_default();
            for client in &opens {
                count(*client, &|client| client.opens += 1);
            }
            for client in &locks {
                count(*client, &|client| client.locks += 1);
            }
            for lock in &waiting {
                count(lock.client, &|client| client.waiting += 1);
            }
            if told.len() < FILES_MAX {
                waiting.truncate(PER_FILE_MAX);
                told.push(FileUse {
                    object: file.node.object,
                    path: None,
                    is_of_snapshot: file.file_system.snapshot != 0,
                    opens: self.opens_of(*file, PER_FILE_MAX),
                    open_count: opens.len() as u64,
                    locks: self.locks_in(*file, PER_FILE_MAX),
                    lock_count: locks.len() as u64,
                    waiting,
                });
            }
        }
        let mut clients: Vec<ClientUse> = clients.into_values().collect();
        // Client IDs have no meaningful order.
        clients.sort_by(|one, other| (one.address, &one.name).cmp(&(other.address, &other.name)));
        let usage = Usage {
            clients,
            file_count: files.len() as u64,
            files: told,
        };
        files.truncate(FILES_MAX);
        (usage, files)
    }
}

impl Service {
    /// Returns the remaining grace period.
    pub fn recovery(&self, now_ms: u64) -> Option<Recovery> {
        self.state().recovery(now_ms)
    }

    /// Returns the activity of clients by the name of the file system, counted since it was first
    /// shared. Shared counters have an empty name.
    pub fn activity(&self) -> Vec<(Arc<str>, Arc<Activity>)> {
        let exports = self.exports();
        let activity_table = self.activity_table.lock().expect("no holder panics");
        let shared = exports.shared().iter();
        let (rest, own): (Vec<_>, Vec<_>) =
            shared.partition(|one| activity_table.is_rest(&one.activity));
        let own = own.into_iter().map(|one| (Arc::clone(&one.name), one));
        let rest = rest.first().map(|one| (Arc::from(""), *one));
        own.chain(rest)
            .map(|(name, one)| (name, Arc::clone(&one.activity)))
            .collect()
    }

    /// Returns opens and locks of clients in a file system. Searches for the paths of files, and
    /// may block on disks.
    pub fn usage(&self, file_system: FileSystemId, now_ms: u64) -> Usage {
        let (mut usage, handles) = self.state().usage(file_system, now_ms);
        let exports = self.exports();
        let mut names_left = PATH_NAMES_MAX;
        if let Some(files) = exports.files_of(file_system) {
            for (told, handle) in usage.files.iter_mut().zip(handles) {
                if !told.is_of_snapshot && names_left > 0 {
                    told.path = files.path(handle.node, &mut names_left);
                }
            }
        }
        usage
    }

    /// Removes state of clients with an expired lease when space is exhausted, because removed
    /// files that they have open occupy space. Returns whether space may become available soon.
    /// `before` is used as in [`release_after`](Self::release_after).
    pub(super) fn release_space_of_expired(&self, now_ms: u64, before: impl FnMut()) -> bool {
        let is_anybody = self.state().remove_expired(now_ms);
        if is_anybody {
            self.release_after(before);
            self.grant(now_ms);
            self.space_comes_ms
                .fetch_max(now_ms + SPACE_RELEASE_MS, Ordering::Relaxed);
        }
        now_ms < self.space_comes_ms.load(Ordering::Relaxed)
    }

    /// Removes the state of a client as if its lease had expired. Returns whether the client
    /// exists. On return the state is available to other clients.
    pub fn expire(&self, client: u64, now_ms: u64) -> bool {
        let is_known = {
            let mut state = self.state();
            let is_known = state.clients.contains_key(&client);
            state.forget_client(client);
            is_known
        };
        self.release();
        self.grant(now_ms);
        if self.keep_holders(now_ms).is_err() {
            tracing::warn!(
                "the state of an NFS client was removed; this is not recorded in the pool yet"
            );
        }
        is_known
    }
}
