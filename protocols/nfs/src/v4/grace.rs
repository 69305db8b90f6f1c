//! The grace period: which clients may reclaim the opens and locks of an earlier server of the pool
//! (RFC 8881, 8.4.2; RFC 7530, 9.6.2). Clients that may have state are stored over restarts, with
//! the conflicts that their state can cause. So no other client can reclaim, and a request that
//! cannot conflict with reclaimable state is not delayed.
//!
//! An NFS 4.0 client never reports that its reclaim is complete. A request for new state is taken
//! as that report, and no client is delayed for it from then on. Until the end of the grace period
//! it may still reclaim state that no other client can have obtained.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use crate::hosts::Hosts;

/// A stored client: a hash of its owner string.
pub type ClientKey = u64;

/// Returns the key of the client with this `co_ownerid`.
pub fn key_of(owner: &[u8]) -> ClientKey {
    hash_of(b"4.1", &[owner])
}

/// Returns the key of the NFS 4.0 client with this `id`. It differs from the key of a client with
/// sessions and the same name.
pub fn key_without_sessions(id: &[u8]) -> ClientKey {
    hash_of(b"4.0", &[id])
}

/// Returns the key of an NFS 3 host with locks. It is computed from the address, because the host
/// is notified there.
pub fn key_of_host(address: IpAddr) -> ClientKey {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    hash_of(b"nlm", &[&address.octets()])
}

/// Returns the key of a client that a Kerberos `principal` introduced. No other principal can
/// reclaim its state.
pub fn key_of_principal(key: ClientKey, principal: &str) -> ClientKey {
    hash_of(b"krb5", &[&key.to_be_bytes(), principal.as_bytes()])
}

/// The result is stable over versions, and no client can find a name with the key of another
/// client.
fn hash_of(kind: &[u8], parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(kind);
    hash.update([0]);
    for part in parts {
        hash.update(part);
    }
    let hash = hash.finalize();
    u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"))
}

/// Reclaimable state of a client besides opens without denial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimableState {
    /// Byte-range locks.
    pub locks: bool,
    /// Opens with a denial.
    pub denials: bool,
}

impl ReclaimableState {
    /// Locks and denials.
    pub const ALL: Self = Self {
        locks: true,
        denials: true,
    };
    /// Byte-range locks only.
    pub const LOCKS: Self = Self {
        locks: true,
        denials: false,
    };

    /// An open, with a denial if `denials`.
    pub const fn open(denials: bool) -> Self {
        Self {
            locks: false,
            denials,
        }
    }

    /// Returns the union.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            locks: self.locks || other.locks,
            denials: self.denials || other.denials,
        }
    }

    /// Whether `other` is a subset.
    pub fn has(self, other: Self) -> bool {
        self.and(other) == self
    }
}

/// New state that a client requests, as opposed to reclaimed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum New {
    /// To open a file, or to use one without an open.
    Open,
    /// To open a file with a denial.
    Denial,
    /// To lock a range.
    Lock,
}

impl New {
    /// Whether it can conflict with a reclaim of `what`.
    const fn is_in_the_way_of(self, what: ReclaimableState) -> bool {
        match self {
            Self::Open => what.denials,
            Self::Denial => !what.locks,
            Self::Lock => what.locks,
        }
    }
}

/// Clients that may have state, with the kinds of state besides opens without denial.
pub type Clients = BTreeMap<ClientKey, ReclaimableState>;

/// Clients that may have opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holders {
    /// Exactly these clients.
    Known(Clients),
    /// Unknown, or too many to be stored.
    AnyClient,
}

impl Default for Holders {
    fn default() -> Self {
        Self::Known(Clients::new())
    }
}

/// State that the next server must be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentState {
    /// Clients, including hosts, that may have state.
    pub holders: Holders,
    /// How to reach these hosts, which cannot detect a restart of the server.
    pub hosts: Hosts,
}

impl From<Holders> for PersistentState {
    fn from(holders: Holders) -> Self {
        Self {
            holders,
            hosts: Hosts::default(),
        }
    }
}

/// Stable storage of the clients.
pub trait ClientRecord: Send + Sync {
    /// Replaces the stored clients. Durable on return. May block. Returns false on failure.
    fn keep(&self, persistent_state: &PersistentState) -> bool;
}

/// Stores no clients, for a server without persistent state.
pub struct NoRecord;

impl ClientRecord for NoRecord {
    fn keep(&self, _: &PersistentState) -> bool {
        true
    }
}

/// The remaining grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Remaining milliseconds, unless another reclaim extends the period.
    pub remaining_ms: u64,
    /// Clients with an incomplete reclaim, if they are known. The period is over early without
    /// them.
    pub awaited: Option<usize>,
}

