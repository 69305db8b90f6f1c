//! Serializes the requests of open owners and lock owners in NFS 4.0. Each has a seqid, and the
//! last reply of an owner is cached for a retransmission (RFC 7530, 9.1.7 to 9.1.10). Pure.

use std::collections::{HashMap, HashSet, VecDeque};

use file_system::Handle;

use super::numbers::Status;
use super::opens::{StateId, StateKind};
use super::state::State;

/// Stored owners of one client without state. An evicted owner must confirm its next open.
const IDLE_OWNERS_MAX: usize = 64;
/// Idle owners of all clients of one IPv4 address or IPv6 network. Beyond that each client has
/// [`IDLE_OWNERS_OF_MANY_MAX`].
const IDLE_OWNERS_PER_NETWORK_MAX: usize = 4096;
/// Idle owners of one client, if its network has many.
const IDLE_OWNERS_OF_MANY_MAX: usize = 2;

/// An owner within a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// An open owner.
    Open(Vec<u8>),
    /// A lock owner.
    Lock(Vec<u8>),
}

/// The class of a request, as far as its turn depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Opens a file: the owner may be new.
    Opens,
    /// Confirms an owner.
    Confirms,
    /// Any other request of a confirmed owner.
    Other,
}

/// A request of an owner.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its seqid.
    pub sequence: u32,
    /// Equal for equal requests.
    pub fingerprint: u64,
    /// Its class.
    pub purpose: Purpose,
}

/// The reply to the last request of an owner.
#[derive(Clone, Debug)]
pub struct Replied {
    /// The status.
    pub status: Status,
    /// The results.
    pub body: Vec<u8>,
    /// The opened file.
    pub file: Option<Handle>,
}

/// The turn of a request.
pub enum SeqidOutcome {
    /// A new request, which must be completed with [`State::end_seqid`].
    New,
    /// A retransmission, with the cached reply.
    Repeated(Replied),
}

/// The state of one owner.
#[derive(Default)]
struct OwnerState {
    sequence: u32,
    is_busy: bool,
    is_confirmed: bool,
    /// The last reply, with the request's fingerprint.
    last: Option<(u64, Replied)>,
    held: HashSet<u64>,
    /// The open that the last request closed.
    closed: Option<u64>,
}

/// The owners of a client.
#[derive(Default)]
pub(super) struct OwnerSeqids {
    owners: HashMap<Owner, OwnerState>,
    /// Owners without state, in the order in which they lost it.
    idle: VecDeque<Owner>,
    /// Closed opens that may be closed again by a retransmission.
    closed: HashMap<u64, Owner>,
    /// Whether the client's network has many idle owners.
    are_many: bool,
}

