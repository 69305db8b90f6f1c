//! Hosts that lock ranges over NFS 3 (NLM 4), in the same table as the clients of NFS 4, so that they keep each other out. A host has no
//! lease: what it has locked is its own until it gives that back, or says that it has started again. It waits for a lock in a queue, and is
//! called back.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use file_system::{Done, FileError, FileSystem, Handle};

use super::compound::Service;
use super::grace::{Had, New};
use super::numbers::Status;
use super::opens::{Conflict, LockUse, NoLock, Span, What};
use super::state::{Client, Introduction, Manner, State};
use crate::hosts::{Hosts, Message, Outcome, Purpose, Readiness, Way};
use crate::snapshots;
use crate::xdr::{Reader, Writer};

/// Hosts of one IPv4 address or IPv6 network that are told of a start: one network does not take all the places of the record.
const HOSTS_PER_NETWORK_MAX: usize = 128;
/// Bytes of the record that one more host takes at most.
const BYTES_PER_HOST_MAX: usize = 96;
/// Those that wait for a range of one file, and for any. Whoever finds no place asks again by himself.
const WAITING_PER_FILE_MAX: usize = 128;
const WAITING_MAX: usize = 4096;
/// The same of one IPv4 address or IPv6 network.
const WAITING_PER_NETWORK_MAX: usize = 256;
/// Locks whose owners did not answer, of which it is known what they waited for.
const UNANSWERED_MAX: usize = 8192;
/// So long after the start hosts are told of it at the latest: the key of something that is shared may be missing for days.
const ANNOUNCED_MS_MAX: u64 = 5000;
/// Shares of one file of the hosts in one IPv4 address or IPv6 network: nobody takes all the places among those that have it open.
const SHARES_PER_NETWORK_MAX: usize = 128;
/// The owner of the open that holds a file for the locks of a host.
const ANCHOR: &[u8] = b"";
/// What stands before the owner of a share, so that it is another one.
const SHARE: &[u8] = b"share";
/// No access and no denial: the locks of a host are in the way of locks alone.
const NO_SHARE: (u32, u32) = (0, 0);
/// NLM, its version, and the procedure by which a host hears that it has what it waited for.
const NLM: (u32, u32) = (100_021, 4);
const GRANTED: u32 = 5;

/// What only a host has.
pub(super) struct Host {
    pub(super) address: IpAddr,
    /// Our addresses that it uses.
    heres: BTreeSet<IpAddr>,
    /// The number of its start (`state` of NSM) that all of its locks came with, if any came; 0 where they did not, or it is not known. Shares come
    /// without one.
    locked_at: Option<u32>,
    /// The number of the start that it told last.
    told: Option<u32>,
}

impl Host {
    /// Whether all that it has came behind that start of it.
    fn has_started(&self, start: u32) -> bool {
        start != 0 && (self.locked_at == Some(start) || self.told == Some(start))
    }
}

/// A range that a host asks for.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Its number as a client.
    pub(crate) host: u64,
    /// The owner there.
    pub(crate) owner: Vec<u8>,
    /// The file.
    pub(crate) file: Handle,
    /// The range.
    pub(crate) span: Span,
    /// How the host is reached.
    pub(crate) way: Way,
    /// What the host told the call by.
    pub(crate) cookie: Vec<u8>,
    /// The lock as the host described it.
    pub(crate) lock: Vec<u8>,
}

impl Asked {
    fn is_of(&self, (host, owner, file): (u64, &[u8], Handle)) -> bool {
        (self.host, &self.owner[..], self.file) == (host, owner, file)
    }

    /// The call that gives it to the host.
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

/// A reservation of a whole file that a host asks for.
pub(crate) struct Share<'a> {
    /// Its number as a client.
    pub(crate) host: u64,
    /// The owner there.
    pub(crate) owner: &'a [u8],
    /// The file.
    pub(crate) file: Handle,
    /// What it is for, and what others must not do meanwhile.
    pub(crate) mode: (u32, u32),
    /// The host had it at the server before.
    pub(crate) is_reclaim: bool,
}

