//! Client state: client IDs, sessions and their reply caches (RFC 8881, 2.10 and 18.35 to 18.37;
//! RFC 7530, 9.1). Pure: no socket and no clock; the time is an argument.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use file_system::{FileSystem, Handle, Receipt};

use super::grace::{
    ClientKey, Clients, Grace, Holders, New, PersistentState, ReclaimableState, Recovery, key_of,
    key_of_host, key_of_principal, key_without_sessions,
};
use super::hosts::{Host, Locking};
use super::numbers::Status;
use super::opens::{FileState, Held};
use super::seqids::OwnerSeqids;
use crate::rpc::Credential;

/// Stored client IDs, confirmed or not.
const CLIENTS_MAX: usize = 16_384;
/// Stored client IDs of one IPv4 address or IPv6 network.
const CLIENTS_PER_NETWORK_MAX: usize = 2048;
/// Sessions of all clients.
const SESSIONS_MAX: usize = 16_384;
/// Sessions of one IPv4 address or IPv6 network. At least one per client, because idle clients are
/// evicted for new ones.
const SESSIONS_PER_NETWORK_MAX: usize = CLIENTS_PER_NETWORK_MAX;
/// Sessions of one client.
const SESSIONS_PER_CLIENT_MAX: usize = 32;
/// A network with more sessions than this gets [`SLOTS_OF_MANY_MAX`] slots for a further one,
/// because each slot caches a reply.
const SESSIONS_WITH_ALL_SLOTS: usize = 128;
/// Slots of a session of a network that has many.
const SLOTS_OF_MANY_MAX: u32 = 16;
/// Opens and locks of one client.
const HELD_PER_CLIENT_MAX: usize = 65_536;
/// Opens and locks of all clients.
const HELD_MAX: usize = 1 << 20;
/// Opens and locks of one IPv4 address or IPv6 network.
const HELD_PER_NETWORK_MAX: usize = 131_072;
/// Addresses that a client may have introduced itself from. A client with several networks does so
/// from each.
const ADDRESSES_PER_CLIENT_MAX: usize = 16;
/// Connections bound to one session.
const CONNECTIONS_PER_SESSION_MAX: usize = 256;
/// Slots of one session.
const SLOTS_MAX: u32 = 64;
/// Operations of one compound.
pub const OPERATIONS_MAX: u32 = 64;
/// Bytes of one call or reply: a payload of 1 MiB and its envelope.
pub const MESSAGE_BYTES_MAX: u32 = (1 << 20) + (16 << 10);
/// Maximum bytes of a cached reply.
const CACHED_BYTES_MAX: u32 = 4 << 10;
/// Less than this carries no useful call.
const MESSAGE_BYTES_MIN: u32 = 256;

/// `sessionid4`.
pub type SessionId = [u8; 16];

/// The sender of a call that creates, changes or destroys a client ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    /// A number that is equal for equal principals.
    pub principal: u64,
    /// The client's address.
    pub address: IpAddr,
}

/// The identity that a client presents in `EXCHANGE_ID` or `SETCLIENTID`.
pub struct Introduction<'a> {
    /// `co_ownerid`, or `id` of `nfs_client_id4`.
    pub owner: &'a [u8],
    /// `co_verifier`, or `verifier`.
    pub verifier: [u8; 8],
    /// A number that is equal for equal principals.
    pub principal: u64,
    /// The Kerberos name of the principal, if the call uses Kerberos.
    pub kerberos: Option<&'a str>,
    /// `EXCHGID4_FLAG_UPD_CONFIRMED_REC_A`; NFS 4.0 has no such flag.
    pub is_update: bool,
    /// The client's address.
    pub address: IpAddr,
    /// The IPv4 address or IPv6 network that limits count for.
    pub network: IpAddr,
}

/// Resources in use by the clients of one network, so that one network cannot exhaust them.
#[derive(Default)]
struct Load {
    clients: usize,
    sessions: usize,
    held: usize,
    /// NFS 4.0 owners without opens and locks.
    idle_owners: usize,
}

/// `channel_attrs4`, the parts that are agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// `ca_maxrequestsize`.
    pub request_bytes_max: u32,
    /// `ca_maxresponsesize`.
    pub response_bytes_max: u32,
    /// `ca_maxresponsesize_cached`.
    pub cached_bytes_max: u32,
    /// `ca_maxoperations`.
    pub operations_max: u32,
    /// `ca_maxrequests`.
    pub slots: u32,
}

