//! Legs with a lost connection, and the return of excluded disks.

use super::{Leg, LegState, NOTHING, Stage, Step, Term};
use crate::lender::{LenderRequest, LenderResponse, Observed};
use crate::membership::Config;
use crate::owner::{Action, Completeness};
use crate::record::{DiskId, MissingData, Session};
use crate::refusal::Notice;
use crate::rules::{Rule, holds};

impl Term {
    pub(super) fn on_link_lost(&mut self, step: &mut Step<'_>, disk: DiskId, flushed: Option<u64>) {
        let Some(leg) = self.legs.get_mut(&disk) else {
            return;
        };
        if leg.state != LegState::Current {
            return self.fail(step, disk, flushed);
        }
        leg.number += 1;
        leg.state = LegState::Resuming {
            flushed,
            is_late: false,
        };
        let number = leg.number;
        let request = LenderRequest::Claim(self.session(number));
        step.out.push(Action::LenderRequest(disk, request));
    }

    /// The error concerns the client or the library, which repairs the block from another leg. An excluded leg of its
    /// group is needed for that, regardless of how often it failed.
    pub(super) fn on_read_failed(&mut self, step: &mut Step<'_>, disk: DiskId) {
        if !holds(Rule::ReadErrorsFailNoLeg) {
            return self.fail(step, disk, None);
        }
        let mut groups = step.config.groups.iter();
        let group = groups.find(|group| group.lenders.contains_key(&disk));
        let siblings = group.into_iter().flat_map(|group| group.lenders.keys());
        let is_out =
            |one: &&DiskId| self.committed.stale.contains_key(one) && !self.legs.contains_key(one);
        step.out
            .extend(siblings.filter(is_out).map(|one| Action::Recall(*one)));
    }

    /// A leg that is being excluded stays failed: another leg is current.
    pub(super) fn on_leg_usable(&mut self, step: &mut Step<'_>, disk: DiskId) {
        let is_kept = self.latest().current.contains_key(&disk);
        let Some(leg) = self.legs.get_mut(&disk) else {
            return;
        };
        if matches!(leg.state, LegState::Failing(_)) && is_kept {
            leg.state = LegState::Current;
            step.out.push(Action::UseAgain(disk));
        }
    }

    pub(super) fn on_leg_returned(&mut self, step: &mut Step<'_>, disk: DiskId, pool_group: u64) {
        let is_free = !self.legs.contains_key(&disk) && self.committed.stale.contains_key(&disk);
        if self.stage != Stage::Serving || !is_free {
            return;
        }
        let number = self.numbers.get(&disk).copied().unwrap_or_default() + 1;
        self.legs.insert(
            disk,
            Leg {
                number,
                incarnation: 0,
                state: LegState::Claiming { pool_group },
                floor: NOTHING,
            },
        );
        let request = LenderRequest::Claim(self.session(number));
        step.out.push(Action::LenderRequest(disk, request));
    }

    /// A disk that an administrator gave up is no part of a return any more: it may be a replacement.
    pub(super) fn on_discard(&mut self, step: &mut Step<'_>, disk: DiskId) {
        let is_ours = step.config.lender(disk).is_some();
        let is_out = is_ours && !self.widest.contains(&disk);
        if !is_out || self.committed.has_given_up(disk) || self.stage != Stage::Serving {
            return;
        }
        if self.legs.contains_key(&disk) {
            self.forget(disk);
            step.out.push(Action::ReleaseErrors(disk));
        }
        // Pending events of the aborted return have an earlier session.
        let number = self.numbers.get(&disk).copied().unwrap_or_default() + 1;
        let leg = Leg {
            number,
            incarnation: 0,
            state: LegState::Discarded,
            floor: NOTHING,
        };
        self.legs.insert(disk, leg);
    }

    /// Whether the disk has been away since, or another owner wrote to it.
    pub(super) fn is_of_another_return(&self, disk: DiskId, session: Session) -> bool {
        let present = self.legs.get(&disk).map(|leg| self.session(leg.number));
        present.is_some_and(|present| present != session)
    }

    pub(super) fn on_returned(
        &mut self,
        disk: DiskId,
        session: Session,
        completeness: Completeness,
    ) {
        if self.is_of_another_return(disk, session) && holds(Rule::ReturnsNameTheirSession) {
            return;
        }
        let Some(leg) = self.legs.get_mut(&disk) else {
            return;
        };
        let LegState::Resilvering { beyond } = leg.state else {
            return;
        };
        // ZFS opens a pool by the newest root that it finds: a later root of a dead owner would win.
        let is_past = completeness.group > beyond || !holds(Rule::ReturnPassesItsRoots);
        if completeness.is_whole() && is_past || !holds(Rule::ReturnIsComplete) {
            leg.state = LegState::Complete;
            leg.floor = MissingData {
                since: completeness.group + 1,
                newest: completeness.group,
            };
        }
    }

