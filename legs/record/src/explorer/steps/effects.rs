//! The effects of a step.

use super::Step;
use crate::explorer::world::{
    Content, Envelope, FOREIGN, Io, Operation, Payload, Progress, Resilver, Sent, Setup, World,
    Writes, disk_id, idle_groups, member_id, two_heads,
};
use crate::explorer::{invariants, search::cover};
use crate::rules::{Rule, holds};
use crate::{Event, LenderResponse, MemberState, Owner, Request, Version};
use std::rc::Rc;

impl World {
    /// Performs a step.
    pub(in crate::explorer) fn take(&mut self, setup: &Setup, step: Step) {
        match step {
            Step::Deliver(at) => {
                if let Some(envelope) = self.sent(at) {
                    self.net.retain(|sent| sent.key != at);
                    self.deliver(setup, &envelope);
                }
            }
            Step::Duplicate(at) => {
                self.faults += 1;
                if let Some(envelope) = self.sent(at) {
                    self.deliver(setup, &envelope);
                }
            }
            Step::Lose(at) => {
                self.faults += 1;
                self.net.retain(|sent| sent.key != at);
            }
            Step::Open(head) => self.open(setup, head, None),
            Step::OpenByConfirmation(head) => {
                let word = self.valid_confirmation(setup, head);
                self.open(setup, head, word);
            }
            Step::Listen(head) => self.event(setup, head, Event::Listen),
            Step::Issue(head) => self.client_write(head),
            Step::Land { disk, at } => self.land(setup, disk, at),
            Step::Written(head) => {
                let one = self.head(head);
                one.memory = one.unwritten.take().unwrap_or_else(|| one.memory.clone());
            }
            Step::Deadline(head) => {
                self.faults += u8::from(!self.is_quiet(head));
                self.event(setup, head, Event::Deadline);
            }
            Step::LegDeadline { head, disk } => {
                self.faults += u8::from(self.is_io_in_flight(head, disk));
                self.leg_failed(setup, head, disk, true);
            }
            Step::ReadFails { head, disk } => {
                self.faults += 1;
                cover("a read fails");
                self.event(setup, head, Event::ReadFailed(disk_id(disk)));
            }
            Step::Unusable { head, disk } => {
                self.faults += 1;
                self.leg_failed(setup, head, disk, false);
            }
            Step::LegUsable { head, disk } => {
                self.event(setup, head, Event::LegUsable(disk_id(disk)));
            }
            Step::Look(head) => self.event(setup, head, Event::Look),
            Step::LinkLost { head, disk } => self.lose_link(setup, head, disk),
            Step::LegReturned { head, disk } => self.leg_returned(setup, head, disk),
            Step::Copy { head, disk } => self.copy(head, disk),
            _ => self.take_fault(setup, step),
        }
        self.prune(setup);
        invariants::check(self, setup);
    }

