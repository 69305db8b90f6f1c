//! The possible next steps.

mod effects;
mod starts;

use super::world::{
    DriverLeg, Envelope, FOREIGN, Fault, Payload, Progress, Resilver, Server, Setup, World,
    disk_id, two_heads,
};
use crate::rules::{Rule, holds};
use crate::{MemberState, Stale, Version};

/// One step of the world. A trace of them can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Deliver(u64),
    /// The message arrives, and may arrive again.
    Duplicate(u64),
    Lose(u64),
    Open(u8),
    OpenByConfirmation(u8),
    Listen(u8),
    Issue(u8),
    Land {
        disk: u8,
        at: u8,
    },
    Written(u8),
    Deadline(u8),
    LegDeadline {
        head: u8,
        disk: u8,
    },
    ReadFails {
        head: u8,
        disk: u8,
    },
    Unusable {
        head: u8,
        disk: u8,
    },
    LegUsable {
        head: u8,
        disk: u8,
    },
    LinkLost {
        head: u8,
        disk: u8,
    },
    LegReturned {
        head: u8,
        disk: u8,
    },
    Copy {
        head: u8,
        disk: u8,
    },
    Crash(u8),
    Boot(u8),
    Freeze(u8),
    Thaw(u8),
    ServerCrash(u8),
    LenderRestart(u8),
    Cut(u8, u8),
    Heal(u8, u8),
    DiskFails(u8),
    DiskHeals(u8),
    PowerOff(u8),
    FenceFails(u8),
    FenceLies(u8),
    /// An administrator confirms wrongly that a frozen head is off.
    FenceByConfirmation(u8),
    FenceReport(u8),
    PowerLoss,
    ForeignImport(u8),
    SaveImage(u8),
    RestoreImage(u8),
    Forget(u8),
    /// The owner on a head reads the state of all members.
    Look(u8),
    Discard {
        head: u8,
        disk: u8,
    },
    /// The disk is replaced.
    Exchange(u8),
    /// The owner on a head is notified of the replacement.
    Replace {
        head: u8,
        disk: u8,
    },
    Attach {
        head: u8,
        disk: u8,
    },
    /// An administrator requests a witness or a third head, or the removal of a witness.
    Members {
        head: u8,
        is_wider: bool,
    },
    /// The request for other members is withdrawn.
    MembersStay(u8),
    Export(u8),
}

impl World {
    /// All possible next steps.
    pub(super) fn steps(&self, setup: &Setup) -> Vec<Step> {
        let mut steps = Vec::new();
        self.message_steps(setup, &mut steps);
        self.head_steps(setup, &mut steps);
        self.disk_steps(setup, &mut steps);
        for (at, order) in self.fences.iter().enumerate() {
            let at = at as u8;
            match order.is_done {
                true => steps.push(Step::FenceReport(at)),
                false => {
                    steps.push(Step::PowerOff(at));
                    if self.may(setup, Fault::FenceFails) {
                        steps.push(Step::FenceFails(at));
                    }
                    if self.may(setup, Fault::FenceLies) {
                        steps.push(Step::FenceLies(at));
                    }
                    if self.heads[usize::from(order.head)].is_frozen {
                        steps.push(Step::FenceByConfirmation(at));
                    }
                }
            }
        }
        for (one, other) in self.pairs() {
            match self.is_cut(one, other) {
                true => steps.push(Step::Heal(one, other)),
                false if self.may(setup, Fault::Cut) => steps.push(Step::Cut(one, other)),
                false => {}
            }
        }
        // Two heads have no rule for that: the one that lost its memory stays silent.
        let members = self.members();
        if self.may(setup, Fault::Forget) && members.len() == 3 {
            let up = members.into_iter().filter(|member| self.is_up(*member));
            steps.extend(up.map(Step::Forget));
        }
        if self.may(setup, Fault::PowerLoss) && self.heads.iter().any(|head| head.is_up) {
            steps.push(Step::PowerLoss);
        }
        steps
    }

    fn may(&self, setup: &Setup, fault: Fault) -> bool {
        self.faults < setup.faults_max && setup.faults.contains(&fault)
    }

