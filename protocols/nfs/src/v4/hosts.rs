//! NFS 3 hosts that lock ranges with NLM 4. Their locks are in the same table as the state of NFS 4
//! clients, so that they conflict. A host has no lease: it holds its locks until it releases them
//! or reports a restart. A blocked lock is queued and granted by a callback.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use file_system::{Done, FileError, FileSystem, Handle};

use super::compound::Service;
use super::grace::{New, ReclaimableState};
use super::numbers::Status;
use super::opens::{Conflict, LockUse, NoLock, Span, StateKind};
use super::state::{Client, Introduction, Manner, State};
use crate::hosts::{AddressPair, Hosts, Message, Outcome, Purpose, Readiness};
use crate::snapshots;
use crate::xdr::{Reader, Writer};

/// Hosts of one IPv4 address or IPv6 network that are notified of a start. The bound leaves room in
/// the record for the hosts of other networks.
const HOSTS_PER_NETWORK_MAX: usize = 128;
/// Maximum bytes of one host in the record.
const BYTES_PER_HOST_MAX: usize = 96;
/// Blocked locks of one file, and of all files. A host that finds the queue full must retry by
/// itself.
const WAITING_PER_FILE_MAX: usize = 128;
const WAITING_MAX: usize = 4096;
/// Blocked locks of one IPv4 address or IPv6 network.
const WAITING_PER_NETWORK_MAX: usize = 256;
/// Granted locks without a reply from the host, for which the blocked request is retained.
const UNACKNOWLEDGED_MAX: usize = 8192;
/// Hosts are notified at most this long after the start, even if the key of a shared dataset is
/// still missing.
const ANNOUNCED_MS_MAX: u64 = 5000;
/// Shares of one file by the hosts of one IPv4 address or IPv6 network, so that one network cannot
/// use all slots of the file.
const SHARES_PER_NETWORK_MAX: usize = 128;
/// The owner of the open that holds a file for the locks of a host.
const ANCHOR: &[u8] = b"";
/// Prefix of the owner of a share, so that it differs from the owner of a lock.
const SHARE: &[u8] = b"share";
/// No access and no denial: the locks of a host conflict only with locks.
const NO_SHARE: (u32, u32) = (0, 0);
/// NLM, its version, and the procedure that reports a granted lock to the host.
const NLM: (u32, u32) = (100_021, 4);
const GRANTED: u32 = 5;

/// State that only a host has.
pub(super) struct Host {
    pub(super) address: IpAddr,
    /// Addresses of this server that the host uses.
    heres: BTreeSet<IpAddr>,
    /// NSM `state` that all of its locks came with; 0 if there was none or it is unknown. Shares
    /// carry no NSM state.
    locked_at: Option<u32>,
    /// The NSM `state` that the host reported last.
    told: Option<u32>,
}

impl Host {
    /// Whether all state of the host was created after that start of the host.
    fn has_started(&self, start: u32) -> bool {
        start != 0 && (self.locked_at == Some(start) || self.told == Some(start))
    }
}

/// A range that a host wants to lock.
#[derive(Clone)]
pub(crate) struct LockRequest {
    /// The client number of the host.
    pub(crate) host: u64,
    /// The lock owner on the host.
    pub(crate) owner: Vec<u8>,
    /// The file.
    pub(crate) file: Handle,
    /// The range.
    pub(crate) span: Span,
    /// The route to the host.
    pub(crate) way: AddressPair,
    /// The cookie of the request.
    pub(crate) cookie: Vec<u8>,
    /// The lock as the host described it.
    pub(crate) lock: Vec<u8>,
}

impl LockRequest {
    fn is_of(&self, (host, owner, file): (u64, &[u8], Handle)) -> bool {
        (self.host, &self.owner[..], self.file) == (host, owner, file)
    }

    /// The NLM_GRANTED call to the host.
    fn granted(&self, number: u64) -> Message {
        let mut arguments = Writer::new();
        arguments.opaque(&self.cookie);
        arguments.boolean(self.span.is_write);
        arguments.append(&self.lock);
        Message {
            way: self.way,
            program: NLM.0,
            version: NLM.1,
            procedure: GRANTED,
            arguments: arguments.into_bytes(),
            purpose: Purpose::Granted(number),
        }
    }
}