    fn take_fault(&mut self, setup: &Setup, step: Step) {
        let is_free = matches!(
            step,
            Step::Boot(_)
                | Step::Thaw(_)
                | Step::FenceByConfirmation(_)
                | Step::Heal(..)
                | Step::DiskHeals(_)
                | Step::PowerOff(_)
                | Step::FenceReport(_)
                | Step::Replace { .. }
        );
        self.faults += u8::from(!is_free);
        match step {
            Step::Crash(head) => self.crash(head),
            Step::Boot(head) => self.boot(head),
            Step::Freeze(head) => self.head(head).is_frozen = true,
            Step::Thaw(head) => {
                cover("a frozen head resumes");
                self.head(head).is_frozen = false;
                self.event(setup, head, Event::Thawed);
            }
            Step::FenceByConfirmation(at) => {
                cover("a frozen head is taken for one that is off");
                self.fences[usize::from(at)].is_done = true;
                // The frozen head has a server until it resumes and receives a message.
                self.has_lie = true;
            }
            Step::ServerCrash(head) => self.server_crash(head),
            Step::LenderRestart(disk) => {
                let keeps_epoch = holds(Rule::LendersStoreEpoch);
                self.disk(disk).restart(keeps_epoch);
            }
            Step::Cut(one, other) | Step::Heal(one, other) => self.toggle_cut(one, other),
            Step::DiskFails(disk) => self.disk(disk).fails = true,
            Step::DiskHeals(disk) => self.disk(disk).fails = false,
            Step::PowerOff(at) => {
                cover("a head is powered off");
                self.fences[usize::from(at)].is_done = true;
                let head = self.fences[usize::from(at)].head;
                self.crash(head);
            }
            Step::FenceFails(at) => {
                let order = self.fences.remove(at.into());
                self.event(setup, order.by, Event::FenceFailed(order.number));
            }
            Step::FenceLies(at) => {
                self.fences[usize::from(at)].is_done = true;
                self.has_lie = true;
            }
            Step::FenceReport(at) => {
                let order = self.fences.remove(at.into());
                self.event(setup, order.by, Event::Fenced(order.number));
            }
            Step::PowerLoss => {
                for head in 0..self.heads.len() as u8 {
                    self.crash(head);
                }
                self.net.clear();
            }
            Step::ForeignImport(disk) => {
                let content = &mut self.disk(disk).durable;
                content.history |= FOREIGN;
                content.blocks |= FOREIGN;
                // Several groups, each with a root.
                content.group += 5;
                content.before = content.group - 1;
            }
            Step::Forget(member) => self.forget(member),
            Step::SaveImage(disk) => {
                let one = self.disk(disk);
                one.image = one.durable;
            }
            Step::RestoreImage(disk) => {
                cover("an older image is put back");
                let one = self.disk(disk);
                one.durable = one.image;
            }
            Step::Discard { head, disk } => {
                // Its labels are cleared: it is copied in full.
                let one = self.disk(disk);
                one.is_given_up = true;
                one.cache = None;
                one.durable = Content::NOTHING;
                self.event(setup, head, Event::Discard(disk_id(disk)));
            }
            Step::Exchange(disk) => {
                cover("a disk is exchanged");
                let one = self.disk(disk);
                one.durable = Content::NOTHING;
                one.is_exchanged = true;
                one.fails = false;
                // Its lender restarts with the stored state of the replaced disk.
                one.restart(true);
            }
            Step::Replace { head, disk } => {
                let one = self.disk(disk);
                one.is_exchanged = false;
                // Any disk at this path from now on.
                one.is_given_up = true;
                self.event(setup, head, Event::Discard(disk_id(disk)));
            }
            Step::Attach { head, disk } => {
                cover("a disk is attached");
                self.disk(disk).is_given_up = true;
                self.event(setup, head, Event::Discard(disk_id(disk)));
            }
            Step::Members { head, is_wider } => {
                self.lives += 1;
                let life = self.lives.into();
                let desired = match is_wider {
                    true => setup.kind.wider(),
                    false => two_heads(),
                };
                self.event(setup, head, Event::Members { desired, life });
                self.event(setup, head, Event::Look);
            }
            Step::MembersStay(head) => self.event(setup, head, Event::MembersStay),
            Step::Export(head) => {
                self.head(head).server = None;
                self.event(setup, head, Event::Exported);
            }
            _ => {}
        }
    }

    fn forget(&mut self, member: u8) {
        cover("a member loses its memory");
        self.lives += 1;
        let life = self.lives.into();
        if let Some(one) = self.member(member) {
            one.unwritten = None;
            one.memory = match holds(Rule::LostMembersDoNotVote) {
                true => MemberState::again(life),
                false => MemberState::default(),
            };
        }
    }

    /// Removes messages that no state depends on: losing them changes nothing, and fewer states remain.
    fn prune(&mut self, setup: &Setup) {
        if !holds(Rule::ResponsesOfThisBoot) {
            return;
        }
        let mut net = std::mem::take(&mut self.net);
        net.retain(|sent| self.is_of_use(setup, &sent.envelope));
        self.net = net;
    }

    fn is_of_use(&self, setup: &Setup, envelope: &Envelope) -> bool {
        let to = usize::from(envelope.to);
        match &envelope.payload {
            Payload::Response(response) => {
                let config = self.config(setup, envelope.to);
                self.heads[to].owner.awaits(&config, response)
            }
            Payload::LenderResponse(_, response) => {
                let session = response.session();
                self.heads[to].owner.claims(session.ballot)
            }
            Payload::IoDone(io, _) => {
                let server = self.heads[to].server.as_ref();
                let leg = server.and_then(|server| server.legs.get(&io.disk));
                leg.is_some_and(|leg| leg.session == io.session)
            }
            Payload::Request(Request::Read(tag)) => {
                self.heads[usize::from(envelope.from)].owner.reads(*tag)
            }
            _ => true,
        }
    }

