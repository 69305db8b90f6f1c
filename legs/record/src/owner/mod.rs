//! A head that owns a pool, or is a candidate: events in, actions out.
//!
//! ```text
//! Idle -> Reading -> [Fencing] -> Claiming -> Admitting -> Term: Committing -> Stamping -> Importing -> Serving
//! ```
//!
//! A candidate reads a quorum, has the owner before proven stopped, has its epoch promised by a quorum, has its sessions
//! admitted by the lenders, commits the first record of its term, stamps the legs, and imports.

mod opening;
mod term;

use super::lender::{LenderRequest, LenderResponse};
use super::member::{MemberState, Request, Response, Tag};
use super::membership::{Config, Membership, VoteSubstitute};
use super::record::{DiskId, MemberId, Record, Session, Version};
use super::refusal::{Notice, Refusal};
use super::rules::{Rule, holds};
use opening::{Admitting, Claiming, Fencing, Promise, Reading};
use std::collections::BTreeMap;
use term::Term;

/// An input of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The cluster starts the pool here. `nonce`: random.
    Open {
        /// Nonce of the resulting term.
        nonce: u64,
        /// Two heads: an administrator's confirmation that the other head is off and has nothing newer than this
        /// record.
        word: Option<Version>,
    },
    /// Two heads: read the state of the other one now. Harmless at any time.
    Listen,
    /// Three members: check now whether one has lost its state. Harmless at any time.
    Look,
    /// A message of another head arrived, of any kind. Comes before the event of the message itself.
    Received(MemberId),
    /// This head was frozen, so that other heads may have considered it off. Comes before all later
    /// events.
    Thawed,
    /// A member answered.
    Responded(MemberId, Response),
    /// A lender answered.
    Lent(DiskId, LenderResponse),
    /// The fence of this number is confirmed: the head was off at a time after the request.
    Fenced(u32),
    /// The fence of this number failed.
    FenceFailed(u32),
    /// The time-out of the current step.
    Deadline,
    /// The pool is open, and its first transaction group is on all legs.
    Imported,
    /// A leg failed I/O or a flush, or passed a deadline. Its errors are withheld from now on.
    LegFailed {
        /// Which.
        disk: DiskId,
        /// The last root that a flush confirmed there, by its transaction group; `None` if there is none since its
        /// admission.
        flushed: Option<u64>,
    },
    /// A read of a leg failed or returned wrong data. The leg misses no write because of it: its group needs the other
    /// copies.
    ReadFailed(DiskId),
    /// The last leg, which failed without a write or flush that failed, can be used again.
    LegUsable(DiskId),
    /// The connection to a leg ended within its deadline. Nothing has failed yet.
    LinkLost {
        /// Which.
        disk: DiskId,
        /// As above.
        flushed: Option<u64>,
    },
    /// An excluded disk is available again.
    LegReturned {
        /// Which.
        disk: DiskId,
        /// The newest transaction group of the pool.
        newest_group: u64,
    },
    /// The resilver of a disk has ended.
    Returned {
        /// Which.
        disk: DiskId,
        /// The session that wrote it. A completion of an earlier session is ignored: the disk may have been away since.
        session: Session,
        /// State of the disk.
        completeness: Completeness,
    },
    /// The resilver of a disk that this session wrote failed.
    ReturnFailed(DiskId, Session),
    /// An administrator confirmed that a disk that is not current may be overwritten: a divergent or a stale one, a
    /// replacement of such a disk, or one that the record does not name, which belongs to the pool from then on.
    Discard(DiskId),
    /// Replace the members of the record by these: a witness or a third head is added to two heads, or a witness is
    /// removed. Idempotent. A change that was taken back must be requested again. `life`: random, not 0, of the new
    /// member.
    Members {
        /// The new members.
        desired: Membership,
        /// The life in which the new member counts.
        life: u64,
    },
    /// Withdraw the request for other members. A change in progress still completes.
    MembersStay,
    /// The caller has a reason against opening the pool, before there is a term.
    Abandoned,
    /// The pool is exported.
    Exported,
}