/// A share reservation of a whole file (NLM_SHARE).
pub(crate) struct Share<'a> {
    /// The client number of the host.
    pub(crate) host: u64,
    /// The share owner on the host.
    pub(crate) owner: &'a [u8],
    /// The file.
    pub(crate) file: Handle,
    /// Access and denial.
    pub(crate) mode: (u32, u32),
    /// The host reclaims a share that it held at the previous server.
    pub(crate) is_reclaim: bool,
}

/// Why a lock or share was refused.
pub(crate) enum NoHostLock {
    /// A conflicting lock exists.
    Denied(Conflict),
    /// A conflicting share or NFS 4 open exists.
    Shared,
    /// The grace period is active, or it is over and the reclaim comes too late.
    Grace,
    /// There is no room for one more.
    Full,
    /// The file cannot be held open.
    File(FileError),
}

impl From<NoLock> for NoHostLock {
    fn from(no: NoLock) -> Self {
        match no {
            NoLock::Denied(conflict) => Self::Denied(conflict),
            NoLock::Failed(Status::SHARE_DENIED) => Self::Shared,
            NoLock::Failed(Status::GRACE | Status::NO_GRACE) => Self::Grace,
            NoLock::Failed(_) => Self::Full,
        }
    }
}

/// All state of NFS 3 hosts.
#[derive(Default)]
pub(super) struct Locking {
    /// Hosts that the previous server recorded, with its number.
    earlier: Hosts,
    waiting: VecDeque<LockRequest>,
    /// Files with ranges that were released since the blocked locks were last checked.
    freed: HashSet<Handle>,
    /// Granted locks that the hosts have not acknowledged yet.
    granting: HashMap<u64, LockRequest>,
    /// Hosts have been notified of this start.
    is_announced: bool,
}

impl Locking {
    pub(super) fn after(earlier: Hosts) -> Self {
        Self {
            earlier,
            ..Self::default()
        }
    }

    /// Records that a range of a file was released.
    pub(super) fn range_released(&mut self, file: Handle) {
        if !self.waiting.is_empty() {
            self.freed.insert(file);
        }
    }

    /// Removes a host.
    pub(super) fn forget(&mut self, host: u64) {
        self.waiting
            .retain(|lock_request| lock_request.host != host);
        self.granting
            .retain(|_, lock_request| lock_request.host != host);
    }
}

/// Whether the host accepted the granted lock (`nlm4_res`).
fn is_granted(results: &[u8]) -> bool {
    const COOKIE_BYTES_MAX: usize = 1024;
    let mut reader = Reader::new(results);
    reader.opaque(COOKIE_BYTES_MAX).and_then(|_| reader.u32()) == Ok(0)
}

/// The name that identifies a host. Hosts behind one address are distinguished by the name that
/// they send.
fn name_of(address: IpAddr, name: &[u8]) -> Vec<u8> {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    [&address.octets(), name].concat()
}

