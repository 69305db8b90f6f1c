//! Candidates to open, and the proof that no other process has the pool.

use std::any::Any;
use std::path::PathBuf;

use units::{HostId, PoolName};

use super::copies::{Conflict, LeftOut};
use super::legs::{Confirmation, Evidence, Legs, Record};
use crate::Opaque;

/// A pool that could be opened.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The name it was made or last opened with.
    pub name: String,
    /// Its number, which never changes and which no other pool has.
    pub guid: u64,
    /// Its state after its last owner.
    pub state: CandidateState,
    /// Number of the host that used it last.
    pub host_id: Option<u32>,
    /// Name of that host.
    pub host_name: Option<String>,
    /// Whether its last owner wrote heartbeats to the pool, as with `multihost=on`: an import then waits for
    /// heartbeats.
    pub is_watched: bool,
    /// The note of its last owner for the next, by [`leave_note`](crate::capabilities::Ownership::leave_note).
    pub note: Option<String>,
    /// The devices that it was found on. None where the engine has no [`Devices`](crate::capabilities::Devices).
    pub devices: CandidateDevices,
    /// The engine's own part, for its import.
    pub detail: Opaque,
}

/// The state in which the last owner of a pool left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateState {
    /// It is in use, or was when its host stopped without exporting it.
    Active,
    /// It was exported: free for any host.
    Exported,
    /// It was destroyed.
    Destroyed,
}

/// The devices of a candidate, as far as their labels contain them.
#[derive(Clone, Debug, Default)]
pub struct CandidateDevices {
    /// All known devices: a group without a readable device is unknown.
    pub all: Vec<CandidateDevice>,
    /// The devices with its data, for the decision whether they are the newest.
    pub legs: Legs,
    /// Why it is unclear which devices are its own; an import is refused until one is chosen.
    pub conflicts: Vec<Conflict>,
    /// Other names of its devices, and copies of them.
    pub left_out: Vec<LeftOut>,
}

impl CandidateDevices {
    /// Where the devices are that were found.
    pub fn present(&self) -> impl Iterator<Item = &PathBuf> {
        let present = self.all.iter().filter(|device| device.present);
        present.map(|device| &device.path)
    }

    /// Where the devices were that were not found.
    pub fn missing(&self) -> impl Iterator<Item = &PathBuf> {
        let missing = self.all.iter().filter(|device| !device.present);
        missing.map(|device| &device.path)
    }
}

/// A device of a pool that could be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateDevice {
    /// Where it is, or was when it was last seen.
    pub path: PathBuf,
    /// Its number.
    pub guid: u64,
    /// Whether it was found.
    pub present: bool,
}

/// The reason why a path could not be searched.
#[derive(Debug, thiserror::Error)]
#[error("search {} for pools", path.display())]
pub struct DiscoverError {
    /// The given path.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub cause: std::io::Error,
}

/// The hosts with registrations that may be removed from the disks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Previous {
    /// None: no host is known to be stopped.
    NoHost,
    /// This host's, which is proven to have stopped.
    Host(HostId),
    /// All hosts, by an administrator's confirmation.
    AllHosts,
}

/// Locks of devices, held until it is dropped.
type Locks = Box<dyn Any + Send + Sync>;

/// Proof that the previous owner of one pool has stopped. Without it a pool cannot be opened: two
/// owners destroy it.
pub struct SafeToOwn {
    pool_guid: u64,
    /// Locks acquired as part of the proof, held until the engine has its own.
    _locks: Option<Locks>,
    previous: Previous,
    may_skip_watch: bool,
    needs_activity_check: bool,
    refused_from: Option<u64>,
}

impl std::fmt::Debug for SafeToOwn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafeToOwn")
            .field("pool_guid", &self.pool_guid)
            .field("previous", &self.previous)
            .finish_non_exhaustive()
    }
}

impl SafeToOwn {
    /// The pool was exported: its owner released it cleanly.
    pub fn exported(candidate: &Candidate) -> Option<Self> {
        (candidate.state == CandidateState::Exported).then(|| Self {
            may_skip_watch: true,
            ..Self::host_is_stopped(candidate)
        })
    }