/// State of a disk after its resilver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completeness {
    /// Its DTL is empty.
    pub lacks_nothing: bool,
    /// Transaction groups were synced after the resilver.
    pub are_groups_synced: bool,
    /// A flush after them is confirmed.
    pub is_flushed: bool,
    /// The last of these groups with a root, which is on the disk. The root before it was also written after the copy.
    pub group: u64,
}

impl Completeness {
    /// Whether the leg is complete.
    pub fn is_whole(&self) -> bool {
        self.lacks_nothing && self.are_groups_synced && self.is_flushed
    }
}

/// An output of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this to a member; this head is one.
    Request(MemberId, Request),
    /// Send this to the lender of a disk; this head may be it.
    LenderRequest(DiskId, LenderRequest),
    /// Check that a head is off, and report with this number. An earlier result does not count.
    Fence(MemberId, u32),
    /// Open the pool with these legs only.
    Import {
        /// Sessions, with incarnations, of the current legs.
        legs: BTreeMap<DiskId, (Session, u64)>,
        /// The missing data of the other legs: the first transaction group.
        lacking: BTreeMap<DiskId, u64>,
    },
    /// Pending and future errors of this leg may be reported to ZFS.
    ReleaseErrors(DiskId),
    /// This leg is in use again, and its pending I/O is sent to it.
    UseAgain(DiskId),
    /// Another disk of its group has damaged blocks, so this stale disk is needed: check at once whether it is
    /// available.
    Recall(DiskId),
    /// Resend the pending I/O.
    Resume(DiskId, Session),
    /// Attach this disk, and resilver its missing data from this group on.
    Resilver {
        /// Which.
        disk: DiskId,
        /// The first group.
        since: u64,
        /// The pool has to pass this group before the disk is complete.
        beyond: u64,
        /// For the I/O.
        session: Session,
        /// Of the lender.
        incarnation: u64,
    },
    /// This record is committed.
    Committed(Record),
    /// The pool has another owner: stop without responding to any client.
    Stop,
    /// The pool is released: other heads may open it without a fence.
    Closed,
    /// Notify the operator.
    Notify(Notice),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fence {
    None,
    Requested(MemberId, u32),
    Confirmed(MemberId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Reading(Reading),
    Fencing(Fencing),
    Claiming(Claiming),
    Admitting(Admitting),
    Term(Box<Term>),
}

/// The state of one head for one pool. It is volatile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    boot: u64,
    requested: u32,
    /// Responses with smaller numbers predate a freeze, or a record with other life numbers.
    oldest: u32,
    /// Two heads: the newest record that the other head sent to this boot. While there is one, this head receives every
    /// change: the other head cannot commit without it, or without a fence that terminates this boot.
    received: Option<Record>,
    fence: Fence,
    fence_number: u32,
    phase: Phase,
}

type Actions = Vec<Action>;

impl Owner {
    /// The state after the start of the host. `boot` never repeats.
    ///
    /// A new one is needed whenever the host starts, and allowed whenever the process starts.
    pub fn new(boot: u64) -> Self {
        Self {
            boot,
            requested: 0,
            oldest: 0,
            received: None,
            fence: Fence::None,
            fence_number: 0,
            phase: Phase::Idle,
        }
    }

    /// The tag of reads that no opening depends on.
    pub fn listening_tag(&self) -> Tag {
        Tag {
            boot: self.boot,
            number: self.oldest,
        }
    }

    /// Whether this head owns the pool or has proposed a record as its owner.
    pub fn has_term(&self) -> bool {
        matches!(self.phase, Phase::Term(_))
    }