impl Channel {
    /// Returns the channel attributes that the server agrees to.
    pub fn agreed(self) -> Result<Self, Status> {
        if self.request_bytes_max < MESSAGE_BYTES_MIN || self.response_bytes_max < MESSAGE_BYTES_MIN
        {
            return Err(Status::TOOSMALL);
        }
        if self.slots == 0 || self.operations_max == 0 {
            return Err(Status::INVAL);
        }
        Ok(Self {
            request_bytes_max: self.request_bytes_max.min(MESSAGE_BYTES_MAX),
            response_bytes_max: self.response_bytes_max.min(MESSAGE_BYTES_MAX),
            cached_bytes_max: self.cached_bytes_max.min(CACHED_BYTES_MAX),
            operations_max: self.operations_max.min(OPERATIONS_MAX),
            slots: self.slots.min(SLOTS_MAX),
        })
    }
}

/// The protocol that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Manner {
    /// NFS 4.1 and above.
    Sessions,
    /// NFS 4.0.
    WithoutSessions,
    /// NFS 3 with NLM.
    Host,
}

/// Identifies a client. Clients of different protocols may use equal names.
type Name = (Manner, Vec<u8>);

/// State that only an NFS 4.0 client has.
#[derive(Default)]
pub(super) struct WithoutSessions {
    /// The verifier by which it confirms its identity.
    pub(super) confirmation: u64,
    /// The verifier of a changed callback address that is not confirmed yet.
    pub(super) update: Option<u64>,
    /// Its open and lock owners.
    pub(super) seqids: OwnerSeqids,
}

pub(super) struct Client {
    owner: Vec<u8>,
    /// Addresses that it introduced itself from, the newest last.
    addresses: Vec<IpAddr>,
    pub(super) network: IpAddr,
    pub(super) verifier: [u8; 8],
    pub(super) principal: u64,
    /// The Kerberos principal that introduced the client, if any.
    kerberos: Option<String>,
    pub(super) is_confirmed: bool,
    pub(super) without_sessions: Option<WithoutSessions>,
    pub(super) host: Option<Host>,
    /// The sequence and reply of the last successful `CREATE_SESSION`.
    creation: (u32, Option<Created>),
    sessions: HashSet<SessionId>,
    pub(super) renewed_ms: u64,
    /// It has sent `RECLAIM_COMPLETE` or, without sessions, has opened a file.
    pub(super) has_reclaimed: bool,
    /// Opens and locks, by their numbers.
    pub(super) held: HashSet<u64>,
    /// Number of stateids allocated for it.
    numbers: u32,
    /// Its state that other clients must wait for after a restart.
    pub(super) had: ReclaimableState,
}

impl Client {
    /// The owner string that the client sent.
    pub(super) fn owner(&self) -> &[u8] {
        &self.owner
    }

    const fn manner(&self) -> Manner {
        match (&self.without_sessions, &self.host) {
            (Some(_), _) => Manner::WithoutSessions,
            (None, Some(_)) => Manner::Host,
            (None, None) => Manner::Sessions,
        }
    }

    /// Whether the client sends `RECLAIM_COMPLETE`.
    pub(super) fn sends_reclaim_complete(&self) -> bool {
        self.manner() == Manner::Sessions
    }

    pub(super) fn name(&self) -> Name {
        (self.manner(), self.owner.clone())
    }

    fn key(&self) -> ClientKey {
        let key = match (&self.host, self.manner()) {
            (Some(host), _) => key_of_host(host.address),
            (None, Manner::WithoutSessions) => key_without_sessions(&self.owner),
            (None, _) => key_of(&self.owner),
        };
        let kerberos = self.kerberos.as_deref();
        kerberos.map_or(key, |principal| key_of_principal(key, principal))
    }

    /// The Kerberos principal that introduced it, if any.
    pub(super) fn proven_principal(&self) -> Option<u64> {
        self.kerberos.is_some().then_some(self.principal)
    }

    /// Refuses a caller that did not introduce the client. A client introduced with Kerberos must
    /// use the same principal. AUTH_SYS proves no user, so the host's address counts; to other
    /// hosts the client does not exist. A client with a new address introduces itself again with
    /// its verifier, which other hosts do not have.
    fn check_introduced_by(&self, requester: Requester, refusal: Status) -> Result<(), Status> {
        if self.kerberos.is_some() {
            return self.check_principal(requester.principal, refusal);
        }
        match self.addresses.contains(&requester.address) {
            true => Ok(()),
            false => Err(Status::STALE_CLIENTID),
        }
    }