impl OwnerSeqids {
    /// Returns the opens of an owner that must start again, because it never confirmed them.
    fn unconfirmed(&self, owner: &Owner, request: &Request) -> Vec<u64> {
        let owner_state = self.owners.get(owner).filter(|owner_state| {
            let is_repeated =
                owner_state.last.is_some() && owner_state.sequence == request.sequence;
            !owner_state.is_confirmed && !owner_state.is_busy && !is_repeated
        });
        match (owner_state, request.purpose) {
            (Some(owner_state), Purpose::Opens) => owner_state.held.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, owner: &Owner, request: &Request) -> Result<SeqidOutcome, Status> {
        let is_open = request.purpose == Purpose::Opens;
        let owner_state = match self.owners.get_mut(owner) {
            Some(owner_state) => owner_state,
            None if is_open => self.owners.entry(owner.clone()).or_default(),
            None => return Err(Status::BAD_SEQID),
        };
        if owner_state.is_busy {
            // A retry before the reply drops the connection. The client then retries over another
            // one.
            return Err(Status::GONE);
        }
        let is_last = owner_state.sequence == request.sequence;
        if let Some((fingerprint, answered)) = owner_state.last.as_ref().filter(|_| is_last) {
            return match *fingerprint == request.fingerprint {
                true => Ok(SeqidOutcome::Repeated(answered.clone())),
                false => Err(Status::BAD_SEQID),
            };
        }
        let is_next = request.sequence == owner_state.sequence.wrapping_add(1);
        let begins_anew = is_open && !owner_state.is_confirmed;
        if !is_next && !begins_anew {
            return Err(Status::BAD_SEQID);
        }
        if request.purpose == Purpose::Other && !owner_state.is_confirmed {
            return Err(Status::BAD_STATEID);
        }
        owner_state.is_busy = true;
        if let Some(number) = owner_state.closed.take() {
            self.closed.remove(&number);
        }
        Ok(SeqidOutcome::New)
    }

    fn end(&mut self, owner: &Owner, request: &Request, answered: Replied) {
        let Some(owner_state) = self.owners.get_mut(owner) else {
            return;
        };
        owner_state.is_busy = false;
        if counts(answered.status) {
            owner_state.sequence = request.sequence;
            owner_state.last = Some((request.fingerprint, answered));
        }
        if owner_state.held.is_empty() {
            self.settle(owner);
        }
    }

    /// Adds an open or a lock to its owner.
    pub(super) fn hold(&mut self, owner: Owner, number: u64) {
        self.owners.entry(owner).or_default().held.insert(number);
    }

    /// Records that an open is about to be closed.
    pub(super) fn close(&mut self, owner: Owner, number: u64) {
        if let Some(owner_state) = self.owners.get_mut(&owner) {
            owner_state.closed = Some(number);
            self.closed.insert(number, owner);
        }
    }

    /// Removes an open or a lock from its owner.
    pub(super) fn release(&mut self, owner: &Owner, number: u64) {
        let Some(owner_state) = self.owners.get_mut(owner) else {
            return;
        };
        owner_state.held.remove(&number);
        if owner_state.held.is_empty() && !owner_state.is_busy {
            self.settle(owner);
        }
    }

    /// Handles an owner without state.
    fn settle(&mut self, owner: &Owner) {
        match owner {
            // A further lock is serialized by its open owner.
            Owner::Lock(_) => drop(self.owners.remove(owner)),
            Owner::Open(_) => {
                self.idle.retain(|other| other != owner);
                self.idle.push_back(owner.clone());
                let most = match self.are_many {
                    true => IDLE_OWNERS_OF_MANY_MAX,
                    false => IDLE_OWNERS_MAX,
                };
                let beyond = self.idle.len().saturating_sub(most);
                let oldest: Vec<Owner> = self.idle.drain(..beyond).collect();
                oldest.iter().for_each(|oldest| self.forget(oldest));
            }
        }
    }

    /// Number of idle owners.
    pub(super) fn idle_owners(&self) -> usize {
        self.idle.len()
    }

    /// Evicts an idle owner, unless it has state again.
    fn forget(&mut self, owner: &Owner) {
        let owner_state = self.owners.get(owner);
        if owner_state
            .is_some_and(|owner_state| owner_state.held.is_empty() && !owner_state.is_busy)
        {
            let closed = self.owners.remove(owner).and_then(|gone| gone.closed);
            closed
                .iter()
                .for_each(|number| drop(self.closed.remove(number)));
        }
    }
}

/// Whether a request with this status consumes the seqid (RFC 7530, 9.1.7).
const fn counts(status: Status) -> bool {
    !matches!(
        status,
        Status::STALE_CLIENTID
            | Status::STALE_STATEID
            | Status::BAD_STATEID
            | Status::BAD_SEQID
            | Status::BADXDR
            | Status::RESOURCE
            | Status::NOFILEHANDLE
            | Status::GONE
    )
}

impl State {
    pub(super) fn seqids(&mut self, client: u64) -> Option<&mut OwnerSeqids> {
        let client = self.clients.get_mut(&client)?;
        Some(&mut client.without_sessions.as_mut()?.seqids)
    }

    /// Changes the owners of a client, and limits the idle owners of its network.
    pub(super) fn change_seqids(&mut self, client: u64, change: impl FnOnce(&mut OwnerSeqids)) {
        let Some(network) = self.clients.get(&client).map(|found| found.network) else {
            return;
        };
        let are_many = self.idle_owners_of(network) >= IDLE_OWNERS_PER_NETWORK_MAX;
        let Some(seqids) = self.seqids(client) else {
            return;
        };
        seqids.are_many = are_many;
        let before = seqids.idle_owners() as isize;
        change(seqids);
        let after = seqids.idle_owners() as isize;
        self.count_idle_owners(network, after - before);
    }

    /// Returns client and owner of an open or a lock, including an open that the owner's last
    /// request has closed. Renews the lease.
    pub fn owner_of(&mut self, id: &StateId, now_ms: u64) -> Result<(u64, Owner), Status> {
        let number = self.number_without_sessions(id)?;
        let client = self.client_of_number(number);
        self.check_client(client, now_ms)?;
        let owner = match self.held.get(&number) {
            Some(held) => Some(held.named()),
            None => self
                .seqids(client)
                .and_then(|seqids| seqids.closed.get(&number).cloned()),
        };
        owner
            .map(|owner| (client, owner))
            .ok_or(Status::BAD_STATEID)
    }

