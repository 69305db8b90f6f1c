//! A term: from the proposal of its first record to its end. Excludes legs, returns them, and commits each change.

mod changes;
mod returns;

use super::{Action, Actions, Event};
use crate::lender::LenderRequest;
use crate::member::Request;
use crate::membership::{Config, Membership, VoteSubstitute};
use crate::record::{Ballot, DiskId, MemberId, MissingData, Record, Roots, Session, Version};
use crate::refusal::Notice;
use crate::rules::{Rule, holds};
use std::collections::{BTreeMap, BTreeSet};

/// The context of a step.
pub(super) struct Step<'a> {
    pub(super) config: &'a Config,
    pub(super) fence: VoteSubstitute,
    pub(super) out: &'a mut Actions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Committing,
    Stamping,
    Importing,
    Serving,
    Closing,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LegState {
    /// Open: admitted, not stamped yet.
    Admitted,
    /// Current, unless an error is pending.
    Current,
    /// The connection was lost; a claim checks that the lender has the same incarnation.
    Resuming {
        flushed: Option<u64>,
        /// One time-out has passed since then.
        is_late: bool,
    },
    /// Failed. Its errors are withheld until a record without it is committed.
    Failing(MissingData),
    /// Available again: the claim at the lender is pending.
    Claiming { pool_group: u64 },
    /// Its history is a different one. A record with that is pending.
    Foreign,
    /// An administrator gave it up. A record with that is pending.
    Discarded,
    /// A record that it will be written is pending.
    Marking { seen: Session, roots: Roots },
    /// It is stamped. The pool has to pass the group `beyond` before it is complete.
    Stamping { beyond: u64 },
    /// It is being resilvered.
    Resilvering { beyond: u64 },
    /// It is complete. A record with that is pending, and from the proposal on its errors are withheld.
    Complete,
}

/// Of a disk without any usable data.
const NOTHING: MissingData = MissingData {
    since: 1,
    newest: 0,
};

/// A leg with a session, or with a pending claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leg {
    number: u32,
    incarnation: u64,
    state: LegState,
    /// Its missing data, until a flush confirms a root there.
    floor: MissingData,
}

impl Leg {
    /// A leg with its first session.
    pub(super) fn current(incarnation: u64, floor: MissingData) -> Self {
        Self {
            number: 1,
            incarnation,
            state: LegState::Admitted,
            floor,
        }
    }