    fn message_steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for sent in &self.net {
            let (at, envelope) = (sent.key, &sent.envelope);
            let is_io = matches!(envelope.payload, Payload::Io(_) | Payload::IoDone(..));
            let is_own = envelope.from == envelope.to;
            if self.is_deliverable(envelope) {
                steps.push(Step::Deliver(at));
                if !is_io && !is_own && self.may(setup, Fault::Duplicate) {
                    steps.push(Step::Duplicate(at));
                }
            }
            if !is_own && self.may(setup, Fault::Lose) {
                steps.push(Step::Lose(at));
            }
        }
    }

    fn head_steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for (index, head) in self.heads.iter().enumerate() {
            let at = index as u8;
            if !head.is_up {
                steps.push(Step::Boot(at));
                continue;
            }
            if head.is_frozen {
                steps.push(Step::Thaw(at));
                continue;
            }
            if head.unwritten.is_some() {
                steps.push(Step::Written(at));
            }
            if self.may(setup, Fault::Freeze) {
                steps.push(Step::Freeze(at));
            }
            if self.may(setup, Fault::Crash) {
                steps.push(Step::Crash(at));
            }
            if self.may(setup, Fault::ServerCrash) && !head.owner.is_idle() {
                steps.push(Step::ServerCrash(at));
            }
            if head.owner.is_idle() {
                self.idle_steps(setup, at, steps);
            } else if self.is_quiet(at) || self.may(setup, Fault::Hurry) {
                steps.push(Step::Deadline(at));
            }
            let is_lost = |member: &u8| {
                let is_reached = self.is_up(*member) && !self.is_cut(at, *member);
                is_reached && self.memory(*member).is_some_and(MemberState::is_lost)
            };
            let is_of_use = self.members().iter().any(is_lost) || head.owner.changes_members();
            if head.owner.has_term() && is_of_use {
                steps.push(Step::Look(at));
            }
            self.server_steps(setup, at, steps);
        }
    }

    fn idle_steps(&self, setup: &Setup, at: u8, steps: &mut Vec<Step>) {
        if self.opens < setup.opens_max && setup.openers.contains(&at) {
            steps.push(Step::Open(at));
            if setup.has_words && self.valid_confirmation(setup, at).is_some() {
                steps.push(Step::OpenByConfirmation(at));
            }
        }
        let head = &self.heads[usize::from(at)];
        if self.config(setup, at).other_of_two().is_some() && head.owner.received_record().is_none()
        {
            steps.push(Step::Listen(at));
        }
    }

    /// The confirmation that an administrator may give: no newer data exists elsewhere, and the other head is off.
    fn valid_confirmation(&self, setup: &Setup, at: u8) -> Option<Version> {
        self.config(setup, at).other_of_two()?;
        let own = self.heads[usize::from(at)].memory.accepted.as_ref()?;
        let other = &self.heads[usize::from(1 - at)];
        let is_newest = other
            .memory
            .accepted
            .as_ref()
            .map(|record| record.version())
            <= Some(own.version());
        let is_whole =
            self.disks[usize::from(at)].durable.history & self.acknowledged == self.acknowledged;
        (is_newest && is_whole && !other.is_up).then(|| own.version())
    }

    /// Whether no message or I/O for this head is in flight.
    fn is_quiet(&self, at: u8) -> bool {
        let is_mine = |envelope: &Envelope| envelope.from == at || envelope.to == at;
        let is_io =
            |envelope: &Envelope| matches!(envelope.payload, Payload::Io(_) | Payload::IoDone(..));
        let envelopes = self.net.iter().map(|sent| &*sent.envelope);
        let mut waited = envelopes.filter(|one| is_mine(one) && !is_io(one));
        let is_fencing = self.fences.iter().any(|order| order.by == at);
        let drains = self.disks.iter().any(|disk| !disk.in_flight.is_empty());
        !is_fencing && !drains && !waited.any(|envelope| self.is_deliverable(envelope))
    }

    fn server_steps(&self, setup: &Setup, at: u8, steps: &mut Vec<Step>) {
        let Some(server) = &self.heads[usize::from(at)].server else {
            return;
        };
        let is_free = server.is_open && server.write.is_none();
        if is_free && self.issued < setup.writes_max {
            steps.push(Step::Issue(at));
        }
        if is_free && setup.kind.names_members() && self.may(setup, Fault::Members) {
            let membership = setup.membership(&self.committed);
            let is_wider = match setup.kind.has_third() {
                true => membership != setup.kind.wider(),
                false => membership == two_heads(),
            };
            if is_wider || !setup.kind.has_third() {
                steps.push(Step::Members { head: at, is_wider });
            }
            if self.committed.members.is_none() {
                // The record is to name its present members.
                let is_wider = !is_wider;
                steps.push(Step::Members { head: at, is_wider });
            }
        }
        if is_free && self.may(setup, Fault::Close) {
            steps.push(Step::Export(at));
        }
        for (disk, leg) in &server.legs {
            let waits = matches!(leg.progress, Progress::Writing | Progress::Flushing)
                || matches!(
                    leg.resilver,
                    Resilver::Copying { .. } | Resilver::Flushing { .. }
                );
            let is_lost = !self.is_io_in_flight(at, *disk);
            if waits && !leg.is_parted && (is_lost || self.may(setup, Fault::Hurry)) {
                steps.push(Step::LegDeadline {
                    head: at,
                    disk: *disk,
                });
            }
            let head = at;
            let is_in_use = leg.progress != Progress::Failed && !leg.is_parted;
            if is_in_use && self.may(setup, Fault::ReadFails) {
                steps.push(Step::ReadFails { head, disk: *disk });
            }
            // I/O in flight has no effect.
            let is_quiet = is_lost && leg.resilver == Resilver::No;
            if is_in_use && is_quiet && self.may(setup, Fault::Unusable) {
                steps.push(Step::Unusable { head, disk: *disk });
            }
            if self.is_usable(setup, server, leg, *disk) {
                steps.push(Step::LegUsable { head, disk: *disk });
            }
            let is_open = leg.progress != Progress::Failed && leg.resilver == Resilver::No;
            if is_open
                && !leg.is_parted
                && at != self.host(*disk)
                && self.may(setup, Fault::LinkLost)
            {
                steps.push(Step::LinkLost {
                    head: at,
                    disk: *disk,
                });
            }
            if matches!(leg.resilver, Resilver::Due { .. }) && is_free {
                steps.push(Step::Copy {
                    head: at,
                    disk: *disk,
                });
            }
        }
        for disk in 0..self.disks.len() as u8 {
            let id = disk_id(disk);
            let host = self.host(disk);
            let is_reachable = self.is_up(host) && !self.is_cut(at, host);
            let is_free = server.is_open && !server.legs.contains_key(&disk) && is_reachable;
            let is_good = !self.disks[usize::from(disk)].fails;
            if is_free && is_good && self.committed.stale.contains_key(&id) {
                steps.push(Step::LegReturned { head: at, disk });
            }
            let is_out = self.committed.names(id) && !self.committed.current.contains_key(&id);
            if server.is_open && is_out && self.disks[usize::from(disk)].is_exchanged {
                steps.push(Step::Replace { head: at, disk });
            }
            let is_new = !self.committed.names(id) && server.is_open;
            if is_new && self.may(setup, Fault::Attach) {
                steps.push(Step::Attach { head: at, disk });
            }
            let is_divergent = self.committed.divergent.contains(&id);
            if is_free && is_divergent && self.may(setup, Fault::Discard) {
                steps.push(Step::Discard { head: at, disk });
            }
        }
    }

    /// Whether the device driver may use a failed leg again: it is current, and its group is not readable without it.
    fn is_usable(&self, setup: &Setup, server: &Server, leg: &DriverLeg, disk: u8) -> bool {
        let mut others = self.committed.current_disks();
        let is_current = others.remove(&disk_id(disk));
        let is_last = is_current && !setup.configs[0].is_readable_by(&self.committed, &others);
        let lacks = leg.lacks && holds(Rule::StaleLegsStayFailed);
        server.is_open && leg.progress == Progress::Failed && is_last && !lacks
    }

    fn disk_steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for (index, disk) in self.disks.iter().enumerate() {
            let at = index as u8;
            let runs = !self.heads[usize::from(self.host(at))].is_frozen;
            for io in 0..if runs { disk.in_flight.len() as u8 } else { 0 } {
                steps.push(Step::Land { disk: at, at: io });
            }
            match disk.fails {
                true => steps.push(Step::DiskHeals(at)),
                false if self.may(setup, Fault::DiskFails) => steps.push(Step::DiskFails(at)),
                false => {}
            }
            if self.is_up(self.host(at)) && self.may(setup, Fault::LenderRestart) {
                steps.push(Step::LenderRestart(at));
            }
            let is_stale = self.committed.stale.contains_key(&disk_id(at));
            let is_out = is_stale || self.committed.divergent.contains(&disk_id(at));
            // Then the disk is complete, and is not removed as an incomplete one.
            let is_complete = self.heads.iter().any(|head| {
                let leg = head.server.as_ref().and_then(|server| server.legs.get(&at));
                leg.is_some_and(|leg| leg.resilver == Resilver::Done)
            });
            let is_out = is_out && !is_complete;
            if is_out && !disk.is_exchanged && self.may(setup, Fault::Replace) {
                steps.push(Step::Exchange(at));
            }
            let is_foreign = disk.durable.history & FOREIGN != 0;
            let is_used = self.heads.iter().any(|head| {
                let server = head.server.as_ref();
                server.is_some_and(|server| server.legs.contains_key(&at))
            });
            // Moved to another host.
            // After an owner began to write to it, numbers of groups cannot show the difference.
            let stale = self.committed.stale.get(&disk_id(at));
            let is_written =
                |stale: &Stale| stale.is_written && disk.lender_state.mark == stale.marks.possible;
            let is_stale = is_stale && !stale.is_some_and(is_written);
            // A replacement disk carries no pool that could be imported.
            let is_stale = is_stale && !disk.is_exchanged;
            let is_possible = is_stale && !is_foreign && !is_used && !self.is_up(self.host(at));
            if is_possible && self.may(setup, Fault::ForeignImport) {
                steps.push(Step::ForeignImport(at));
            }
            if self.may(setup, Fault::OlderImage) && disk.image != disk.durable {
                steps.push(Step::SaveImage(at));
                let is_out = self.committed.stale.contains_key(&disk_id(at));
                if is_out && !is_foreign && !is_used && !self.is_up(self.host(at)) {
                    steps.push(Step::RestoreImage(at));
                }
            }
        }
    }
}
