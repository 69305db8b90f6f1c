//! Opens with their share reservations, and byte-range locks (RFC 8881, 9 and 18.10 to 18.16; RFC 7530, 9 and 16). Pure.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use file_system::{FileSystem, Handle, Identity};

use super::grace::{New, ReclaimableState};
use super::numbers::Status;
use super::seqids::Owner;
use super::state::State;

/// Opens of one file. Each may be compared with a further one.
const OPENS_PER_FILE_MAX: usize = 8192;
/// Ranges that are locked in one file.
const RANGES_PER_FILE_MAX: usize = 8192;
/// Lock owners of one file, with ranges or without.
const LOCK_OWNERS_PER_FILE_MAX: usize = 8192;

/// Users of one open that are recorded as openers. For other users the file is checked at each read
/// and write.
const OPENERS_MAX: usize = 4;

/// `OPEN4_SHARE_ACCESS_READ`.
pub const READ: u32 = 1;
/// `OPEN4_SHARE_ACCESS_WRITE`.
pub const WRITE: u32 = 2;
/// Together with [`WRITE`], and in no message: writes only append to the file.
pub const APPENDS: u32 = 4;

/// `stateid4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateId {
    /// Counts changes of the state.
    pub sequence: u32,
    /// The identity of the state.
    pub other: [u8; 12],
}

impl StateId {
    /// The anonymous stateid.
    pub const ANONYMOUS: Self = Self {
        sequence: 0,
        other: [0; 12],
    };
    /// The READ bypass stateid: ignores locks.
    pub const BYPASS: Self = Self {
        sequence: u32::MAX,
        other: [0xff; 12],
    };
    /// The current stateid of the compound.
    pub const CURRENT: Self = Self {
        sequence: 1,
        other: [0; 12],
    };
}

pub(super) struct Held {
    pub(super) client: u64,
    pub(super) file: Handle,
    pub(super) owner: Vec<u8>,
    pub(super) sequence: u32,
    /// The Kerberos principal that created it. Only this principal, or the one that introduced the
    /// client, may change or remove it.
    pub(super) principal: Option<u64>,
    pub(super) what: StateKind,
}

pub(super) enum StateKind {
    Open {
        access: u32,
        deny: u32,
        /// Whether an opener with write permission to all files opened it for writing.
        writes_all: bool,
        /// The modes that it was opened with: the result of a downgrade must be a union of some of
        /// them.
        modes: HashSet<(u32, u32)>,
        /// The users that opened it, with their access; at most [`OPENERS_MAX`].
        openers: Vec<(Identity, u32)>,
        /// The locks that belong to it.
        locks: HashSet<u64>,
    },
    Lock {
        open: u64,
    },
}

impl Held {
    /// Describes the open for an operator; `None` for a lock, or if the file is held for locks
    /// only.
    fn open_use(&self) -> Option<OpenUse> {
        match self.what {
            StateKind::Open { access, deny, .. } if access | deny != 0 => Some(OpenUse {
                client: self.client,
                access,
                deny,
            }),
            _ => None,
        }
    }

    /// The open or lock owner, within its client.
    pub(super) fn named(&self) -> Owner {
        match self.what {
            StateKind::Open { .. } => Owner::Open(self.owner.clone()),
            StateKind::Lock { .. } => Owner::Lock(self.owner.clone()),
        }
    }
}

/// The number of opens by bit of access and of denial.
#[derive(Default)]
struct Shares {
    access: [usize; 2],
    deny: [usize; 2],
}

impl Shares {
    fn count(&mut self, mode: (u32, u32), change: isize) {
        for (counts, bits) in [(&mut self.access, mode.0), (&mut self.deny, mode.1)] {
            for (at, count) in counts.iter_mut().enumerate() {
                if bits & 1 << at != 0 {
                    *count = count.saturating_add_signed(change);
                }
            }
        }
    }

