//! The opening of a pool, from the start of a candidate to the proposal of the first record of a term.

use super::term::{Leg, Term};
use super::{Action, Actions, Fence, Owner, Phase};
use crate::lender::{LenderRequest, LenderResponse, Observed};
use crate::member::{MemberState, Request, Tag};
use crate::membership::{Config, LegGroup, VoteSubstitute};
use crate::record::{Ballot, DiskId, MemberId, MissingData, Record, Roots, Session, Version};
use crate::refusal::{Newer, Refusal};
use crate::rules::{Rule, holds};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    nonce: u64,
    word: Option<Version>,
    tag: Tag,
    responses: BTreeMap<MemberId, MemberState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fencing {
    reading: Reading,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claiming {
    ballot: Ballot,
    judged: Record,
    /// The owner in the judged record is off, by a fence after the record was read, or by a confirmation.
    is_owner_off: bool,
    has_word: bool,
    /// Members that received the claim. The last owner's member comes first, the rest after its promise.
    requested: BTreeSet<MemberId>,
    promises: BTreeMap<MemberId, Promise>,
}

/// State of a member that promised, and its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    pub(super) record: Option<Record>,
    pub(super) life: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Admitting {
    ballot: Ballot,
    base: Record,
    admitted: BTreeMap<DiskId, Observed>,
    waiting: BTreeSet<DiskId>,
}

/// The decision after reading the members.
enum Judgement {
    Claim { newest: Record, is_owner_off: bool },
    Fence(MemberId),
    Refuse(Refusal),
}

impl Owner {
    pub(super) fn open(
        &mut self,
        config: &Config,
        nonce: u64,
        word: Option<Version>,
        out: &mut Actions,
    ) {
        self.fence = Fence::None;
        let tag = self.next_tag();
        for member in config.members() {
            out.push(Action::Request(member, Request::Read(tag)));
        }
        self.phase = Phase::Reading(Reading {
            nonce,
            word,
            tag,
            responses: BTreeMap::new(),
        });
    }

    pub(super) fn on_known(
        &mut self,
        config: &Config,
        own: &MemberState,
        from: MemberId,
        tag: Tag,
        memory: MemberState,
        out: &mut Actions,
    ) {
        if !self.is_of_use(tag) && holds(Rule::ResponsesOfThisBoot) {
            return;
        }
        if config.other_of_two() == Some(from) {
            let known = memory.accepted.clone();
            self.received = match (self.received.take(), known) {
                (Some(before), Some(now)) => Some(before.newer(now)),
                (before, now) => before.or(now),
            };
        }
        let Phase::Reading(reading) = &mut self.phase else {
            return;
        };
        if tag != reading.tag && holds(Rule::ResponsesOfThisBoot) {
            return;
        }
        reading.responses.insert(from, memory);
        if reading.responses.len() == config.members().len() {
            self.judge_responses(config, own, out);
        }
    }

    pub(super) fn on_opening_deadline(
        &mut self,
        config: &Config,
        own: &MemberState,
        out: &mut Actions,
    ) {
        match &self.phase {
            Phase::Idle | Phase::Term(_) => {}
            Phase::Reading(_) => self.judge_responses(config, own, out),
            Phase::Fencing(fencing) => {
                let owner = fencing.reading.owner(self.received.as_ref());
                let refusal = owner.map_or(Refusal::Changed, Refusal::OwnerUnconfirmed);
                self.refuse(refusal, out);
            }
            Phase::Claiming(claiming) => {
                let received = claiming.promises.keys().copied().collect();
                self.refuse(Refusal::NoQuorum { received }, out);
            }
            Phase::Admitting(_) => self.settle(config, own, out),
        }
    }

    fn judge_responses(&mut self, config: &Config, own: &MemberState, out: &mut Actions) {
        let Phase::Reading(reading) = &self.phase else {
            return;
        };
        let reading = reading.clone();
        self.judge(config, own, reading, out);
    }

    pub(super) fn after_fence(
        &mut self,
        config: &Config,
        own: &MemberState,
        head: MemberId,
        is_off: bool,
        out: &mut Actions,
    ) {
        let Phase::Fencing(fencing) = &self.phase else {
            return;
        };
        match is_off {
            true => self.judge(config, own, fencing.reading.clone(), out),
            false => self.refuse(Refusal::OwnerUnconfirmed(head), out),
        }
    }

    fn judge(&mut self, config: &Config, own: &MemberState, reading: Reading, out: &mut Actions) {
        match self.judgement(config, own, &reading) {
            Judgement::Refuse(refusal) => self.refuse(refusal, out),
            Judgement::Fence(head) => {
                self.order_fence(head, out);
                self.phase = Phase::Fencing(Fencing { reading });
            }
            Judgement::Claim {
                newest,
                is_owner_off,
            } => {
                if let (Some(head), Some(_)) = (config.other_of_two(), reading.word) {
                    self.fence = Fence::Confirmed(head);
                }
                self.claim(config, &reading, newest, is_owner_off, out);
            }
        }
    }

    fn judgement(&self, config: &Config, own: &MemberState, reading: &Reading) -> Judgement {
        let responded: BTreeSet<MemberId> = reading.responses.keys().copied().collect();
        let Some(newest) = reading.newest(self.received.as_ref()) else {
            return Judgement::Refuse(Refusal::NoRecord);
        };
        if !newest.names_head(config.me) && holds(Rule::HeadsOpenAsMembers) {
            return Judgement::Refuse(Refusal::NoMember);
        }
        let has_word = reading.word == Some(newest.version());
        let by = VoteSubstitute {
            is_other_fenced: self.is_sure() || has_word,
            is_sole: is_sole(config, own),
        };
        if !config.may_claim(&responded, by) {
            let known = Newer::of(config, &newest);
            return Judgement::Refuse(match config.other_of_two() {
                Some(head) => Refusal::OtherHeadUnresponsive { head, known },
                None => Refusal::NoQuorum {
                    received: responded,
                },
            });
        }
        // Before a fence, a claim and a record.
        if let Err(refusal) = are_listed(config, &newest) {
            return Judgement::Refuse(refusal);
        }
        let is_reached = |disk: &&DiskId| {
            let lender = config.lender(**disk);
            lender.is_some_and(|head| responded.contains(&head))
        };
        let reached = newest.current.keys().filter(is_reached).copied().collect();
        if !config.is_readable_by(&newest, &reached) && holds(Rule::OnlyCurrentLegs) {
            return Judgement::Refuse(Refusal::Stale(Newer::of(config, &newest)));
        }
        let silent = newest.owner.filter(|owner| !responded.contains(owner));
        let is_off = |head| self.fence == Fence::Confirmed(head) || has_word;
        // If the other one of two heads does not respond, its fence is its vote.
        let silent = match config.other_of_two() {
            Some(other) if !responded.contains(&other) && !by.is_sole => Some(other),
            _ => silent.filter(|_| holds(Rule::ProofOfTheStop)),
        };
        match silent {
            Some(head) if !is_off(head) => Judgement::Fence(head),
            _ => Judgement::Claim {
                is_owner_off: silent.is_some() && silent == newest.owner,
                newest,
            },
        }
    }

    /// Two heads: whether this boot has received the newest record, and receives every later one.
    fn is_sure(&self) -> bool {
        self.received.is_some() || !holds(Rule::UnsureAfterBoot)
    }

    fn claim(
        &mut self,
        config: &Config,
        reading: &Reading,
        newest: Record,
        is_owner_off: bool,
        out: &mut Actions,
    ) {
        let promised = reading.responses.values();
        let epochs = promised.map(|memory| memory.promised.epoch);
        let epoch = epochs
            .chain([newest.ballot.epoch])
            .max()
            .unwrap_or_default()
            .saturating_add(1);
        let ballot = Ballot {
            epoch,
            nonce: reading.nonce,
        };
        let members: BTreeSet<MemberId> = config.members().into_iter().collect();
        // If its head serves the pool, no other member must promise: its next record would terminate the owner.
        let is_alive =
            |owner: &MemberId| *owner != config.me && reading.responses.contains_key(owner);
        let first = newest
            .owner
            .filter(is_alive)
            .filter(|owner| members.contains(owner));
        let first = first.map_or_else(|| members.clone(), |owner| [owner].into());
        request_promises(config, ballot, &first, out);
        self.phase = Phase::Claiming(Claiming {
            ballot,
            judged: newest,
            is_owner_off,
            has_word: reading.word.is_some(),
            requested: first,
            promises: BTreeMap::new(),
        });
    }

    pub(super) fn on_promise(
        &mut self,
        config: &Config,
        own: &MemberState,
        from: MemberId,
        ballot: Ballot,
        promise: Promise,
        out: &mut Actions,
    ) {
        let (is_sure, mut by) = (self.is_sure(), self.vote_substitute(config));
        let Phase::Claiming(claiming) = &mut self.phase else {
            return;
        };
        if claiming.ballot != ballot {
            return;
        }
        claiming.promises.insert(from, promise);
        let members: BTreeSet<MemberId> = config.members().into_iter().collect();
        let unasked = &members - &claiming.requested;
        request_promises(config, ballot, &unasked, out);
        claiming.requested.extend(unasked);
        by.is_other_fenced &= is_sure || claiming.has_word;
        by.is_sole = is_sole(config, own);
        let newest = claiming.newest(self.received.as_ref());
        let promised = claiming.promised_beside(&by_own(config, own, newest.clone()));
        if config.may_claim(&promised, by) && claiming.is_owner_stopped(config, &promised) {
            let claiming = claiming.clone();
            self.begin_admission(config, own, &claiming, newest, out);
        }
    }

    fn begin_admission(
        &mut self,
        config: &Config,
        own: &MemberState,
        claiming: &Claiming,
        newest: Record,
        out: &mut Actions,
    ) {
        let mut base = newest;
        if !holds(Rule::NewestRecordOfTheQuorum) {
            base = own.accepted.clone().unwrap_or(base);
        }
        if base.ballot != claiming.judged.ballot && holds(Rule::ProofForOneTerm) {
            return self.refuse(Refusal::Changed, out);
        }
        // A group may have joined between the read of the record and the promise.
        if let Err(refusal) = are_listed(config, &base) {
            return self.refuse(refusal, out);
        }
        base = by_own(config, own, base);
        let session = Session {
            ballot: claiming.ballot,
            number: 1,
        };
        let mut waiting = base.current_disks();
        if !holds(Rule::OnlyCurrentLegs) {
            waiting.extend(base.stale.keys());
        }
        for disk in &waiting {
            let request = LenderRequest::Claim(session);
            out.push(Action::LenderRequest(*disk, request));
        }
        self.phase = Phase::Admitting(Admitting {
            ballot: claiming.ballot,
            base,
            admitted: BTreeMap::new(),
            waiting,
        });
    }

    pub(super) fn on_lent(
        &mut self,
        config: &Config,
        own: &MemberState,
        disk: DiskId,
        response: LenderResponse,
        out: &mut Actions,
    ) {
        let Phase::Admitting(admitting) = &mut self.phase else {
            self.in_term(config, out, |term, step| term.on_lent(step, disk, response));
            return;
        };
        let ballot = admitting.ballot;
        match response {
            LenderResponse::Admitted(session, seen) if session.ballot == ballot => {
                admitting.admitted.insert(disk, seen);
                admitting.waiting.remove(&disk);
            }
            LenderResponse::Refused(session) if session.ballot == ballot => {
                admitting.waiting.remove(&disk);
            }
            _ => return,
        }
        if admitting.waiting.is_empty() {
            self.settle(config, own, out);
        }
    }

    /// The lenders have responded or timed out: proposes the first record of the term.
    fn settle(&mut self, config: &Config, own: &MemberState, out: &mut Actions) {
        let Phase::Admitting(admitting) = &self.phase else {
            return;
        };
        let admitting = admitting.clone();
        let record = match admitting.first_record(config) {
            Ok(record) => record,
            Err(refusal) => return self.refuse(refusal, out),
        };
        let open_legs = record.current.keys().filter_map(|disk| {
            let seen = admitting.admitted.get(disk)?;
            let missing_data = admitting.missing_data_of(config, *disk);
            Some((*disk, Leg::current(seen.incarnation, missing_data)))
        });
        let legs = open_legs.collect();
        let is_base_sure = own.committed_record() == Some(&admitting.base);
        let term = Term::new(admitting.base, is_base_sure, legs, &config.membership);
        if config.other_of_two().is_none() {
            // The fence was a proof, and not a vote.
            self.fence = Fence::None;
        }
        self.phase = Phase::Term(Box::new(term));
        self.in_term(config, out, |term, step| term.propose(step, record));
    }

    pub(super) fn on_serves(&mut self, from: MemberId, ballot: Ballot, out: &mut Actions) {
        let is_asked = matches!(&self.phase, Phase::Claiming(one) if one.ballot == ballot);
        if is_asked {
            self.refuse(Refusal::OwnerLives(from), out);
        }
    }

    pub(super) fn on_outbid(&mut self, requested: Ballot, out: &mut Actions) {
        let is_asked = matches!(&self.phase, Phase::Claiming(one) if one.ballot == requested);
        if is_asked {
            self.refuse(Refusal::Outbid, out);
        }
    }
}

fn request_promises(
    config: &Config,
    ballot: Ballot,
    members: &BTreeSet<MemberId>,
    out: &mut Actions,
) {
    let by = config.me;
    let asks = members
        .iter()
        .map(|member| Action::Request(*member, Request::Claim { ballot, by }));
    out.extend(asks);
}

/// Checks that the configuration names all current disks of a record.
fn are_listed(config: &Config, record: &Record) -> Result<(), Refusal> {
    let disks = config.unlisted(record);
    match disks.is_empty() {
        true => Ok(()),
        false => Err(Refusal::Unlisted {
            disks,
            owner: record.owner.filter(|owner| *owner != config.me),
        }),
    }
}

/// The record with the members that apply here. A change that may not be committed is made again, or not.
fn by_own(config: &Config, own: &MemberState, mut record: Record) -> Record {
    if let Some(own) = &own.accepted {
        record.take_members(own, &config.members());
    }
    record
}

/// Two heads: whether the own copy alone determines the newest data, because no other head can write.
fn is_sole(config: &Config, own: &MemberState) -> bool {
    let record = own.committed_record();
    record.is_some_and(|record| config.is_sole(record.current.keys()))
}

impl Reading {
    /// The arguments of the opening.
    pub(super) fn desired(&self) -> (u64, Option<Version>) {
        (self.nonce, self.word)
    }

    fn newest(&self, received: Option<&Record>) -> Option<Record> {
        let accepted = self
            .responses
            .values()
            .filter_map(|one| one.accepted.clone());
        accepted.chain(received.cloned()).reduce(Record::newer)
    }

    fn owner(&self, received: Option<&Record>) -> Option<MemberId> {
        self.newest(received)?.owner
    }
}

impl Claiming {
    /// Withdraws the claim. No record is proposed after this.
    pub(super) fn withdraw(&self, out: &mut Actions) {
        let requests = self
            .requested
            .iter()
            .map(|member| Action::Request(*member, Request::Withdraw(self.ballot)));
        out.extend(requests);
    }

    #[cfg(test)]
    pub(super) fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// The newest known record.
    fn newest(&self, received: Option<&Record>) -> Record {
        let promised = self.promises.values();
        let promised = promised.filter_map(|promise| promise.record.as_ref());
        let records = promised.chain(received).cloned();
        records.fold(self.judged.clone(), Record::newer)
    }

    /// Members that promised in the life that this record names. A promise of an earlier life may be lost.
    fn promised_beside(&self, newest: &Record) -> BTreeSet<MemberId> {
        let counts = |member: MemberId, promise: &Promise| {
            promise.life == newest.life(member) || !holds(Rule::PromisesOfThisLife)
        };
        let promises = self.promises.iter();
        let counted = promises.filter(|(member, promise)| counts(**member, promise));
        counted.map(|(member, _)| *member).collect()
    }

    /// Whether the previous owner has stopped: a head that promised does not serve the pool, and cannot begin to in an
    /// older epoch.
    fn is_owner_stopped(&self, config: &Config, promised: &BTreeSet<MemberId>) -> bool {
        let is_stopped =
            |owner: MemberId| owner == config.me || self.is_owner_off || promised.contains(&owner);
        self.judged.owner.is_none_or(is_stopped) || !holds(Rule::ProofOfTheStop)
    }
}

/// Whether roots are missing that all other disks of its group have.
fn is_far(seen: &Observed, missing_data: MissingData) -> bool {
    seen.roots.newest + 1 < missing_data.since
}

impl Admitting {
    #[cfg(test)]
    pub(super) fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// The most that a current disk may be missing, by the roots of the other disks in its group: all have the same
    /// roots except the last.
    fn missing_data_of(&self, config: &Config, disk: DiskId) -> MissingData {
        let mut groups = config.groups.iter();
        let group = groups.find(|group| group.lenders.contains_key(&disk));
        group.map_or(
            MissingData {
                since: 1,
                newest: 0,
            },
            |group| self.missing_data_in(group),
        )
    }

    fn missing_data_in(&self, group: &LegGroup) -> MissingData {
        let is_current = |disk: &&DiskId| self.base.current.contains_key(disk);
        let disks = group.lenders.keys().filter(is_current);
        let roots = disks.filter_map(|disk| Some(self.admitted.get(disk)?.roots));
        let least = MissingData {
            since: 1,
            newest: 0,
        };
        roots.fold(least, |missing_data, roots| MissingData {
            since: missing_data.since.max(roots.before + 1),
            newest: missing_data.newest.max(roots.newest),
        })
    }

    fn first_record(&self, config: &Config) -> Result<Record, Refusal> {
        let mut record = self.base.clone();
        for disk in self.base.current_disks() {
            let marks = self.base.marks(disk);
            let is_known = |seen: &Observed| marks.is_some_and(|marks| marks.contains(seen.mark));
            let missing_data = self.missing_data_of(config, disk);
            match self.admitted.get(&disk) {
                None => record.drop_disk(disk, missing_data),
                // A replacement disk. The acknowledged data is on the remaining disks.
                Some(seen) if seen.roots == Roots::default() && is_far(seen, missing_data) => {
                    record.drop_disk(disk, missing_data);
                }
                Some(seen) if is_known(seen) || !holds(Rule::ForeignHistoryIsDivergent) => {
                    record.current.insert(disk, seen.mark);
                }
                Some(_) => record.diverge(disk),
            }
        }
        if !holds(Rule::OnlyCurrentLegs) {
            let admitted = self.admitted.iter();
            record.current = admitted.map(|(disk, seen)| (*disk, seen.mark)).collect();
            record
                .stale
                .retain(|disk, _| !self.admitted.contains_key(disk));
        }
        if !config.is_readable_by(&self.base, &record.current_disks()) {
            // The unreachable disks are newer.
            return Err(Refusal::Stale(Newer::of(config, &self.base)));
        }
        let open = self
            .admitted
            .iter()
            .filter(|(disk, _)| record.current.contains_key(disk));
        let is_other =
            |(disk, seen): (&DiskId, &Observed)| is_far(seen, self.missing_data_of(config, *disk));
        if open.clone().any(is_other) && holds(Rule::ForeignHistoryIsDivergent) {
            return Err(Refusal::Diverged(open.map(|(disk, _)| *disk).collect()));
        }
        record.ballot = self.ballot;
        record.sequence = 1;
        record.owner = Some(config.me);
        Ok(record)
    }
}
