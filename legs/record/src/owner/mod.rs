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

use super::lender::{LenderAnswer, LenderRequest};
use super::member::{Answer, Memory, Request, Tag};
use super::membership::{Config, Membership, StandIn};
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
    Heard(MemberId),
    /// This head was frozen, so that other heads may have considered it off. Comes before all later
    /// events.
    Thawed,
    /// A member answered.
    Answered(MemberId, Answer),
    /// A lender answered.
    Lent(DiskId, LenderAnswer),
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
    LegBack {
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
        wish: Membership,
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
    Ask(MemberId, Request),
    /// Send this to the lender of a disk; this head may be it.
    AskLender(DiskId, LenderRequest),
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
    /// Tell the operator.
    Tell(Notice),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fence {
    None,
    Asked(MemberId, u32),
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
    asked: u32,
    /// Responses with smaller numbers predate a freeze, or a record with other life numbers.
    oldest: u32,
    /// Two heads: the newest record that the other head sent to this boot. While there is one, this head receives every
    /// change: the other head cannot commit without it, or without a fence that terminates this boot.
    heard: Option<Record>,
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
            asked: 0,
            oldest: 0,
            heard: None,
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
    pub(super) fn heard_record(&self) -> Option<&Record> {
        self.heard.as_ref()
    }

    /// Whether a response may still have an effect.
    #[cfg(test)]
    pub(super) fn awaits(&self, config: &Config, answer: &Answer) -> bool {
        match (answer, &self.phase) {
            (Answer::Known(tag, _), Phase::Reading(_)) => self.is_of_use(*tag),
            (Answer::Known(tag, _), _) => self.is_of_use(*tag) && config.other_head().is_some(),
            (Answer::Promised { ballot, .. } | Answer::Serves(ballot), Phase::Claiming(one)) => {
                one.ballot() == *ballot
            }
            (Answer::Forgot(tag, _), Phase::Term(_)) => self.is_of_use(*tag),
            (Answer::Refused { asked, .. }, Phase::Claiming(one)) => one.ballot() == *asked,
            (Answer::Refused { asked, .. }, Phase::Term(one)) => one.ballot() == *asked,
            (Answer::Accepted(ballot, version), Phase::Term(one)) => one.awaits(*ballot, *version),
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
    pub fn handle(&mut self, config: &Config, own: &Memory, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.take(config, own, event, &mut actions);
        actions
    }

    fn take(&mut self, config: &Config, own: &Memory, event: Event, out: &mut Actions) {
        let ruled = config.by(own.accepted.as_ref());
        let config = &*ruled;
        match event {
            Event::Open { nonce, word } if self.is_idle() => self.open(config, nonce, word, out),
            Event::Open { .. } => {}
            Event::Listen => self.listen(config, out),
            Event::Look => self.look(config, out),
            Event::Heard(head) => self.on_heard(config, head, out),
            Event::Thawed if holds(Rule::FreezesAreNoticed) => self.on_thaw(config, out),
            Event::Thawed => {}
            Event::Answered(from, answer) => self.on_answer(config, own, from, answer, out),
            Event::Lent(disk, answer) => self.on_lent(config, own, disk, answer, out),
            Event::Fenced(number) => self.on_fence(config, own, number, true, out),
            Event::FenceFailed(number) => self.on_fence(config, own, number, false, out),
            Event::Deadline if self.has_term() => {
                if let Some(head) = self.in_term(config, out, Term::on_deadline).flatten() {
                    self.ask_for_vote(head, out);
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
            | Event::LegBack { .. }
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
    fn stand_in(&self, config: &Config) -> StandIn {
        let other = config.other_head();
        StandIn {
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
        let fence = self.stand_in(config);
        let Phase::Term(term) = &mut self.phase else {
            return None;
        };
        let mut step = term::Step { config, fence, out };
        let lives = term.lives().clone();
        let outcome = body(term, &mut step);
        term.advance(&mut step);
        if *term.lives() != lives && holds(Rule::LivesAreToldAnew) {
            self.asked += 1;
            self.oldest = self.asked;
        }
        if term.is_over() {
            self.phase = Phase::Idle;
        }
        Some(outcome)
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Actions) {
        self.give_up_opening(out);
        out.push(Action::Tell(Notice::Refused(refusal)));
    }

    fn give_up_opening(&mut self, out: &mut Actions) {
        if let Phase::Claiming(claiming) = std::mem::replace(&mut self.phase, Phase::Idle) {
            claiming.withdraw(out);
        }
    }

    fn next_tag(&mut self) -> Tag {
        self.asked += 1;
        Tag {
            boot: self.boot,
            number: self.asked,
        }
    }

    /// Whether the request was sent by this boot, and after its last freeze.
    fn is_of_use(&self, tag: Tag) -> bool {
        tag.boot == self.boot && tag.number >= self.oldest
    }

    fn listen(&mut self, config: &Config, out: &mut Actions) {
        if let (Some(other), true) = (config.other_of_two(), self.is_idle()) {
            out.push(Action::Ask(other, Request::Read(self.listening_tag())));
        }
    }

    /// An owner does not need the state of the members. It needs to detect that one has lost its state.
    fn look(&mut self, config: &Config, out: &mut Actions) {
        let is_by_quorum = config.other_of_two().is_none();
        if self.has_term() && is_by_quorum {
            for member in config.members() {
                out.push(Action::Ask(member, Request::Read(self.listening_tag())));
            }
        }
        let tag = self.listening_tag();
        self.in_term(config, out, |term, step| term.ask_for_change(step, tag));
    }

    /// As after a boot, except in a term: the members decide whether it is over.
    fn on_thaw(&mut self, config: &Config, out: &mut Actions) {
        self.asked += 1;
        self.oldest = self.asked;
        self.heard = None;
        self.fence = Fence::None;
        match &self.phase {
            Phase::Idle => {}
            Phase::Term(_) => {
                self.in_term(config, out, |term, step| term.ask_whether_over(step));
            }
            // No decision depends on the reads yet: repeat them.
            Phase::Reading(reading) => {
                let (nonce, word) = reading.wish();
                self.open(config, nonce, word, out);
            }
            _ => self.refuse(Refusal::Changed, out),
        }
    }

    fn ask_for_fence(&mut self, head: MemberId, out: &mut Actions) -> u32 {
        self.fence_number += 1;
        self.fence = Fence::Asked(head, self.fence_number);
        out.push(Action::Fence(head, self.fence_number));
        self.fence_number
    }

    fn ask_for_vote(&mut self, head: MemberId, out: &mut Actions) {
        if !matches!(self.fence, Fence::Asked(..)) {
            self.ask_for_fence(head, out);
        }
    }

    /// A head that sends messages is not off, even if its fence was confirmed: it may have started since, and it may
    /// consider the state that it receives now the newest.
    fn on_heard(&mut self, config: &Config, head: MemberId, out: &mut Actions) {
        // With three members a fence is no vote, and only proves the stop of an owner during the opening. The rule may
        // change later.
        let is_vote = config.other_of_two().is_some() || self.has_term();
        let is_of_it =
            matches!(self.fence, Fence::Asked(of, _) | Fence::Confirmed(of) if of == head);
        if !is_of_it || !is_vote || !holds(Rule::FenceEndsWhenHeard) {
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
        own: &Memory,
        number: u32,
        is_off: bool,
        out: &mut Actions,
    ) {
        let Fence::Asked(head, asked) = self.fence else {
            return;
        };
        if asked != number {
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

    fn on_answer(
        &mut self,
        config: &Config,
        own: &Memory,
        from: MemberId,
        answer: Answer,
        out: &mut Actions,
    ) {
        match answer {
            Answer::Known(tag, memory) => self.on_known(config, own, from, tag, memory, out),
            Answer::Promised {
                ballot,
                record,
                life,
            } => {
                let promise = Promise { record, life };
                self.on_promise(config, own, from, ballot, promise, out);
            }
            Answer::Serves(ballot) => self.on_serves(from, ballot, out),
            Answer::Accepted(ballot, version) => {
                self.in_term(config, out, |term, step| {
                    term.on_accepted(step, from, ballot, version);
                });
            }
            Answer::Refused { asked, promised } => {
                self.on_outbid(asked, out);
                self.in_term(config, out, |term, step| {
                    term.on_refused(step, from, asked, promised);
                });
            }
            Answer::Forgot(tag, life) if self.is_of_use(tag) => {
                self.in_term(config, out, |term, step| {
                    term.on_forgot(step, from, life);
                });
            }
            Answer::Forgot(..) => {}
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

    /// The owner with the earlier promises continues.
    #[test]
    fn a_claim_that_is_abandoned_is_withdrawn_wherever_it_was_made() {
        let config = two_heads();
        let mut record = Record::new(7, Ballot::default(), [DiskId(11), DiskId(22)]);
        record.ballot.epoch = 3;
        let own = Memory::new(record);
        let mut owner = Owner::new(9);
        let open = Event::Open {
            nonce: 1,
            word: None,
        };
        let asked = owner.handle(&config, &own, open);
        let Some(Action::Ask(_, Request::Read(tag))) = asked.first().cloned() else {
            panic!("{asked:?}");
        };
        for member in [ME, OTHER] {
            let known = Answer::Known(tag, own.clone());
            owner.handle(&config, &own, Event::Answered(member, known));
        }
        assert!(matches!(owner.phase, Phase::Claiming(_)));
        let given_back = owner.handle(&config, &own, Event::Abandoned);
        let ballot = Ballot { epoch: 4, nonce: 1 };
        let withdrawn = |member| Action::Ask(member, Request::Withdraw(ballot));
        assert_eq!(given_back, [ME, OTHER].map(withdrawn));
        assert!(owner.is_idle());
        let nothing = owner.handle(&config, &own, Event::Abandoned);
        assert_eq!(nothing, [], "said again");
    }

    /// The member of this head is starting at the same time, which is handled as a freeze.
    #[test]
    fn a_freeze_while_members_are_read_has_them_read_anew() {
        let (config, own) = (two_heads(), Memory::default());
        let mut owner = Owner::new(9);
        let open = Event::Open {
            nonce: 1,
            word: None,
        };
        let first = owner.handle(&config, &own, open);
        let again = owner.handle(&config, &own, Event::Thawed);
        let asked = |actions: &[Action]| {
            let tags = actions.iter().map(|action| match action {
                Action::Ask(member, Request::Read(tag)) => (*member, tag.number),
                other => panic!("{other:?}"),
            });
            tags.collect::<Vec<_>>()
        };
        let (first, again) = (asked(&first), asked(&again));
        assert_eq!(first.len(), 2);
        assert_eq!(again.len(), 2);
        assert!(again[0].1 > first[0].1, "earlier responses do not count");
    }
}
