//! The initial states of explorations, and the steps that happen without a fault.

use super::Step;
use crate::Request;
use crate::explorer::world::{
    Envelope, Kind, Payload, Setup, Start, WITNESS, World, digest, disk_id,
};
use std::collections::BTreeSet;

impl Step {
    /// Priority of a step when there is no fault. `None` for steps that need a cause.
    fn order(self) -> Option<u8> {
        match self {
            Self::Written(_) => Some(0),
            Self::Deliver(_) => Some(1),
            Self::Land { .. } | Self::Copy { .. } => Some(2),
            Self::PowerOff(_) | Self::FenceReport(_) => Some(3),
            Self::LegDeadline { .. } | Self::LegUsable { .. } => Some(4),
            Self::Deadline(_) => Some(5),
            _ => None,
        }
    }
}

impl Setup {
    /// The initial state of the exploration.
    pub(in crate::explorer) fn world(&self) -> World {
        let mut world = self.new_world();
        if self.start == Start::New {
            return world;
        }
        if self.start == Start::Frozen {
            self.freeze(&mut world);
            (world.faults, world.opens) = (0, 0);
            return world;
        }
        world.then(self, Step::Open(0));
        if self.kind == Kind::Left {
            let step = Step::Members {
                head: 0,
                is_wider: false,
            };
            world.then(self, step);
        }
        if matches!(self.start, Start::Usurped | Start::Unresponsive) {
            world.toggle_cut(0, 1);
            world.take(self, Step::Open(1));
            world.settle_by(self, |_, step| !matches!(step, Step::PowerOff(_)));
            world.then(self, Step::FenceLies(0));
            world.then(self, Step::Issue(1));
            world.toggle_cut(0, 1);
        }
        if self.start == Start::Apart {
            world.then(self, Step::Listen(1));
        }
        if matches!(self.start, Start::Alone | Start::Apart) {
            world.toggle_cut(0, 1);
        }
        if self.start == Start::Requested {
            self.request_before_boot(&mut world);
        }
        if self.start == Start::Torn {
            world.then(self, Step::Listen(1));
            world.toggle_cut(0, 1);
            world.take(self, Step::Issue(0));
            world.settle_by(self, |_, step| !matches!(step, Step::Deadline(_)));
            world.take(self, Step::Crash(0));
            world.toggle_cut(0, 1);
            world.net.clear();
        }
        if self.start == Start::Parting {
            self.part(&mut world);
        }
        if self.start == Start::Held {
            self.hold_the_welcome(&mut world);
        }
        if self.start == Start::Ahead {
            self.die_ahead(&mut world);
        }
        if self.start == Start::Gathered {
            for disk in 0..world.disks.len() as u8 {
                if !world.committed.names(disk_id(disk)) {
                    world.then(self, Step::Attach { head: 0, disk });
                }
            }
        }
        if self.start == Start::Aged {
            world.then(self, Step::Issue(0));
        }
        if self.start == Start::Forgotten {
            self.lose_promise(&mut world);
        }
        let are_whole = [
            Start::Served,
            Start::Usurped,
            Start::Unresponsive,
            Start::Torn,
            Start::Ahead,
            Start::Narrow,
            Start::Grouped,
            Start::Gathered,
            Start::Parting,
            Start::Held,
            Start::Requested,
            Start::Forgotten,
        ];
        if !are_whole.contains(&self.start) {
            world.then(self, Step::DiskFails(1));
            world.then(self, Step::Issue(0));
            world.then(self, Step::DiskHeals(1));
        }
        if self.start == Start::Alone {
            world.toggle_cut(0, 1);
            world.net.clear();
            world.then(self, Step::Boot(1));
        }
        if self.start == Start::Unresponsive {
            world.take(self, Step::Forget(WITNESS));
            world.toggle_cut(0, 1);
        }
        if self.start == Start::Late {
            self.return_late(&mut world);
        }
        if self.start == Start::Relapsed {
            world.take(self, Step::LegReturned { head: 0, disk: 1 });
            world.settle_by(self, |_, step| !matches!(step, Step::Copy { .. }));
            world.take(self, Step::Issue(0));
            world.settle_by(self, |_, step| !matches!(step, Step::Copy { .. }));
            world.take(self, Step::DiskFails(1));
            world.take(self, Step::Issue(0));
            world.settle_by(self, |_, step| !matches!(step, Step::Copy { .. }));
            world.take(self, Step::DiskHeals(1));
        }
        if self.start == Start::OnOtherHead {
            world.then(self, Step::Export(0));
            world.then(self, Step::Open(1));
        }
        if matches!(self.start, Start::Proposed | Start::Grown) {
            self.propose_growth(&mut world);
        }
        (world.faults, world.opens) = (0, 0);
        world
    }