    /// Returns the client of an open or a lock, and renews its lease. Unconfirmed opens permit no
    /// access.
    pub fn client_of(&mut self, id: &StateId, now_ms: u64) -> Result<u64, Status> {
        let number = self.number_without_sessions(id)?;
        let client = self.client_of_number(number);
        self.check_client(client, now_ms)?;
        let owner = self.held.get(&number).map(super::opens::Held::named);
        let owner = owner.ok_or(Status::BAD_STATEID)?;
        match self.is_confirmed(client, &owner) {
            true => Ok(client),
            false => Err(Status::BAD_STATEID),
        }
    }

    /// Begins a request of an owner.
    pub fn begin_seqid(
        &mut self,
        client: u64,
        owner: &Owner,
        request: &Request,
    ) -> Result<SeqidOutcome, Status> {
        let seqids = self.seqids(client).ok_or(Status::STALE_CLIENTID)?;
        let unconfirmed = seqids.unconfirmed(owner, request);
        self.forget_all(unconfirmed);
        let seqids = self.seqids(client).ok_or(Status::STALE_CLIENTID)?;
        seqids.begin(owner, request)
    }

    /// Completes a request of an owner.
    pub fn end_seqid(&mut self, client: u64, owner: &Owner, request: &Request, answered: Replied) {
        self.change_seqids(client, |seqids| seqids.end(owner, request, answered));
    }

    /// Whether an open owner is confirmed. All lock owners are.
    pub fn is_confirmed(&self, client: u64, owner: &Owner) -> bool {
        let client = self.clients.get(&client);
        let seqids = client.and_then(|client| client.without_sessions.as_ref());
        let owner_state = seqids.and_then(|found| found.seqids.owners.get(owner));
        matches!(owner, Owner::Lock(_))
            || owner_state.is_some_and(|owner_state| owner_state.is_confirmed)
    }

    /// Confirms an open owner: it has sent a confirmation, or reclaims its state.
    pub fn confirm(&mut self, client: u64, owner: &[u8]) {
        let seqids = self.seqids(client);
        let owner_state =
            seqids.and_then(|seqids| seqids.owners.get_mut(&Owner::Open(owner.to_vec())));
        if let Some(owner_state) = owner_state {
            owner_state.is_confirmed = true;
        }
    }

    /// `OPEN_CONFIRM`.
    pub fn confirm_open(
        &mut self,
        client: u64,
        id: &StateId,
        file: Handle,
    ) -> Result<StateId, Status> {
        let number = self.number_of(client, id)?;
        let held = &self.held[&number];
        let is_open = matches!(held.what, StateKind::Open { .. }) && held.file == file;
        let owner = held.named();
        if !is_open || self.is_confirmed(client, &owner) {
            return Err(Status::BAD_STATEID);
        }
        if let Owner::Open(name) = &owner {
            self.confirm(client, name);
        }
        Ok(self.changed(number))
    }

    /// Checks the seqid of a lock owner that locks for an open and may exist already.
    pub fn check_lock_seqid(
        &mut self,
        client: u64,
        owner: &[u8],
        sequence: u32,
    ) -> Result<(), Status> {
        let seqids = self.seqids(client).ok_or(Status::STALE_CLIENTID)?;
        let owner_state = seqids.owners.get_mut(&Owner::Lock(owner.to_vec()));
        match owner_state {
            Some(known) if known.sequence.wrapping_add(1) != sequence => Err(Status::BAD_SEQID),
            _ => Ok(()),
        }
    }

    /// Consumes the seqid of such a lock owner.
    pub fn end_lock_seqid(&mut self, client: u64, owner: &[u8], sequence: u32) {
        let seqids = self.seqids(client);
        let owner_state =
            seqids.and_then(|seqids| seqids.owners.get_mut(&Owner::Lock(owner.to_vec())));
        if let Some(owner_state) = owner_state {
            *owner_state = OwnerState {
                sequence,
                is_confirmed: true,
                held: std::mem::take(&mut owner_state.held),
                ..OwnerState::default()
            };
        }
    }

    /// `RELEASE_LOCKOWNER`.
    pub fn release_owner(
        &mut self,
        client: u64,
        owner: &[u8],
        principal: Option<u64>,
    ) -> Result<(), Status> {
        let seqids = self.seqids(client).ok_or(Status::STALE_CLIENTID)?;
        let owner_state = seqids.owners.get(&Owner::Lock(owner.to_vec()));
        let locks: Vec<u64> =
            owner_state.map_or(Vec::new(), |found| found.held.iter().copied().collect());
        for number in &locks {
            self.check_creator_of(*number, principal)?;
        }
        let has_ranges = |number: &u64| {
            let held = self.held.get(number);
            let file = held.and_then(|held| self.files.get(&held.file));
            file.is_some_and(|file| file.has_ranges_of(*number))
        };
        if locks.iter().any(has_ranges) {
            return Err(Status::LOCKS_HELD);
        }
        self.forget_all(locks);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner::Open(name.as_bytes().to_vec())
    }