impl State {
    /// Counts files with state, and opens and locks.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.files.len(), self.held.len())
    }

    /// Returns the host of this name if it has or had state.
    pub(crate) fn known_host(&self, address: IpAddr, name: &[u8]) -> Option<u64> {
        self.known(Manner::Host, &name_of(address, name)).1
    }

    /// Whether a client is an NFS 3 host. The owners of a host have numbers.
    fn is_host(&self, client: u64) -> bool {
        self.host_of(client).is_some()
    }

    /// Whether a client is a host at that address.
    pub(super) fn is_host_at(&self, client: u64, address: IpAddr) -> bool {
        let host = self.host_of(client);
        host.is_some_and(|host| host.address == address)
    }

    fn host_of(&self, client: u64) -> Option<&Host> {
        self.clients.get(&client)?.host.as_ref()
    }

    /// Returns the number of the host `name`, creating it if necessary. A new host needs a free
    /// slot among the hosts that are notified of a start. `start` is the NSM state of the lock
    /// request.
    pub(crate) fn host(
        &mut self,
        way: AddressPair,
        name: &[u8],
        start: Option<u32>,
        now_ms: u64,
    ) -> Result<u64, Status> {
        let known = self.known_host(way.there, name);
        let is_known_way = known.is_some_and(|id| {
            let host = self.clients[&id].host.as_ref();
            host.is_some_and(|host| host.heres.contains(&way.here))
        });
        if !is_known_way {
            self.check_place(way, now_ms)?;
        }
        let id = match known {
            Some(id) => id,
            None => self.add_host(way, name, now_ms)?,
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.renewed_ms = now_ms;
            let has_nothing = client.held.is_empty();
            let host = client.host.as_mut();
            let is_new = host.is_some_and(|host| {
                if has_nothing || host.locked_at.is_none() {
                    host.locked_at = start;
                } else if start.is_some() && host.locked_at != start {
                    host.locked_at = Some(0);
                }
                host.heres.insert(way.here)
            });
            if is_new && client.has_reclaimed {
                self.holders_changed();
            }
        }
        Ok(id)
    }

    fn add_host(&mut self, way: AddressPair, name: &[u8], now_ms: u64) -> Result<u64, Status> {
        let owner = name_of(way.there, name);
        let who = Introduction {
            owner: &owner,
            verifier: [0; 8],
            principal: 0,
            kerberos: None,
            is_update: false,
            address: way.there,
            network: serving::network(way.there),
        };
        let host = Host {
            address: way.there,
            heres: BTreeSet::from([way.here]),
            locked_at: None,
            told: None,
        };
        self.introduce(&who, None, Some(host), now_ms)
    }

    fn check_place(&self, way: AddressPair, now_ms: u64) -> Result<(), Status> {
        let hosts = self.hosts(now_ms);
        let network = serving::network(way.there);
        let near = hosts.ways.iter();
        let near = near.filter(|other| serving::network(other.there) == network);
        let has_room = hosts.ways.contains(&way)
            || (near.count() < HOSTS_PER_NETWORK_MAX
                && hosts.to_string().len() + BYTES_PER_HOST_MAX <= Hosts::BYTES_MAX);
        if has_room { Ok(()) } else { Err(Status::DELAY) }
    }

    /// Returns the hosts that the next server must notify. During the grace period these include
    /// the hosts of the previous server.
    pub(crate) fn hosts(&self, now_ms: u64) -> Hosts {
        let earlier = &self.locking.earlier;
        let mut ways = match self.is_grace(now_ms) {
            true => earlier.ways.clone(),
            false => BTreeSet::new(),
        };
        for host in self
            .holding(now_ms)
            .filter_map(|client| client.host.as_ref())
        {
            let there = host.address;
            ways.extend(
                host.heres
                    .iter()
                    .map(|here| AddressPair { here: *here, there }),
            );
        }
        let mut hosts = Hosts {
            start: earlier.next_start(),
            ways,
        };
        // More hosts without state have returned than the record has room for.
        while hosts.to_string().len() > Hosts::BYTES_MAX {
            hosts.ways.pop_last();
        }
        hosts
    }

    /// Whether new locks are refused.
    pub(crate) fn is_lock_forbidden(&mut self, now_ms: u64) -> bool {
        self.forbids(New::Lock, now_ms)
    }

    /// Whether a host may lock; with `is_reclaim`, whether it may reclaim a lock.
    pub(crate) fn may_lock(
        &mut self,
        host: u64,
        is_reclaim: bool,
        now_ms: u64,
    ) -> Result<(), Status> {
        match is_reclaim {
            true => self.check_reclaim(host, ReclaimableState::LOCKS, now_ms),
            false => self.check_grace(host, New::Lock, now_ms),
        }
    }

    fn lock_of(&self, host: u64, owner: &[u8], file: Handle) -> Option<u64> {
        let anchor = self.files.get(&file)?.open_of(host, ANCHOR)?;
        self.lock_with(anchor, owner)
    }

    /// Whether an owner already holds the whole range, so that the request is a retry.
    pub(crate) fn has_range(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) -> bool {
        let lock = self.lock_of(host, owner, file);
        let has = lock.is_some_and(|lock| self.files[&file].has(lock, span));
        if has {
            self.remove_pending(host, owner, file, span);
        }
        has
    }

    /// Removes pending callbacks for a range that the owner has already been informed of.
    fn remove_known_callbacks(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) {
        let is_known = |lock_request: &LockRequest| {
            lock_request.is_of((host, owner, file)) && span.covers(lock_request.span)
        };
        self.locking
            .granting
            .retain(|_, lock_request| !is_known(lock_request));
    }

    /// Removes the pending callbacks and the blocked request of a range that the owner has
    /// obtained.
    fn remove_pending(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) {
        self.remove_known_callbacks(host, owner, file, span);
        self.cancel_blocked(host, owner, file, span);
    }

    /// Returns whether the request was blocked.
    fn cancel_blocked(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) -> bool {
        let waiting = &mut self.locking.waiting;
        let count = waiting.len();
        waiting.retain(|lock_request| {
            !(lock_request.is_of((host, owner, file)) && lock_request.span == span)
        });
        waiting.len() < count
    }

    /// Locks a range. Returns whether the file must be held open for it.
    fn lock_for_host(
        &mut self,
        lock_request: &LockRequest,
        files: &Arc<dyn FileSystem>,
        now_ms: u64,
    ) -> Result<bool, NoLock> {
        let LockRequest {
            host,
            owner,
            file,
            span,
            ..
        } = lock_request;
        let (host, file, span) = (*host, *file, *span);
        let found = self.clients.get(&host).ok_or(Status::STALE_CLIENTID)?;
        self.check_count(found)?;
        self.check_ranges(file)?;
        self.conflict(host, owner, file, span, now_ms)
            .map_err(NoLock::Denied)?;
        let known = self.lock_of(host, owner, file);
        let has_room = self.files.get(&file).is_none_or(|found| {
            found.has_room_for_lock_owner()
                && (found.has_room_for_open() || found.open_of(host, ANCHOR).is_some())
        });
        if known.is_none() && !has_room {
            return Err(Status::DELAY.into());
        }
        let mut is_first = false;
        let number = match known {
            Some(number) => number,
            None => {
                let anchor = self
                    .files
                    .get(&file)
                    .and_then(|found| found.open_of(host, ANCHOR));
                let anchor = anchor.unwrap_or_else(|| {
                    is_first = self.open(host, ANCHOR, file, NO_SHARE, Arc::clone(files)).1;
                    self.files[&file]
                        .open_of(host, ANCHOR)
                        .expect("it was just made")
                });
                let number = self.number_of_state(host);
                self.hold(number, host, owner, file, StateKind::Lock { open: anchor });
                number
            }
        };
        self.take_range(number, file, span);
        self.remove_pending(host, owner, file, span);
        Ok(is_first)
    }

    /// Creates a share or replaces the owner's current one. Returns whether the file must be held
    /// open for it.
    fn share_for_host(
        &mut self,
        share: &Share<'_>,
        files: &Arc<dyn FileSystem>,
        now_ms: u64,
    ) -> Result<bool, Status> {
        let Share {
            host,
            file,
            mode,
            is_reclaim,
            ..
        } = *share;
        let denies = mode.1 != 0;
        match (is_reclaim, denies) {
            (true, _) => self.check_reclaim(host, ReclaimableState::open(denies), now_ms)?,
            (false, true) => self.check_room(host, New::Denial, now_ms)?,
            (false, false) => self.check_room(host, New::Open, now_ms)?,
        }
        let owner = [SHARE, share.owner].concat();
        if !self.has_room_for_share(host, &owner, file) {
            return Err(Status::DELAY);
        }
        self.check_share((host, &owner), file, mode, is_reclaim, now_ms)?;
        self.unshare_for_host(host, share.owner, file);
        Ok(self.open(host, &owner, file, mode, Arc::clone(files)).1)
    }

    /// Whether a host may have this share: an existing one, or one more.
    fn has_room_for_share(&self, host: u64, owner: &[u8], file: Handle) -> bool {
        let Some((found, known)) = self.files.get(&file).zip(self.host_of(host)) else {
            return true;
        };
        let network = serving::network(known.address);
        let is_near = |host: &Host| serving::network(host.address) == network;
        let near = |(client, owner): &(u64, &[u8])| {
            *owner != ANCHOR && self.host_of(*client).is_some_and(is_near)
        };
        found.open_of(host, owner).is_some()
            || found.openers().filter(near).count() < SHARES_PER_NETWORK_MAX
    }

    /// Removes a share. It is no error if there is none.
    pub(crate) fn unshare_for_host(&mut self, host: u64, owner: &[u8], file: Handle) {
        let owner = [SHARE, owner].concat();
        let found = self.files.get(&file);
        if let Some(number) = found.and_then(|found| found.open_of(host, &owner)) {
            self.forget_held(number);
        }
    }

    /// Unlocks a range. It is no error if no lock exists.
    pub(crate) fn unlock_for_host(
        &mut self,
        host: u64,
        owner: &[u8],
        file: Handle,
        span: Span,
    ) -> Result<(), Status> {
        self.remove_known_callbacks(host, owner, file, span);
        let Some(number) = self.lock_of(host, owner, file) else {
            return Ok(());
        };
        self.check_split(number, file, span)?;
        self.free_range(number, file, span);
        if self.files[&file].has_ranges_of(number) {
            return Ok(());
        }
        self.forget_held(number);
        let anchor = self
            .files
            .get(&file)
            .and_then(|found| found.open_of(host, ANCHOR));
        if let Some(anchor) = anchor.filter(|anchor| !self.has_locks(*anchor)) {
            self.forget_held(anchor);
        }
        Ok(())
    }

    /// Queues a blocked lock if there is room. A repeated request retains its position.
    pub(crate) fn wait(&mut self, lock_request: LockRequest) {
        let waiting = &mut self.locking.waiting;
        let mut same = waiting.iter_mut();
        let is_same = |one: &&mut LockRequest| {
            one.is_of((lock_request.host, &lock_request.owner, lock_request.file))
                && one.span == lock_request.span
        };
        if let Some(same) = same.find(is_same) {
            *same = lock_request;
            return;
        }
        let network = serving::network(lock_request.way.there);
        let of_file = waiting
            .iter()
            .filter(|one| one.file == lock_request.file)
            .count();
        let near = |one: &&LockRequest| serving::network(one.way.there) == network;
        let of_network = waiting.iter().filter(near).count();
        let has_room = waiting.len() < WAITING_MAX
            && of_file < WAITING_PER_FILE_MAX
            && of_network < WAITING_PER_NETWORK_MAX;
        if has_room {
            waiting.push_back(lock_request);
        }
    }

    /// Blocked ranges, each with its file.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Handle, LockUse)> {
        let waiting = self.locking.waiting.iter();
        waiting.map(|lock_request| {
            let process = self.process_of(lock_request.host, &lock_request.owner);
            (
                lock_request.file,
                LockUse::new(lock_request.host, process, lock_request.span),
            )
        })
    }

    /// Returns the process id and name of a lock owner of a host; `None` for other clients.
    pub(crate) fn process_of(&self, client: u64, owner: &[u8]) -> Option<(u32, Vec<u8>)> {
        let owner = Some(owner).filter(|_| self.is_host(client));
        let (number, name) = owner?.split_first_chunk::<4>()?;
        Some((u32::from_be_bytes(*number), name.to_vec()))
    }

    /// Cancels a blocked lock. Returns whether it was blocked.
    pub(crate) fn cancel(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) -> bool {
        let waited = self.cancel_blocked(host, owner, file, span);
        let is_it = |lock_request: &LockRequest| {
            lock_request.is_of((host, owner, file)) && lock_request.span == span
        };
        let is_granting = self.locking.granting.values().any(is_it);
        if is_granting {
            let _ = self.unlock_for_host(host, owner, file, span);
        }
        is_granting || waited
    }

    /// Removes and returns the next blocked lock that can be granted.
    fn next_to_grant(&mut self, now_ms: u64) -> Option<LockRequest> {
        if self.locking.freed.is_empty() {
            return None;
        }
        let freed = std::mem::take(&mut self.locking.freed);
        let mut waiting = std::mem::take(&mut self.locking.waiting);
        let found = waiting.iter().position(|lock_request| {
            freed.contains(&lock_request.file)
                && self
                    .conflict(
                        lock_request.host,
                        &lock_request.owner,
                        lock_request.file,
                        lock_request.span,
                        now_ms,
                    )
                    .is_ok()
        });
        let lock_request = found.and_then(|at| waiting.remove(at));
        // The locks of a client with an expired lease may have been removed.
        self.locking.waiting = waiting;
        if lock_request.is_some() {
            self.locking.freed.extend(freed);
        }
        lock_request
    }

    /// Removes the state of a host that released all of it or restarted as NSM state `start`. A
    /// late message about an earlier start removes no newer state. If no host at the address has
    /// this name, the only host there with locks is meant.
    pub(crate) fn host_restarted(&mut self, address: IpAddr, name: &[u8], start: Option<u32>) {
        let short = |name: &[u8]| name.split(|byte| *byte == b'.').next().map(<[u8]>::to_vec);
        let at_address = |client: &&Client| {
            client
                .host
                .as_ref()
                .is_some_and(|host| host.address == address)
        };
        let there = self.clients.iter();
        let there = there.filter(|(_, client)| at_address(client));
        let (named, others): (Vec<_>, Vec<_>) =
            there.partition(|(_, client)| short(&client.owner()[16..]) == short(name));
        let mut meant: Vec<u64> = named.iter().map(|(id, _)| **id).collect();
        if meant.is_empty() {
            let holding = others.iter().filter(|(_, client)| !client.held.is_empty());
            meant.extend(holding.map(|(id, _)| **id));
            if meant.len() > 1 {
                meant.clear();
            }
        }
        for id in meant {
            match start {
                Some(start) => self.has_started(id, start),
                None => self.forget_client(id),
            }
        }
    }

    fn has_started(&mut self, id: u64, start: u32) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let Some(host) = client.host.as_mut() else {
            return;
        };
        if host.has_started(start) {
            return;
        }
        host.told = Some(start);
        client.has_reclaimed = false;
        client.had = ReclaimableState::default();
        let held = client.held.iter().copied().collect();
        self.forget_all(held);
        self.locking.forget(id);
        self.holders_changed();
    }
}