    /// The pool was last used by this host, and every device's lock could be acquired, so the
    /// process that used it has exited.
    ///
    /// Created by engines, which acquire the `locks`.
    pub fn same_host_and_locked(candidate: &Candidate, locks: impl Any + Send + Sync) -> Self {
        Self {
            _locks: Some(Box::new(locks)),
            ..Self::of(candidate)
        }
    }

    /// An administrator confirms that no process uses the pool or will write to it again. A pool
    /// with `multihost=on` is still checked for heartbeats of another host before it is opened.
    pub fn operator_confirms(candidate: &Candidate) -> Self {
        Self {
            previous: Previous::AllHosts,
            ..Self::of(candidate)
        }
    }

    /// A record outside the pool names this head as its owner, and the lenders of its devices admit no other head.
    pub fn record_names_this_head(candidate: &Candidate) -> Self {
        Self {
            may_skip_watch: true,
            ..Self::of(candidate)
        }
    }

    /// The host in the label has no process any more that has the pool open, for example after a
    /// crash of its server. Proves nothing about other hosts.
    pub fn host_is_stopped(candidate: &Candidate) -> Self {
        let number = candidate.host_id.and_then(std::num::NonZeroU32::new);
        Self {
            previous: number.map_or(Previous::NoHost, |number| Previous::Host(HostId(number))),
            ..Self::of(candidate)
        }
    }

    /// The host in the label was powered off. Proves nothing about other hosts.
    pub fn host_is_off(candidate: &Candidate) -> Self {
        Self {
            may_skip_watch: true,
            ..Self::host_is_stopped(candidate)
        }
    }

    /// There is no proof, but the pool has `multihost=on`: the import waits for heartbeats of its
    /// owner, and fails if there are any.
    pub fn watched(candidate: &Candidate) -> Option<Self> {
        candidate.is_watched.then(|| Self {
            needs_activity_check: true,
            ..Self::of(candidate)
        })
    }

    /// The storage refuses each later request of the client that owned the pool last, from this epoch of the storage's
    /// map on. No host is powered off for that; a reply that the previous owner sends to its own clients is not
    /// prevented.
    ///
    /// Created by engines, which have the storage refuse that client and then obtain the map.
    pub fn blocklisted(candidate: &Candidate, epoch: u64) -> Self {
        Self {
            may_skip_watch: true,
            refused_from: Some(epoch),
            ..Self::of(candidate)
        }
    }

    /// Returns the epoch from which on the storage refuses the previous owner, if it does.
    pub const fn refused_from(&self) -> Option<u64> {
        self.refused_from
    }

    /// The number of the pool that it is about.
    pub const fn pool_guid(&self) -> u64 {
        self.pool_guid
    }

    /// Returns the host with void reservations of the disks.
    pub const fn previous(&self) -> Previous {
        self.previous
    }

    /// Returns whether no host can write heartbeats, so that waiting for them is unnecessary.
    pub const fn may_skip_watch(&self) -> bool {
        self.may_skip_watch
    }

    /// Returns whether the import itself must determine that there are no heartbeats.
    pub const fn needs_activity_check(&self) -> bool {
        self.needs_activity_check
    }

    fn of(candidate: &Candidate) -> Self {
        Self {
            pool_guid: candidate.guid,
            _locks: None,
            previous: Previous::NoHost,
            may_skip_watch: false,
            needs_activity_check: false,
            refused_from: None,
        }
    }
}

/// The protection of a pool's disks against other heads while it is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claims {
    /// By reservations if all of its disks support them, else by locks.
    #[default]
    Auto,
    /// By advisory locks, which other processes of this host respect.
    Locks,
    /// By persistent reservations, which the disks enforce against other machines, and locks.
    Reservations,
}

/// How to open a pool.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Write nothing, not even that it is open.
    pub read_only: bool,
    /// Open it without a missing log device, and lose the data that only the log holds.
    pub without_log: bool,
    /// Under another name, from now on.
    pub rename: Option<PoolName>,
    /// The protection of its disks against other heads.
    pub claims: Claims,
    /// The devices that hold all data, by a record outside the pool.
    pub record: Option<Record>,
    /// An administrator's confirmation about missing devices.
    pub word: Option<Confirmation>,
}

impl ImportOptions {
    /// Returns the evidence in addition to the labels.
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            record: self.record.as_ref(),
            word: self.word.as_ref(),
            has_waited: true,
        }
    }
}
