//! SCSI commands and their data, and task management, in full-feature phase.

use std::time::Instant;

use scsi::{Cdb, Command, DataOut, Lun, Outcome, Plan, TaskAttribute, TmfResponse};
use serving::Reservation;

use super::execute::{Task, Work};
use super::framing::Place;
use super::full_feature::{FullFeature, Running, next_tag};
use super::management::{Abort, Barrier, Scope};
use super::sender::{Expectation, Numbering};
use super::sessions::StoredPdu;
use super::tasks::{Completed, ParkedRead, Sink, WriteTask, open_sink};
use crate::protocol::header::Header;
use crate::protocol::request::{DataOut as DataOutHeader, Function, ScsiCommand, TaskManagement};
use crate::protocol::response::{self, FunctionResponse, RejectReason};
use crate::protocol::transfer::Transfer;

impl FullFeature {
    /// Handles the next command in order, with its immediate data.
    pub(crate) fn scsi(&mut self, header: &Header, request: &ScsiCommand, data: &[u8]) {
        let immediate = header.is_immediate();
        if let Some(reason) = self.refusal(request, immediate, data) {
            if !immediate {
                self.entry.session.release();
            }
            return self.reject(header, reason);
        }
        let command = Command {
            lun: Lun(request.lun),
            cdb: Cdb::new(request.cdb()),
            attribute: attribute(request.attribute),
            expected_data_out: request.expected_bytes,
            expected_data_in: request.expected_read_bytes,
        };
        let mut task = Task {
            work: Work::of(command.cdb.opcode()),
            lun: command.lun,
            immediate,
            expectation: Expectation {
                task_tag: request.task_tag,
                out_bytes: request.expected_bytes,
                wanted_bytes: None,
                in_bytes: request.expected_read_bytes,
            },
            arrived: Instant::now(),
        };
        if request.read && !request.write {
            return self.read(task, command);
        }
        let Some(port) = &self.entry.session.port else {
            return;
        };
        match port.target.plan(&port.nexus, &command) {
            Plan::NoData if request.is_final => self.run(task, &command, DataOut::None, None),
            Plan::NoData => self.collect(task, command, request, data, None, None),
            Plan::Refuse(outcome) if request.is_final => self.execution.answer(&task, outcome),
            Plan::Refuse(outcome) => {
                self.collect(task, command, request, data, None, Some(outcome));
            }
            Plan::DataOut { bytes, landing } => {
                task.expectation.wanted_bytes = Some(bytes);
                let wanted = bytes.min(request.expected_bytes) as usize;
                let session = &self.entry.session.parameters;
                let count = data.len() as u32;
                let whole = request.is_final && data.len() >= wanted;
                let checked = Transfer::new(session, request.expected_bytes, bytes, count, false);
                if whole && checked.fault().is_none() {
                    self.run(task, &command, DataOut::Slice(&data[..wanted]), None);
                } else {
                    self.collect(task, command, request, data, landing, None);
                }
            }
        }
    }

    /// Returns why a command must be rejected.
    fn refusal(
        &mut self,
        request: &ScsiCommand,
        immediate: bool,
        data: &[u8],
    ) -> Option<RejectReason> {
        if self.entry.session.port.is_none() || (!data.is_empty() && !request.write) {
            return Some(RejectReason::ProtocolError);
        }
        let tag = request.task_tag;
        if let Some(running) = self.running.get(&tag) {
            if !running.task.has_ended() {
                return Some(RejectReason::TaskInProgress);
            }
            self.running.remove(&tag);
        }
        if self.is_waiting(tag) {
            return Some(RejectReason::TaskInProgress);
        }
        if immediate {
            self.running.retain(|_, running| !running.task.has_ended());
            let writes = self.writes.values().filter(|write| write.task.immediate);
            let running = self.running.values().filter(|running| running.immediate);
            let reads = self.parked_reads.iter().filter(|read| read.task.immediate);
            let count = writes.count() + running.count() + reads.count();
            if count >= self.server.limits.immediate_tasks_max {
                return Some(RejectReason::ImmediateCommandRejected);
            }
        }
        None
    }

    /// Whether the task is waiting for data or for memory.
    fn is_waiting(&self, tag: u32) -> bool {
        let mut reads = self.parked_reads.iter();
        self.writes.contains_key(&tag) || reads.any(|read| read.task.expectation.task_tag == tag)
    }