impl Service {
    /// Whether a host at this address may use a file without an open. Returns [`FileError::Access`]
    /// if an open denies the use, and [`FileError::NotReady`] if a client may still reclaim such an
    /// open. If the previous holders are unknown, the use is allowed, since NFS 3 promises nothing
    /// here.
    pub(crate) fn check_use(
        &self,
        file: Handle,
        access: u32,
        address: IpAddr,
        now_ms: u64,
    ) -> Done {
        let mut state = self.state();
        if state.awaits_denials(address, now_ms) {
            return Err(FileError::NotReady);
        }
        let is_denied = state.is_denied_at(file, access, address, now_ms);
        drop(state);
        if is_denied {
            return Err(FileError::Access);
        }
        // A client may have lost the state that forbade this use. It must not reclaim it from the
        // next server.
        let kept = self.keep_holders(now_ms);
        self.release();
        kept.map_err(|_| FileError::NotReady)
    }

    /// Locks a range for a host.
    pub(crate) fn lock_for_host(
        &self,
        lock_request: &LockRequest,
        files: &Arc<dyn FileSystem>,
        now_ms: u64,
    ) -> Result<(), NoHostLock> {
        self.hold_for_host(lock_request.file, files, |state| {
            state.lock_for_host(lock_request, files, now_ms)
        })
    }

