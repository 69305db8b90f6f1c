//! Liveness of other heads. With two heads alone: messages from the other head, and whether its fence counts as its
//! vote.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use leg_memory::{Awake, ContactCounter, FenceRequest, Processes, Pulse, is_of_new_process};
use leg_record::{MemberId, MemberState};
use takeover::budget::MISSED;

use super::Halt;
use crate::proof::{Observation, Proof};
use crate::{Failure, random};

/// Two heads alone: a request to fence the other one, which would count as its vote.
struct Requested {
    number: u64,
    /// Number of connections to the head so far. A message sent on a later one may have reached a process that this one
    /// has no message of.
    connections: u64,
    is_missed: bool,
    /// The head was fenced, after its last message.
    is_true: bool,
}

/// The observed liveness of other heads.
pub(super) struct Liveness {
    folder: PathBuf,
    pool: u64,
    proof: Proof,
    /// Two heads alone, by the record that the member of this head accepted: the other one.
    other: Option<MemberId>,
    signs: ContactCounter,
    signs_seen: u64,
    /// Time of the last message of each other member.
    received: BTreeMap<MemberId, Instant>,
    began: Instant,
    /// When this process, or the member of this head, resumed after a freeze.
    thawed: Option<Instant>,
    /// Processes of other heads that have sent a message.
    processes: Processes,
    request: Option<Requested>,
    /// Two heads alone: detects freezes of the member of this head.
    pulse: Option<Pulse>,
    awake: Awake,
}

impl Liveness {
    /// For pool `pool`, with the files in `folder`. `other`: the other one of two heads alone.
    pub(super) fn start(
        folder: PathBuf,
        pool: u64,
        proof: Proof,
        other: Option<MemberId>,
    ) -> Result<Self, Failure> {
        let side = |error: std::io::Error| Failure::Side(format!("{}: {error}", folder.display()));
        let signs = ContactCounter::open(&folder).map_err(side)?;
        let pulse = other.map(|_| Pulse::inspect(&folder));
        let pulse = pulse.transpose().map_err(side)?;
        Ok(Self {
            pool,
            proof,
            other,
            signs_seen: signs.read(),
            signs,
            received: BTreeMap::new(),
            began: Instant::now(),
            thawed: None,
            processes: Processes::default(),
            request: None,
            pulse,
            awake: Awake::new(),
            folder,
        })
    }

    /// Two heads alone: the other one.
    pub(super) fn other(&self) -> Option<MemberId> {
        self.other
    }

    /// The proof about the previous owner, from an administrator or the cluster.
    pub(super) fn proof(&self) -> Proof {
        self.proof
    }

    /// The other one of two heads alone has changed.
    pub(super) fn follow(&mut self, other: Option<MemberId>) -> Result<(), Halt> {
        if other == self.other {
            return Ok(());
        }
        self.discard_request();
        let pulse = other.map(|_| Pulse::inspect(&self.folder)).transpose();
        self.pulse =
            pulse.map_err(|error| Halt::Because(format!("{}: {error}", self.folder.display())))?;
        self.other = other;
        Ok(())
    }

    /// Whether the member of this head received a message of another head since the last call.
    pub(super) fn had_contact_with_other(&mut self) -> bool {
        let seen = self.signs.read();
        let before = std::mem::replace(&mut self.signs_seen, seen);
        if let (Some(other), true) = (self.other, before != seen) {
            self.record_contact(other, is_of_new_process(before, seen));
        }
        before != seen
    }

    /// Notes a message of another member. `boot`: number of its process.
    pub(super) fn note_received(&mut self, from: MemberId, boot: u64) {
        let is_new = self.processes.receive(from, boot);
        self.record_contact(from, is_new);
    }

    /// A fence before a new process of the head sent a message is no vote. Nor is one after which an old process sends
    /// a message.
    fn record_contact(&mut self, from: MemberId, is_new_process: bool) {
        self.received.insert(from, Instant::now());
        let is_confirmed = |request: &Requested| {
            request.is_missed
                && leg_memory::is_fence_confirmed(&self.folder, self.pool, request.number)
        };
        let is_over = is_new_process || self.request.as_ref().is_some_and(is_confirmed);
        if self.other == Some(from) && is_over {
            let pool = self.pool;
            tracing::debug!(
                pool,
                member = from.0,
                "a message of that head: an earlier fence does not count"
            );
            self.discard_request();
        }
    }