    /// Whether any open may conflict with this mode.
    fn may_conflict(&self, (access, deny): (u32, u32)) -> bool {
        let has =
            |counts: &[usize; 2], bits: u32| (0..2).any(|at| bits & 1 << at != 0 && counts[at] > 0);
        has(&self.deny, access) || has(&self.access, deny)
    }
}

/// Opens and locks of one file.
pub(super) struct FileState {
    /// The file system that holds it; `None` while the file system is closed.
    pub(super) files: Option<Arc<dyn FileSystem>>,
    /// Opens by client and owner.
    pub(super) opens: HashMap<(u64, Vec<u8>), u64>,
    shares: Shares,
    ranges: Vec<Range>,
    /// Number of locks, with ranges or without.
    locks: usize,
}

impl FileState {
    /// Whether a lock has any range.
    pub(super) fn has_ranges_of(&self, lock: u64) -> bool {
        self.ranges.iter().any(|range| range.lock == lock)
    }

    /// Whether a lock covers all of `span` in the same mode.
    pub(super) fn has(&self, lock: u64, span: Span) -> bool {
        self.ranges.iter().any(|range| {
            (range.lock, range.is_write) == (lock, span.is_write)
                && range.first <= span.first
                && span.last <= range.last
        })
    }

    /// The open of this owner.
    pub(super) fn open_of(&self, client: u64, owner: &[u8]) -> Option<u64> {
        self.opens.get(&(client, owner.to_vec())).copied()
    }

    /// The client and the owner of each open.
    pub(super) fn openers(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.opens
            .keys()
            .map(|(client, owner)| (*client, &owner[..]))
    }

    pub(super) fn has_room_for_open(&self) -> bool {
        self.opens.len() < OPENS_PER_FILE_MAX
    }

    pub(super) fn has_room_for_lock_owner(&self) -> bool {
        self.locks < LOCK_OWNERS_PER_FILE_MAX
    }

    /// Removes locks with their ranges.
    pub(super) fn forget_locks(&mut self, locks: &HashSet<u64>) {
        self.locks -= locks.len();
        self.ranges.retain(|range| !locks.contains(&range.lock));
    }

    /// Removes an open. Returns whether it was the last one.
    pub(super) fn forget_open(&mut self, opener: &(u64, Vec<u8>), mode: (u32, u32)) -> bool {
        self.opens.remove(opener);
        self.shares.count(mode, -1);
        self.opens.is_empty()
    }
}

/// A locked range, including `last`.
#[derive(Clone, Copy, Debug)]
struct Range {
    lock: u64,
    first: u64,
    last: u64,
    is_write: bool,
}

/// A range to lock or to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    first: u64,
    last: u64,
    /// Whether the lock is exclusive.
    pub is_write: bool,
}

impl Span {
    /// Converts the fields of the protocol, where a length of all ones extends to the end of the
    /// file.
    pub fn new(offset: u64, length: u64, is_write: bool) -> Result<Self, Status> {
        let last = match length {
            0 => return Err(Status::INVAL),
            u64::MAX => u64::MAX,
            length => offset.checked_add(length - 1).ok_or(Status::INVAL)?,
        };
        Ok(Self {
            first: offset,
            last,
            is_write,
        })
    }

    /// Whether `other` lies within this range.
    pub(super) const fn covers(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    fn overlaps(&self, range: &Range) -> bool {
        self.first <= range.last && range.first <= self.last
    }
}

/// The conflicting lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its first byte.
    pub offset: u64,
    /// Its length; all ones extends to the end of the file.
    pub length: u64,
    /// Whether it is exclusive.
    pub is_write: bool,
    /// The client.
    pub client: u64,
    /// The lock owner.
    pub owner: Vec<u8>,
}

/// Why a lock was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLock {
    /// A conflicting lock exists.
    Denied(Conflict),
    /// Another error.
    Failed(Status),
}