/// Why a host gets no lock, or no share.
pub(crate) enum NoHostLock {
    /// Somebody has one.
    Denied(Conflict),
    /// Somebody has a share, or an open of NFS 4.
    Shared,
    /// Not before clients have taken back what they had, or not any more.
    Grace,
    /// There is no room for one more.
    Full,
    /// The file cannot be held.
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

/// What the server knows of hosts in all.
#[derive(Default)]
pub(super) struct Locking {
    /// Those that the server before told of, with its number.
    earlier: Hosts,
    waiting: VecDeque<Asked>,
    /// Files of which ranges became free since somebody looked who waits for one.
    freed: HashSet<Handle>,
    /// Locks that their owners do not know of yet.
    granting: HashMap<u64, Asked>,
    /// Hosts were told of this start.
    is_announced: bool,
}

impl Locking {
    pub(super) fn after(earlier: Hosts) -> Self {
        Self {
            earlier,
            ..Self::default()
        }
    }

    /// A range of a file became free.
    pub(super) fn frees(&mut self, file: Handle) {
        if !self.waiting.is_empty() {
            self.freed.insert(file);
        }
    }

    /// A host is gone.
    pub(super) fn forget(&mut self, host: u64) {
        self.waiting.retain(|asked| asked.host != host);
        self.granting.retain(|_, asked| asked.host != host);
    }
}

/// Whether a host took what it was given (`nlm4_res`).
fn is_granted(results: &[u8]) -> bool {
    const COOKIE_BYTES_MAX: usize = 1024;
    let mut reader = Reader::new(results);
    reader.opaque(COOKIE_BYTES_MAX).and_then(|_| reader.u32()) == Ok(0)
}

/// How a host is told from others: those behind one address call themselves differently.
fn name_of(address: IpAddr, name: &[u8]) -> Vec<u8> {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    [&address.octets(), name].concat()
}

impl State {
    /// How many files have something open, and how many opens and locks there are.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.files.len(), self.held.len())
    }

    /// The host that calls itself `name`, if it has or had something.
    pub(crate) fn known_host(&self, address: IpAddr, name: &[u8]) -> Option<u64> {
        self.known(Manner::Host, &name_of(address, name)).1
    }

    /// Whether a client is a host, whose owners have numbers.
    fn is_host(&self, client: u64) -> bool {
        self.host_of(client).is_some()
    }

    /// Whether a client is a host there.
    pub(super) fn is_host_at(&self, client: u64, address: IpAddr) -> bool {
        let host = self.host_of(client);
        host.is_some_and(|host| host.address == address)
    }

    fn host_of(&self, client: u64) -> Option<&Host> {
        self.clients.get(&client)?.host.as_ref()
    }

    /// The host that calls itself `name`, which is heard of. A new one needs a place among those that are told of a start. `start`: what a lock says of
    /// the start of the host.
    pub(crate) fn host(
        &mut self,
        way: Way,
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
            None => self.introduce_host(way, name, now_ms)?,
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

    fn introduce_host(&mut self, way: Way, name: &[u8], now_ms: u64) -> Result<u64, Status> {
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

    fn check_place(&self, way: Way, now_ms: u64) -> Result<(), Status> {
        let hosts = self.hosts(now_ms);
        let network = serving::network(way.there);
        let near = hosts.ways.iter();
        let near = near.filter(|other| serving::network(other.there) == network);
        let has_room = hosts.ways.contains(&way)
            || (near.count() < HOSTS_PER_NETWORK_MAX
                && hosts.to_string().len() + BYTES_PER_HOST_MAX <= Hosts::BYTES_MAX);
        if has_room { Ok(()) } else { Err(Status::DELAY) }
    }

    /// Which hosts the next server has to tell that it has started: while clients may take back what they had, all that this one told, too.
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
            ways.extend(host.heres.iter().map(|here| Way { here: *here, there }));
        }
        let mut hosts = Hosts {
            start: earlier.next_start(),
            ways,
        };
        // Hosts that had nothing for a while have come back, more than there is room for.
        while hosts.to_string().len() > Hosts::BYTES_MAX {
            hosts.ways.pop_last();
        }
        hosts
    }