    fn open(&mut self, setup: &Setup, head: u8, word: Option<Version>) {
        self.opens += 1;
        let nonce = u64::from(self.opens);
        self.event(setup, head, Event::Open { nonce, word });
    }

    fn client_write(&mut self, head: u8) {
        self.issued += 1;
        let number = self.issued;
        let Some(server) = &mut self.head(head).server else {
            return;
        };
        server.group += idle_groups(number) + 1;
        server.history |= 1 << number;
        server.write = Some(number);
        self.births[usize::from(number)] = server.group;
        self.issue_write(head);
    }

    pub(in crate::explorer) fn sent(&self, key: u64) -> Option<Rc<Envelope>> {
        let found = self.net.iter().find(|sent| sent.key == key);
        found.map(|sent| sent.envelope.clone())
    }

    fn deliver(&mut self, setup: &Setup, envelope: &Envelope) {
        let Envelope { from, to, payload } = envelope.clone();
        if from != to && usize::from(to) < self.heads.len() {
            self.event(setup, to, Event::Received(member_id(from)));
        }
        match payload {
            Payload::Request(request) => {
                let response = self.response(to, request);
                match response {
                    Some(response) if from == to => {
                        let event = Event::Responded(member_id(to), response);
                        self.event(setup, to, event);
                    }
                    Some(response) => self.send(to, from, Payload::Response(response)),
                    None => {}
                }
            }
            Payload::Response(response) => {
                self.event(setup, to, Event::Responded(member_id(from), response));
            }
            Payload::LenderRequest(disk, request) => {
                let one = self.disk(disk);
                let roots = one.visible().roots();
                let reply = one.lender.handle(request, roots);
                one.lender_state = reply.write.unwrap_or(one.lender_state);
                if let Some(response) = reply.response {
                    self.lender_response(disk, from, response);
                }
            }
            Payload::LenderResponse(disk, response) => {
                self.event(setup, to, Event::Lent(disk_id(disk), response));
            }
            Payload::Io(io) => self.arrive(io),
            Payload::Returned(disk, session, completeness) => {
                let disk = disk_id(disk);
                let event = Event::Returned {
                    disk,
                    session,
                    completeness,
                };
                self.event(setup, to, event);
            }
            Payload::IoDone(io, is_good) => self.io_done(setup, io, is_good),
        }
    }

    fn lender_response(&mut self, disk: u8, to: u8, response: LenderResponse) {
        let host = self.host(disk);
        self.send(host, to, Payload::LenderResponse(disk, response));
    }

    /// Completes I/O that the lender accepted.
    fn land(&mut self, setup: &Setup, disk: u8, at: u8) {
        let io = self.disk(disk).in_flight.remove(at.into());
        let one = self.disk(disk);
        one.lender.io_ended();
        let is_good = !one.fails;
        if is_good {
            self.apply(io);
        }
        let one = self.disk(disk);
        let roots = one.visible().roots();
        if let Some(response) = one.lender.admit(roots) {
            let session = response.session();
            // The term identifies the claimant: each open has a nonce of its own.
            for head in 0..self.heads.len() as u8 {
                if self.heads[usize::from(head)].owner.claims(session.ballot) {
                    self.lender_response(disk, head, response);
                }
            }
        }
        match self.host(io.disk) {
            host if host == io.from => self.io_done(setup, io, is_good),
            host => self.send(host, io.from, Payload::IoDone(io, is_good)),
        }
    }

    fn apply(&mut self, io: Io) {
        if matches!(io.operation, Operation::Write(_) | Operation::Copy(_)) {
            invariants::on_landing(self, io.disk);
        }
        let is_local = io.from == self.host(io.disk);
        let disk = self.disk(io.disk);
        let mut content = disk.visible();
        match io.operation {
            Operation::Write(new) => {
                // A late write lands on top of newer ones.
                let is_late = new.group <= content.group;
                let lender_state = if is_late { new.history } else { Writes::MAX };
                content.blocks = content.blocks & lender_state | new.blocks;
                content.take_root(new);
            }
            Operation::Copy(new) => {
                content.blocks |= new.blocks;
                content.take_root(new);
            }
            Operation::Flush | Operation::CopyFlush => {}
        }
        let is_flush = matches!(io.operation, Operation::Flush | Operation::CopyFlush);
        match is_flush || is_local {
            true => (disk.durable, disk.cache) = (content, None),
            false => disk.cache = Some(content),
        }
    }