    fn request(sequence: u32, purpose: Purpose) -> Request {
        Request {
            sequence,
            fingerprint: sequence.into(),
            purpose,
        }
    }

    /// The body of the reply identifies the request that produced it.
    fn ask(
        seqids: &mut OwnerSeqids,
        name: &str,
        request: &Request,
        status: Status,
    ) -> Result<Vec<u8>, Status> {
        match seqids.begin(&owner(name), request)? {
            SeqidOutcome::Repeated(answered) => Ok(answered.body),
            SeqidOutcome::New => {
                let answered = Replied {
                    status,
                    body: vec![request.sequence as u8],
                    file: None,
                };
                seqids.end(&owner(name), request, answered);
                Ok(Vec::new())
            }
        }
    }

    fn confirmed() -> OwnerSeqids {
        let mut seqids = OwnerSeqids::default();
        ask(&mut seqids, "a", &request(7, Purpose::Opens), Status::OK).expect("a turn");
        seqids
            .owners
            .get_mut(&owner("a"))
            .expect("an owner")
            .is_confirmed = true;
        seqids
    }

    #[test]
    fn last_seqid_is_replayed_and_other_seqids_are_refused() {
        let mut seqids = confirmed();
        let again = ask(&mut seqids, "a", &request(7, Purpose::Opens), Status::OK);
        assert_eq!(again, Ok(vec![7]));
        let other = Request {
            fingerprint: 1,
            ..request(7, Purpose::Opens)
        };
        for refused in [
            other,
            request(6, Purpose::Opens),
            request(9, Purpose::Opens),
        ] {
            let answer = ask(&mut seqids, "a", &refused, Status::OK);
            assert_eq!(answer, Err(Status::BAD_SEQID), "{refused:?}");
        }
        assert_eq!(
            ask(&mut seqids, "a", &request(8, Purpose::Other), Status::OK),
            Ok(vec![])
        );
    }

    #[test]
    fn errors_before_execution_do_not_advance_the_seqid() {
        let mut seqids = confirmed();
        for status in [Status::BAD_STATEID, Status::NOFILEHANDLE, Status::GONE] {
            ask(&mut seqids, "a", &request(8, Purpose::Other), status).expect("a turn");
        }
        ask(&mut seqids, "a", &request(8, Purpose::Other), Status::GRACE).expect("a turn");
        let again = ask(&mut seqids, "a", &request(8, Purpose::Other), Status::OK);
        assert_eq!(again, Ok(vec![8]));
    }

    #[test]
    fn unconfirmed_owner_may_only_open_again() {
        let mut seqids = OwnerSeqids::default();
        ask(&mut seqids, "a", &request(7, Purpose::Opens), Status::OK).expect("a turn");
        seqids.hold(owner("a"), 1);
        let used = ask(&mut seqids, "a", &request(8, Purpose::Other), Status::OK);
        assert_eq!(used, Err(Status::BAD_STATEID));
        let lost = |sequence| seqids.unconfirmed(&owner("a"), &request(sequence, Purpose::Opens));
        assert!(lost(7).is_empty(), "it is a retry");
        assert_eq!(lost(3), [1]);
        assert!(ask(&mut seqids, "a", &request(3, Purpose::Opens), Status::OK).is_ok());
    }

    #[test]
    fn request_repeated_before_its_reply_is_executed_once() {
        let mut seqids = confirmed();
        let next = request(8, Purpose::Other);
        assert!(matches!(
            seqids.begin(&owner("a"), &next),
            Ok(SeqidOutcome::New)
        ));
        assert!(matches!(
            seqids.begin(&owner("a"), &next),
            Err(Status::GONE)
        ));
    }

    #[test]
    fn owner_flood_evicts_idle_owners_oldest_first() {
        let mut seqids = confirmed();
        seqids.hold(owner("a"), 1);
        for number in 0..2 * IDLE_OWNERS_MAX {
            let name = format!("flood {number}");
            ask(
                &mut seqids,
                &name,
                &request(1, Purpose::Opens),
                Status::NOENT,
            )
            .expect("a turn");
        }
        assert!(seqids.owners.contains_key(&owner("a")));
        assert_eq!(seqids.owners.len(), IDLE_OWNERS_MAX + 1);
        seqids.close(owner("a"), 1);
        seqids.release(&owner("a"), 1);
        assert_eq!(seqids.closed.len(), 1);
        for number in 0..IDLE_OWNERS_MAX {
            let name = format!("flood again {number}");
            ask(
                &mut seqids,
                &name,
                &request(1, Purpose::Opens),
                Status::NOENT,
            )
            .expect("a turn");
        }
        assert!(!seqids.owners.contains_key(&owner("a")) && seqids.closed.is_empty());
    }
}
