//! Members that are reached over the network. Any message may be lost, so requests are retried; every request is
//! idempotent.
//!
//! **The own member** is another process on this host. Its durable state follows from its responses. Between two
//! responses no relevant state changes: it accepts records only of the term it promised last, and a promise to another
//! candidate, unless withdrawn, terminates this term at its next proposal.

mod connections;
mod liveness;
mod membership;
mod pending_requests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use certificates::Identity;
use leg_memory::StoreError;
use leg_record::{
    Ballot, Config, DiskId, LenderRequest, LenderResponse, MemberId, MemberState, Record, Request,
    Response,
};
use members::{Message, Peer, Silence};
use takeover::budget::{FENCED_WAIT, OWN_WAIT, RESUME_WAIT, STOPPED_WAIT, UNREACHABLE_WAIT};

use self::connections::Connections;
use self::liveness::Liveness;
use self::membership::Membership;
use self::pending_requests::{PendingRequests, Responded};
use crate::proof::{Observation, Proof};
use crate::shown::Unresponsive;
use crate::{Configured, Failure, Input, Reporter};

/// Interval of checks whether members have lost their state.
const POLL_AGAIN: Duration = Duration::from_secs(1);
/// Interval of checks of the other heads' configurations.
const CONFIGURATION_AGAIN: Duration = Duration::from_secs(10);

/// The members and how they are reached.
pub struct Network {
    /// The key of this head.
    pub identity: Arc<Identity>,
    /// All members, this head's among them.
    pub peers: Vec<Peer>,
    /// Directory of the member of this head.
    pub folder: PathBuf,
    /// Proof about the previous owner.
    pub proof: Proof,
    /// Digest of the pool's configuration that this process has read.
    pub configuration: [u8; 32],
    /// The heads that must have read the same one.
    pub heads: Vec<MemberId>,
}

/// Why the deciding thread stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Halt {
    /// The state of this head's member cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another reason.
    #[error("{0}")]
    Because(String),
}

/// Pending requests to members, and their observed state.
pub(crate) struct Linked {
    me: MemberId,
    pool: u64,
    folder: PathBuf,
    /// Held from the first proposal to the end of the term.
    owner: Option<File>,
    connections: Connections,
    pending_requests: PendingRequests,
    liveness: Liveness,
    membership: Membership,
    /// Time of the last check whether members have lost their state.
    looked: Instant,
    asked_for_configurations: Instant,
}