    fn request_before_boot(&self, world: &mut World) {
        world.take(self, Step::Listen(1));
        world.settle_by(self, |world, step| match step {
            Step::Deliver(key) => world.sent(*key).is_some_and(|sent| sent.to == 0),
            _ => false,
        });
        world.take(self, Step::Crash(1));
        world.take(self, Step::Boot(1));
    }

    fn part(&self, world: &mut World) {
        let step = Step::Members {
            head: 0,
            is_wider: false,
        };
        world.take(self, step);
        world.settle_by(self, |world, step| match step {
            Step::Deliver(key) => world.sent(*key).is_some_and(|sent| sent.to != 0),
            _ => !matches!(step, Step::Deadline(_)),
        });
        world.take(self, Step::Crash(0));
        world.net.clear();
        world.take(self, Step::Boot(0));
        world.then(self, Step::Listen(1));
    }

    fn hold_the_welcome(&self, world: &mut World) {
        for is_wider in [true, false] {
            let step = Step::Members { head: 0, is_wider };
            world.take(self, step);
            world.settle_by(self, |world, step| match step {
                Step::Deliver(key) => world.sent(*key).is_some_and(|sent| !is_welcome(&sent)),
                _ => true,
            });
        }
    }

    fn freeze(&self, world: &mut World) {
        world.then(self, Step::Listen(0));
        world.then(self, Step::Listen(1));
        world.then(self, Step::Open(0));
        world.then(self, Step::Export(0));
        world.take(self, Step::Freeze(0));
        world.take(self, Step::Open(1));
        for _ in 0..2 {
            world.settle_by(self, |_, step| !matches!(step, Step::PowerOff(_)));
            if !world.fences.is_empty() {
                world.take(self, Step::FenceByConfirmation(0));
            }
        }
        world.settle(self);
        world.then(self, Step::Issue(1));
        world.net.clear();
    }

    fn lose_promise(&self, world: &mut World) {
        world.toggle_cut(0, 1);
        world.take(self, Step::Open(1));
        world.settle_by(self, |_, step| !matches!(step, Step::PowerOff(_)));
        world.take(self, Step::FenceLies(0));
        world.take(self, Step::FenceReport(0));
        world.take(self, Step::Forget(1));
        world.toggle_cut(0, 1);
        // Messages in flight from head 1 are late.
        let is_late = |world: &World, key| {
            let sent = world.sent(key);
            sent.is_some_and(|one| one.from == 1 && one.to != 0 || one.to == 0 && is_claim(&one))
        };
        let goes_on = |world: &World, step: &Step| match step {
            Step::Deliver(key) => !is_late(world, *key),
            _ => !matches!(step, Step::Deadline(_) | Step::PowerOff(_)),
        };
        world.take(self, Step::Look(0));
        world.settle_by(self, goes_on);
        world.take(self, Step::DiskFails(1));
        world.take(self, Step::Issue(0));
        world.settle_by(self, |world, step| match step {
            Step::Deliver(key) => {
                let to_witness = world.sent(*key).is_some_and(|one| one.to == WITNESS);
                goes_on(world, step) && !to_witness
            }
            _ => goes_on(world, step),
        });
        world.take(self, Step::DiskHeals(1));
    }