impl From<Status> for NoLock {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// An open of a file, for operators. In access and denial, 1 is read and 2 is write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenUse {
    /// The client.
    pub client: u64,
    /// The access.
    pub access: u32,
    /// The denial.
    pub deny: u32,
}

/// A locked or blocked range, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// The client.
    pub client: u64,
    /// The lock owner of an NFS 3 client: a number, usually a process id, and a name.
    pub process: Option<(u32, Vec<u8>)>,
    /// Its first byte.
    pub offset: u64,
    /// Its length; `None` extends to the end of the file.
    pub length: Option<u64>,
    /// Whether it is exclusive.
    pub is_exclusive: bool,
}

impl LockUse {
    pub(super) fn new(client: u64, process: Option<(u32, Vec<u8>)>, span: Span) -> Self {
        let length = (span.last != u64::MAX).then(|| span.last - span.first + 1);
        Self {
            client,
            process,
            offset: span.first,
            length,
            is_exclusive: span.is_write,
        }
    }
}

impl State {
    /// Returns the clients with an open of a file and the clients with a locked range, once for
    /// each. A file that is only held for locks has no open.
    pub(super) fn holders_of(&self, file: Handle) -> (Vec<u64>, Vec<u64>) {
        let Some(found) = self.files.get(&file) else {
            return Default::default();
        };
        let opens = found.opens.values().filter_map(|number| {
            let held = self.held.get(number)?;
            held.open_use().map(|open| open.client)
        });
        let locks = found.ranges.iter();
        let locks = locks.filter_map(|range| Some(self.held.get(&range.lock)?.client));
        (opens.collect(), locks.collect())
    }

    /// Returns the first opens of a file.
    pub(super) fn opens_of(&self, file: Handle, count_max: usize) -> Vec<OpenUse> {
        let found = self.files.get(&file).into_iter();
        let numbers = found.flat_map(|found| found.opens.values());
        let opens = numbers.filter_map(|number| self.held.get(number)?.open_use());
        let mut opens: Vec<_> = opens.collect();
        opens.sort_unstable_by_key(|open| (open.client, open.access, open.deny));
        opens.truncate(count_max);
        opens
    }

    /// Returns the first locked ranges of a file.
    pub(super) fn locks_in(&self, file: Handle, count_max: usize) -> Vec<LockUse> {
        let found = self.files.get(&file).into_iter();
        let mut ranges: Vec<&Range> = found.flat_map(|found| &found.ranges).collect();
        ranges.sort_unstable_by_key(|range| (range.first, range.lock));
        let ranges = ranges.into_iter().take(count_max);
        let locks = ranges.filter_map(|range| {
            let held = self.held.get(&range.lock)?;
            let span = Span {
                first: range.first,
                last: range.last,
                is_write: range.is_write,
            };
            let process = self.process_of(held.client, &held.owner);
            Some(LockUse::new(held.client, process, span))
        });
        locks.collect()
    }
}

/// The state that a stateid identifies.
pub struct Found {
    number: u64,
    open: u64,
    /// The file.
    pub file: Handle,
    /// The access of the open.
    pub access: u32,
    /// Whether writes only append.
    pub only_appends: bool,
}