    /// Whether this process, or the member of this head, was frozen since the last call.
    pub(super) fn was_frozen(&mut self) -> bool {
        let is_other = self.pulse.as_mut().is_some_and(Pulse::was_frozen);
        let was_frozen = self.awake.was_frozen() || is_other;
        if was_frozen {
            tracing::debug!(
                pool = self.pool,
                "a freeze ends: earlier messages do not count"
            );
            self.thawed = Some(Instant::now());
            self.discard_request();
        }
        was_frozen
    }

    fn discard_request(&mut self) {
        if self.request.take().is_some() {
            if let Err(error) = leg_memory::discard_fence_request(&self.folder, self.pool) {
                tracing::warn!(%error, "a request for a fence stays");
            }
        }
    }

    /// Two heads alone, in a term: requests the fence of the other one. Returns whether it has just been confirmed.
    ///
    /// Only after a message of the other head since this process started or resumed after a freeze: otherwise the other
    /// head may have considered this one off, and its fence would be no vote.
    pub(super) fn check_fence(&mut self, name: &str, connections: u64, now: Instant) -> bool {
        let received = self
            .other
            .and_then(|other| self.received.get(&other).copied());
        let received =
            received.filter(|received| self.thawed.is_none_or(|thawed| thawed < *received));
        let Some(received) = received else {
            return false;
        };
        let is_missed = now.saturating_duration_since(received) >= MISSED;
        if self.is_reconnected(connections) {
            self.discard_request();
        }
        let (number, connections) = match &mut self.request {
            Some(request) if request.is_true => return false,
            Some(request) if request.is_missed == is_missed => {
                request.is_true = is_missed
                    && leg_memory::is_fence_confirmed(&self.folder, self.pool, request.number);
                if request.is_true {
                    let (pool, number) = (self.pool, request.number);
                    tracing::debug!(
                        pool,
                        head = name,
                        number,
                        "the requested fence is confirmed"
                    );
                }
                return request.is_true;
            }
            Some(request) => (request.number, request.connections),
            None => (random(), connections),
        };
        let pool = self.pool;
        tracing::debug!(pool, head = name, number, is_missed, "a fence is requested");
        self.request = Some(Requested {
            number,
            connections,
            is_missed,
            is_true: false,
        });
        let request = FenceRequest {
            number,
            head: name.to_owned(),
            is_missed,
        };
        if let Err(error) = leg_memory::request_fence(&self.folder, self.pool, &request) {
            tracing::warn!(%error, "the request for a fence of the other head cannot be written");
        }
        false
    }

    fn is_reconnected(&self, connections: u64) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| request.connections != connections)
    }

    /// Whether the other head was fenced after the last message from it and to it.
    pub(super) fn is_fenced(&self, head: MemberId, connections: u64) -> bool {
        let is_true = self.request.as_ref().is_some_and(|request| request.is_true);
        self.other == Some(head) && is_true && !self.is_reconnected(connections)
    }

    /// The state that the other head sent to the member of this head. `boot`: number of the member's process.
    pub(super) fn received_before(&self, boot: u64) -> Option<MemberState> {
        let is_steady = self.pulse.as_ref().is_some_and(Pulse::is_steady);
        let received = leg_memory::received(&self.folder, self.pool, boot);
        received.filter(|_| is_steady)
    }

    /// The observed state of a head. `is_connected`, `is_silent`: now.
    pub(super) fn observation(
        &self,
        head: MemberId,
        is_connected: bool,
        is_silent: bool,
    ) -> Observation {
        Observation {
            responses: is_connected && !is_silent,
            is_connected,
            received: self.received.get(&head).copied(),
            began: self.began,
        }
    }

    /// Whether the proof about a head counts now.
    pub(super) fn counts_as_off(
        &self,
        head: MemberId,
        observation: Observation,
        now: Instant,
    ) -> bool {
        let is_vote = self.other == Some(head);
        self.proof.counts(head, is_vote, observation, now)
    }

    /// Why the proof about a head does not count.
    pub(super) fn objection(
        &self,
        head: MemberId,
        observation: Observation,
        name: &str,
    ) -> Option<String> {
        let is_vote = self.other == Some(head);
        self.proof.objection(name, is_vote, observation)
    }

    /// Whether the only proof about the other one of two heads is an administrator's confirmation.
    pub(super) fn relies_on_confirmation(&self) -> bool {
        self.proof == Proof::Confirmation && self.other.is_some()
    }
}