    /// Adds an address that the client introduced itself from.
    fn add_address(&mut self, address: IpAddr) {
        self.addresses.retain(|known| *known != address);
        if self.addresses.len() >= ADDRESSES_PER_CLIENT_MAX {
            self.addresses.remove(0);
        }
        self.addresses.push(address);
    }

    /// Refuses a principal other than the Kerberos principal that introduced the client. AUTH_SYS
    /// proves no user.
    pub(super) fn check_principal(&self, principal: u64, refusal: Status) -> Result<(), Status> {
        match self.kerberos.is_none() || self.principal == principal {
            true => Ok(()),
            false => Err(refusal),
        }
    }
}

/// The result of `CREATE_SESSION`.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The session ID.
    pub session: SessionId,
    /// The sequence of the request.
    pub sequence: u32,
    /// The agreed channel attributes.
    pub fore: Channel,
}

struct Session {
    client: u64,
    fore: Channel,
    slots: Vec<Slot>,
    connections: HashSet<u64>,
}

#[derive(Default)]
struct Slot {
    sequence: u32,
    is_busy: bool,
    fingerprint: u64,
    answer: Option<Vec<u8>>,
}

/// The arguments of `SEQUENCE`, and the properties of its compound that it needs.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// `sa_sessionid`.
    pub session: SessionId,
    /// `sa_sequenceid`.
    pub sequence: u32,
    /// `sa_slotid`.
    pub slot: u32,
    /// `sa_highest_slotid`.
    pub highest_slot: u32,
    /// `sa_cachethis`.
    pub cache_this: bool,
    /// The connection it came by.
    pub connection: u64,
    /// Bytes of the call.
    pub request_bytes: usize,
    /// Operations of the compound.
    pub operations: u32,
    /// Equal for calls with equal operations after `SEQUENCE`.
    pub fingerprint: u64,
}

/// The outcome of `SEQUENCE`.
pub enum Sequenced {
    /// A new call.
    New {
        /// The client.
        client: u64,
        /// Limits of the reply.
        fore: Channel,
    },
    /// A retransmitted call, with the cached reply of the whole compound.
    Repeated(Vec<u8>),
}

/// A file without any open, and the file system that holds it.
pub type Released = (Arc<dyn FileSystem>, Handle);

/// Clients, sessions, opens and locks of one server.
pub struct State {
    /// Identifies this start of the server. Part of every allocated number.
    pub(super) start: u32,
    lease_ms: u64,
    grace: Grace,
    /// Counts changes of [`State::holders`].
    holders_version: u64,
    pub(super) next: u64,
    /// Scatters the numbers of opens and locks.
    scatter: RandomState,
    pub(super) clients: HashMap<u64, Client>,
    owners: HashMap<Name, Vec<u64>>,
    loads: HashMap<IpAddr, Load>,
    sessions: HashMap<SessionId, Session>,
    pub(super) held: HashMap<u64, Held>,
    pub(super) files: HashMap<Handle, FileState>,
    /// Files without any open, to be released in their file system.
    pub(super) released: Vec<Released>,
    /// State of NFS 3 hosts.
    pub(super) locking: Locking,
}

impl State {
    /// Creates a server without clients. `start` differs at each start. For `grace_ms` the
    /// `earlier` holders may reclaim their state.
    pub fn new(start: u32, lease_ms: u64, grace_ms: u64, earlier: PersistentState) -> Self {
        Self {
            start,
            lease_ms,
            grace: Grace::new(earlier.holders, grace_ms),
            // The number of this start is stored before a host is notified of it.
            holders_version: u64::from(!earlier.hosts.ways.is_empty()),
            next: 1,
            scatter: RandomState::new(),
            clients: HashMap::new(),
            owners: HashMap::new(),
            loads: HashMap::new(),
            sessions: HashMap::new(),
            held: HashMap::new(),
            files: HashMap::new(),
            released: Vec::new(),
            locking: Locking::after(earlier.hosts),
        }
    }