    /// Creates a share for a host.
    pub(crate) fn share_for_host(
        &self,
        share: &Share<'_>,
        files: &Arc<dyn FileSystem>,
        now_ms: u64,
    ) -> Result<(), NoHostLock> {
        self.hold_for_host(share.file, files, |state| {
            Ok(state.share_for_host(share, files, now_ms)?)
        })
    }

    /// Calls `take`, which creates state of a file and returns whether the file must be held open.
    fn hold_for_host(
        &self,
        file: Handle,
        files: &Arc<dyn FileSystem>,
        take: impl FnOnce(&mut State) -> Result<bool, NoLock>,
    ) -> Result<(), NoHostLock> {
        let node = snapshots::node_of(file).unwrap_or(file.node);
        // The file is held open first, so that it cannot disappear in between.
        files.hold(node).map_err(NoHostLock::File)?;
        let mut state = self.state();
        let now = self.exports();
        let is_shared_still = now
            .files_of(file.file_system)
            .is_some_and(|now| Arc::ptr_eq(now, files));
        let taken = match is_shared_still {
            true => take(&mut state),
            false => Err(Status::DELAY.into()),
        };
        drop(state);
        if !matches!(taken, Ok(true)) {
            files.release(node);
        }
        taken.map(|_| ()).map_err(NoHostLock::from)
    }