    /// Executes a command without write data. Memory for its read data is reserved before the
    /// device is called.
    fn read(&mut self, task: Task, command: Command) {
        let port = self.entry.session.port.as_ref();
        let bytes = port.map_or(0, |port| port.target.read_bytes(&port.nexus, &command));
        if bytes == 0 {
            return self.run(task, &command, DataOut::None, None);
        }
        self.parked_reads.push_back(ParkedRead {
            task,
            command,
            bytes,
        });
        // Earlier reads are already waiting, and will be woken.
        if self.parked_reads.len() == 1 {
            self.retry_parked_reads();
        }
    }

    fn retry_parked_reads(&mut self) {
        while let Some(read) = self.parked_reads.front() {
            let waker = &self.execution.connection.waker;
            let reserved = self.server.budget.reserve_or_wake(read.bytes, waker);
            let Some(reservation) = reserved else { return };
            let Some(read) = self.parked_reads.pop_front() else {
                return;
            };
            self.run(read.task, &read.command, DataOut::None, Some(reservation));
        }
    }

    /// Executes a command, and stores it if it continues on another thread.
    fn run(
        &mut self,
        task: Task,
        command: &Command,
        data: DataOut<'_>,
        reservation: Option<Reservation>,
    ) {
        if !self.running.is_empty()
            && (self.quiet || self.running.len() > self.server.limits.tasks_per_session as usize)
        {
            self.running.retain(|_, running| !running.task.has_ended());
        }
        let may_flush = self.quiet && self.running.is_empty();
        let elsewhere = self
            .execution
            .run(task, command, data, reservation, may_flush);
        if let Some(running) = elsewhere {
            let running = Running {
                unit: task.lun.unit(),
                immediate: task.immediate,
                task: running,
            };
            self.running.insert(task.expectation.task_tag, running);
        }
    }

    /// Starts to collect the data of a command; without a `landing` and a data plan it is only
    /// drained.
    fn collect(
        &mut self,
        task: Task,
        command: Command,
        request: &ScsiCommand,
        data: &[u8],
        landing: Option<scsi::Landing>,
        refused: Option<Outcome>,
    ) {
        let session = &self.entry.session.parameters;
        let announced = request.expected_bytes;
        let wanted = task.expectation.wanted_bytes.unwrap_or(0).min(announced);
        let count = data.len() as u32;
        let transfer = Transfer::new(session, announced, wanted, count, !request.is_final);
        let unsolicited = if request.is_final {
            count
        } else {
            session.first_burst_bytes.max(count)
        };
        let mut write = WriteTask {
            task,
            command,
            transfer,
            sink: Sink::Nothing,
            refused,
            reservation: None,
            progress: Instant::now(),
        };
        let tag = request.task_tag;
        if wanted > unsolicited {
            // Memory is reserved before data is requested.
            let waker = &self.execution.connection.waker;
            write.reservation = self.server.budget.reserve_or_wake(wanted.into(), waker);
        }
        write.sink = if wanted == 0 {
            Sink::Nothing
        } else if wanted <= unsolicited || write.reservation.is_some() {
            open_sink(landing.as_ref(), wanted)
        } else {
            self.parked.push_back(tag);
            Sink::Parked {
                bytes: Vec::new(),
                landing,
            }
        };
        write.store(0, &data[..count.min(wanted) as usize]);
        self.writes.insert(tag, write);
        self.advance(tag);
    }

    /// Requests more data, or continues a command with complete data.
    fn advance(&mut self, tag: u32) {
        let Some(write) = self.writes.get_mut(&tag) else {
            return;
        };
        while !write.is_parked() {
            let next = &mut self.next_transfer_tag;
            let grant = write.transfer.grant(|| {
                let granted = *next;
                *next = next_tag(granted);
                granted
            });
            let Some(grant) = grant else { break };
            let header = response::r2t(write.command.lun.0, tag, &grant);
            self.execution
                .sender
                .send(header, Vec::new(), Numbering::Peek);
        }
        if !write.transfer.is_complete() {
            return;
        }
        let Some(mut write) = self.writes.remove(&tag) else {
            return;
        };
        match write.complete() {
            Completed::Reply(outcome) => self.execution.answer(&write.task, outcome),
            Completed::Execute(data) => {
                self.run(write.task, &write.command, data, write.reservation);
            }
        }
    }