    /// The step of the opening. Time-outs of one step do not apply to the next.
    pub fn opening_step(&self) -> u32 {
        match self.phase {
            Phase::Idle => 0,
            Phase::Reading(_) => 1,
            Phase::Fencing(_) => 2,
            Phase::Claiming(_) => 3,
            Phase::Admitting(_) => 4,
            Phase::Term(_) => 5,
        }
    }

    /// Whether no opening and no term is in progress.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Two heads: the newest record that the other one named to this boot.
    #[cfg(test)]
    pub(super) fn received_record(&self) -> Option<&Record> {
        self.received.as_ref()
    }

    /// Whether a response may still have an effect.
    #[cfg(test)]
    pub(super) fn awaits(&self, config: &Config, response: &Response) -> bool {
        match (response, &self.phase) {
            (Response::Known(tag, _), Phase::Reading(_)) => self.is_of_use(*tag),
            (Response::Known(tag, _), _) => self.is_of_use(*tag) && config.other_head().is_some(),
            (
                Response::Promised { ballot, .. } | Response::Serves(ballot),
                Phase::Claiming(one),
            ) => one.ballot() == *ballot,
            (Response::StateLost(tag, _), Phase::Term(_)) => self.is_of_use(*tag),
            (Response::Refused { requested, .. }, Phase::Claiming(one)) => {
                one.ballot() == *requested
            }
            (Response::Refused { requested, .. }, Phase::Term(one)) => one.ballot() == *requested,
            (Response::Accepted(ballot, version), Phase::Term(one)) => {
                one.awaits(*ballot, *version)
            }
            _ => false,
        }
    }

    /// Whether a change of members is requested or in progress: then `Look` is due repeatedly.
    pub fn changes_members(&self) -> bool {
        matches!(&self.phase, Phase::Term(one) if one.is_changing())
    }

    /// Whether the read of this tag is of use.
    #[cfg(test)]
    pub(super) fn reads(&self, tag: Tag) -> bool {
        self.is_of_use(tag)
    }

    /// Whether a claim or a term of that ballot is under way here.
    #[cfg(test)]
    pub(super) fn claims(&self, ballot: super::record::Ballot) -> bool {
        match &self.phase {
            Phase::Admitting(one) => one.ballot() == ballot,
            Phase::Term(term) => term.ballot() == ballot,
            _ => false,
        }
    }

    /// Handles an event. `own`: the durable state of this head's own member.
    pub fn handle(&mut self, config: &Config, own: &MemberState, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.take(config, own, event, &mut actions);
        actions
    }

    fn take(&mut self, config: &Config, own: &MemberState, event: Event, out: &mut Actions) {
        let ruled = config.by(own.accepted.as_ref());
        let config = &*ruled;
        match event {
            Event::Open { nonce, word } if self.is_idle() => self.open(config, nonce, word, out),
            Event::Open { .. } => {}
            Event::Listen => self.listen(config, out),
            Event::Look => self.look(config, out),
            Event::Received(head) => self.on_contact(config, head, out),
            Event::Thawed if holds(Rule::FreezesAreNoticed) => self.on_thaw(config, out),
            Event::Thawed => {}
            Event::Responded(from, response) => self.on_response(config, own, from, response, out),
            Event::Lent(disk, response) => self.on_lent(config, own, disk, response, out),
            Event::Fenced(number) => self.on_fence(config, own, number, true, out),
            Event::FenceFailed(number) => self.on_fence(config, own, number, false, out),
            Event::Deadline if self.has_term() => {
                if let Some(head) = self.in_term(config, out, Term::on_deadline).flatten() {
                    self.request_vote(head, out);
                }
            }
            Event::Deadline => self.on_opening_deadline(config, own, out),
            Event::Abandoned if self.has_term() => {}
            Event::Abandoned => self.give_up_opening(out),
            Event::Imported
            | Event::LegFailed { .. }
            | Event::ReadFailed(_)
            | Event::LegUsable(_)
            | Event::LinkLost { .. }
            | Event::LegReturned { .. }
            | Event::Returned { .. }
            | Event::ReturnFailed(..)
            | Event::Discard(_)
            | Event::Members { .. }
            | Event::MembersStay
            | Event::Exported => {
                self.in_term(config, out, |term, step| term.take(step, event));
            }
        }
    }

