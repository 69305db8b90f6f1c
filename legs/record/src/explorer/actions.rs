//! Carries out the actions of an owner, and the driver's part of the pool server.

use super::invariants;
use super::search::{cover, note};
use super::world::{
    Content, DriverLeg, Io, Kind, Operation, Payload, Progress, Resilver, Sent, Server, Setup,
    World, disk_id, disk_of, member_id, member_of,
};
use crate::rules::{Rule, holds};
use crate::{
    Action, Completeness, DiskId, Event, LenderRequest, MemberState, Notice, Record, Request,
    Session,
};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

impl World {
    /// Passes an event to the owner on a head, and performs the resulting actions.
    pub(super) fn event(&mut self, setup: &Setup, head: u8, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let config = &setup.configs[usize::from(head)];
            let one = self.head(head);
            let own = one.unwritten.as_ref().unwrap_or(&one.memory);
            let actions = one.owner.handle(config, own, event);
            for action in actions {
                events.extend(self.act(setup, head, action));
            }
        }
    }

    fn act(&mut self, setup: &Setup, head: u8, action: Action) -> Option<Event> {
        match action {
            Action::Request(member, request) => {
                return self.send_request(setup, head, member_of(member), request);
            }
            Action::LenderRequest(disk, request) => {
                self.request_lender(head, disk_of(disk), request)
            }
            Action::Fence(victim, number) => self.order_fence(head, member_of(victim), number),
            Action::Import { legs, .. } => self.import(head, &legs),
            Action::ReleaseErrors(disk) => return self.release(setup, head, disk_of(disk)),
            Action::Resume(disk, session) => self.resume(head, disk_of(disk), session),
            Action::Resilver {
                disk,
                since,
                beyond,
                session,
                incarnation,
            } => self.begin_resilver(head, disk_of(disk), (since, beyond), session, incarnation),
            Action::Committed(record) => {
                cover("a record is committed");
                invariants::on_commit(self, setup, &record);
                if record.members != self.committed.members {
                    cover("the members are changed");
                }
                let mut groups = setup.configs[0].groups.iter();
                if groups.any(|one| one.is_in_use(&record) && !one.is_in_use(&self.committed)) {
                    cover("a group joins");
                }
                self.committed = Rc::new(Record::clone(&self.committed).newer(record));
            }
            Action::Stop => self.head(head).server = None,
            Action::Closed => cover("a pool is given up in order"),
            Action::UseAgain(disk) => return self.use_again(head, disk_of(disk)),
            // In the explorer it is always due.
            Action::Recall(_) => cover("a leg that is needed is recalled"),
            Action::Notify(notice) => self.reported(head, &notice),
        }
        None
    }

    fn reported(&mut self, head: u8, notice: &Notice) {
        note(notice);
        match notice {
            Notice::Refused(_) => cover("a start is refused"),
            Notice::WritesWait { .. } => cover("writes wait"),
            Notice::LastLeg(disk) => {
                cover("the last leg fails");
                invariants::on_last_leg(self, head, disk_of(*disk));
            }
            Notice::OlderImage(_) => cover("an older image is noticed"),
            Notice::MembersStay => cover("a change of members is taken back"),
            Notice::Divergent(disk) => {
                cover("a disk diverges");
                invariants::on_divergence(self, disk_of(*disk));
            }
        }
    }

    fn send_request(
        &mut self,
        setup: &Setup,
        head: u8,
        member: u8,
        request: Request,
    ) -> Option<Event> {
        if let Request::Propose(record) = &request {
            invariants::on_proposal(self, record);
        }
        // Reads of three members only prepare the claim, which reads again: they are one step.
        let are_two = matches!(setup.kind, Kind::TwoHeads | Kind::WideTwoHeads);
        let is_three = !are_two && !setup.kind.names_members();
        let is_read = matches!(request, Request::Read(_)) && is_three;
        let is_reached = self.is_up(member) && !self.is_cut(head, member);
        let is_own = member == head && !matches!(request, Request::Propose(_));
        if !(is_own || is_read && is_reached) {
            self.send(head, member, Payload::Request(request));
            return None;
        }
        let response = self.response(member, request)?;
        Some(Event::Responded(member_id(member), response))
    }

    /// A member handles a request and writes its state.
    pub(super) fn response(&mut self, member: u8, request: Request) -> Option<crate::Response> {
        let is_welcome = matches!(request, Request::Welcome(_));
        let is_join = matches!(request, Request::Join { .. });
        let head = self.member(member)?;
        if *head.known() == MemberState::default() && !is_join {
            // It reports that it has no state of the pool. This does not count as a response.
            return None;
        }
        let serves = head.owner.has_term();
        let reply = head.known().handle(member_id(member), request, serves);
        if is_welcome && reply.write.is_some() {
            cover("a member that lost its memory is one again");
        }
        if let Some(memory) = reply.write {
            match holds(Rule::MembersWriteBeforeResponse) {
                true => head.memory = memory,
                false => head.unwritten = Some(memory),
            }
        }
        reply.response
    }

    fn request_lender(&mut self, head: u8, disk: u8, request: LenderRequest) {
        let host = self.host(disk);
        self.send(head, host, Payload::LenderRequest(disk, request));
    }

    fn order_fence(&mut self, by: u8, head: u8, number: u32) {
        self.fences.retain(|order| order.by != by);
        self.fences.push(super::world::FenceOrder {
            by,
            head,
            number,
            is_done: false,
        });
    }

    fn import(&mut self, head: u8, legs: &BTreeMap<DiskId, (Session, u64)>) {
        let disks: Vec<u8> = legs.keys().map(|disk| disk_of(*disk)).collect();
        let contents = disks
            .iter()
            .map(|disk| self.disks[usize::from(*disk)].visible());
        let newest = contents.max_by_key(|content| content.group);
        let Some(newest) = newest else { return };
        cover("a pool is imported");
        invariants::on_import(self, head, &disks, newest);
        let driver_leg = |(session, incarnation): &(Session, u64)| DriverLeg {
            session: *session,
            incarnation: *incarnation,
            progress: Progress::Writing,
            resilver: Resilver::No,
            flushed: None,
            is_parted: false,
            lacks: false,
        };
        let driver_legs = legs
            .iter()
            .map(|(disk, leg)| (disk_of(*disk), driver_leg(leg)));
        self.head(head).server = Some(Server {
            history: newest.history,
            group: newest.group + 1,
            is_open: false,
            write: Some(0),
            legs: driver_legs.collect(),
        });
        self.issue_write(head);
    }

    /// Sends the write in progress to all legs.
    pub(super) fn issue_write(&mut self, head: u8) {
        let Some(server) = &mut self.head(head).server else {
            return;
        };
        let mut disks = Vec::new();
        for (disk, leg) in &mut server.legs {
            if leg.progress != Progress::Failed {
                leg.progress = Progress::Writing;
                disks.push(*disk);
            }
        }
        for disk in disks {
            self.issue(head, disk, false);
        }
    }

    /// Sends the pending I/O for one leg: of the write, or of the resilver.
    pub(super) fn issue(&mut self, head: u8, disk: u8, is_resilver: bool) {
        let Some(server) = &self.heads[usize::from(head)].server else {
            return;
        };
        let Some(leg) = server.legs.get(&disk) else {
            return;
        };
        let blocks = match server.write {
            Some(0) => server.history,
            Some(number) => 1 << number,
            None => 0,
        };
        let operation = match (is_resilver, leg.progress, leg.resilver) {
            (false, Progress::Writing, _) => Operation::Write(Content {
                blocks,
                history: server.history,
                group: server.group,
                before: 0,
            }),
            (false, Progress::Flushing, _) => Operation::Flush,
            (true, _, Resilver::Copying { since }) => Operation::Copy(Content {
                blocks: self.born_since(server.history, since),
                history: server.history,
                group: server.group,
                before: server.group - 1,
            }),
            (true, _, Resilver::Flushing { .. }) => Operation::CopyFlush,
            _ => return,
        };
        let io = Io {
            from: head,
            disk,
            session: leg.session,
            incarnation: leg.incarnation,
            operation,
        };
        match self.host(disk) {
            host if host == head => self.arrive(io),
            host => self.send(head, host, Payload::Io(io)),
        }
    }

    /// I/O reaches the lender.
    pub(super) fn arrive(&mut self, io: Io) {
        let disk = self.disk(io.disk);
        if disk.lender.takes(io.session, io.incarnation) {
            disk.lender.io_begins();
            disk.in_flight.push(io);
        } else {
            let host = self.host(io.disk);
            self.send(host, io.from, Payload::IoDone(io, false));
        }
    }

    /// The driver receives the completion of I/O.
    pub(super) fn io_done(&mut self, setup: &Setup, io: Io, is_good: bool) {
        let is_local = io.from == self.host(io.disk);
        let Some(server) = &mut self.head(io.from).server else {
            return;
        };
        let group = server.group;
        let Some(leg) = server.legs.get_mut(&io.disk) else {
            return;
        };
        if leg.session != io.session || leg.progress == Progress::Failed || leg.is_parted {
            return;
        }
        if !is_good {
            return self.leg_failed(setup, io.from, io.disk, true);
        }
        let (mut returned, mut copied) = (None, 0);
        match (io.operation, leg.progress, leg.resilver) {
            (Operation::Write(content), Progress::Writing, _) if content.group == group => {
                leg.progress = Progress::Flushing;
                if is_local {
                    (leg.progress, leg.flushed) = (Progress::Done, Some(group));
                } else {
                    self.issue(io.from, io.disk, false);
                }
            }
            (Operation::Flush, Progress::Flushing, _) => {
                (leg.progress, leg.flushed) = (Progress::Done, Some(group));
            }
            (Operation::Copy(content), _, Resilver::Copying { .. }) => {
                copied = content.group.into();
                leg.resilver = match is_local {
                    true => Resilver::Done,
                    false => Resilver::Flushing {
                        group: content.group,
                    },
                };
                returned = Some(is_local);
                self.issue(io.from, io.disk, true);
            }
            (Operation::CopyFlush, _, Resilver::Flushing { group }) => {
                copied = group.into();
                leg.resilver = Resilver::Done;
                returned = Some(true);
            }
            _ => {}
        }
        if let Some(is_flushed) = returned {
            let completeness = Completeness {
                lacks_nothing: true,
                are_groups_synced: true,
                is_flushed,
                group: copied,
            };
            let returned = Payload::Returned(io.disk, io.session, completeness);
            self.send(io.from, io.from, returned);
        }
        if let Some(event) = self.check_end(io.from) {
            self.event(setup, io.from, event);
        }
    }

    /// `lacks`: because of a write or flush, not because of an error that the library reports.
    pub(super) fn leg_failed(&mut self, setup: &Setup, head: u8, disk: u8, lacks: bool) {
        let Some(server) = &mut self.head(head).server else {
            return;
        };
        let Some(leg) = server.legs.get_mut(&disk) else {
            return;
        };
        leg.lacks |= lacks;
        leg.progress = Progress::Failed;
        cover("a leg fails");
        let event = Event::LegFailed {
            disk: disk_id(disk),
            flushed: leg.flushed.map(u64::from),
        };
        self.event(setup, head, event);
    }

    /// Sends the withheld I/O to the last leg.
    fn use_again(&mut self, head: u8, disk: u8) -> Option<Event> {
        cover("the last leg is used again");
        let server = self.head(head).server.as_mut()?;
        let is_writing = server.write.is_some();
        let leg = server.legs.get_mut(&disk)?;
        leg.progress = match is_writing && !leg.lacks {
            true => Progress::Writing,
            // If data may be missing on a leg, its errors are dropped.
            false => Progress::Done,
        };
        leg.lacks = false;
        self.issue(head, disk, false);
        self.check_end(head)
    }

    fn release(&mut self, setup: &Setup, head: u8, disk: u8) -> Option<Event> {
        invariants::on_release(self, setup, head, disk);
        let server = self.head(head).server.as_mut()?;
        server.legs.remove(&disk)?;
        cover("an error is released");
        self.check_end(head)
    }

    /// Acknowledges the write in progress if it is on all legs except those with a released error.
    fn check_end(&mut self, head: u8) -> Option<Event> {
        let server = self.head(head).server.as_mut()?;
        let is_done = |leg: &DriverLeg| leg.progress == Progress::Done;
        let number = server.write?;
        if !server.legs.values().all(is_done) {
            return None;
        }
        server.write = None;
        if number > 0 {
            cover("a write is acknowledged");
            self.acknowledged |= 1 << number;
            return None;
        }
        // Data that is readable now must stay.
        server.is_open = true;
        self.acknowledged |= server.history;
        cover("a pool is served");
        Some(Event::Imported)
    }

    fn resume(&mut self, head: u8, disk: u8, session: Session) {
        let Some(server) = &mut self.head(head).server else {
            return;
        };
        if let Some(leg) = server.legs.get_mut(&disk) {
            cover("a connection is resumed");
            leg.session = session;
            leg.is_parted = false;
            self.issue(head, disk, false);
        }
    }

    fn begin_resilver(
        &mut self,
        head: u8,
        disk: u8,
        (since, beyond): (u64, u64),
        session: Session,
        incarnation: u64,
    ) {
        let Some(server) = &mut self.head(head).server else {
            return;
        };
        cover("a resilver begins");
        let is_whole = !holds(Rule::FailedLegsStayOut);
        server.legs.insert(
            disk,
            DriverLeg {
                session,
                incarnation,
                progress: Progress::Done,
                resilver: match is_whole {
                    true => Resilver::No,
                    false => Resilver::Due { since, beyond },
                },
                flushed: None,
                is_parted: false,
                lacks: false,
            },
        );
    }

    /// Whether I/O of that leg is in flight anywhere.
    pub(super) fn is_io_in_flight(&self, head: u8, disk: u8) -> bool {
        let is_it = |io: &Io| io.from == head && io.disk == disk;
        let is_sent = |sent: &Sent| match &sent.envelope.payload {
            Payload::Io(io) | Payload::IoDone(io, _) => {
                is_it(io) && self.is_deliverable(&sent.envelope)
            }
            _ => false,
        };
        let is_in_flight = self.disks[usize::from(disk)].in_flight.iter().any(is_it);
        is_in_flight || self.net.iter().any(is_sent)
    }
}