    /// A group joins the pool with all of its disks in one record: with some of them it could not be read.
    pub(super) fn may_complete(&self, config: &Config, disk: DiskId) -> bool {
        let Some(group) = config.group(disk) else {
            return false;
        };
        let is_complete = |disk: &DiskId| {
            let leg = self.legs.get(disk);
            leg.is_some_and(|leg| leg.state == LegState::Complete)
        };
        group.is_in_use(self.latest())
            || group.lenders.keys().all(is_complete)
            || !holds(Rule::GroupsJoinWhole)
    }

    pub(in crate::owner) fn on_lent(
        &mut self,
        step: &mut Step<'_>,
        disk: DiskId,
        response: LenderResponse,
    ) {
        let ballot = self.ballot();
        let Some(leg) = self.legs.get_mut(&disk) else {
            return;
        };
        let expected = Session {
            ballot,
            number: leg.number,
        };
        let state = leg.state;
        match response {
            LenderResponse::Admitted(session, seen) if session == expected => match state {
                LegState::Resuming { flushed, .. } => self.resume(step, disk, flushed, seen),
                LegState::Claiming { pool_group } => {
                    self.judge_return(step, disk, pool_group, seen)
                }
                _ => {}
            },
            LenderResponse::Begun(session) if session == expected => match state {
                LegState::Admitted => leg.state = LegState::Current,
                LegState::Stamping { beyond } => self.begin_resilver(step, disk, beyond),
                _ => {}
            },
            LenderResponse::Refused(session) if session == expected => match state {
                LegState::Resuming { flushed, .. } => self.fail(step, disk, flushed),
                LegState::Admitted => self.fail(step, disk, None),
                LegState::Claiming { .. } | LegState::Stamping { .. } => self.forget(disk),
                _ => {}
            },
            _ => {}
        }
    }

    fn resume(&mut self, step: &mut Step<'_>, disk: DiskId, flushed: Option<u64>, seen: Observed) {
        let Some(leg) = self.legs.get_mut(&disk) else {
            return;
        };
        if leg.incarnation != seen.incarnation && holds(Rule::SameIncarnation) {
            return self.fail(step, disk, flushed);
        }
        leg.state = LegState::Current;
        let number = leg.number;
        step.out.push(Action::Resume(disk, self.session(number)));
    }

    /// A stale disk is available: checks whether its history is this pool's.
    fn judge_return(&mut self, step: &mut Step<'_>, disk: DiskId, pool_group: u64, seen: Observed) {
        let stale = self.committed.stale.get(&disk).copied();
        let (Some(stale), Some(leg)) = (stale, self.legs.get_mut(&disk)) else {
            return;
        };
        // After a confirmation, all data is copied.
        let is_given_up = stale.since == 0;
        let is_own = stale.is_own(seen.mark, seen.roots, pool_group);
        leg.incarnation = seen.incarnation;
        leg.state = match is_own || is_given_up || !holds(Rule::ForeignHistoryIsDivergent) {
            true => LegState::Marking {
                seen: seen.mark,
                roots: seen.roots,
            },
            false => LegState::Foreign,
        };
        let is_own = leg.state != LegState::Foreign;
        if is_own && stale.is_older(seen.roots) {
            step.out.push(Action::Notify(Notice::OlderImage(disk)));
        }
        if is_own && !holds(Rule::ResilversAreOnRecord) {
            let beyond = seen.roots.newest;
            leg.state = LegState::Stamping { beyond };
            self.stamp(step, disk);
        }
    }

    fn begin_resilver(&mut self, step: &mut Step<'_>, disk: DiskId, beyond: u64) {
        let session = self.legs.get(&disk).map(|leg| self.session(leg.number));
        let stale = self.committed.stale.get(&disk);
        let (Some(session), Some(stale)) = (session, stale) else {
            return;
        };
        let since = stale.since;
        if let Some(leg) = self.legs.get_mut(&disk) {
            leg.state = match holds(Rule::FailedLegsStayOut) {
                true => LegState::Resilvering { beyond },
                false => LegState::Complete,
            };
            let incarnation = leg.incarnation;
            let beyond = match holds(Rule::ReturnPassesItsRoots) {
                true => beyond,
                false => 0,
            };
            step.out.push(Action::Resilver {
                disk,
                since,
                beyond,
                session,
                incarnation,
            });
        }
    }
}