    /// Allocates a number that is never used again.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Allocates a stateid number for a client. It identifies its client even after the state is
    /// gone. Other clients cannot guess it.
    pub(super) fn number_of_state(&mut self, client: u64) -> u64 {
        let first = client << 32;
        let mut count = self.clients.get(&client).map_or(0, |found| found.numbers);
        loop {
            count = count.wrapping_add(1);
            let scattered = self.scatter.hash_one((client, count)) as u32;
            let number = first | u64::from(scattered);
            if !self.held.contains_key(&number) {
                if let Some(found) = self.clients.get_mut(&client) {
                    found.numbers = count;
                }
                return number;
            }
        }
    }

    /// The client that such a number was allocated for.
    pub(super) fn client_of_number(&self, number: u64) -> u64 {
        u64::from(self.start) << 32 | number >> 32
    }

    /// Returns the files that have had no open since the last call.
    pub fn take_released(&mut self) -> Vec<Released> {
        std::mem::take(&mut self.released)
    }

    /// Whether new state could conflict with state that clients may still reclaim. `client` is the
    /// caller, if known.
    pub fn check_grace(&mut self, client: u64, new: New, now_ms: u64) -> Result<(), Status> {
        let client = self.clients.get(&client);
        let key = client.map(Client::key);
        if client.is_some_and(|client| client.without_sessions.is_some()) {
            key.into_iter()
                .for_each(|key| self.grace.record_new_request(key));
        }
        self.grace.settle(now_ms);
        if self.grace.forbids(new, now_ms) {
            return Err(Status::GRACE);
        }
        self.grace.record_new(new, key, now_ms);
        Ok(())
    }

    /// Whether a client may reclaim such state. If so, the reclaim is recorded.
    pub fn check_reclaim(
        &mut self,
        client: u64,
        what: ReclaimableState,
        now_ms: u64,
    ) -> Result<(), Status> {
        let found = self.clients.get(&client).ok_or(Status::STALE_CLIENTID)?;
        let (key, is_host) = (found.key(), found.host.is_some());
        let is_done = found.has_reclaimed && found.sends_reclaim_complete();
        if is_done || !self.grace.may_reclaim(key, what, now_ms) {
            return Err(Status::NO_GRACE);
        }
        self.check_count(found)?;
        if is_host {
            self.grace.record_progress(key, now_ms);
        }
        self.grace.record_reclaim(now_ms);
        Ok(())
    }

    /// A version that changes with the holders that the next server must be given.
    pub fn holders_version(&mut self, now_ms: u64) -> u64 {
        self.grace_ends(now_ms);
        self.holders_version
    }

    /// Whether the grace period has expired since the last call.
    pub fn grace_ends(&mut self, now_ms: u64) -> bool {
        let ends = self.grace.ends(now_ms);
        self.holders_version += u64::from(ends);
        ends
    }

    /// Returns the holders that the next server must be given: clients that may have opens or
    /// locks. An NFS 4.0 client with an expired lease and no state is omitted, because it can
    /// obtain no state before it introduces itself again.
    pub fn holders(&self, now_ms: u64) -> Holders {
        let mut now = Clients::new();
        for client in self.holding(now_ms) {
            let had = now.entry(client.key()).or_default();
            *had = had.and(client.had);
        }
        self.grace.holders(now)
    }

    /// The clients of [`holders`](Self::holders) that are known to this server.
    pub(super) fn holding(&self, now_ms: u64) -> impl Iterator<Item = &Client> {
        let is_gone = move |id: u64, client: &Client| {
            !client.sends_reclaim_complete()
                && client.held.is_empty()
                && self.is_expired(id, now_ms)
        };
        let clients = self.clients.iter();
        let holding =
            clients.filter(move |(id, client)| client.has_reclaimed && !is_gone(**id, client));
        holding.map(|(_, client)| client)
    }

    /// Whether the grace period is active.
    pub(crate) const fn is_grace(&self, now_ms: u64) -> bool {
        self.grace.is_now(now_ms)
    }

    /// The remaining grace period.
    pub(super) fn recovery(&mut self, now_ms: u64) -> Option<Recovery> {
        self.grace.settle(now_ms);
        self.grace.remaining_period(now_ms)
    }

    /// Whether new state could conflict with state that clients may still reclaim.
    pub(super) fn forbids(&mut self, new: New, now_ms: u64) -> bool {
        self.grace.settle(now_ms);
        self.grace.forbids(new, now_ms)
    }

    /// Whether clients other than the hosts at an address may reclaim a denial.
    pub(super) fn awaits_denials(&mut self, address: IpAddr, now_ms: u64) -> bool {
        self.grace.settle(now_ms);
        self.grace.awaits_denials(key_of_host(address), now_ms)
    }

