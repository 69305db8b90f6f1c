//! The head that owns a pool, or wants to: events in, actions out.
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

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The cluster wants the pool to be served here. `nonce`: random.
    Open {
        /// For the term that may come of it.
        nonce: u64,
        /// Two heads: a person's word that the other head is off and has nothing newer than this record.
        word: Option<Version>,
    },
    /// Two heads: time to ask the other one what it knows. Does no harm at any time.
    Listen,
    /// Three members: time to ask all of them whether they lost what they remembered. Does no harm at any time.
    Look,
    /// Something arrived from another head, of whatever kind. Given before that itself is.
    Heard(MemberId),
    /// This head did not run for a while, so that others may have taken it for one that is off. Given before anything else that
    /// happens afterwards.
    Thawed,
    /// A member answered.
    Answered(MemberId, Answer),
    /// A lender answered.
    Lent(DiskId, LenderAnswer),
    /// The fence of this number is confirmed: the head was off at a moment after it was asked for.
    Fenced(u32),
    /// The fence of this number failed.
    FenceFailed(u32),
    /// What is waited for has had its time.
    Deadline,
    /// The pool is open, and its first transaction group is on all legs.
    Imported,
    /// A leg failed I/O or a flush, or passed a deadline. Its errors are withheld from now on.
    LegFailed {
        /// Which.
        disk: DiskId,
        /// The last root that a flush confirmed there, by its transaction group; none since it came.
        flushed: Option<u64>,
    },
    /// A read of a leg failed or returned wrong data. The leg lacks no write for it: its group needs the other copies.
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
    /// A disk that is not in use answers again.
    LegBack {
        /// Which.
        disk: DiskId,
        /// The newest transaction group of the pool.
        newest_group: u64,
    },
    /// The resilver of a disk has come to an end.
    Returned {
        /// Which.
        disk: DiskId,
        /// By which it was written. Of an earlier one it says nothing: the disk may have been away since.
        session: Session,
        /// What it holds.
        completeness: Completeness,
    },
    /// The resilver of a disk that this session wrote failed.
    ReturnFailed(DiskId, Session),
    /// A person said that what is on a disk that is not current may be overwritten: a divergent or a stale one, one that took the
    /// place of such a disk, or one that the record does not name, which is the pool's from then on.
    Discard(DiskId),
    /// These members are wanted instead of those of the record: a witness or a third head is added to two heads, or a witness is one no
    /// more. Does no harm when it is said again, which a change that was taken back needs. `life`: random, not 0, of who comes.
    Members {
        /// Who shall remember.
        wish: Membership,
        /// In which the one counts that comes.
        life: u64,
    },
    /// Nobody waits for other members any more. A change that is on its way comes to its end.
    MembersStay,
    /// Who wanted the pool to be served here found a reason against it, before there is a term.
    Abandoned,
    /// The pool is exported.
    Exported,
}

/// What is known of a disk whose resilver ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completeness {
    /// Its DTL is empty.
    pub lacks_nothing: bool,
    /// Transaction groups were synced since.
    pub are_groups_synced: bool,
    /// And a flush after them is confirmed.
    pub is_flushed: bool,
    /// The last of these groups that has a root, which is on the disk. The root before was written after all was copied, too.
    pub group: u64,
}

impl Completeness {
    /// Whether the leg holds everything.
    pub fn is_whole(&self) -> bool {
        self.lacks_nothing && self.are_groups_synced && self.is_flushed
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this to a member; this head is one.
    Ask(MemberId, Request),
    /// Send this to the lender of a disk; this head may be it.
    AskLender(DiskId, LenderRequest),
    /// Power a head off, and report under this number. Asked for before, it has to be done again.
    Fence(MemberId, u32),
    /// Open the pool with these legs only.
    Import {
        /// Sessions, with incarnations, of the legs that hold everything.
        legs: BTreeMap<DiskId, (Session, u64)>,
        /// What others lack, from which group on.
        lacking: BTreeMap<DiskId, u64>,
    },
    /// The errors of this leg may be told to ZFS, and those that come.
    ReleaseErrors(DiskId),
    /// This leg is in use again, and its pending I/O is sent to it.
    UseAgain(DiskId),
    /// Another disk of its group has damaged blocks, so this stale disk is needed: check at once whether it is back.
    Recall(DiskId),
    /// Send again what was not answered.
    Resume(DiskId, Session),
    /// Write to this disk, and copy what it lacks from this group on.
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
    /// The pool has another owner: end without an answer to anybody.
    Stop,
    /// The pool is given up for others to take without a fence.
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

/// The state of one head and one pool. Lost with the process; nothing here has to outlive it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    boot: u64,
    asked: u32,
    /// Answers to questions with smaller numbers came from before a freeze, or before a record named other lives.
    oldest: u32,
    /// Two heads: the newest record that the other head named to this boot. While there is one, this head knows of every
    /// change: the other head cannot commit without it, or without a fence that ends this boot.
    heard: Option<Record>,
    fence: Fence,
    fence_number: u32,
    phase: Phase,
}

type Actions = Vec<Action>;

impl Owner {
    /// After the start of the machine. `boot` never repeats.
    ///
    /// It has to be made anew whenever the machine starts, and may be made anew with the process.
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

    /// What members are asked with that nobody waits for.
    pub fn listening_tag(&self) -> Tag {
        Tag {
            boot: self.boot,
            number: self.oldest,
        }
    }

    /// Whether this head has the pool, or is about to: it has proposed a record of its own.
    pub fn has_term(&self) -> bool {
        matches!(self.phase, Phase::Term(_))
    }

    /// Which step of an opening it takes. What is waited for in one says nothing of the next.
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

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Two heads: the newest record that the other one named to this boot.
    #[cfg(test)]
    pub(super) fn heard_record(&self) -> Option<&Record> {
        self.heard.as_ref()
    }

    /// Whether an answer may still mean something here.
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

    /// Whether other members are wanted, or on their way: then it is time to look, again and again.
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

    /// Takes an event. `own`: what this head's own member has on stable storage now.
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

    /// What stands in for the vote of the other one of two heads.
    fn stand_in(&self, config: &Config) -> StandIn {
        let other = config.other_head();
        StandIn {
            is_other_fenced: other.is_some_and(|head| self.fence == Fence::Confirmed(head)),
            is_sole: false,
        }
    }

    /// Runs `body` on the term, if there is one, and ends it if that says so.
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

    /// Whether the answer to that question was given to this boot, and after its last freeze.
    fn is_of_use(&self, tag: Tag) -> bool {
        tag.boot == self.boot && tag.number >= self.oldest
    }

    fn listen(&mut self, config: &Config, out: &mut Actions) {
        if let (Some(other), true) = (config.other_of_two(), self.is_idle()) {
            out.push(Action::Ask(other, Request::Read(self.listening_tag())));
        }
    }

    /// What members remember is of no use to an owner. That one remembers nothing is.
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

    /// As after a boot, but for a term: it may be over, and the members know.
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
            // Nothing follows yet from what was read.
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

    /// A head that is heard is not off, whatever was confirmed of it: it may have started since, and it may
    /// take what it is told now for the newest.
    fn on_heard(&mut self, config: &Config, head: MemberId, out: &mut Actions) {
        // Elsewhere a fence is no vote, and proves the stop of an owner while the pool is being opened. The rule may change later.
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

    /// An owner that was promised to before goes on.
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

    /// The member of this head is being started beside it, which is a freeze for whoever looks on.
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
        assert!(
            again[0].1 > first[0].1,
            "what was answered before is not believed"
        );
    }
}