    fn return_late(&self, world: &mut World) {
        let is_told = |world: &World, step: &Step| match step {
            Step::Deliver(key) => {
                let sent = world.sent(*key);
                sent.is_some_and(|one| matches!(one.payload, Payload::Returned(..)))
            }
            _ => false,
        };
        world.take(self, Step::LegReturned { head: 0, disk: 1 });
        world.settle_by(self, |world, step| !is_told(world, step));
        world.take(self, Step::DiskFails(1));
        world.take(self, Step::Issue(0));
        world.settle_by(self, |world, step| !is_told(world, step));
        world.take(self, Step::DiskHeals(1));
    }

    fn die_ahead(&self, world: &mut World) {
        world.take(self, Step::Issue(0));
        world.settle_by(self, |_, step| !matches!(step, Step::Land { disk: 0, .. }));
        world.take(self, Step::Crash(0));
        world.net.clear();
        world.take(self, Step::Boot(0));
        world.toggle_cut(0, 1);
        world.then(self, Step::Open(0));
        world.then(self, Step::Issue(0));
        world.toggle_cut(0, 1);
    }

    fn propose_growth(&self, world: &mut World) {
        if self.start == Start::Grown {
            world.then(self, Step::Listen(1));
        }
        world.take(self, Step::LegReturned { head: 0, disk: 1 });
        world.settle_by(self, |_, step| !matches!(step, Step::Copy { .. }));
        world.take(self, Step::Copy { head: 0, disk: 1 });
        let is_proposal = |world: &World, key| {
            let sent = world.sent(key);
            sent.is_some_and(|one| matches!(one.payload, Payload::Request(Request::Propose(_))))
        };
        world.settle_by(self, |world, step| match step {
            Step::Deliver(key) => !is_proposal(world, *key),
            _ => !matches!(step, Step::Deadline(_)),
        });
        if self.start == Start::Grown {
            let sent = world.net.iter().find(|sent| sent.envelope.to == 1);
            if let Some(key) = sent.map(|sent| sent.key) {
                world.take(self, Step::Deliver(key));
            }
            world.take(self, Step::Crash(0));
            world.net.clear();
            world.take(self, Step::Boot(0));
        }
    }
}

fn is_welcome(envelope: &Envelope) -> bool {
    matches!(envelope.payload, Payload::Request(Request::Welcome(_)))
}

fn is_claim(envelope: &Envelope) -> bool {
    matches!(
        envelope.payload,
        Payload::Request(Request::Claim { .. }) | Payload::LenderRequest(..)
    )
}

impl World {
    /// Performs steps that are no faults until none is left.
    pub(in crate::explorer) fn settle(&mut self, setup: &Setup) {
        self.settle_by(setup, |_, _| true);
    }

    /// The same, with the permitted steps only.
    pub(in crate::explorer) fn settle_by(
        &mut self,
        setup: &Setup,
        may: impl Fn(&Self, &Step) -> bool,
    ) {
        self.settle_bounded(setup, usize::MAX, may);
    }

    /// Performs the first `count` of these steps. Returns whether there are more.
    pub(in crate::explorer) fn settle_for(&mut self, setup: &Setup, count: usize) -> bool {
        self.settle_bounded(setup, count, |_, _| true)
    }

    fn settle_bounded(
        &mut self,
        setup: &Setup,
        count: usize,
        may: impl Fn(&Self, &Step) -> bool,
    ) -> bool {
        let mut seen = BTreeSet::new();
        for _ in 0..count {
            let mut steps = self.steps(&Setup {
                faults_max: 0,
                ..setup.clone()
            });
            steps.retain(|step| step.order().is_some() && may(self, step));
            steps.sort_by_key(|step| step.order());
            let next = steps.into_iter().find_map(|step| {
                let mut next = self.clone();
                next.take(setup, step);
                seen.insert(digest(&next)).then_some(next)
            });
            match next {
                Some(next) => *self = next,
                None => return false,
            }
        }
        true
    }

    /// Performs a step, and those that follow without a fault.
    pub(in crate::explorer) fn then(&mut self, setup: &Setup, step: Step) {
        self.take(setup, step);
        self.settle(setup);
    }
}