    fn lose_link(&mut self, setup: &Setup, head: u8, disk: u8) {
        self.faults += 1;
        self.net
            .retain(|Sent { envelope, .. }| match &envelope.payload {
                // I/O in flight may still arrive.
                Payload::IoDone(io, _) => io.from != head || io.disk != disk,
                _ => true,
            });
        let Some(server) = &mut self.head(head).server else {
            return;
        };
        let Some(leg) = server.legs.get_mut(&disk) else {
            return;
        };
        leg.is_parted = true;
        let event = Event::LinkLost {
            disk: disk_id(disk),
            flushed: leg.flushed.map(u64::from),
        };
        self.event(setup, head, event);
    }

    fn leg_returned(&mut self, setup: &Setup, head: u8, disk: u8) {
        let server = self.heads[usize::from(head)].server.as_ref();
        let event = Event::LegReturned {
            disk: disk_id(disk),
            newest_group: server.map_or(0, |server| server.group.into()),
        };
        self.event(setup, head, event);
    }

    fn copy(&mut self, head: u8, disk: u8) {
        if !self.can_write_group(head, disk) {
            return;
        }
        let Some(server) = &mut self.head(head).server else {
            return;
        };
        let Some(leg) = server.legs.get_mut(&disk) else {
            return;
        };
        let Resilver::Due { since, beyond } = leg.resilver else {
            return;
        };
        leg.resilver = Resilver::Copying { since };
        // After the copy, two groups are written, with roots, first to the other legs.
        server.group = server.group.max(beyond as u8) + 2;
        let (group, history) = (server.group, server.history);
        let others = server.legs.iter_mut().filter(|(other, _)| **other != disk);
        let mut written = Vec::new();
        for (other, leg) in others {
            if matches!(leg.resilver, Resilver::No | Resilver::Done) {
                leg.flushed = Some(group);
                written.push(*other);
            }
        }
        for other in written {
            let root = Content {
                blocks: 0,
                history,
                group,
                before: group - 1,
            };
            self.disk(other).durable.take_root(root);
        }
        self.issue(head, disk, true);
    }

    /// Whether all legs except that one can be written.
    fn can_write_group(&self, head: u8, without: u8) -> bool {
        let server = self.heads[usize::from(head)].server.as_ref();
        let Some(server) = server else {
            return false;
        };
        server.legs.iter().all(|(at, leg)| {
            let (disk, host) = (&self.disks[usize::from(*at)], self.host(*at));
            let is_reached = self.is_up(host) && !self.is_cut(head, host) && !leg.is_parted;
            let is_good = leg.progress == Progress::Done && disk.cache.is_none() && !disk.fails;
            let takes = disk.lender.takes(leg.session, leg.incarnation);
            *at == without || (is_reached && is_good && takes)
        })
    }

    fn crash(&mut self, head: u8) {
        let one = self.head(head);
        one.is_up = false;
        one.is_frozen = false;
        one.server = None;
        one.unwritten = None;
        one.owner = Owner::new(one.boots.into());
        self.fences.retain(|order| order.by != head);
        for disk in 0..self.disks.len() as u8 {
            if self.host(disk) == head {
                self.disk(disk).restart(holds(Rule::LendersStoreEpoch));
            }
        }
        // Connections for I/O are closed; I/O in flight to other heads may still arrive there.
        self.net
            .retain(|Sent { envelope, .. }| match &envelope.payload {
                Payload::Io(_) | Payload::IoDone(..) | Payload::Returned(..) => envelope.to != head,
                Payload::Request(_) => envelope.from != envelope.to || envelope.to != head,
                _ => true,
            });
    }

    fn boot(&mut self, head: u8) {
        let one = self.head(head);
        one.is_up = true;
        one.boots += 1;
        one.owner = Owner::new(one.boots.into());
    }

    fn server_crash(&mut self, head: u8) {
        let one = self.head(head);
        one.server = None;
        one.boots += 1;
        one.owner = Owner::new(one.boots.into());
        self.fences.retain(|order| order.by != head);
        self.net
            .retain(|Sent { envelope, .. }| match &envelope.payload {
                Payload::Request(_) => envelope.from != envelope.to || envelope.to != head,
                Payload::IoDone(..) | Payload::Returned(..) => envelope.to != head,
                _ => true,
            });
    }
}