    /// Whether nobody gets a new lock now.
    pub(crate) fn is_lock_forbidden(&mut self, now_ms: u64) -> bool {
        self.forbids(New::Lock, now_ms)
    }

    /// Whether a host may have a lock now: one that it had before, if it `is_reclaim`.
    pub(crate) fn may_lock(
        &mut self,
        host: u64,
        is_reclaim: bool,
        now_ms: u64,
    ) -> Result<(), Status> {
        match is_reclaim {
            true => self.check_reclaim(host, Had::LOCKS, now_ms),
            false => self.check_grace(host, New::Lock, now_ms),
        }
    }

    fn lock_of(&self, host: u64, owner: &[u8], file: Handle) -> Option<u64> {
        let anchor = self.files.get(&file)?.open_of(host, ANCHOR)?;
        self.lock_with(anchor, owner)
    }

    /// Whether an owner has all of a range already: it asks again.
    pub(crate) fn has_range(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) -> bool {
        let lock = self.lock_of(host, owner, file);
        let has = lock.is_some_and(|lock| self.files[&file].has(lock, span));
        if has {
            self.has_got(host, owner, file, span);
        }
        has
    }

    /// The owner knows what it has of a range: it need not be called back.
    fn knows(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) {
        let is_known = |asked: &Asked| asked.is_of((host, owner, file)) && span.covers(asked.span);
        self.locking.granting.retain(|_, asked| !is_known(asked));
    }

    /// The same of a range that it asked for and has got, for which it waits no more.
    fn has_got(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) {
        self.knows(host, owner, file, span);
        self.stops_waiting(host, owner, file, span);
    }

    /// Whether it waited.
    fn stops_waiting(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) -> bool {
        let waiting = &mut self.locking.waiting;
        let count = waiting.len();
        waiting.retain(|asked| !(asked.is_of((host, owner, file)) && asked.span == span));
        waiting.len() < count
    }