/// The grace period.
pub(super) struct Grace {
    earlier: Holders,
    /// Clients of `earlier` that have not completed their reclaim and do not seem to have completed
    /// it.
    awaited: Clients,
    /// Some clients only seemed to be done.
    some_seemed_done: bool,
    /// New state that was granted, and the client; `None` if there were several.
    given: BTreeMap<New, Option<ClientKey>>,
    /// When a host last acknowledged the start or reclaimed a lock.
    record_progress: BTreeMap<ClientKey, u64>,
    length_ms: u64,
    ends_ms: u64,
    is_over: bool,
}

/// Maximum pause between two reclaims of a host.
const HOST_PAUSE_MS: u64 = 10_000;
/// The period lasts at least this long after a reclaim.
const EXTENSION_MS: u64 = 5000;

impl Grace {
    pub(super) fn new(earlier: Holders, length_ms: u64) -> Self {
        let (awaited, is_over) = match &earlier {
            Holders::Known(clients) => (clients.clone(), clients.is_empty()),
            Holders::AnyClient => (Clients::new(), length_ms == 0),
        };
        Self {
            earlier,
            awaited,
            some_seemed_done: false,
            given: BTreeMap::new(),
            record_progress: BTreeMap::new(),
            length_ms,
            ends_ms: length_ms,
            is_over,
        }
    }

    pub(super) const fn is_now(&self, now_ms: u64) -> bool {
        !self.is_over && now_ms < self.ends_ms
    }

    /// Returns the remaining period if it is active.
    pub(super) fn remaining_period(&self, now_ms: u64) -> Option<Recovery> {
        self.is_now(now_ms).then(|| Recovery {
            remaining_ms: self.ends_ms - now_ms,
            awaited: match &self.earlier {
                Holders::Known(_) => Some(self.awaited.len()),
                Holders::AnyClient => None,
            },
        })
    }

    /// Whether new state can conflict with reclaimable state.
    pub(super) fn forbids(&self, new: New, now_ms: u64) -> bool {
        let is_in_the_way = |had: &ReclaimableState| match new {
            New::Open => had.denials,
            New::Denial => true,
            New::Lock => had.locks,
        };
        self.is_now(now_ms)
            && match &self.earlier {
                Holders::Known(_) => self.awaited.values().any(is_in_the_way),
                Holders::AnyClient => true,
            }
    }

    /// Whether an awaited client other than `but` had denials.
    pub(super) fn awaits_denials(&self, but: ClientKey, now_ms: u64) -> bool {
        let mut others = self.awaited.iter().filter(|(client, _)| **client != but);
        self.is_now(now_ms) && others.any(|(_, had)| had.denials)
    }

    /// Records new state that was not [forbidden](Self::forbids).
    pub(super) fn record_new(&mut self, new: New, to: Option<ClientKey>, now_ms: u64) {
        if self.is_now(now_ms) {
            let known = self.given.entry(new).or_insert(to);
            *known = known.filter(|client| Some(*client) == to);
        }
    }

    /// Handles a request for new state from a client that never reports completion.
    pub(super) fn record_new_request(&mut self, client: ClientKey) {
        self.some_seemed_done |= self.awaited.remove(&client).is_some();
    }

    /// Records that an awaited host acknowledged the start or reclaimed a lock.
    pub(super) fn record_progress(&mut self, host: ClientKey, now_ms: u64) {
        if self.awaited.contains_key(&host) {
            self.record_progress.insert(host, now_ms);
        }
    }

    /// Hosts reclaim their locks one by one. A host that acknowledged the start and has not
    /// reclaimed for a while is taken as done.
    pub(super) fn settle(&mut self, now_ms: u64) {
        let record_progress = self.record_progress.iter();
        let quiet = record_progress.filter(|(_, since)| **since + HOST_PAUSE_MS <= now_ms);
        let quiet: Vec<ClientKey> = quiet.map(|(host, _)| *host).collect();
        for host in quiet {
            self.record_progress.remove(&host);
            self.record_new_request(host);
        }
    }

    /// Whether it has expired since the last call.
    pub(super) fn ends(&mut self, now_ms: u64) -> bool {
        let ends = !self.is_over && !self.is_now(now_ms);
        self.is_over |= ends;
        ends
    }

    /// Extends the period after a reclaim, because more may follow: to at most twice its length.
    pub(super) fn record_reclaim(&mut self, now_ms: u64) {
        if self.is_now(now_ms) {
            let end = (now_ms + EXTENSION_MS).min(2 * self.length_ms);
            self.ends_ms = self.ends_ms.max(end);
        }
    }