    /// Records that the host has been notified of the server's start.
    pub(super) fn record_notified(&mut self, host: IpAddr, now_ms: u64) {
        self.grace.record_progress(key_of_host(host), now_ms);
    }

    /// Records that the set of holders has changed.
    pub(super) const fn holders_changed(&mut self) {
        self.holders_version += 1;
    }

    /// Records that a client has such state.
    pub(super) fn record_state(&mut self, client: u64, what: ReclaimableState) {
        let Some(found) = self.clients.get_mut(&client) else {
            return;
        };
        let is_first = !found.sends_reclaim_complete() && !found.has_reclaimed;
        if is_first || !found.had.has(what) {
            found.has_reclaimed |= is_first;
            found.had = found.had.and(what);
            self.holders_version += 1;
        }
    }

    pub(super) fn is_expired(&self, client: u64, now_ms: u64) -> bool {
        self.clients.get(&client).is_none_or(|found| {
            // A host has no lease: it holds its state until it releases it or restarts.
            let is_bound = found.host.is_none() || found.held.is_empty();
            let is_over = now_ms.saturating_sub(found.renewed_ms) > self.lease_ms;
            is_bound && is_over && !self.has_calls_under_way(found)
        })
    }

    /// A client with a call in progress is active.
    fn has_calls_under_way(&self, client: &Client) -> bool {
        let sessions = client.sessions.iter();
        let mut sessions = sessions.filter_map(|id| self.sessions.get(id));
        sessions.any(|session| session.slots.iter().any(|slot| slot.is_busy))
    }

    /// `EXCHANGE_ID`. Returns the client ID, the sequence of its next `CREATE_SESSION`, and whether
    /// it is confirmed. The numbers of the cases are those of RFC 8881, 18.35.4.
    pub fn exchange_id(
        &mut self,
        who: &Introduction<'_>,
        now_ms: u64,
    ) -> Result<(u64, u32, bool), Status> {
        let (known, confirmed) = self.known(Manner::Sessions, who.owner);
        if let Some(id) = confirmed {
            let (same_start, same_principal, has_state) = {
                let client = &self.clients[&id];
                let has_state = !client.held.is_empty() || !client.sessions.is_empty();
                (
                    client.verifier == who.verifier,
                    client.principal == who.principal,
                    has_state,
                )
            };
            if who.is_update {
                return match (same_start, same_principal) {
                    (true, true) => Ok(self.known_again(id, who.address)),
                    (false, _) => Err(Status::NOT_SAME),
                    (true, false) => Err(Status::PERM),
                };
            }
            if same_start && same_principal {
                return Ok(self.known_again(id, who.address));
            }
            if !same_principal {
                if has_state && !self.is_expired(id, now_ms) {
                    return Err(Status::CLID_INUSE);
                }
                self.forget_client(id);
            }
        } else if who.is_update {
            return Err(Status::NOENT);
        }
        for id in known.into_iter().filter(|id| Some(*id) != confirmed) {
            self.forget_client(id);
        }
        let id = self.introduce(who, None, None, now_ms)?;
        Ok((id, 1, false))
    }