    /// Grants blocked locks of released ranges.
    pub(crate) fn grant(&self, now_ms: u64) {
        self.grant_after(now_ms, || ());
    }

    /// Like [`Self::grant`]. `before` is used as in [`Self::release_after`], because a file may be
    /// released here, too.
    pub(crate) fn grant_after(&self, now_ms: u64, mut before: impl FnMut()) {
        loop {
            let Some(lock_request) = self.state().next_to_grant(now_ms) else {
                return;
            };
            before();
            let exports = self.exports();
            // If the file system is temporarily closed, the host retries.
            let Some(files) = exports.files_of(lock_request.file.file_system) else {
                continue;
            };
            match self.lock_for_host(&lock_request, files, now_ms) {
                Ok(()) => self.call_back(lock_request),
                Err(NoHostLock::Denied(_)) => self.state().wait(lock_request),
                Err(_) => {}
            }
        }
    }

    /// Like [`Self::grant`], also for ranges of clients with an expired lease.
    pub(crate) fn grant_all(&self, now_ms: u64) {
        {
            let locking = &mut self.state().locking;
            let files: Vec<Handle> = locking
                .waiting
                .iter()
                .map(|lock_request| lock_request.file)
                .collect();
            locking.freed.extend(files);
        }
        self.grant(now_ms);
    }

