//! Changes of the members of a pool's record while it is served.
//!
//! A head applies the record that its own member accepted. So two heads may apply two consecutive records, and never
//! two that are not: a change is committed when both have accepted it. A new witness or third head has no vote before
//! it receives the record, which happens after the commit. A witness that is removed has a vote until both heads have
//! accepted that the fence of one of them is needed as well, or a third head.

use super::{Stage, Step, Term};
use crate::member::{Request, Tag};
use crate::membership::{Config, Membership, VoteSubstitute};
use crate::owner::Action;
use crate::record::{Ballot, MemberId, Record, Version};
use crate::refusal::Notice;
use crate::rules::{Rule, holds};
use std::borrow::Cow;
use std::collections::BTreeSet;

impl Term {
    /// The members by that record.
    pub(super) fn membership<'a>(&'a self, record: &'a Record) -> &'a Membership {
        let named = record.members.as_ref();
        let named = named.filter(|_| holds(Rule::MembersOfTheRecord));
        named.unwrap_or(&self.unnamed)
    }

    /// The configuration with the members of that record.
    pub(super) fn rule<'a>(&self, config: &'a Config, record: &Record) -> Cow<'a, Config> {
        config.with(self.membership(record))
    }

    /// The members that must accept that record.
    pub(super) fn voters(&self, config: &Config, record: &Record) -> BTreeSet<MemberId> {
        let before = self.rule(config, &self.committed).members();
        let after = self.rule(config, record).members();
        before.into_iter().chain(after).collect()
    }

    /// Whether too many members promised to another term for a commit.
    pub(super) fn is_outvoted(&self) -> bool {
        let is_left = |member: &&MemberId| !self.refused.contains(member);
        let membership = self.membership(&self.committed);
        let members = membership.members().iter().filter(is_left).count();
        let heads = membership.heads().iter().filter(is_left).count();
        let are_heads_needed = matches!(membership, Membership::WitnessLeaves { .. });
        members < 2 || (are_heads_needed && heads < 2)
    }

    /// Whether a proposed record has other members.
    pub(super) fn changes_members(&self, record: &Record) -> bool {
        record.members != self.committed.members
    }

    /// The members that must accept other members before the own member does: a head that stays alone must not apply a
    /// rule that needs the other one.
    pub(super) fn first_to_change(
        &self,
        config: &Config,
        record: &Record,
    ) -> Option<BTreeSet<MemberId>> {
        // The order covers the two other rules, so their mutations run without it.
        let is_kept = holds(Rule::ChangesBeginElsewhere)
            && holds(Rule::ChangesNeedBothHeads)
            && holds(Rule::LeavingIsAgreed);
        let staying = self
            .membership(&self.committed)
            .staying(self.membership(record));
        (is_kept && self.changes_members(record))
            .then(|| staying.filter(|head| *head != config.me).collect())
    }

    /// Whether both heads have a record of other members, which is also committed by its own rule.
    pub(super) fn is_change_agreed(
        &self,
        config: &Config,
        record: &Record,
        accepted: &BTreeSet<MemberId>,
        by: VoteSubstitute,
    ) -> bool {
        let rule = self.rule(config, record);
        let before = self.membership(&self.committed);
        let mut heads = before.staying(&rule.membership);
        rule.is_committed(accepted, by) && heads.all(|head| accepted.contains(&head))
    }

    /// Puts the requested members into the record, if no other change is due and the new member has begun its life.
    pub(super) fn change_members(&self, record: &mut Record) {
        if self.stage != Stage::Serving || self.proposal.is_some() {
            return;
        }
        let before = self.membership(&self.committed);
        let is_leaving = matches!(before, Membership::WitnessLeaves { .. });
        if is_leaving && !self.is_leaving_agreed() && holds(Rule::LeavingIsAgreed) {
            return;
        }
        let Some(next) = self.next_members() else {
            return;
        };
        if let Some(member) = before.coming(&next) {
            match self.begun(member) {
                Some(_) if !record.uses_life_of(member) => return,
                Some(life) => {
                    record.lives.insert(member, life);
                }
                None if holds(Rule::JoiningStartsNewLife) => return,
                None => {}
            }
        }
        record.leave_lives(&next.members());
        record.members = Some(next);
    }

    /// The next step to the requested members. A record of an earlier release first names its present ones.
    fn next_members(&self) -> Option<Membership> {
        let before = self.membership(&self.committed);
        let is_leaving = matches!(before, Membership::WitnessLeaves { .. });
        let desired = self.desired.as_ref().map(|(desired, _)| desired);
        let desired = desired.or(is_leaving.then_some(before))?;
        let is_to_be_named = self.committed.members.is_none() && desired == before;
        let named = is_to_be_named.then(|| before.clone());
        before.step_to(desired).or(named)
    }

    /// The life that a new member has begun. One in which it was a member before does not count: messages about it may
    /// be in flight.
    fn begun(&self, member: MemberId) -> Option<u64> {
        let used = self.committed.life(member);
        let begun = self.lost.get(&member).copied();
        begun.filter(|life| *life != used || !holds(Rule::LivesAreUsedOnce))
    }

    /// Restores the members of the last committed record.
    pub(super) fn leave_members(&self, record: &mut Record) {
        record.members.clone_from(&self.committed.members);
        record.lives.clone_from(&self.committed.lives);
    }

    /// The other head did not accept a change in time. A member that accepted it needs both heads, or applies the
    /// previous rule as well.
    pub(super) fn revert_change(&mut self, step: &mut Step<'_>) {
        let mut record = self.latest().clone();
        self.leave_members(&mut record);
        record.sequence += 1;
        self.desired = None;
        step.out.push(Action::Notify(Notice::MembersStay));
        self.propose(step, record);
    }

    /// Requests that the new member begin its life, and that the other head accept the removal of a witness.
    pub(in crate::owner) fn request_change(&self, step: &mut Step<'_>, tag: Tag) {
        if self.stage != Stage::Serving || self.proposal.is_some() {
            return;
        }
        let before = self.membership(&self.committed);
        if let Membership::WitnessLeaves { heads, .. } = before {
            let silent = heads.iter().filter(|head| !self.agreed.contains(head));
            for head in silent {
                let request = Request::Propose(self.committed.clone());
                step.out.push(Action::Request(*head, request));
            }
        }
        let Some((desired, life)) = &self.desired else {
            return;
        };
        let coming = before
            .step_to(desired)
            .and_then(|next| before.coming(&next));
        if let Some(member) = coming.filter(|member| self.begun(*member).is_none()) {
            let request = Request::Join {
                tag,
                record: self.committed.clone(),
                life: *life,
            };
            step.out.push(Action::Request(member, request));
        }
    }

    /// A record is committed: while a witness is being removed, notes the members that accepted it.
    pub(super) fn begin_agreement(&mut self, record: &Record) {
        let is_leaving = matches!(self.membership(record), Membership::WitnessLeaves { .. });
        let accepted = self.proposal.as_ref().filter(|_| is_leaving);
        self.agreed = accepted.map(|one| one.accepted.clone()).unwrap_or_default();
    }

    pub(super) fn note_agreed(&mut self, from: MemberId, ballot: Ballot, version: Version) {
        let record = &self.committed;
        let is_it = record.ballot == ballot && record.version() == version;
        if is_it && matches!(self.membership(record), Membership::WitnessLeaves { .. }) {
            self.agreed.insert(from);
        }
    }

    #[cfg(test)]
    pub(super) fn awaits_agreement(&self) -> bool {
        let membership = self.membership(&self.committed);
        matches!(membership, Membership::WitnessLeaves { .. }) && !self.is_leaving_agreed()
    }

    /// Whether a change of members is requested or in progress.
    pub(in crate::owner) fn is_changing(&self) -> bool {
        self.next_members().is_some()
    }

    fn is_leaving_agreed(&self) -> bool {
        let mut heads = self.membership(&self.committed).heads().iter();
        heads.all(|head| self.agreed.contains(head))
    }
}