    /// Handles a client that introduces itself again.
    fn known_again(&mut self, id: u64, address: IpAddr) -> (u64, u32, bool) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.add_address(address);
        }
        (id, self.next_creation(id), true)
    }

    /// Returns the clients with this owner string, and the confirmed one.
    pub(super) fn known(&self, manner: Manner, owner: &[u8]) -> (Vec<u64>, Option<u64>) {
        let known = self.owners.get(&(manner, owner.to_vec()));
        let known = known.cloned().unwrap_or_default();
        let mut all = known.iter().copied();
        let confirmed = all.find(|id| self.clients[id].is_confirmed);
        (known, confirmed)
    }

    /// Creates an unconfirmed client and returns its ID.
    pub(super) fn introduce(
        &mut self,
        who: &Introduction<'_>,
        without_sessions: Option<WithoutSessions>,
        host: Option<Host>,
        now_ms: u64,
    ) -> Result<u64, Status> {
        self.make_room(who.network, now_ms)?;
        let mut id = self.client_number();
        while self.clients.contains_key(&id) {
            id = self.client_number();
        }
        let client = Client {
            owner: who.owner.to_vec(),
            addresses: vec![who.address],
            network: who.network,
            verifier: who.verifier,
            principal: who.principal,
            kerberos: who.kerberos.map(str::to_owned),
            is_confirmed: host.is_some(),
            without_sessions,
            host,
            creation: (0, None),
            sessions: HashSet::new(),
            renewed_ms: now_ms,
            has_reclaimed: false,
            held: HashSet::new(),
            numbers: 0,
            had: ReclaimableState::default(),
        };
        self.load(who.network).clients += 1;
        self.owners.entry(client.name()).or_default().push(id);
        self.clients.insert(id, client);
        Ok(id)
    }

    /// Allocates a client ID. Other clients cannot guess it: in NFS 4.0 it is the only secret.
    fn client_number(&mut self) -> u64 {
        loop {
            let number = self.number();
            let scattered = self.scatter.hash_one(("client", number)) as u32;
            let id = u64::from(self.start) << 32 | u64::from(scattered.max(1));
            // Two numbers may have the same hash.
            if !self.clients.contains_key(&id) {
                return id;
            }
        }
    }

    fn next_creation(&self, client: u64) -> u32 {
        self.clients[&client].creation.0.wrapping_add(1)
    }

    fn load(&mut self, network: IpAddr) -> &mut Load {
        self.loads.entry(network).or_default()
    }

    /// Adjusts the count of opens and locks of a network.
    pub(super) fn count_held(&mut self, network: IpAddr, change: isize) {
        let load = self.load(network);
        load.held = load.held.saturating_add_signed(change);
    }

    /// Adjusts the count of idle NFS 4.0 owners of a network.
    pub(super) fn count_idle_owners(&mut self, network: IpAddr, change: isize) {
        let load = self.load(network);
        load.idle_owners = load.idle_owners.saturating_add_signed(change);
    }

    pub(super) fn idle_owners_of(&self, network: IpAddr) -> usize {
        self.loads.get(&network).map_or(0, |load| load.idle_owners)
    }

    /// Checks that a client may have one more open or lock.
    pub(super) fn check_count(&self, found: &Client) -> Result<(), Status> {
        let of_network = self.loads.get(&found.network).map_or(0, |load| load.held);
        let is_full = found.held.len() >= HELD_PER_CLIENT_MAX
            || of_network >= HELD_PER_NETWORK_MAX
            || self.held.len() >= HELD_MAX;
        if is_full { Err(Status::DELAY) } else { Ok(()) }
    }

    /// Evicts a client that never created a session, or with an expired lease.
    fn make_room(&mut self, network: IpAddr, now_ms: u64) -> Result<(), Status> {
        let of_network = self.loads.get(&network).map_or(0, |load| load.clients);
        let only = (of_network >= CLIENTS_PER_NETWORK_MAX).then_some(network);
        if only.is_none() && self.clients.len() < CLIENTS_MAX {
            return Ok(());
        }
        let may_go = self
            .clients
            .iter()
            .filter(|(_, client)| only.is_none_or(|network| client.network == network))
            .filter(|(id, client)| !client.is_confirmed || self.is_expired(**id, now_ms));
        let oldest = may_go.min_by_key(|(_, client)| (client.is_confirmed, client.renewed_ms));
        let id = *oldest.ok_or(Status::DELAY)?.0;
        self.forget_client(id);
        Ok(())
    }

    /// Removes a client with all of its state.
    pub(super) fn forget_client(&mut self, id: u64) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let held = client.held.iter().copied().collect();
        self.forget_all(held);
        self.locking.forget(id);
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        self.holders_version += u64::from(client.has_reclaimed);
        let load = self.load(client.network);
        load.clients -= 1;
        load.sessions -= client.sessions.len();
        if let Some(without_sessions) = &client.without_sessions {
            load.idle_owners -= without_sessions.seqids.idle_owners();
        }
        if load.clients == 0 {
            self.loads.remove(&client.network);
        }
        for session in &client.sessions {
            self.sessions.remove(session);
        }
        let name = client.name();
        if let Some(known) = self.owners.get_mut(&name) {
            known.retain(|other| *other != id);
            if known.is_empty() {
                self.owners.remove(&name);
            }
        }
    }

    fn with_sessions(&self, id: u64) -> Result<&Client, Status> {
        let found = self.clients.get(&id);
        let found = found.filter(|client| client.manner() == Manner::Sessions);
        found.ok_or(Status::STALE_CLIENTID)
    }

    /// Returns a session if the principal may change it.
    fn session_of(&mut self, session: &SessionId, principal: u64) -> Result<&mut Session, Status> {
        let found = self.sessions.get_mut(session).ok_or(Status::BADSESSION)?;
        let client = self.clients.get(&found.client).ok_or(Status::BADSESSION)?;
        client.check_principal(principal, Status::WRONG_CRED)?;
        Ok(found)
    }

    /// `CREATE_SESSION`.
    pub fn create_session(
        &mut self,
        id: u64,
        sequence: u32,
        requester: Requester,
        fore: Channel,
        connection: u64,
        now_ms: u64,
    ) -> Result<Created, Status> {
        let client = self.with_sessions(id)?;
        if !client.is_confirmed && self.is_expired(id, now_ms) {
            self.forget_client(id);
            return Err(Status::STALE_CLIENTID);
        }
        client.check_introduced_by(requester, Status::CLID_INUSE)?;
        let (last, answer) = client.creation;
        if let (true, Some(answer)) = (last == sequence, answer) {
            return Ok(answer);
        }
        if sequence != last.wrapping_add(1) {
            return Err(Status::SEQ_MISORDERED);
        }
        if !client.is_confirmed && client.principal != requester.principal {
            return Err(Status::CLID_INUSE);
        }
        let answer = self.new_session(id, sequence, fore, connection, now_ms)?;
        if let Some(client) = self.clients.get_mut(&id) {
            client.creation = (sequence, Some(answer));
        }
        Ok(answer)
    }

    fn new_session(
        &mut self,
        id: u64,
        sequence: u32,
        fore: Channel,
        connection: u64,
        now_ms: u64,
    ) -> Result<Created, Status> {
        let mut fore = fore.agreed()?;
        let client = &self.clients[&id];
        let network = client.network;
        let of_network = self.loads.get(&network).map_or(0, |load| load.sessions);
        let is_full = client.sessions.len() >= SESSIONS_PER_CLIENT_MAX
            || of_network >= SESSIONS_PER_NETWORK_MAX
            || self.sessions.len() >= SESSIONS_MAX;
        if is_full {
            return Err(Status::DELAY);
        }
        if of_network >= SESSIONS_WITH_ALL_SLOTS {
            fore.slots = fore.slots.min(SLOTS_OF_MANY_MAX);
        }
        // The client has restarted: its earlier state is removed (case 5).
        self.forget_others(id);
        let number = self.number();
        let mut session = [0; 16];
        session[..8].copy_from_slice(&id.to_be_bytes());
        // Other clients cannot guess it.
        session[8..].copy_from_slice(&self.scatter.hash_one((id, number)).to_be_bytes());
        let slots = (0..fore.slots).map(|_| Slot::default()).collect();
        let connections = HashSet::from([connection]);
        let created = Session {
            client: id,
            fore,
            slots,
            connections,
        };
        self.sessions.insert(session, created);
        self.load(network).sessions += 1;
        if let Some(client) = self.clients.get_mut(&id) {
            client.is_confirmed = true;
            client.renewed_ms = now_ms;
            client.sessions.insert(session);
        }
        Ok(Created {
            session,
            sequence,
            fore,
        })
    }

    /// Removes other clients with the same owner string.
    pub(super) fn forget_others(&mut self, id: u64) {
        let name = self.clients.get(&id).map(Client::name);
        let known = name.and_then(|name| self.owners.get(&name)).cloned();
        for other in known.into_iter().flatten().filter(|other| *other != id) {
            self.forget_client(other);
        }
    }

    /// `BIND_CONN_TO_SESSION`.
    pub fn bind(
        &mut self,
        session: &SessionId,
        connection: u64,
        principal: u64,
    ) -> Result<(), Status> {
        self.session_of(session, principal)?.connect(connection);
        Ok(())
    }

    /// `DESTROY_SESSION`.
    pub fn destroy_session(
        &mut self,
        session: &SessionId,
        connection: u64,
        principal: u64,
    ) -> Result<(), Status> {
        let found = self.session_of(session, principal)?;
        if !found.connections.contains(&connection) {
            return Err(Status::CONN_NOT_BOUND_TO_SESSION);
        }
        let client = found.client;
        self.sessions.remove(session);
        if let Some(client) = self.clients.get_mut(&client) {
            client.sessions.remove(session);
            let network = client.network;
            self.load(network).sessions -= 1;
        }
        Ok(())
    }

    /// `DESTROY_CLIENTID`.
    pub fn destroy_client(&mut self, id: u64, requester: Requester) -> Result<(), Status> {
        let client = self.with_sessions(id)?;
        client.check_introduced_by(requester, Status::WRONG_CRED)?;
        if !client.sessions.is_empty() || !client.held.is_empty() {
            return Err(Status::CLIENTID_BUSY);
        }
        self.forget_client(id);
        Ok(())
    }

    /// `RECLAIM_COMPLETE` for all file systems.
    pub fn reclaim_complete(&mut self, id: u64, principal: u64) -> Result<(), Status> {
        let client = self.clients.get_mut(&id).ok_or(Status::STALE_CLIENTID)?;
        client.check_principal(principal, Status::WRONG_CRED)?;
        if std::mem::replace(&mut client.has_reclaimed, true) {
            return Err(Status::COMPLETE_ALREADY);
        }
        let key = client.key();
        self.grace.is_done(key);
        self.holders_version += 1;
        Ok(())
    }

    /// `SEQUENCE`. A new call must be completed with [`answered`](Self::answered).
    pub fn sequence(&mut self, asked: &Sequence, now_ms: u64) -> Result<Sequenced, Status> {
        let session = self
            .sessions
            .get_mut(&asked.session)
            .ok_or(Status::BADSESSION)?;
        if asked.slot >= session.fore.slots {
            return Err(Status::BADSLOT);
        }
        if asked.highest_slot >= session.fore.slots {
            return Err(Status::BAD_HIGH_SLOT);
        }
        if asked.request_bytes > session.fore.request_bytes_max as usize {
            return Err(Status::REQ_TOO_BIG);
        }
        session.connect(asked.connection);
        let (id, fore) = (session.client, session.fore);
        let slot = &mut session.slots[asked.slot as usize];
        if slot.is_busy {
            return Err(Status::DELAY);
        }
        if slot.sequence == asked.sequence && slot.sequence != 0 {
            if slot.fingerprint != asked.fingerprint {
                return Err(Status::SEQ_FALSE_RETRY);
            }
            let answer = slot.answer.clone().ok_or(Status::RETRY_UNCACHED_REP)?;
            return Ok(Sequenced::Repeated(answer));
        }
        if asked.sequence != slot.sequence.wrapping_add(1) {
            return Err(Status::SEQ_MISORDERED);
        }
        if asked.operations > session.fore.operations_max {
            return Err(Status::TOO_MANY_OPS);
        }
        *slot = Slot {
            sequence: asked.sequence,
            is_busy: true,
            fingerprint: asked.fingerprint,
            answer: None,
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.renewed_ms = now_ms;
        }
        Ok(Sequenced::New { client: id, fore })
    }

    /// Completes the call of a slot. `answer` is cached, if present.
    pub fn answered(&mut self, asked: &Sequence, answer: Option<&[u8]>) {
        if let Some(session) = self.sessions.get_mut(&asked.session) {
            let slot = &mut session.slots[asked.slot as usize];
            slot.is_busy = false;
            slot.answer = answer.map(<[u8]>::to_vec);
        }
    }

    /// Returns the highest slot of a session.
    pub fn highest_slot(&self, session: &SessionId) -> u32 {
        self.sessions
            .get(session)
            .map_or(0, |found| found.fore.slots - 1)
    }
}

/// Bytes of a call that its fingerprint covers. The bytes after them are mostly data of a write.
const FINGERPRINT_BYTES: usize = 1024;

/// Returns a fingerprint of a call or of a part of it.
pub fn fingerprint_of(arguments: &[u8], credential: &Credential) -> u64 {
    let mut hasher = DefaultHasher::new();
    let told_apart = &arguments[..arguments.len().min(FINGERPRINT_BYTES)];
    (told_apart, arguments.len(), credential).hash(&mut hasher);
    hasher.finish()
}

impl Sequence {
    /// Returns the receipt that a change of the call stores. `place` is the slot, unique among the
    /// slots of all sessions of all servers.
    pub fn receipt(&self, step: u32) -> Receipt {
        let mut place = [0; 20];
        place[..16].copy_from_slice(&self.session);
        place[16..].copy_from_slice(&self.slot.to_be_bytes());
        Receipt {
            place,
            number: self.sequence,
            step,
            call: Receipt::call_of(self.fingerprint),
        }
    }
}

impl Session {
    fn connect(&mut self, connection: u64) {
        if self.connections.len() < CONNECTIONS_PER_SESSION_MAX {
            self.connections.insert(connection);
        }
    }
}

#[cfg(test)]
mod tests;