impl Linked {
    pub(crate) fn start(
        network: Network,
        config: &Config,
        boot: u64,
        reporter: &Reporter,
    ) -> Result<Self, Failure> {
        let folder = network.folder;
        // Created by the member of this head, which may not have been started.
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::Side(format!("{}: {error}", folder.display())))?;
        let (pool, other) = (config.pool, config.other_of_two());
        let liveness = Liveness::start(folder.clone(), pool, network.proof, other)?;
        let reporter = reporter.clone();
        let receive = move |received| reporter.send(Input::Received(received));
        let me = (config.me, boot);
        let connections = Connections::start(me, pool, network.identity, network.peers, receive)?;
        let now = Instant::now();
        Ok(Self {
            me: config.me,
            pool,
            folder,
            owner: None,
            connections,
            pending_requests: PendingRequests::default(),
            liveness,
            membership: Membership::new(config, network.configuration, network.heads),
            looked: now,
            asked_for_configurations: now,
        })
    }

    pub(crate) fn own(&self) -> &MemberState {
        self.membership.own()
    }

    /// Whether the member of this head has sent its state, or the reason why not. Until then the other members are
    /// unknown.
    pub(crate) fn has_own(&self) -> bool {
        self.membership.has_own()
    }

    /// Whether the configuration has addresses for a member.
    pub(crate) fn lists(&self, member: MemberId) -> bool {
        self.connections.lists(member)
    }

    /// Whether a record names other members than the configured ones, which are used while the member of this head
    /// sends no state.
    pub(crate) fn is_on_other_head(&self, record: &Record) -> bool {
        self.membership.is_on_other_head(record)
    }

    /// Connects to a new member.
    pub(crate) fn connect(&mut self, peer: Peer) -> Result<(), Halt> {
        self.connections.add(peer)
    }

    /// Applies the record that the member of this head accepted.
    fn follow(&mut self) -> Result<(), Halt> {
        let other = self.membership.follow();
        let (pool, members) = (self.pool, self.membership.members());
        tracing::debug!(pool, ?members, ?other, "the members of the record change");
        self.connections.follow(self.membership.members());
        self.liveness.follow(other)
    }

    /// Whether the member of this head received a message of another head since the last call.
    pub(crate) fn had_contact_with_other(&mut self) -> bool {
        self.liveness.had_contact_with_other()
    }

    /// Notes a message of another member. `boot`: number of its process.
    pub(crate) fn note_received(&mut self, from: MemberId, boot: u64) {
        self.liveness.note_received(from, boot);
    }

    /// Whether this process, or the member of this head, was frozen since the last call.
    pub(crate) fn was_frozen(&mut self) -> bool {
        self.liveness.was_frozen()
    }

    /// Number of connections to the other one of two heads so far.
    fn connections_to_other(&self) -> u64 {
        let other = self.liveness.other();
        other.map_or(0, |other| self.connections.count(other))
    }

    /// Two heads alone, in a term: requests the fence of the other one. Returns whether it has just been confirmed.
    pub(crate) fn check_fence(&mut self, name: &str, now: Instant) -> bool {
        let connections = self.connections_to_other();
        self.liveness.check_fence(name, connections, now)
    }

    /// Whether the other head was fenced after the last message from it and to it.
    pub(crate) fn is_fenced(&self, head: MemberId) -> bool {
        self.liveness.is_fenced(head, self.connections_to_other())
    }

    /// The state that the other head sent to the member of this head. `boot`: number of the member's process.
    pub(crate) fn received_before(&self, boot: u64) -> Option<MemberState> {
        self.liveness.received_before(boot)
    }

    fn observation(&self, head: MemberId) -> Observation {
        let is_connected = !self.connections.is_lost(head);
        let is_silent = self.membership.is_silent(head);
        self.liveness.observation(head, is_connected, is_silent)
    }

    /// Whether the proof about a head counts now.
    pub(crate) fn counts_as_off(&self, head: MemberId, now: Instant) -> bool {
        self.liveness
            .counts_as_off(head, self.observation(head), now)
    }

    /// Why the proof about a head does not count.
    pub(crate) fn objection(&self, head: MemberId, name: &str) -> Option<String> {
        self.liveness.objection(head, self.observation(head), name)
    }

    /// Whether the only proof about the other one of two heads is an administrator's confirmation.
    pub(crate) fn relies_on_confirmation(&self) -> bool {
        self.liveness.relies_on_confirmation()
    }

    /// Sends a request to a member. Before the first proposal, it locks the pool, so that the member reports that this
    /// host serves it.
    pub(crate) fn send_request(&mut self, member: MemberId, request: Request) -> Result<(), Halt> {
        if let (Request::Propose(_), None) = (&request, &self.owner) {
            let owner = leg_memory::own(&self.folder, self.pool);
            self.owner = Some(owner.map_err(|error| {
                Halt::Because(format!(
                    "another process of this host owns the pool, or {} cannot be written: {error}",
                    self.folder.display()
                ))
            })?);
        }
        match request {
            Request::Claim { ballot, .. } if !self.may_claim(member, ballot) => {
                self.pending_requests.hold(member, request);
            }
            Request::Withdraw(ballot) => {
                self.pending_requests.withdraw(ballot);
                self.put(member, request);
            }
            request => self.put(member, request),
        }
        Ok(())
    }

    fn may_claim(&self, member: MemberId, ballot: Ballot) -> bool {
        let (pending_requests, membership) = (&self.pending_requests, &self.membership);
        may_claim((self.me, membership), pending_requests, member, ballot)
    }

    fn release_claims(&mut self) {
        let own = (self.me, &self.membership);
        let may_claim = |pending_requests: &PendingRequests, member, ballot| {
            may_claim(own, pending_requests, member, ballot)
        };
        for (member, request) in self.pending_requests.release(may_claim) {
            self.put(member, request);
        }
    }

    /// Notes a head's digest of its configuration of the pool.
    pub(crate) fn has_configuration(&mut self, from: MemberId, digest: Option<[u8; 32]>) {
        self.membership.has_configuration(from, digest);
    }

    /// This process has read a new configuration of the pool: requests the digests of all heads.
    pub(crate) fn configured(&mut self, configured: Configured) {
        self.membership.configured(configured);
        self.request_configurations();
    }

    /// Heads with a different configuration of the pool.
    pub(crate) fn differing(&self) -> &BTreeSet<MemberId> {
        self.membership.differing()
    }

    fn request_configurations(&self) {
        for head in self.membership.heads() {
            self.request_configuration(*head);
        }
    }

    fn request_configuration(&self, member: MemberId) {
        if self.membership.heads().contains(&member) {
            self.connections.send(member, Message::RequestConfiguration);
        }
    }

    fn put(&mut self, member: MemberId, request: Request) {
        let said = self.transmit_request(member, &request);
        self.pending_requests.requested(member, request, said);
    }

    fn transmit_request(&self, member: MemberId, request: &Request) -> Option<Instant> {
        if let Request::Read(_) = request {
            self.request_configuration(member);
        }
        self.connections
            .send(member, Message::Request(request.clone()))
    }

    /// Drops all pending requests.
    pub(crate) fn clear_requests(&mut self) {
        self.pending_requests.clear();
        self.membership.discard_own();
    }

    /// The term is over.
    pub(crate) fn release(&mut self) {
        self.owner = None;
    }

    pub(crate) fn request_lender(&mut self, disk: DiskId, request: LenderRequest) {
        let said = self.send_to_lender(disk, request);
        self.pending_requests.claimed(disk, request, said);
    }

    fn send_to_lender(&self, disk: DiskId, request: LenderRequest) -> Option<Instant> {
        let lender = self.membership.lender(disk)?;
        let message = Message::LenderRequest(disk, request);
        self.connections.send(lender, message)
    }

    /// Handles a response of a member: its request is complete, and its state is updated.
    ///
    /// # Errors
    ///
    /// The record that the own member accepted cannot be applied.
    pub(crate) fn responded(&mut self, from: MemberId, response: &Response) -> Result<(), Halt> {
        let members =
            |memory: &MemberState| memory.accepted.as_ref().map(|one| one.members.clone());
        let before = members(self.own());
        self.note_response(from, response);
        match before == members(self.own()) {
            true => Ok(()),
            false => self.follow(),
        }
    }

    fn note_response(&mut self, from: MemberId, response: &Response) {
        if let Response::StateLost(..) = response {
            self.pending_requests.responded(from, response);
            return self.is_silent(from, Silence::Lost);
        }
        self.membership.responses(from);
        if let Response::Known(_, memory) = response {
            self.pending_requests.note_read(memory.accepted.as_ref());
        }
        if let (Response::Promised { ballot, .. }, true) = (response, from == self.me) {
            self.pending_requests.note_promise(*ballot);
            self.release_claims();
        }
        match self.pending_requests.responded(from, response) {
            Responded::Done(proposed) if from == self.me => {
                self.membership.note_own(response, proposed);
            }
            Responded::Done(_) | Responded::No => {}
        }
    }

    /// A member does not respond for the pool.
    pub(crate) fn is_silent(&mut self, from: MemberId, why: Silence) {
        self.membership.note_silence(from, why);
        if from == self.me {
            self.release_claims();
        }
    }

    /// A lender responded. Returns whether the response matches the last request.
    pub(crate) fn lent(&mut self, from: MemberId, disk: DiskId, response: LenderResponse) -> bool {
        let is_it = self.membership.lender(disk) == Some(from)
            && self.pending_requests.lent(disk, response);
        if !is_it {
            let pool = self.pool;
            tracing::debug!(
                pool,
                leg = disk.0,
                member = from.0,
                "an unexpected response is ignored"
            );
        }
        is_it
    }

    /// Whether a disk is lent by another head.
    pub(crate) fn is_elsewhere(&self, disk: DiskId) -> bool {
        let lender = self.membership.lender(disk);
        lender.is_some_and(|head| head != self.me)
    }

    pub(crate) fn is_connected_to_lender(&self, disk: DiskId) -> bool {
        let lender = self.membership.lender(disk);
        lender.is_some_and(|head| !self.connections.is_lost(head))
    }

    /// Updates the state of the connections and retries requests. Claims at unreachable lenders are refused and
    /// returned. `is_open`: the pool is in use.
    pub(crate) fn tick(&mut self, now: Instant, is_open: bool) -> Vec<(DiskId, LenderResponse)> {
        for member in self.connections.inspect(now) {
            self.request_configuration(member);
        }
        self.retry_requests(now);
        if now.duration_since(self.asked_for_configurations) >= CONFIGURATION_AGAIN {
            self.asked_for_configurations = now;
            self.request_configurations();
        }
        let mut pending_requests = std::mem::take(&mut self.pending_requests);
        let owner = pending_requests.last_owner();
        let refused = pending_requests.refuse(|disk| {
            let is_gone = |head: MemberId| match is_open {
                true => self.connections.is_lost_for(head, RESUME_WAIT, now),
                false => self.is_unreachable(head, owner, now),
            };
            // A disk that the configuration does not name has no lender.
            self.membership.lender(disk).is_none_or(is_gone)
        });
        self.pending_requests = pending_requests;
        for (disk, _) in &refused {
            tracing::debug!(
                pool = self.pool,
                leg = disk.0,
                "a claim is given up: no lender"
            );
        }
        refused
    }

    /// Whether to check now which members have lost their state: if one does not respond or has reconnected.
    /// `is_changing`: a change of members is in progress.
    pub(crate) fn is_look_due(&mut self, now: Instant, is_changing: bool) -> bool {
        let is_any_silent = self.membership.is_any_silent();
        let is_of_use = self.connections.is_new() || is_changing || is_any_silent;
        let is_due = is_of_use && now.duration_since(self.looked) >= POLL_AGAIN;
        if is_due {
            self.looked = now;
            self.connections.was_seen();
        }
        is_due
    }

    /// Whether there was no connection to a member for its time-out. `owner`: the last owner of the pool.
    fn is_unreachable(&self, member: MemberId, owner: Option<MemberId>, now: Instant) -> bool {
        let is_vote = self.liveness.other() == Some(member);
        let is_said = is_vote || owner == Some(member) && member != self.me;
        let proof = match is_said {
            true => self.liveness.proof(),
            false => Proof::None,
        };
        let short = match proof {
            Proof::Fenced(_) => FENCED_WAIT,
            _ => STOPPED_WAIT,
        };
        let wait = proof.unreachable_wait(member, is_vote, short);
        let wait = wait.unwrap_or(UNREACHABLE_WAIT);
        self.connections.is_lost_for(member, wait, now)
    }

    fn retry_requests(&mut self, now: Instant) {
        let mut pending_requests = std::mem::take(&mut self.pending_requests);
        pending_requests.retry_requests(
            now,
            |member| self.connections.is_lost(member),
            |member, request| self.transmit_request(member, request),
        );
        pending_requests.claim_again(
            now,
            |disk| !self.is_connected_to_lender(disk),
            |disk, request| self.send_to_lender(disk, request),
        );
        self.pending_requests = pending_requests;
    }

    /// Whether no more responses are expected: each member has responded, is unreachable, or reports that it has no
    /// state.
    pub(crate) fn has_received_all(&self, now: Instant) -> bool {
        let owner = self.pending_requests.last_owner();
        let is_over = |member: MemberId| {
            self.is_unreachable(member, owner, now) || self.membership.is_silent(member)
        };
        let is_known = self.has_own() && !self.connections.is_lost(self.me);
        is_known
            && self.pending_requests.has_no_claims()
            && self.pending_requests.owing().all(is_over)
    }

    /// Whether the only missing response is that of a head that was fenced, so that no retry is needed.
    pub(crate) fn misses_only_fenced(&self) -> bool {
        let proof = self.liveness.proof();
        let is_fenced = |member: MemberId| proof == Proof::Fenced(member);
        self.pending_requests.owing().all(is_fenced)
    }

    /// Whether the member of this head was unreachable for its time-out.
    pub(crate) fn is_alone(&self, now: Instant) -> bool {
        self.connections.is_lost_for(self.me, OWN_WAIT, now)
    }

    /// Members that do not respond, each with the reason.
    pub(crate) fn unresponsive(&self) -> BTreeMap<MemberId, Unresponsive> {
        let unresponsive = self.membership.silent().chain(self.connections.lost());
        let is_member = |one: &(MemberId, Unresponsive)| self.membership.members().contains(&one.0);
        unresponsive.filter(is_member).collect()
    }
}

/// Whether a claim may be sent. The member of this head must promise first, except that the last owner's member may be
/// earlier: the state in its own promise is the one that this head acts on.
fn may_claim(
    (me, membership): (MemberId, &Membership),
    pending_requests: &PendingRequests,
    member: MemberId,
    ballot: Ballot,
) -> bool {
    let has_own = pending_requests.promised() == Some(ballot) || membership.is_silent(me);
    member == me || pending_requests.last_owner() == Some(member) || has_own
}