    /// Locks a range. Whether the file has to be held for it.
    fn lock_for_host(
        &mut self,
        asked: &Asked,
        files: &Arc<dyn FileSystem>,
        now_ms: u64,
    ) -> Result<bool, NoLock> {
        let Asked {
            host,
            owner,
            file,
            span,
            ..
        } = asked;
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
                self.hold(number, host, owner, file, What::Lock { open: anchor });
                number
            }
        };
        self.take_range(number, file, span);
        self.has_got(host, owner, file, span);
        Ok(is_first)
    }

    /// Gives a share, in the place of the one that its owner had. Whether the file has to be held for it.
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
            (true, _) => self.check_reclaim(host, Had::open(denies), now_ms)?,
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

    /// Whether a host may have this share of a file: one that it has, or one more.
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

    /// Gives a share back. There may be nothing to give back.
    pub(crate) fn unshare_for_host(&mut self, host: u64, owner: &[u8], file: Handle) {
        let owner = [SHARE, owner].concat();
        let found = self.files.get(&file);
        if let Some(number) = found.and_then(|found| found.open_of(host, &owner)) {
            self.forget_held(number);
        }
    }

    /// Gives a range back. There may be nothing to give back.
    pub(crate) fn unlock_for_host(
        &mut self,
        host: u64,
        owner: &[u8],
        file: Handle,
        span: Span,
    ) -> Result<(), Status> {
        self.knows(host, owner, file, span);
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

    /// A host waits for a range, if there is a place; one that asks again stays in its place.
    pub(crate) fn wait(&mut self, asked: Asked) {
        let waiting = &mut self.locking.waiting;
        let mut same = waiting.iter_mut();
        let is_same = |one: &&mut Asked| {
            one.is_of((asked.host, &asked.owner, asked.file)) && one.span == asked.span
        };
        if let Some(same) = same.find(is_same) {
            *same = asked;
            return;
        }
        let network = serving::network(asked.way.there);
        let of_file = waiting.iter().filter(|one| one.file == asked.file).count();
        let near = |one: &&Asked| serving::network(one.way.there) == network;
        let of_network = waiting.iter().filter(near).count();
        let has_room = waiting.len() < WAITING_MAX
            && of_file < WAITING_PER_FILE_MAX
            && of_network < WAITING_PER_NETWORK_MAX;
        if has_room {
            waiting.push_back(asked);
        }
    }

    /// Ranges that hosts wait for, each with its file.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Handle, LockUse)> {
        let waiting = self.locking.waiting.iter();
        waiting.map(|asked| {
            let process = self.process_of(asked.host, &asked.owner);
            (asked.file, LockUse::new(asked.host, process, asked.span))
        })
    }

    /// What an owner is at a host; nothing of other clients.
    pub(crate) fn process_of(&self, client: u64, owner: &[u8]) -> Option<(u32, Vec<u8>)> {
        let owner = Some(owner).filter(|_| self.is_host(client));
        let (number, name) = owner?.split_first_chunk::<4>()?;
        Some((u32::from_be_bytes(*number), name.to_vec()))
    }

    /// A host waits no more; whether it did.
    pub(crate) fn cancel(&mut self, host: u64, owner: &[u8], file: Handle, span: Span) -> bool {
        let waited = self.stops_waiting(host, owner, file, span);
        let is_it = |asked: &Asked| asked.is_of((host, owner, file)) && asked.span == span;
        let is_granting = self.locking.granting.values().any(is_it);
        if is_granting {
            let _ = self.unlock_for_host(host, owner, file, span);
        }
        is_granting || waited
    }

    /// The next that waits for a range that it can have. It waits no more.
    fn next_to_grant(&mut self, now_ms: u64) -> Option<Asked> {
        if self.locking.freed.is_empty() {
            return None;
        }
        let freed = std::mem::take(&mut self.locking.freed);
        let mut waiting = std::mem::take(&mut self.locking.waiting);
        let found = waiting.iter().position(|asked| {
            freed.contains(&asked.file)
                && self
                    .conflict(asked.host, &asked.owner, asked.file, asked.span, now_ms)
                    .is_ok()
        });
        let asked = found.and_then(|at| waiting.remove(at));
        // A client whose lease was over may have gone meanwhile, and its locks with it.
        self.locking.waiting = waiting;
        if asked.is_some() {
            self.locking.freed.extend(freed);
        }
        asked
    }

    /// A host gives up all that it has, or has started again, as number `start`: a late message of a start takes away nothing that came
    /// behind it. Where nobody at its address calls itself so, the only one there with locks is meant.
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
        client.had = Had::default();
        let held = client.held.iter().copied().collect();
        self.forget_all(held);
        self.locking.forget(id);
        self.holders_changed();
    }
}