    fn call_back(&self, lock_request: LockRequest) {
        let mut state = self.state();
        let number = state.number();
        let message = lock_request.granted(number);
        state.locking.granting.insert(number, lock_request);
        drop(state);
        if !self.outbox.put(message) {
            self.end_grant(number, false);
        }
    }

    /// Retains a lock without a reply to its callback: the host may have accepted it and can unlock
    /// it.
    fn retain_grant(&self, number: u64) {
        let granting = &mut self.state().locking.granting;
        if granting.len() > UNACKNOWLEDGED_MAX {
            granting.remove(&number);
        }
    }

    /// Completes a callback. A lock that the host refuses, or that could not be reported to it, is
    /// released.
    fn end_grant(&self, number: u64, is_taken: bool) {
        let mut state = self.state();
        let lock_request = state.locking.granting.remove(&number);
        if let Some(lock_request) = lock_request.filter(|_| !is_taken) {
            let _ = state.unlock_for_host(
                lock_request.host,
                &lock_request.owner,
                lock_request.file,
                lock_request.span,
            );
        }
        drop(state);
        self.release();
    }

    /// Creates the notifications of this start, once all file systems with reclaimable locks are
    /// present.
    pub(crate) fn announce(&self, now_ms: u64) {
        /// NSM, its version, and the notification procedure.
        const NOTIFY: (u32, u32, u32) = (100_024, 1, 6);
        if !self.exports().is_complete() && now_ms < ANNOUNCED_MS_MAX {
            return;
        }
        let (ways, start) = {
            let locking = &mut self.state().locking;
            if std::mem::replace(&mut locking.is_announced, true) {
                return;
            }
            let earlier = &locking.earlier;
            (earlier.ways.clone(), earlier.next_start())
        };
        for way in ways {
            let mut arguments = Writer::new();
            arguments.opaque(way.here.to_string().as_bytes());
            arguments.u32(start);
            self.outbox.put(Message {
                way,
                program: NOTIFY.0,
                version: NOTIFY.1,
                procedure: NOTIFY.2,
                arguments: arguments.into_bytes(),
                purpose: Purpose::Started,
            });
        }
    }

    /// Whether a call may be sent: its content must still be true, and must be durable.
    pub(crate) fn readiness(&self, purpose: Purpose, now_ms: u64) -> Readiness {
        match purpose {
            Purpose::Reply => Readiness::Now,
            Purpose::Granted(number) if !self.state().locking.granting.contains_key(&number) => {
                Readiness::Never
            }
            Purpose::Started | Purpose::Granted(_) => match self.keep_holders(now_ms) {
                Ok(()) => Readiness::Now,
                Err(_) => Readiness::Later,
            },
        }
    }

    /// Handles the outcome of a call.
    pub(crate) fn callback_completed(&self, message: &Message, outcome: &Outcome, now_ms: u64) {
        match (message.purpose, outcome) {
            (Purpose::Started, Outcome::Replied { .. }) => {
                self.state().record_notified(message.way.there, now_ms);
            }
            (Purpose::Started, Outcome::NoReply { .. }) => {
                tracing::warn!(
                    host = %message.way.there,
                    "an NFS 3 client with locks was not notified of the server's start: \
                     its status monitor does not respond"
                );
            }
            (
                Purpose::Granted(number),
                Outcome::Replied {
                    results,
                    was_repeated,
                },
            ) => {
                // A host that receives the callback twice may refuse the second one although it
                // accepted the first.
                let is_taken = *was_repeated || is_granted(results);
                self.end_grant(number, is_taken);
                self.grant(now_ms);
            }
            (Purpose::Granted(number), Outcome::NoReply { was_sent: true }) => {
                self.retain_grant(number);
            }
            (Purpose::Granted(number), Outcome::NoReply { was_sent: false }) => {
                self.end_grant(number, false);
                self.grant(now_ms);
            }
            (Purpose::Reply, _) => {}
        }
    }
}