    /// The data that may be missing there. `flushed`: the last root that a flush confirmed.
    fn missing_data(&self, flushed: Option<u64>) -> MissingData {
        let flushed = flushed.unwrap_or_default();
        let mut missing_data = MissingData {
            since: self.floor.since.max(flushed + 1),
            newest: self.floor.newest.max(flushed),
        };
        if !holds(Rule::SinceTheFirstUnconfirmed) {
            missing_data.since += 3;
        }
        missing_data
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proposal {
    record: Record,
    members: BTreeSet<MemberId>,
    first: BTreeSet<MemberId>,
    asked_all: bool,
    accepted: BTreeSet<MemberId>,
    /// It was sent again after one time-out.
    is_late: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Term {
    stage: Stage,
    /// The last committed record; until there is one, that of the previous term.
    committed: Record,
    /// Whether the own member has that record as committed.
    is_committed_sure: bool,
    /// Every disk that is current in a record that any member may have accepted since the last commit.
    widest: BTreeSet<DiskId>,
    proposal: Option<Proposal>,
    legs: BTreeMap<DiskId, Leg>,
    /// The last session numbers of former legs.
    numbers: BTreeMap<DiskId, u32>,
    /// Members that promised to another term.
    refused: BTreeSet<MemberId>,
    /// Members that lost their state and have not received the record, with the life of each.
    lost: BTreeMap<MemberId, u64>,
    /// The members by a record that names none.
    unnamed: Membership,
    /// The requested members, and the life of the new one.
    desired: Option<(Membership, u64)>,
    /// While a witness is being removed: the members that accepted the last committed record.
    agreed: BTreeSet<MemberId>,
}

impl Term {
    /// `unnamed`: the configured members.
    pub(super) fn new(
        base: Record,
        is_base_sure: bool,
        legs: BTreeMap<DiskId, Leg>,
        unnamed: &Membership,
    ) -> Self {
        Self {
            stage: Stage::Committing,
            widest: base.current_disks(),
            committed: base,
            is_committed_sure: is_base_sure,
            proposal: None,
            legs,
            numbers: BTreeMap::new(),
            refused: BTreeSet::new(),
            lost: BTreeMap::new(),
            unnamed: unnamed.clone(),
            desired: None,
            agreed: BTreeSet::new(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The newest record that any member may have accepted.
    fn latest(&self) -> &Record {
        let proposed = self.proposal.as_ref().map(|proposal| &proposal.record);
        proposed.unwrap_or(&self.committed)
    }

    pub(super) fn ballot(&self) -> Ballot {
        self.latest().ballot
    }

    /// The life in which each member counts.
    pub(super) fn lives(&self) -> &BTreeMap<MemberId, u64> {
        &self.committed.lives
    }

    fn session(&self, number: u32) -> Session {
        let ballot = self.ballot();
        Session { ballot, number }
    }

    #[cfg(test)]
    pub(super) fn awaits(&self, ballot: Ballot, version: Version) -> bool {
        let is_it = |record: &Record| record.ballot == ballot && record.version() == version;
        let proposal = self.proposal.as_ref();
        let is_late = self.awaits_agreement() && is_it(&self.committed);
        is_late || proposal.is_some_and(|one| is_it(&one.record))
    }

    pub(super) fn propose(&mut self, step: &mut Step<'_>, record: Record) {
        self.widest.extend(record.current.keys());
        let before = self.latest();
        let members = self.voters(step.config, &record);
        let rule = self.rule(step.config, &record);
        let first = rule.first_to_accept(before, &record);
        let first = first.or_else(|| self.first_to_change(step.config, &record));
        let first = first.unwrap_or_else(|| members.clone());
        drop(rule);
        for member in &first {
            step.out
                .push(Action::Request(*member, Request::Propose(record.clone())));
        }
        self.proposal = Some(Proposal {
            asked_all: first.len() == members.len(),
            members,
            first,
            accepted: BTreeSet::new(),
            is_late: false,
            record,
        });
        if !holds(Rule::WelcomeAfterTheCommit) {
            let proposed = self.latest().clone();
            self.welcome(step, &proposed);
        }
        if self.stage == Stage::Committing && !holds(Rule::CommitBeforeImport) {
            self.begin_stamps(step);
        }
    }

    pub(super) fn on_accepted(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        ballot: Ballot,
        version: Version,
    ) {
        self.note_agreed(from, ballot, version);
        let Some(proposal) = &mut self.proposal else {
            return;
        };
        if proposal.record.ballot != ballot || proposal.record.version() != version {
            return;
        }
        proposal.accepted.insert(from);
        // Its earlier promise was withdrawn.
        self.refused.remove(&from);
        if !proposal.asked_all && proposal.first.is_subset(&proposal.accepted) {
            proposal.asked_all = true;
            proposal.request_others(step);
        }
        self.check_commit(step);
    }

    pub(super) fn on_refused(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        requested: Ballot,
        promised: Ballot,
    ) {
        // A member without a later promise has an owner of an earlier term on its host, which was frozen and stops now.
        if self.ballot() != requested || promised.epoch < requested.epoch {
            return;
        }
        self.refused.insert(from);
        if from == step.config.me || self.is_outvoted() {
            self.stage = Stage::Over;
            step.out.push(Action::Stop);
        }
    }

    /// Proposes the newest record to the members again: one that promised to another term refuses it.
    pub(super) fn query_whether_over(&self, step: &mut Step<'_>) {
        match &self.proposal {
            Some(proposal) => proposal.retry_requests(step),
            None => {
                for member in self.membership(&self.committed).members() {
                    let request = Request::Propose(self.committed.clone());
                    step.out.push(Action::Request(member, request));
                }
            }
        }
    }

    pub(super) fn on_fence(&mut self, step: &mut Step<'_>, is_off: bool) {
        match is_off {
            true => self.check_commit(step),
            false => self.report_wait(step),
        }
    }

    fn report_wait(&self, step: &mut Step<'_>) {
        if let Some(proposal) = &self.proposal {
            let accepted = proposal.accepted.clone();
            step.out
                .push(Action::Notify(Notice::WritesWait { accepted }));
        }
    }

    fn check_commit(&mut self, step: &mut Step<'_>) {
        let Some(proposal) = &self.proposal else {
            return;
        };
        let counted = match holds(Rule::SoleCountsProposals) {
            true => self.widest.clone(),
            false => self.committed.current_disks(),
        };
        let by = VoteSubstitute {
            is_sole: self.is_committed_sure && step.config.is_sole(counted.iter()),
            is_other_fenced: step.fence.is_other_fenced && self.may_vote_by_fence(step.config),
        };
        let rule = self.rule(step.config, &self.committed);
        let is_agreed = |accepted: &BTreeSet<MemberId>| {
            !self.changes_members(&proposal.record)
                || !holds(Rule::ChangesNeedBothHeads)
                || self.is_change_agreed(step.config, &proposal.record, accepted, by)
        };
        // A member with a life that begins with this record has no vote on it.
        let lives =
            |member: &&MemberId| self.committed.life(**member) == proposal.record.life(**member);
        let accepted = proposal.accepted.iter().filter(lives).copied().collect();
        if rule.is_committed(&accepted, by) && is_agreed(&accepted) {
            let record = proposal.record.clone();
            self.commit(step, record);
        }
    }

    /// A member lost its state. It receives the record that names its life only after the commit: otherwise it might
    /// lose the promise to a later owner again.
    pub(super) fn on_state_lost(&mut self, step: &mut Step<'_>, from: MemberId, life: u64) {
        let is_named = self.committed.life(from) == life;
        let is_member = self.membership(&self.committed).members().contains(&from);
        if is_named && !is_member && holds(Rule::LivesAreUsedOnce) {
            return;
        }
        match is_named && self.has_committed() {
            true => step.out.push(welcome(from, &self.committed)),
            false => {
                self.lost.insert(from, life);
            }
        }
    }

    /// Whether the last committed record is of this term.
    fn has_committed(&self) -> bool {
        !matches!(self.stage, Stage::Committing)
    }

    fn welcome(&mut self, step: &mut Step<'_>, record: &Record) {
        for (member, life) in std::mem::take(&mut self.lost) {
            match record.life(member) == life {
                true => step.out.push(welcome(member, record)),
                false => {
                    self.lost.insert(member, life);
                }
            }
        }
    }

    fn may_vote_by_fence(&self, config: &Config) -> bool {
        config.may_vote_by_fence(self.committed.current.keys())
    }

    fn commit(&mut self, step: &mut Step<'_>, record: Record) {
        self.begin_agreement(&record);
        self.proposal = None;
        self.is_committed_sure = true;
        self.widest = record.current_disks();
        let before = std::mem::replace(&mut self.committed, record.clone());
        // With three members, a quorum is read when it matters.
        let rule = self.rule(step.config, &record);
        if rule.other_of_two().is_some() {
            for member in rule.members() {
                let request = Request::Committed(record.ballot, record.version());
                step.out.push(Action::Request(member, request));
            }
        }
        step.out.push(Action::Committed(record.clone()));
        self.welcome(step, &record);
        if holds(Rule::LivesAreAnnouncedAgain) {
            let is_same = |member: &MemberId| before.life(*member) == record.life(*member);
            self.lost.retain(|member, _| is_same(member));
        }
        let disks: Vec<DiskId> = self.legs.keys().copied().collect();
        for disk in disks {
            self.after_commit(step, disk, &record);
        }
        match self.stage {
            Stage::Committing => self.begin_stamps(step),
            Stage::Closing if record.owner.is_none() => {
                self.stage = Stage::Over;
                step.out.push(Action::Closed);
            }
            _ => {}
        }
    }

    /// Applies a commit to one leg.
    fn after_commit(&mut self, step: &mut Step<'_>, disk: DiskId, record: &Record) {
        let Some(leg) = self.legs.get_mut(&disk) else {
            return;
        };
        let is_current = record.current.contains_key(&disk);
        let next = Session {
            ballot: record.ballot,
            number: leg.number,
        };
        match leg.state {
            LegState::Failing(_) if !is_current => {
                self.forget(disk);
                step.out.push(Action::ReleaseErrors(disk));
            }
            LegState::Foreign if record.divergent.contains(&disk) => {
                self.forget(disk);
                step.out.push(Action::Notify(Notice::Divergent(disk)));
            }
            LegState::Discarded if record.has_given_up(disk) => self.forget(disk),
            LegState::Marking { roots, .. } if is_marked(record, disk, next) => {
                let beyond = roots.newest;
                leg.state = LegState::Stamping { beyond };
                self.stamp(step, disk);
            }
            LegState::Complete if is_current => leg.state = LegState::Current,
            _ => {}
        }
    }

    fn forget(&mut self, disk: DiskId) {
        if let Some(leg) = self.legs.remove(&disk) {
            self.numbers.insert(disk, leg.number);
        }
    }

    fn begin_stamps(&mut self, step: &mut Step<'_>) {
        self.stage = Stage::Stamping;
        let legs = self.legs.iter();
        let open = legs.filter(|(_, leg)| leg.state == LegState::Admitted);
        let disks: Vec<DiskId> = open.map(|(disk, _)| *disk).collect();
        for disk in disks {
            self.stamp(step, disk);
        }
    }

    fn stamp(&self, step: &mut Step<'_>, disk: DiskId) {
        if let Some(leg) = self.legs.get(&disk) {
            let request = LenderRequest::Begin(self.session(leg.number), leg.incarnation);
            step.out.push(Action::LenderRequest(disk, request));
        }
    }

    pub(super) fn on_deadline(&mut self, step: &mut Step<'_>) -> Option<MemberId> {
        let legs: Vec<(DiskId, LegState)> = self
            .legs
            .iter()
            .map(|(disk, leg)| (*disk, leg.state))
            .collect();
        for (disk, state) in legs {
            match state {
                LegState::Admitted if self.stage == Stage::Stamping => self.fail(step, disk, None),
                // This time-out may have started before the state did.
                LegState::Resuming {
                    flushed,
                    is_late: false,
                } => {
                    let state = LegState::Resuming {
                        flushed,
                        is_late: true,
                    };
                    self.legs.entry(disk).and_modify(|leg| leg.state = state);
                }
                LegState::Resuming { flushed, .. } => self.fail(step, disk, flushed),
                LegState::Claiming { .. } | LegState::Stamping { .. } => self.forget(disk),
                _ => {}
            }
        }
        let proposal = self.proposal.as_mut()?;
        // This time-out may have started before the proposal.
        let had_its_time = std::mem::replace(&mut proposal.is_late, true);
        let proposal = self.proposal.as_ref()?;
        let is_change = self.changes_members(&proposal.record);
        if is_change && had_its_time {
            self.revert_change(step);
            return None;
        }
        proposal.retry_requests(step);
        if is_change {
            return None;
        }
        let is_votable = self.may_vote_by_fence(step.config);
        let other = self.rule(step.config, &self.committed).other_of_two();
        let silent = other.filter(|head| !proposal.accepted.contains(head));
        match silent {
            Some(head) if is_votable && !step.fence.is_other_fenced => Some(head),
            _ => {
                self.report_wait(step);
                None
            }
        }
    }

    pub(super) fn take(&mut self, step: &mut Step<'_>, event: Event) {
        match event {
            Event::Imported if self.stage == Stage::Importing => self.stage = Stage::Serving,
            Event::LegFailed { disk, flushed } => self.fail(step, disk, flushed),
            Event::ReadFailed(disk) => self.on_read_failed(step, disk),
            Event::LegUsable(disk) => self.on_leg_usable(step, disk),
            Event::LinkLost { disk, flushed } => self.on_link_lost(step, disk, flushed),
            Event::LegReturned { disk, newest_group } => {
                self.on_leg_returned(step, disk, newest_group)
            }
            Event::Returned {
                disk,
                session,
                completeness,
            } => self.on_returned(disk, session, completeness),
            Event::ReturnFailed(disk, session) if !self.is_of_another_return(disk, session) => {
                self.fail(step, disk, None);
            }
            Event::Discard(disk) => self.on_discard(step, disk),
            Event::Members { desired, life } => self.desired = Some((desired, life)),
            Event::MembersStay => self.desired = None,
            Event::Exported if self.stage == Stage::Serving => self.stage = Stage::Closing,
            _ => {}
        }
    }

    fn fail(&mut self, step: &mut Step<'_>, disk: DiskId, flushed: Option<u64>) {
        let is_listed = self.widest.contains(&disk);
        let binds = holds(Rule::GrowthBindsFromItsProposal);
        let Some(leg) = self.legs.get_mut(&disk) else {
            // Its return failed before the driver opened it: without this the driver would not learn that it is
            // excluded.
            if !is_listed && self.committed.stale.contains_key(&disk) {
                step.out.push(Action::ReleaseErrors(disk));
            }
            return;
        };
        let missing_data = leg.missing_data(flushed);
        let was_complete = leg.state == LegState::Complete;
        match leg.state {
            LegState::Failing(_) => return,
            LegState::Admitted | LegState::Current | LegState::Resuming { .. } => {
                leg.state = LegState::Failing(missing_data);
            }
            LegState::Complete if is_listed && binds => {
                leg.state = LegState::Failing(missing_data);
            }
            LegState::Resilvering { .. } if !holds(Rule::SinceOutlivesTheResilver) => {
                if let Some(stale) = self.committed.stale.get_mut(&disk) {
                    stale.since = missing_data.since;
                }
                self.forget(disk);
                step.out.push(Action::ReleaseErrors(disk));
            }
            _ => {
                self.forget(disk);
                step.out.push(Action::ReleaseErrors(disk));
            }
        }
        if !holds(Rule::ErrorsAreWithheld) && !was_complete {
            step.out.push(Action::ReleaseErrors(disk));
        }
    }

    /// Performs the next step: a new record, or the import.
    pub(super) fn advance(&mut self, step: &mut Step<'_>) {
        if matches!(self.stage, Stage::Over) {
            return;
        }
        let (record, is_urgent) = self.next_record(step);
        let is_free = self.proposal.is_none() || is_urgent;
        let is_open = self.stage != Stage::Committing || is_urgent;
        if let (Some(record), true, true) = (record, is_free, is_open) {
            self.propose(step, record);
            return self.check_commit(step);
        }
        let is_stamped = |leg: &Leg| leg.state == LegState::Current;
        let may_import = self.proposal.is_none() || !holds(Rule::CommitBeforeImport);
        if self.stage == Stage::Stamping && may_import && self.legs.values().all(is_stamped) {
            self.stage = Stage::Importing;
            self.import(step);
        }
    }

    fn import(&self, step: &mut Step<'_>) {
        let legs = self.legs.iter();
        let legs = legs.map(|(disk, leg)| (*disk, (self.session(leg.number), leg.incarnation)));
        let stale = self.latest().stale.iter();
        step.out.push(Action::Import {
            legs: legs.collect(),
            lacking: stale.map(|(disk, stale)| (*disk, stale.since)).collect(),
        });
    }

    /// The next record, and whether it replaces a proposal in progress: only one without a failed leg
    /// does.
    fn next_record(&self, step: &mut Step<'_>) -> (Option<Record>, bool) {
        let latest = self.latest();
        let mut record = latest.clone();
        let mut is_urgent = false;
        for (disk, leg) in &self.legs {
            match leg.state {
                LegState::Failing(missing_data) if record.current.contains_key(disk) => {
                    is_urgent |= drop_leg(step, &mut record, *disk, missing_data);
                }
                LegState::Foreign => record.diverge(*disk),
                LegState::Discarded => record.give_up(*disk),
                LegState::Marking { seen, roots } => {
                    record.begin_return(*disk, seen, roots, self.session(leg.number));
                }
                LegState::Complete if self.may_complete(step.config, *disk) => {
                    record.complete_return(*disk);
                }
                _ => {}
            }
        }
        if self.stage == Stage::Closing {
            record.owner = None;
        }
        if is_urgent && record.members != self.committed.members {
            // The exclusion must not depend on a head that may be the one that was lost.
            self.leave_members(&mut record);
        }
        let members = self.membership(&record).members();
        let lost = self.lost.iter();
        record
            .lives
            .extend(lost.filter(|(member, _)| members.contains(member)));
        if record == *latest {
            self.change_members(&mut record);
        }
        let is_new = record != *latest;
        record.sequence += 1;
        (is_new.then_some(record), is_urgent)
    }
}

impl Proposal {
    fn request_others(&self, step: &mut Step<'_>) {
        for member in self.members.difference(&self.first) {
            let request = Request::Propose(self.record.clone());
            step.out.push(Action::Request(*member, request));
        }
    }

    fn retry_requests(&self, step: &mut Step<'_>) {
        for member in &self.members {
            let is_asked = self.asked_all || self.first.contains(member);
            if is_asked && !self.accepted.contains(member) {
                let request = Request::Propose(self.record.clone());
                step.out.push(Action::Request(*member, request));
            }
        }
    }
}

fn welcome(member: MemberId, record: &Record) -> Action {
    Action::Request(member, Request::Welcome(record.clone()))
}

/// Whether the record announces that the owner of its term writes to a stale disk.
fn is_marked(record: &Record, disk: DiskId, next: Session) -> bool {
    let stale = record.stale.get(&disk);
    stale.is_some_and(|stale| stale.is_written && stale.marks.possible == next)
}

/// Excludes a failed leg, unless the remaining ones are not readable. Returns whether it did.
fn drop_leg(
    step: &mut Step<'_>,
    record: &mut Record,
    disk: DiskId,
    missing_data: MissingData,
) -> bool {
    let mut left = record.current_disks();
    left.remove(&disk);
    if !step.config.is_readable_by(record, &left) && holds(Rule::LastLegsStay) {
        step.out.push(Action::Notify(Notice::LastLeg(disk)));
        return false;
    }
    record.drop_disk(disk, missing_data);
    true
}