impl State {
    pub(super) fn id_of(&self, number: u64) -> StateId {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.start.to_be_bytes());
        other[4..].copy_from_slice(&number.to_be_bytes());
        let sequence = self.held.get(&number).map_or(0, |held| held.sequence);
        StateId { sequence, other }
    }

    /// Returns the number of the state, if it belongs to the client.
    pub(super) fn number_of(&self, client: u64, id: &StateId) -> Result<u64, Status> {
        let (start, number) = id.other.split_at(4);
        let number = number
            .try_into()
            .map(u64::from_be_bytes)
            .map_err(|_| Status::BAD_STATEID)?;
        if start != self.start.to_be_bytes() {
            return Err(Status::BAD_STATEID);
        }
        let held = self.held.get(&number).ok_or(Status::BAD_STATEID)?;
        if held.client != client {
            return Err(Status::BAD_STATEID);
        }
        match id.sequence {
            // Sequence 0 means the most recent one only since NFS 4.1.
            0 if self.is_without_sessions(client) => Err(Status::OLD_STATEID),
            0 => Ok(number),
            sequence if sequence == held.sequence => Ok(number),
            sequence if sequence < held.sequence => Err(Status::OLD_STATEID),
            _ => Err(Status::BAD_STATEID),
        }
    }

    /// `TEST_STATEID`.
    pub fn test(&self, client: u64, id: &StateId) -> Status {
        self.number_of(client, id).err().unwrap_or(Status::OK)
    }

    /// Returns the access to a file that `id` permits.
    pub fn find(&self, client: u64, id: &StateId) -> Result<Found, Status> {
        let number = self.number_of(client, id)?;
        let held = &self.held[&number];
        let open = match held.what {
            StateKind::Open { .. } => number,
            StateKind::Lock { open } => open,
        };
        let (access, writes_all) = match self.held.get(&open).map(|held| &held.what) {
            Some(StateKind::Open {
                access, writes_all, ..
            }) => (*access, *writes_all),
            _ => return Err(Status::BAD_STATEID),
        };
        Ok(Found {
            number,
            open,
            file: held.file,
            access,
            only_appends: access & WRITE != 0 && !writes_all,
        })
    }

    /// Records that a user opened a file with this state, for reading, writing or appending only.
    pub fn opened_by(&mut self, client: u64, id: &StateId, who: &Identity, access: u32) {
        let number = self.number_of(client, id);
        let held = number.ok().and_then(|number| self.held.get_mut(&number));
        let Some(StateKind::Open { openers, .. }) = held.map(|held| &mut held.what) else {
            return;
        };
        match openers.iter_mut().find(|(known, _)| known == who) {
            Some((_, had)) => {
                let writes_all = [*had, access]
                    .iter()
                    .any(|one| one & (WRITE | APPENDS) == WRITE);
                *had = (*had | access) & if writes_all { !APPENDS } else { !0 };
            }
            None => {
                openers.push((who.clone(), access));
                openers.truncate(OPENERS_MAX);
            }
        }
    }

    /// Returns the access that a user opened this state with; 0 for other users. Use of a stateid
    /// does not make a user its opener.
    pub fn opened_for(&self, found: &Found, who: &Identity) -> u32 {
        match self.held.get(&found.open).map(|held| &held.what) {
            Some(StateKind::Open { openers, .. }) => openers
                .iter()
                .find(|(known, _)| known == who)
                .map_or(0, |(_, access)| *access),
            _ => 0,
        }
    }

    /// Returns the clients with opens that deny a use without an open. Clients with an expired
    /// lease lose such opens instead.
    fn deniers(&mut self, file: Handle, access: u32, now_ms: u64) -> Vec<u64> {
        let found = self.files.get(&file);
        let found = found.filter(|found| found.shares.may_conflict((access, 0)));
        let numbers = found.into_iter().flat_map(|found| found.opens.values());
        let opens = numbers.filter_map(|number| self.held.get(number));
        let denies =
            |held: &&Held| matches!(held.what, StateKind::Open { deny, .. } if deny & access != 0);
        let clients: HashSet<u64> = opens.filter(denies).map(|held| held.client).collect();
        let is_over = |client: &u64| self.is_expired(*client, now_ms);
        let (silent, there): (Vec<u64>, Vec<u64>) = clients.into_iter().partition(is_over);
        for client in silent {
            self.forget_client(client);
        }
        there
    }

    /// Checks that no open denies a use without an open.
    pub fn check_denied(&mut self, file: Handle, access: u32, now_ms: u64) -> Result<(), Status> {
        match self.deniers(file, access, now_ms).is_empty() {
            true => Ok(()),
            false => Err(Status::LOCKED),
        }
    }

    /// Like `check_denied`, for a host at this address. A host is not bound by its own denials,
    /// from any of its processes.
    pub fn is_denied_at(
        &mut self,
        file: Handle,
        access: u32,
        address: IpAddr,
        now_ms: u64,
    ) -> bool {
        let deniers = self.deniers(file, access, now_ms);
        deniers
            .into_iter()
            .any(|client| !self.is_host_at(client, address))
    }

    /// Checks that no share reservation denies an open. Clients with an expired lease lose
    /// conflicting opens. In NFS 4.0 an owner conflicts with itself, too (RFC 7530, 9.9), except
    /// during its reclaim.
    pub fn check_share(
        &mut self,
        (client, owner): (u64, &[u8]),
        file: Handle,
        (access, deny): (u32, u32),
        is_reclaim: bool,
        now_ms: u64,
    ) -> Result<(), Status> {
        // The client may have restarted during the call. Then no process would close this open.
        if !self.clients.contains_key(&client) {
            return Err(Status::STALE_CLIENTID);
        }
        let is_in_own_way = self.is_without_sessions(client) && !is_reclaim;
        let Some(found) = self.files.get(&file) else {
            return Ok(());
        };
        let own = found.opens.get(&(client, owner.to_vec())).copied();
        let is_full = found.opens.len() >= OPENS_PER_FILE_MAX;
        if is_full && own.is_none() {
            return Err(Status::DELAY);
        }
        if !found.shares.may_conflict((access, deny)) {
            return Ok(());
        }
        let opens: Vec<u64> = found.opens.values().copied().collect();
        let counts = |number: &u64| is_in_own_way || Some(*number) != own;
        for number in opens.into_iter().filter(counts) {
            let Some(held) = self.held.get(&number) else {
                continue;
            };
            let StateKind::Open {
                access: theirs,
                deny: refused,
                ..
            } = held.what
            else {
                continue;
            };
            if access & refused == 0 && deny & theirs == 0 {
                continue;
            }
            let other = held.client;
            if other == client || !self.is_expired(other, now_ms) {
                return Err(Status::SHARE_DENIED);
            }
            self.forget_client(other);
        }
        Ok(())
    }

    /// Checks that there is room for one more open or lock, and that the client may create one.
    pub fn check_room(&mut self, client: u64, new: New, now_ms: u64) -> Result<(), Status> {
        self.check_done(client)?;
        self.check_grace(client, new, now_ms)?;
        self.check_count(&self.clients[&client])
    }

    /// Refuses new state of a client that has not sent `RECLAIM_COMPLETE` (RFC 8881, 18.51.3).
    pub fn check_done(&self, client: u64) -> Result<(), Status> {
        let found = self.clients.get(&client).ok_or(Status::STALE_CLIENTID)?;
        match !found.has_reclaimed && found.sends_reclaim_complete() {
            true => Err(Status::GRACE),
            false => Ok(()),
        }
    }

    /// Opens a file or upgrades an open of the same owner; writing possibly with [`APPENDS`].
    /// Returns whether the file is new here, so that the file system must hold it.
    /// [`check_share`](Self::check_share) must be called before.
    pub fn open(
        &mut self,
        client: u64,
        owner: &[u8],
        file: Handle,
        mode: (u32, u32),
        files: Arc<dyn FileSystem>,
    ) -> (StateId, bool) {
        self.record_state(client, ReclaimableState::open(mode.1 != 0));
        let may_write_all = mode.0 & (WRITE | APPENDS) == WRITE;
        let mode = (mode.0 & !APPENDS, mode.1);
        let key = (client, owner.to_vec());
        let state = self.files.entry(file).or_insert_with(|| FileState {
            files: Some(files),
            opens: HashMap::new(),
            shares: Shares::default(),
            ranges: Vec::new(),
            locks: 0,
        });
        if let Some(number) = state.opens.get(&key).copied() {
            if let Some(held) = self.held.get_mut(&number) {
                held.sequence += 1;
                if let StateKind::Open {
                    access,
                    deny,
                    writes_all,
                    modes,
                    ..
                } = &mut held.what
                {
                    *writes_all |= may_write_all;
                    state.shares.count((*access, *deny), -1);
                    *access |= mode.0;
                    *deny |= mode.1;
                    state.shares.count((*access, *deny), 1);
                    modes.insert(mode);
                }
            }
            return (self.id_of(number), false);
        }
        let number = self.number_of_state(client);
        let state = self.files.get_mut(&file).expect("it was just made");
        state.opens.insert(key, number);
        state.shares.count(mode, 1);
        let is_first = state.opens.len() == 1;
        let what = StateKind::Open {
            access: mode.0,
            deny: mode.1,
            writes_all: may_write_all,
            modes: HashSet::from([mode]),
            openers: Vec::new(),
            locks: HashSet::new(),
        };
        self.hold(number, client, owner, file, what);
        (self.id_of(number), is_first)
    }

    pub(super) fn hold(
        &mut self,
        number: u64,
        client: u64,
        owner: &[u8],
        file: Handle,
        what: StateKind,
    ) {
        let held = Held {
            client,
            file,
            owner: owner.to_vec(),
            sequence: 1,
            principal: None,
            what,
        };
        let named = held.named();
        if let StateKind::Lock { open } = held.what {
            if let Some(StateKind::Open { locks, .. }) =
                self.held.get_mut(&open).map(|of| &mut of.what)
            {
                locks.insert(number);
            }
            if let Some(found) = self.files.get_mut(&file) {
                found.locks += 1;
            }
        }
        self.held.insert(number, held);
        if let Some(client) = self.clients.get_mut(&client) {
            client.held.insert(number);
            if let Some(without_sessions) = &mut client.without_sessions {
                without_sessions.seqids.hold(named, number);
            }
            let network = client.network;
            self.count_held(network, 1);
        }
    }

    /// `OPEN_DOWNGRADE`.
    pub fn downgrade(
        &mut self,
        client: u64,
        id: &StateId,
        file: Handle,
        mode: (u32, u32),
    ) -> Result<StateId, Status> {
        let number = self.number_of(client, id)?;
        let held = self.held.get_mut(&number).filter(|held| held.file == file);
        let held = held.ok_or(Status::BAD_STATEID)?;
        let StateKind::Open {
            access,
            deny,
            writes_all,
            modes,
            openers,
            ..
        } = &mut held.what
        else {
            return Err(Status::BAD_STATEID);
        };
        let fits: Vec<_> = modes
            .iter()
            .copied()
            .filter(|had| had.0 & !mode.0 == 0 && had.1 & !mode.1 == 0)
            .collect();
        let union = fits
            .iter()
            .fold((0, 0), |sum, had| (sum.0 | had.0, sum.1 | had.1));
        if union != mode {
            return Err(Status::INVAL);
        }
        if let Some(state) = self.files.get_mut(&file) {
            state.shares.count((*access, *deny), -1);
            state.shares.count(mode, 1);
        }
        (*access, *deny) = mode;
        *writes_all &= mode.0 & WRITE != 0;
        for (_, opened) in openers {
            *opened &= mode.0 | APPENDS;
        }
        modes.retain(|had| fits.contains(had));
        held.sequence += 1;
        Ok(self.id_of(number))
    }

    /// `CLOSE`.
    pub fn close(&mut self, client: u64, id: &StateId, file: Handle) -> Result<(), Status> {
        let number = self.number_of(client, id)?;
        let held = &self.held[&number];
        if held.file != file || !matches!(held.what, StateKind::Open { .. }) {
            return Err(Status::BAD_STATEID);
        }
        let is_locked = match &held.what {
            StateKind::Open { locks, .. } if !locks.is_empty() => {
                let ranges = &self.files[&file].ranges;
                ranges.iter().any(|range| locks.contains(&range.lock))
            }
            _ => false,
        };
        let owner = held.named();
        if let Some(seqids) = self.seqids(client) {
            seqids.close(owner, number);
        } else if is_locked {
            return Err(Status::LOCKS_HELD);
        }
        self.forget_held(number);
        Ok(())
    }

    /// `FREE_STATEID`.
    pub fn free(&mut self, client: u64, id: &StateId) -> Result<(), Status> {
        let number = self.number_of(client, id)?;
        let held = &self.held[&number];
        let file = self.files.get(&held.file);
        let is_locked = file.is_some_and(|file| file.has_ranges_of(number));
        if is_locked || matches!(held.what, StateKind::Open { .. }) {
            return Err(Status::LOCKS_HELD);
        }
        self.forget_held(number);
        Ok(())
    }

    /// `LOCKT`. Returns the conflicting lock.
    pub fn conflict(
        &mut self,
        client: u64,
        owner: &[u8],
        file: Handle,
        span: Span,
        now_ms: u64,
    ) -> Result<(), Conflict> {
        let ranges = self.files.get(&file).map_or(&[][..], |found| &found.ranges);
        let is_in_the_way =
            |range: &&Range| span.overlaps(range) && (span.is_write || range.is_write);
        let in_the_way: Vec<Range> = ranges.iter().filter(is_in_the_way).copied().collect();
        for range in in_the_way {
            let Some(held) = self.held.get(&range.lock) else {
                continue;
            };
            if held.client == client && held.owner == owner {
                continue;
            }
            let other = held.client;
            if other != client && self.is_expired(other, now_ms) {
                self.forget_client(other);
                continue;
            }
            let length = (range.last - range.first).checked_add(1);
            return Err(Conflict {
                offset: range.first,
                length: if range.last == u64::MAX {
                    u64::MAX
                } else {
                    length.unwrap_or(u64::MAX)
                },
                is_write: range.is_write,
                client: other,
                owner: held.owner.clone(),
            });
        }
        Ok(())
    }

    /// `LOCK` by an owner that may be new for this open.
    pub fn lock_as(
        &mut self,
        client: u64,
        open: &StateId,
        owner: &[u8],
        file: Handle,
        span: Span,
        now_ms: u64,
    ) -> Result<StateId, NoLock> {
        let found = self.find(client, open)?;
        if !matches!(self.held[&found.number].what, StateKind::Open { .. }) || found.file != file {
            return Err(Status::BAD_STATEID.into());
        }
        check_access(&found, span)?;
        let known = self.lock_with(found.number, owner);
        if known.is_none() {
            let found = self.clients.get(&client).ok_or(Status::STALE_CLIENTID)?;
            self.check_count(found)?;
            let found = self.files.get(&file);
            if found.is_some_and(|found| !found.has_room_for_lock_owner()) {
                return Err(Status::DELAY.into());
            }
        }
        self.check_ranges(file)?;
        self.conflict(client, owner, file, span, now_ms)
            .map_err(NoLock::Denied)?;
        let number = match known {
            Some(number) => number,
            None => {
                let number = self.number_of_state(client);
                self.hold(
                    number,
                    client,
                    owner,
                    file,
                    StateKind::Lock { open: found.number },
                );
                if let Some(held) = self.held.get_mut(&number) {
                    held.sequence = 0;
                }
                number
            }
        };
        Ok(self.take_range(number, file, span))
    }

    /// `LOCK` by an existing lock owner.
    pub fn lock_more(
        &mut self,
        client: u64,
        lock: &StateId,
        file: Handle,
        span: Span,
        now_ms: u64,
    ) -> Result<StateId, NoLock> {
        let found = self.find(client, lock)?;
        let held = &self.held[&found.number];
        if !matches!(held.what, StateKind::Lock { .. }) || found.file != file {
            return Err(Status::BAD_STATEID.into());
        }
        check_access(&found, span)?;
        let owner = held.owner.clone();
        self.check_ranges(file)?;
        self.conflict(client, &owner, file, span, now_ms)
            .map_err(NoLock::Denied)?;
        Ok(self.take_range(found.number, file, span))
    }

    pub(super) fn check_ranges(&self, file: Handle) -> Result<(), Status> {
        let ranges = self.files.get(&file).map_or(0, |found| found.ranges.len());
        if ranges >= RANGES_PER_FILE_MAX {
            Err(Status::DELAY)
        } else {
            Ok(())
        }
    }

    /// Checks that there is room for the two remaining ranges when `span` is unlocked in the
    /// middle.
    pub(super) fn check_split(&self, lock: u64, file: Handle, span: Span) -> Result<(), Status> {
        let splits = |range: &Range| {
            range.lock == lock && range.first < span.first && span.last < range.last
        };
        let found = self.files.get(&file);
        match found.is_some_and(|found| found.ranges.iter().any(splits)) {
            true => self.check_ranges(file),
            false => Ok(()),
        }
    }

    pub(super) fn take_range(&mut self, number: u64, file: Handle, span: Span) -> StateId {
        if let Some(client) = self.held.get(&number).map(|held| held.client) {
            self.record_state(client, ReclaimableState::LOCKS);
        }
        if let Some(found) = self.files.get_mut(&file) {
            cut(&mut found.ranges, number, span);
            join(&mut found.ranges, number, span);
            self.locking.range_released(file);
        }
        self.changed(number)
    }

    pub(super) fn free_range(&mut self, number: u64, file: Handle, span: Span) {
        if let Some(found) = self.files.get_mut(&file) {
            cut(&mut found.ranges, number, span);
            self.locking.range_released(file);
        }
    }

    pub(super) fn changed(&mut self, number: u64) -> StateId {
        if let Some(held) = self.held.get_mut(&number) {
            held.sequence += 1;
        }
        self.id_of(number)
    }

    /// `LOCKU`.
    pub fn unlock(
        &mut self,
        client: u64,
        lock: &StateId,
        file: Handle,
        span: Span,
    ) -> Result<StateId, Status> {
        let number = self.number_of(client, lock)?;
        let held = &self.held[&number];
        if !matches!(held.what, StateKind::Lock { .. }) || held.file != file {
            return Err(Status::BAD_STATEID);
        }
        self.check_split(number, file, span)?;
        self.free_range(number, file, span);
        Ok(self.changed(number))
    }
}