impl Service {
    /// Whether whoever is at an address may use a file so without an open: [`FileError::Access`] if an open denies it, [`FileError::NotReady`] if
    /// one may that somebody else can still take back. Nobody waits for those of whom nothing is known (NFS 3 promises nothing then).
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
        // A client may have lost what forbade it, and must not take it back from the next server.
        let kept = self.keep_holders(now_ms);
        self.release();
        kept.map_err(|_| FileError::NotReady)
    }

    /// Locks a range for a host.
    pub(crate) fn lock_for_host(
        &self,
        asked: &Asked,
        files: &Arc<dyn FileSystem>,
        now_ms: u64,
    ) -> Result<(), NoHostLock> {
        self.hold_for_host(asked.file, files, |state| {
            state.lock_for_host(asked, files, now_ms)
        })
    }

    /// Gives a host a share.
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

    /// Takes something of a file, which says whether the file has to be held for it.
    fn hold_for_host(
        &self,
        file: Handle,
        files: &Arc<dyn FileSystem>,
        take: impl FnOnce(&mut State) -> Result<bool, NoLock>,
    ) -> Result<(), NoHostLock> {
        let node = snapshots::node_of(file).unwrap_or(file.node);
        // Held before it is taken, so that nobody can take it away in between.
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

    /// Gives hosts that wait what became free.
    pub(crate) fn grant(&self, now_ms: u64) {
        self.grant_after(now_ms, || ());
    }

    /// The same. `before`: as for [`Self::release_after`]; a file may go here, too.
    pub(crate) fn grant_after(&self, now_ms: u64, mut before: impl FnMut()) {
        loop {
            let Some(asked) = self.state().next_to_grant(now_ms) else {
                return;
            };
            before();
            let exports = self.exports();
            // Where it is closed for a while, the host asks again.
            let Some(files) = exports.files_of(asked.file.file_system) else {
                continue;
            };
            match self.lock_for_host(&asked, files, now_ms) {
                Ok(()) => self.call_back(asked),
                Err(NoHostLock::Denied(_)) => self.state().wait(asked),
                Err(_) => {}
            }
        }
    }

    /// The same, also of what clients had whose lease is over.
    pub(crate) fn grant_all(&self, now_ms: u64) {
        {
            let locking = &mut self.state().locking;
            let files: Vec<Handle> = locking.waiting.iter().map(|asked| asked.file).collect();
            locking.freed.extend(files);
        }
        self.grant(now_ms);
    }

    fn call_back(&self, asked: Asked) {
        let mut state = self.state();
        let number = state.number();
        let message = asked.granted(number);
        state.locking.granting.insert(number, asked);
        drop(state);
        if !self.outbox.put(message) {
            self.end_grant(number, false);
        }
    }

    /// A host did not answer, but may have taken what it waited for: it stays the host's, who can give it back.
    fn keep_grant(&self, number: u64) {
        let granting = &mut self.state().locking.granting;
        if granting.len() > UNANSWERED_MAX {
            granting.remove(&number);
        }
    }

    /// A host was called back. What it does not want any more, or could not be told, is given back.
    fn end_grant(&self, number: u64, is_taken: bool) {
        let mut state = self.state();
        let asked = state.locking.granting.remove(&number);
        if let Some(asked) = asked.filter(|_| !is_taken) {
            let _ = state.unlock_for_host(asked.host, &asked.owner, asked.file, asked.span);
        }
        drop(state);
        self.release();
    }

    /// The calls that tell hosts of this start, once all is here that they may take back locks of.
    pub(crate) fn announce(&self, now_ms: u64) {
        /// NSM, its version, and the procedure.
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

    /// Whether a call may be made: what it says has to be true still, and durable.
    pub(crate) fn readiness(&self, purpose: Purpose, now_ms: u64) -> Readiness {
        match purpose {
            Purpose::Answer => Readiness::Now,
            Purpose::Granted(number) if !self.state().locking.granting.contains_key(&number) => {
                Readiness::Never
            }
            Purpose::Started | Purpose::Granted(_) => match self.keep_holders(now_ms) {
                Ok(()) => Readiness::Now,
                Err(_) => Readiness::Later,
            },
        }
    }

    /// A call has ended.
    pub(crate) fn was_called(&self, message: &Message, outcome: &Outcome, now_ms: u64) {
        match (message.purpose, outcome) {
            (Purpose::Started, Outcome::Answered { .. }) => {
                self.state().was_told(message.way.there, now_ms);
            }
            (Purpose::Started, Outcome::Unanswered { .. }) => {
                tracing::warn!(host = %message.way.there, "an NFS 3 client with locks was not told that the server has started: its status monitor does not answer");
            }
            (
                Purpose::Granted(number),
                Outcome::Answered {
                    results,
                    was_repeated,
                },
            ) => {
                // One that was told twice may refuse the second time what it took the first time.
                let is_taken = *was_repeated || is_granted(results);
                self.end_grant(number, is_taken);
                self.grant(now_ms);
            }
            (Purpose::Granted(number), Outcome::Unanswered { was_sent: true }) => {
                self.keep_grant(number);
            }
            (Purpose::Granted(number), Outcome::Unanswered { was_sent: false }) => {
                self.end_grant(number, false);
                self.grant(now_ms);
            }
            (Purpose::Answer, _) => {}
        }
    }
}