    pub(super) fn may_reclaim(
        &self,
        client: ClientKey,
        what: ReclaimableState,
        now_ms: u64,
    ) -> bool {
        let had_it = match &self.earlier {
            Holders::Known(clients) => clients.get(&client).is_some_and(|had| had.has(what)),
            Holders::AnyClient => true,
        };
        let is_in_the_way = |(new, to): (&New, &Option<ClientKey>)| {
            new.is_in_the_way_of(what) && *to != Some(client)
        };
        // State that conflicts with awaited clients was not granted.
        let was_kept = self.awaited.contains_key(&client) || !self.given.iter().any(is_in_the_way);
        had_it && was_kept && self.is_now(now_ms)
    }

    /// Records that a client has completed its reclaim or will never reclaim.
    pub(super) fn is_done(&mut self, client: ClientKey) {
        self.awaited.remove(&client);
        let are_all_done = self.awaited.is_empty() && !self.some_seemed_done;
        if are_all_done && matches!(self.earlier, Holders::Known(_)) {
            // The next check detects that the period is over.
            self.ends_ms = 0;
        }
    }

    /// Returns the holders that the next server must be given, if `now` have state. During the
    /// grace period these include all holders of the previous server.
    pub(super) fn holders(&self, mut now: Clients) -> Holders {
        match &self.earlier {
            Holders::Known(clients) if !self.is_over => {
                for (client, had) in clients {
                    let all = now.entry(*client).or_default();
                    *all = all.and(*had);
                }
                Holders::Known(now)
            }
            Holders::AnyClient if !self.is_over => Holders::AnyClient,
            _ => Holders::Known(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_MORE: ReclaimableState = ReclaimableState::open(false);

    fn all(clients: &[ClientKey]) -> Clients {
        clients
            .iter()
            .map(|client| (*client, NOTHING_MORE))
            .collect()
    }

    fn known(clients: &[ClientKey]) -> Holders {
        Holders::Known(all(clients))
    }

    fn may(grace: &Grace, client: ClientKey, now_ms: u64) -> bool {
        grace.may_reclaim(client, NOTHING_MORE, now_ms)
    }

    #[test]
    fn grace_reports_remaining_time_and_awaited_clients() {
        let mut grace = Grace::new(known(&[1, 2]), 20_000);
        let remaining_period = |remaining_ms, awaited| {
            Some(Recovery {
                remaining_ms,
                awaited,
            })
        };
        assert_eq!(
            grace.remaining_period(5000),
            remaining_period(15_000, Some(2))
        );
        grace.is_done(1);
        assert_eq!(
            grace.remaining_period(6000),
            remaining_period(14_000, Some(1))
        );
        grace.is_done(2);
        assert_eq!(grace.remaining_period(6000), None);
        let anybody = Grace::new(Holders::AnyClient, 20_000);
        assert_eq!(anybody.remaining_period(0), remaining_period(20_000, None));
        assert_eq!(anybody.remaining_period(20_000), None);
    }

    #[test]
    fn client_keys_are_stable_across_versions() {
        // By Python's `hashlib`.
        let client = key_of(b"foobar");
        assert_eq!(client, 0x911e_b2bb_6a03_b76b);
        assert_eq!(key_without_sessions(b"foobar"), 0x53fe_9e60_e61f_a796);
        assert_eq!(key_of_host([10, 0, 0, 1].into()), 0x8a5f_d42d_0e08_2e7f);
        let of_principal = key_of_principal(client, "host/a@REALM");
        assert_eq!(of_principal, 0x39ca_0edf_87fc_f4b8);
    }

    #[test]
    fn grace_is_skipped_without_earlier_clients() {
        let grace = Grace::new(Holders::default(), 20_000);
        assert!(!grace.is_now(0) && !may(&grace, 1, 0));
        assert_eq!(grace.holders(all(&[7])), known(&[7]));
    }

    #[test]
    fn grace_ends_with_the_last_client_and_refuses_other_reclaims() {
        let mut grace = Grace::new(known(&[1, 2]), 20_000);
        assert!(grace.is_now(1) && may(&grace, 1, 1) && !may(&grace, 3, 1));
        grace.is_done(1);
        grace.is_done(3);
        assert!(!grace.ends(2) && may(&grace, 2, 2));
        assert_eq!(
            grace.holders(all(&[1])),
            known(&[1, 2]),
            "the next server may start early"
        );
        grace.is_done(2);
        assert!(grace.ends(3) && !grace.ends(3) && !grace.is_now(3));
        assert_eq!(grace.holders(all(&[1])), known(&[1]));
    }

    #[test]
    fn apparently_done_client_may_reclaim_unconflicted_state() {
        const ALL: Clients = Clients::new();
        let mut grace = Grace::new(
            Holders::Known([(1, ReclaimableState::ALL), (2, ReclaimableState::ALL)].into()),
            20_000,
        );
        grace.record_new_request(1);
        assert!(grace.forbids(New::Lock, 1), "the other is waited for");
        grace.record_new_request(2);
        assert!(!grace.forbids(New::Lock, 1) && grace.is_now(1));
        grace.record_new(New::Lock, Some(1), 2);
        assert!(
            grace.may_reclaim(1, ReclaimableState::LOCKS, 3),
            "its own is in nobody's way"
        );
        assert!(!grace.may_reclaim(2, ReclaimableState::LOCKS, 3));
        assert!(
            grace.may_reclaim(2, ReclaimableState::open(true), 3),
            "no open was given out"
        );
        grace.record_new(New::Open, None, 4);
        assert!(!grace.may_reclaim(2, ReclaimableState::open(true), 5) && may(&grace, 2, 5));
        grace.record_new(New::Denial, Some(1), 6);
        assert!(!may(&grace, 2, 7) && may(&grace, 1, 7));
        grace.record_new(New::Denial, Some(2), 8);
        assert!(!may(&grace, 1, 9));
        assert_eq!(grace.holders(ALL), grace.earlier);
        assert!(grace.ends(20_000) && !grace.may_reclaim(1, ReclaimableState::LOCKS, 20_000));
    }

    #[test]
    fn notified_host_without_reclaims_counts_as_done() {
        let host = key_of_host([10, 0, 0, 7].into());
        let mut grace = Grace::new(
            Holders::Known([(host, ReclaimableState::LOCKS)].into()),
            20_000,
        );
        grace.settle(HOST_PAUSE_MS);
        assert!(grace.forbids(New::Lock, HOST_PAUSE_MS), "it does not know");
        grace.record_progress(host, 4000);
        grace.record_progress(host, 5000);
        grace.settle(5000 + HOST_PAUSE_MS - 1);
        assert!(grace.forbids(New::Lock, 5000));
        grace.settle(5000 + HOST_PAUSE_MS);
        assert!(
            !grace.forbids(New::Lock, 15_000)
                && grace.may_reclaim(host, ReclaimableState::LOCKS, 15_000)
        );
    }

    #[test]
    fn client_absent_for_the_whole_grace_is_forgotten() {
        let mut grace = Grace::new(known(&[1, 2]), 20_000);
        grace.is_done(1);
        assert!(!grace.ends(19_999) && grace.ends(20_000));
        assert!(!may(&grace, 2, 20_000));
        assert_eq!(grace.holders(all(&[1])), known(&[1]));
    }

    #[test]
    fn late_client_may_reclaim_everything() {
        let mut grace = Grace::new(known(&[1]), 20_000);
        for now_ms in (19_000..39_000).step_by(4000) {
            assert!(!grace.ends(now_ms) && may(&grace, 1, now_ms));
            grace.record_reclaim(now_ms);
        }
        assert!(may(&grace, 1, 39_999) && grace.ends(40_000));
        grace.record_reclaim(40_001);
        assert!(!grace.is_now(40_001));
    }

    #[test]
    fn unknown_holders_require_the_full_grace_period() {
        let mut grace = Grace::new(Holders::AnyClient, 20_000);
        assert!(grace.may_reclaim(1, ReclaimableState::ALL, 1));
        grace.is_done(1);
        assert!(grace.is_now(19_999) && grace.forbids(New::Open, 19_999));
        assert_eq!(grace.holders(all(&[1])), Holders::AnyClient);
        assert!(grace.ends(20_000));
        assert_eq!(grace.holders(all(&[1])), known(&[1]));
    }

    #[test]
    fn requests_that_cannot_conflict_skip_the_grace_period() {
        let forbidden = |had: ReclaimableState| {
            let grace = Grace::new(Holders::Known([(1, had)].into()), 20_000);
            [New::Open, New::Denial, New::Lock].map(|new| grace.forbids(new, 1))
        };
        assert_eq!(forbidden(NOTHING_MORE), [false, true, false]);
        assert_eq!(forbidden(ReclaimableState::LOCKS), [false, true, true]);
        assert_eq!(forbidden(ReclaimableState::open(true)), [true, true, false]);
        assert_eq!(forbidden(ReclaimableState::ALL), [true; 3]);
    }

    #[test]
    fn client_reclaims_only_state_types_it_held() {
        let grace = Grace::new(
            Holders::Known([(1, ReclaimableState::LOCKS)].into()),
            20_000,
        );
        assert!(may(&grace, 1, 1) && grace.may_reclaim(1, ReclaimableState::LOCKS, 1));
        assert!(!grace.may_reclaim(1, ReclaimableState::open(true), 1));
        let now = [(1, ReclaimableState::open(true)), (2, NOTHING_MORE)].into();
        let both = [(1, ReclaimableState::ALL), (2, NOTHING_MORE)].into();
        assert_eq!(grace.holders(now), Holders::Known(both));
    }
}