    /// Retries tasks that are waiting for memory.
    pub(crate) fn retry_parked(&mut self) {
        self.retry_parked_reads();
        if !self.has_segment() {
            self.retry_parked_writes();
        }
    }

    fn retry_parked_writes(&mut self) {
        while let Some(tag) = self.parked.front().copied() {
            if let Some(write) = self.writes.get_mut(&tag).filter(|write| write.is_parked()) {
                let wanted = write
                    .task
                    .expectation
                    .wanted_bytes
                    .unwrap_or(0)
                    .min(write.transfer.announced());
                let waker = &self.execution.connection.waker;
                let reserved = self.server.budget.reserve_or_wake(wanted.into(), waker);
                let Some(reservation) = reserved else { return };
                write.unpark(reservation, wanted);
            }
            self.parked.pop_front();
            self.advance(tag);
        }
    }

    /// Handles a whole Data-Out.
    pub(crate) fn data_out(&mut self, out: &DataOutHeader, header: &Header, data: &[u8]) {
        if let Some(kept) = self.held.get_mut(&out.task_tag) {
            let bytes: usize = kept.iter().map(|pdu| pdu.data.len()).sum();
            let limit = self.entry.session.parameters.first_burst_bytes as usize;
            if bytes + data.len() > limit {
                return self.log_protocol_error("too much unsolicited data for a command");
            }
            kept.push(StoredPdu {
                header: *header,
                ahs: Vec::new(),
                data: data.to_vec(),
            });
            return;
        }
        if let Place::Task { tag, offset, keep } = self.place_data(out, data.len()) {
            if let Some(write) = self.writes.get_mut(&tag) {
                write.store(offset, &data[..keep]);
            }
        }
        self.data_arrived(out.task_tag);
    }

    /// Returns the destination of the data of a Data-Out. Data of an unknown task (it was aborted)
    /// is discarded.
    pub(crate) fn place_data(&mut self, out: &DataOutHeader, count: usize) -> Place {
        let tag = out.task_tag;
        let nowhere = Place::Task {
            tag,
            offset: 0,
            keep: 0,
        };
        let Some(write) = self.writes.get_mut(&tag) else {
            return nowhere;
        };
        write.progress = Instant::now();
        match write.transfer.receive(out, count as u32) {
            Some(placement) => Place::Task {
                tag,
                offset: placement.offset as usize,
                keep: placement.keep as usize,
            },
            None => nowhere,
        }
    }

    /// Handles the end of a stored Data-Out.
    pub(crate) fn data_arrived(&mut self, tag: u32) {
        self.advance(tag);
    }

    /// Handles a Data-Out with a wrong digest: its task fails when all its data has arrived.
    pub(crate) fn data_digest_failed(&mut self, header: &Header, tag: u32) {
        self.reject(header, RejectReason::DataDigestError);
        if let Some(write) = self.writes.get_mut(&tag) {
            write
                .transfer
                .fail(crate::protocol::transfer::TransferFault::Digest);
        }
    }

    /// Aborts tasks of this connection. No response is sent for an aborted task.
    pub(crate) fn abort(&mut self, abort: &Abort) {
        let matches = |tag: u32, unit: Option<u16>| match abort.scope {
            Scope::Task(wanted) => wanted == tag,
            Scope::Unit(wanted) => unit == Some(wanted),
            Scope::All => true,
        };
        let session = &self.entry.session;
        self.writes.retain(|tag, write| {
            let stays = !matches(*tag, write.task.lun.unit());
            if !stays && !write.task.immediate {
                session.release();
            }
            stays
        });
        self.parked_reads.retain(|read| {
            let stays = !matches(read.task.expectation.task_tag, read.task.lun.unit());
            if !stays && !read.task.immediate {
                session.release();
            }
            stays
        });
        for (tag, running) in &self.running {
            if matches(*tag, running.unit) {
                running.task.abort(&abort.barrier);
            }
        }
    }