fn check_access(found: &Found, span: Span) -> Result<(), Status> {
    let needed = if span.is_write { WRITE } else { READ };
    if found.access & needed == 0 {
        Err(Status::OPENMODE)
    } else {
        Ok(())
    }
}

/// Adds `span` and merges it with adjacent ranges of the same kind. Ranges of `lock` must not
/// overlap it.
fn join(ranges: &mut Vec<Range>, lock: u64, span: Span) {
    let mut whole = Range {
        lock,
        first: span.first,
        last: span.last,
        is_write: span.is_write,
    };
    ranges.retain(|range| {
        let is_alike = (range.lock, range.is_write) == (lock, span.is_write);
        let is_before = range.last.checked_add(1) == Some(span.first);
        let is_behind = span.last.checked_add(1) == Some(range.first);
        let touches = is_alike && (is_before || is_behind);
        if touches {
            whole.first = whole.first.min(range.first);
            whole.last = whole.last.max(range.last);
        }
        !touches
    });
    ranges.push(whole);
}

/// Removes `span` from the ranges of `lock`. The parts on both sides remain.
fn cut(ranges: &mut Vec<Range>, lock: u64, span: Span) {
    let mut left = Vec::new();
    ranges.retain(|range| {
        if range.lock != lock || !span.overlaps(range) {
            return true;
        }
        if range.first < span.first {
            left.push(Range {
                last: span.first - 1,
                ..*range
            });
        }
        if range.last > span.last {
            left.push(Range {
                first: span.last + 1,
                ..*range
            });
        }
        false
    });
    ranges.append(&mut left);
}