    /// The replacement for the vote of the other one of two heads.
    fn vote_substitute(&self, config: &Config) -> VoteSubstitute {
        let other = config.other_head();
        VoteSubstitute {
            is_other_fenced: other.is_some_and(|head| self.fence == Fence::Confirmed(head)),
            is_sole: false,
        }
    }

    /// Runs `body` on the term, if there is one, and drops the term if it is over.
    fn in_term<T>(
        &mut self,
        config: &Config,
        out: &mut Actions,
        body: impl FnOnce(&mut Term, &mut term::Step<'_>) -> T,
    ) -> Option<T> {
        let fence = self.vote_substitute(config);
        let Phase::Term(term) = &mut self.phase else {
            return None;
        };
        let mut step = term::Step { config, fence, out };
        let lives = term.lives().clone();
        let outcome = body(term, &mut step);
        term.advance(&mut step);
        if *term.lives() != lives && holds(Rule::LivesAreAnnouncedAgain) {
            self.requested += 1;
            self.oldest = self.requested;
        }
        if term.is_over() {
            self.phase = Phase::Idle;
        }
        Some(outcome)
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Actions) {
        self.give_up_opening(out);
        out.push(Action::Notify(Notice::Refused(refusal)));
    }

    fn give_up_opening(&mut self, out: &mut Actions) {
        if let Phase::Claiming(claiming) = std::mem::replace(&mut self.phase, Phase::Idle) {
            claiming.withdraw(out);
        }
    }

    fn next_tag(&mut self) -> Tag {
        self.requested += 1;
        Tag {
            boot: self.boot,
            number: self.requested,
        }
    }

    /// Whether the request was sent by this boot, and after its last freeze.
    fn is_of_use(&self, tag: Tag) -> bool {
        tag.boot == self.boot && tag.number >= self.oldest
    }

    fn listen(&mut self, config: &Config, out: &mut Actions) {
        if let (Some(other), true) = (config.other_of_two(), self.is_idle()) {
            out.push(Action::Request(other, Request::Read(self.listening_tag())));
        }
    }

    /// An owner does not need the state of the members. It needs to detect that one has lost its state.
    fn look(&mut self, config: &Config, out: &mut Actions) {
        let is_by_quorum = config.other_of_two().is_none();
        if self.has_term() && is_by_quorum {
            for member in config.members() {
                out.push(Action::Request(member, Request::Read(self.listening_tag())));
            }
        }
        let tag = self.listening_tag();
        self.in_term(config, out, |term, step| term.request_change(step, tag));
    }

    /// As after a boot, except in a term: the members decide whether it is over.
    fn on_thaw(&mut self, config: &Config, out: &mut Actions) {
        self.requested += 1;
        self.oldest = self.requested;
        self.received = None;
        self.fence = Fence::None;
        match &self.phase {
            Phase::Idle => {}
            Phase::Term(_) => {
                self.in_term(config, out, |term, step| term.query_whether_over(step));
            }
            // No decision depends on the reads yet: repeat them.
            Phase::Reading(reading) => {
                let (nonce, word) = reading.desired();
                self.open(config, nonce, word, out);
            }
            _ => self.refuse(Refusal::Changed, out),
        }
    }

    fn order_fence(&mut self, head: MemberId, out: &mut Actions) -> u32 {
        self.fence_number += 1;
        self.fence = Fence::Requested(head, self.fence_number);
        out.push(Action::Fence(head, self.fence_number));
        self.fence_number
    }

    fn request_vote(&mut self, head: MemberId, out: &mut Actions) {
        if !matches!(self.fence, Fence::Requested(..)) {
            self.order_fence(head, out);
        }
    }

    /// A head that sends messages is not off, even if its fence was confirmed: it may have started since, and it may
    /// consider the state that it receives now the newest.
    fn on_contact(&mut self, config: &Config, head: MemberId, out: &mut Actions) {
        // With three members a fence is no vote, and only proves the stop of an owner during the opening. The rule may
        // change later.
        let is_vote = config.other_of_two().is_some() || self.has_term();
        let is_of_it =
            matches!(self.fence, Fence::Requested(of, _) | Fence::Confirmed(of) if of == head);
        if !is_of_it || !is_vote || !holds(Rule::FenceExpiresOnContact) {
            return;
        }
        if matches!(self.phase, Phase::Fencing(_) | Phase::Claiming(_)) {
            self.refuse(Refusal::Changed, out);
        }
        self.fence = Fence::None;
    }

    fn on_fence(
        &mut self,
        config: &Config,
        own: &MemberState,
        number: u32,
        is_off: bool,
        out: &mut Actions,
    ) {
        let Fence::Requested(head, requested) = self.fence else {
            return;
        };
        if requested != number {
            return;
        }
        self.fence = match is_off {
            true => Fence::Confirmed(head),
            false => Fence::None,
        };
        if matches!(self.phase, Phase::Fencing(_)) {
            return self.after_fence(config, own, head, is_off, out);
        }
        self.in_term(config, out, |term, step| term.on_fence(step, is_off));
    }

    fn on_response(
        &mut self,
        config: &Config,
        own: &MemberState,
        from: MemberId,
        response: Response,
        out: &mut Actions,
    ) {
        match response {
            Response::Known(tag, memory) => self.on_known(config, own, from, tag, memory, out),
            Response::Promised {
                ballot,
                record,
                life,
            } => {
                let promise = Promise { record, life };
                self.on_promise(config, own, from, ballot, promise, out);
            }
            Response::Serves(ballot) => self.on_serves(from, ballot, out),
            Response::Accepted(ballot, version) => {
                self.in_term(config, out, |term, step| {
                    term.on_accepted(step, from, ballot, version);
                });
            }
            Response::Refused {
                requested,
                promised,
            } => {
                self.on_outbid(requested, out);
                self.in_term(config, out, |term, step| {
                    term.on_refused(step, from, requested, promised);
                });
            }
            Response::StateLost(tag, life) if self.is_of_use(tag) => {
                self.in_term(config, out, |term, step| {
                    term.on_state_lost(step, from, life);
                });
            }
            Response::StateLost(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ballot, LegGroup, Membership};

    const ME: MemberId = MemberId(1);
    const OTHER: MemberId = MemberId(2);

    fn two_heads() -> Config {
        Config {
            me: ME,
            pool: 7,
            membership: Membership::TwoHeads([ME, OTHER]),
            groups: vec![LegGroup {
                lenders: [(DiskId(11), ME), (DiskId(22), OTHER)].into(),
                needed: 1,
            }],
        }
    }

    /// A head that opens the pool, after both members have sent that state, and its last actions.
    fn opened(config: &Config, own: &MemberState) -> (Owner, Vec<Action>) {
        let mut owner = Owner::new(9);
        let open = Event::Open {
            nonce: 1,
            word: None,
        };
        let mut actions = owner.handle(config, own, open);
        let Some(Action::Request(_, Request::Read(tag))) = actions.first().cloned() else {
            panic!("{actions:?}");
        };
        for member in [ME, OTHER] {
            let known = Response::Known(tag, own.clone());
            actions = owner.handle(config, own, Event::Responded(member, known));
        }
        (owner, actions)
    }

    /// The owner with the earlier promises continues.
    #[test]
    fn abandoned_claim_is_withdrawn_at_all_members() {
        let config = two_heads();
        let mut record = Record::new(7, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.ballot.epoch = 3;
        let own = MemberState::new(record);
        let (mut owner, _) = opened(&config, &own);
        assert!(matches!(owner.phase, Phase::Claiming(_)));
        let given_back = owner.handle(&config, &own, Event::Abandoned);
        let ballot = Ballot { epoch: 4, nonce: 1 };
        let withdrawn = |member| Action::Request(member, Request::Withdraw(ballot));
        assert_eq!(given_back, [ME, OTHER].map(withdrawn));
        assert!(owner.is_idle());
        let nothing = owner.handle(&config, &own, Event::Abandoned);
        assert_eq!(nothing, [], "said again");
    }

    /// A group was added on the other head. This head has the earlier file: it would exclude the whole group.
    #[test]
    fn head_with_earlier_configuration_claims_and_proposes_nothing() {
        let disks = |disks: &[u64]| -> std::collections::BTreeSet<DiskId> {
            disks.iter().map(|disk| DiskId(*disk)).collect()
        };
        let mut record = Record::new(7, Ballot::default(), disks(&[11, 22, 33, 44]));
        record.owner = Some(OTHER);
        let refused = Action::Notify(Notice::Refused(Refusal::Unlisted {
            disks: disks(&[33, 44]),
            owner: Some(OTHER),
        }));
        let actions = |record| opened(&two_heads(), &MemberState::new(record)).1;
        assert_eq!(actions(record), [refused]);
        // The addition is on record, and the group has not joined: the pool has no data there.
        let mut record = Record::new(7, Ballot::default(), disks(&[11, 22]));
        record.give_up(DiskId(33));
        let claims = actions(record);
        let is_claim =
            |action: &Action| matches!(action, Action::Request(_, Request::Claim { .. }));
        assert!(
            claims.iter().all(is_claim) && claims.len() == 2,
            "{claims:?}"
        );
    }

    /// The group joins after the record was read: the claim is withdrawn.
    #[test]
    fn claim_is_withdrawn_if_a_promise_names_an_unlisted_disk() {
        let config = two_heads();
        let mut record = Record::new(7, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.ballot.epoch = 3;
        let own = MemberState::new(record.clone());
        let (mut owner, _) = opened(&config, &own);
        let mut later = record.clone();
        later.sequence += 1;
        later.current.insert(DiskId(33), Session::default());
        let ballot = Ballot { epoch: 4, nonce: 1 };
        let mut actions = Vec::new();
        for (member, record) in [(ME, record), (OTHER, later)] {
            let promised = Response::Promised {
                ballot,
                record: Some(record),
                life: 0,
            };
            actions = owner.handle(&config, &own, Event::Responded(member, promised));
        }
        let withdrawn = |member| Action::Request(member, Request::Withdraw(ballot));
        let refused = Action::Notify(Notice::Refused(Refusal::Unlisted {
            disks: [DiskId(33)].into(),
            owner: None,
        }));
        assert_eq!(actions, [withdrawn(ME), withdrawn(OTHER), refused]);
        assert!(owner.is_idle());
    }

    /// The member of this head is starting at the same time, which is handled as a freeze.
    #[test]
    fn freeze_while_reading_members_restarts_the_read() {
        let (config, own) = (two_heads(), MemberState::default());
        let mut owner = Owner::new(9);
        let open = Event::Open {
            nonce: 1,
            word: None,
        };
        let first = owner.handle(&config, &own, open);
        let again = owner.handle(&config, &own, Event::Thawed);
        let requested = |actions: &[Action]| {
            let tags = actions.iter().map(|action| match action {
                Action::Request(member, Request::Read(tag)) => (*member, tag.number),
                other => panic!("{other:?}"),
            });
            tags.collect::<Vec<_>>()
        };
        let (first, again) = (requested(&first), requested(&again));
        assert_eq!(first.len(), 2);
        assert_eq!(again.len(), 2);
        assert!(again[0].1 > first[0].1, "earlier responses do not count");
    }
}