    /// Handles a task management function.
    pub(crate) fn task_management(&mut self, request: &TaskManagement) {
        let function = match request.function {
            Function::AbortTask => return self.abort_task(request),
            Function::AbortTaskSet => scsi::TaskManagement::AbortTaskSet,
            Function::ClearAca => scsi::TaskManagement::ClearAca,
            Function::ClearTaskSet => scsi::TaskManagement::ClearTaskSet,
            Function::LogicalUnitReset => scsi::TaskManagement::LogicalUnitReset,
            Function::TargetWarmReset => scsi::TaskManagement::TargetWarmReset,
            Function::TargetColdReset => scsi::TaskManagement::TargetColdReset,
            Function::TaskReassign => {
                let response = FunctionResponse::ReassignNotSupported;
                return self.respond_to_function(request, response);
            }
            Function::Unknown(_) => {
                return self.respond_to_function(request, FunctionResponse::NotSupported);
            }
        };
        let Some(port) = &self.entry.session.port else {
            return self.respond_to_function(request, FunctionResponse::Rejected);
        };
        let outcome = port
            .target
            .task_management(&port.nexus, function, Lun(request.lun));
        tracing::info!(
            initiator = %self.entry.session.initiator, ?function, response = ?outcome.response,
            "task management"
        );
        let response = match outcome.response {
            TmfResponse::Complete => FunctionResponse::Complete,
            TmfResponse::UnitNotFound => FunctionResponse::LunDoesNotExist,
            TmfResponse::NotSupported => FunctionResponse::NotSupported,
        };
        let barrier = self.function_barrier(request, response, outcome.drop_sessions);
        for scope in outcome.abort {
            let tasks = scope.unit.map_or(Scope::All, Scope::Unit);
            let own = scope
                .nexus
                .as_ref()
                .is_none_or(|nexus| *nexus == port_id(self));
            if own {
                self.abort(&Abort {
                    scope: tasks,
                    barrier: barrier.clone(),
                });
            }
            self.server.abort_on_all_connections(
                &self.entry.session,
                Some(&self.entry.member),
                scope.nexus.as_ref(),
                tasks,
                &barrier,
            );
        }
    }

    /// Section 11.5.1: an unknown task is either not received yet, or complete.
    fn abort_task(&mut self, request: &TaskManagement) {
        let tag = request.referenced_tag;
        let runs = self
            .running
            .get(&tag)
            .is_some_and(|running| !running.task.has_ended());
        let known = self.is_waiting(tag) || runs;
        self.held.remove(&tag);
        let response = if known
            || self
                .entry
                .session
                .abort_before_arrival(request.referenced_cmd_sn, request.cmd_sn)
        {
            FunctionResponse::Complete
        } else {
            FunctionResponse::TaskDoesNotExist
        };
        let barrier = self.function_barrier(request, response, false);
        self.abort(&Abort {
            scope: Scope::Task(tag),
            barrier,
        });
    }

    /// Sends the response of a function when the last aborted task has ended.
    fn function_barrier(
        &self,
        request: &TaskManagement,
        response: FunctionResponse,
        drop_sessions: bool,
    ) -> std::sync::Arc<Barrier> {
        let header = response::task_management(request.task_tag, response);
        let execution = self.execution.clone();
        // The response counts as pending, so that the connection is not closed before it.
        let pending = self.outbound.pending();
        Barrier::new(move || {
            execution.sender.send(header, Vec::new(), Numbering::Status);
            execution.send_from_worker();
            drop(pending);
            if drop_sessions {
                execution.server.drop_sessions_of_target(&execution.session);
            }
        })
    }

    fn respond_to_function(&self, request: &TaskManagement, response: FunctionResponse) {
        let header = response::task_management(request.task_tag, response);
        self.execution
            .sender
            .send(header, Vec::new(), Numbering::Status);
    }
}

fn port_id(connection: &FullFeature) -> scsi::NexusId {
    let session = &connection.entry.session;
    match &session.port {
        Some(port) => port.id.clone(),
        None => unreachable!("only a normal session has task management"),
    }
}

const fn attribute(bits: u8) -> TaskAttribute {
    match bits {
        1 => TaskAttribute::Simple,
        2 => TaskAttribute::Ordered,
        3 => TaskAttribute::HeadOfQueue,
        4 => TaskAttribute::Aca,
        _ => TaskAttribute::Untagged,
    }
}
