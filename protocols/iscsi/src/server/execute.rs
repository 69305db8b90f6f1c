//! Executes commands: immediately if they do not block, otherwise on a worker; flushes if the
//! response must be durable; sends responses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use block_device::WaitMode;
use scsi::opcodes::Op;
use scsi::{Command, DataOut, Executed, Outcome, Status};
use serving::{
    Change, Connection, Counters, FlushGroup, FlushOutcome, Flushed, Pending, Reservation,
};

use super::management::{Barrier, RunningTask, Scope};
use super::sender::{Expectation, Sender};
use super::sessions::Session;
use super::shared::Shared;

/// The context that a task of a connection needs to be executed and completed on any thread.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) server: Arc<Shared>,
    pub(crate) session: Arc<Session>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) connection: Arc<Connection>,
}

/// The counter of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
    Other,
}

impl Work {
    /// Returns the kind by operation code, according to the command table.
    pub(crate) fn of(opcode: u8) -> Self {
        match scsi::opcodes::by_opcode(opcode) {
            Some(Op::Read) => Self::Read,
            Some(Op::Write | Op::WriteAndVerify) => Self::Write,
            _ => Self::Other,
        }
    }
}

/// A command without a response yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) work: Work,
    pub(crate) lun: scsi::Lun,
    /// An immediate command has no slot in the window.
    pub(crate) immediate: bool,
    pub(crate) expectation: Expectation,
    /// When it arrived.
    pub(crate) arrived: Instant,
}

impl Execution {
    /// Executes a command on its connection's thread. `may_flush` permits to block on a flush here,
    /// when the thread has no other work. Returns a task that continues on another thread.
    pub(crate) fn run(
        &self,
        task: Task,
        command: &Command,
        data: DataOut<'_>,
        reservation: Option<Reservation>,
        may_flush: bool,
    ) -> Option<Arc<RunningTask>> {
        let Some(port) = &self.session.port else {
            self.drop_session();
            return None;
        };
        let Some(own) = self.connection.changes_in_flight.own_change() else {
            self.finish_without_effect(&task);
            return None;
        };
        let executed = port
            .target
            .execute(&port.nexus, command, data, WaitMode::NoWait);
        drop(own);
        match executed {
            Executed::Done(outcome) => self.respond_with_reservation(&task, outcome, reservation),
            Executed::DropSession => self.drop_session(),
            Executed::Durable { device, then } => {
                let group = self.server.flush_groups.of(&device);
                if may_flush {
                    // Queued responses must not wait for the disk.
                    self.sender.outbound.flush_now();
                    self.connection.note_absence();
                    if let Some(flushed) = group.flush_here() {
                        self.respond_after_flush(&task, then, &flushed);
                        return None;
                    }
                }
                let worker_task = self.worker_task(task, reservation);
                let running = Arc::clone(&worker_task.running);
                worker_task.wait_for_flush(&group, then);
                return Some(running);
            }
            Executed::Reading(reading) => {
                Counters::add_one(&self.server.counters.waits);
                Counters::add_one(&self.session.counters.waits);
                let worker_task = self.worker_task(task, reservation);
                let running = Arc::clone(&worker_task.running);
                reading.finish(move |executed| worker_task.has_read(executed));
                return Some(running);
            }
            Executed::WouldBlock(pending) => {
                Counters::add_one(&self.server.counters.waits);
                Counters::add_one(&self.session.counters.waits);
                let worker_task = self.worker_task(task, reservation);
                let running = Arc::clone(&worker_task.running);
                let change = self.connection.changes_in_flight.change();
                let is_held = pending.is_held();
                let job = Box::new(move || worker_task.work(*pending, change));
                let workers = &self.server.workers;
                let submitted = match is_held {
                    true => workers.submit_waiting(job),
                    false => workers.submit(job),
                };
                if let Err(job) = submitted {
                    // All workers are busy: blocking here is the back-pressure. Queued loans must
                    // not be delayed, because workers may be blocked on them.
                    self.sender.outbound.flush_now();
                    self.connection.note_absence();
                    job();
                }
                return Some(running);
            }
        }
        None
    }

    fn worker_task(&self, task: Task, reservation: Option<Reservation>) -> WorkerTask {
        WorkerTask {
            execution: self.clone(),
            task,
            running: Arc::default(),
            pending: self.sender.outbound.pending(),
            reservation,
        }
    }

    /// Sends the response to a command and frees its slot in the window.
    pub(crate) fn answer(&self, task: &Task, outcome: Outcome) {
        self.respond_with_reservation(task, outcome, None);
    }

    /// Like [`Self::answer`]; `reservation` covers the data until it is sent.
    fn respond_with_reservation(
        &self,
        task: &Task,
        mut outcome: Outcome,
        reservation: Option<Reservation>,
    ) {
        self.count(task, &outcome);
        if outcome.abort.is_empty() {
            return self.respond_now(task, outcome, reservation);
        }
        let nexuses = std::mem::take(&mut outcome.abort);
        let barrier = Barrier::new({
            let (execution, task) = (self.clone(), *task);
            move || {
                execution.respond_now(&task, outcome, None);
                execution.send_from_worker();
            }
        });
        let scope = task.lun.unit().map_or(Scope::All, Scope::Unit);
        for nexus in nexuses {
            self.server.abort_on_all_connections(
                &self.session,
                None,
                Some(&nexus),
                scope,
                &barrier,
            );
        }
    }

    /// Completes a command of a closed connection without effect and without a response.
    pub(crate) fn finish_without_effect(&self, task: &Task) {
        if !task.immediate {
            self.session.release();
        }
    }

    fn respond_now(&self, task: &Task, outcome: Outcome, reservation: Option<Reservation>) {
        if !task.immediate {
            self.session.release();
        }
        self.sender
            .send_outcome(&task.expectation, outcome, reservation);
    }

    fn respond_after_flush(&self, task: &Task, then: Outcome, flushed: &FlushOutcome) {
        Counters::add_one(&self.server.counters.flushes);
        Counters::add_one(&self.session.counters.flushes);
        let flushed = match flushed {
            Ok(()) => Ok(()),
            Err(error) => Err(&**error),
        };
        match then.after_flush(flushed) {
            Some(outcome) => self.answer(task, outcome),
            None => self.drop_session(),
        }
    }

    /// Sends from a thread other than the connection's.
    pub(crate) fn send_from_worker(&self) {
        if self.sender.outbound.flush_now() == Flushed::Blocked {
            self.connection.waker.wake();
        }
    }

    /// The device is gone: an error would cause the initiator to fail the I/O, a lost session
    /// causes a retry.
    pub(crate) fn drop_session(&self) {
        self.session.drop_connections();
    }

    fn count(&self, task: &Task, outcome: &Outcome) {
        let in_bytes = outcome.data_in.byte_count() as u64;
        let out_bytes = u64::from(task.expectation.wanted_bytes.unwrap_or(0));
        for counters in [&self.server.counters, &self.session.counters] {
            match (outcome.status, task.work) {
                (Status::Good, Work::Read) => counters.read(in_bytes),
                (Status::Good, Work::Write) => counters.write(out_bytes),
                (Status::Good | Status::ConditionMet, _) => Counters::add_one(&counters.others),
                _ => Counters::add_one(&counters.errors),
            }
        }
        let device = outcome.device.as_ref();
        let Some(activity) = device.and_then(|device| device.activity()) else {
            return;
        };
        match (outcome.status, task.work) {
            (Status::Good, Work::Read) => activity.reads.add(in_bytes, task.arrived.elapsed()),
            (Status::Good, Work::Write) => activity.writes.add(out_bytes, task.arrived.elapsed()),
            (Status::Good | Status::ConditionMet, _) => {}
            _ => activity.add_error(),
        }
        if outcome.no_space {
            activity.add_refused_for_space();
        }
    }
}

/// A task on another thread.
struct WorkerTask {
    execution: Execution,
    task: Task,
    running: Arc<RunningTask>,
    /// Dropped when the response is queued.
    pending: Pending,
    /// Memory of the data, until it is written or sent.
    reservation: Option<Reservation>,
}

impl WorkerTask {
    /// Handles the end of an asynchronous read. Runs on a thread that must not block, and that
    /// other connections need, too.
    fn has_read(mut self, executed: Executed) {
        match executed {
            Executed::Done(outcome) => {
                let outbound = Arc::clone(&self.execution.sender.outbound);
                let paid = self.reservation.take();
                let ended = self
                    .end(|execution, task| execution.respond_with_reservation(task, outcome, paid));
                outbound.flush_once();
                drop(ended);
            }
            Executed::WouldBlock(again) => {
                let server = Arc::clone(&self.execution.server);
                let execution = self.execution.clone();
                let change = self.execution.connection.changes_in_flight.change();
                let job = Box::new(move || self.work(*again, change));
                // Bounded by the session's window. A server that is stopping has no workers.
                if !server.workers.submit_always(job) {
                    execution.drop_session();
                }
            }
            Executed::Reading(_) | Executed::Durable { .. } | Executed::DropSession => {
                self.finish(|execution, _| execution.drop_session());
            }
        }
    }

    /// Executes the command on a worker, unless the initiator has left. May block.
    fn work(mut self, pending: scsi::Pending, change: Change) {
        if self.execution.connection.ends_if_left() {
            return self.finish(Execution::finish_without_effect);
        }
        let executed = pending.execute(&change);
        drop(change);
        match executed {
            Executed::Done(outcome) => {
                let paid = self.reservation.take();
                self.finish(|execution, task| {
                    execution.respond_with_reservation(task, outcome, paid)
                });
            }
            Executed::Durable { device, then } => {
                let group = self.execution.server.flush_groups.of(&device);
                match group.flush_here() {
                    Some(flushed) => self.finish(|execution, task| {
                        execution.respond_after_flush(task, then, &flushed);
                    }),
                    None => self.wait_for_flush(&group, then),
                }
            }
            // Applies to this connection only: its session may continue with other connections.
            Executed::DropSession if self.execution.connection.changes_in_flight.is_over() => {
                self.finish(Execution::finish_without_effect);
            }
            Executed::DropSession => self.finish(|execution, _| execution.drop_session()),
            Executed::Reading(reading) => reading.finish(move |executed| self.has_read(executed)),
            Executed::WouldBlock(again) => {
                // Not expected after it was permitted to block, but it must not be lost either.
                debug_assert!(false, "a command that may block would block");
                let change = self.execution.connection.changes_in_flight.change();
                self.work(*again, change);
            }
        }
    }

    /// Sends the response after the next flush of `group`. One flush completes many tasks: only the
    /// last one of the connection sends, the earlier ones leave that to the connection's thread.
    fn wait_for_flush(self, group: &FlushGroup, then: Outcome) {
        self.execution
            .sender
            .flushing
            .fetch_add(1, Ordering::AcqRel);
        group.wait(move |flushed| {
            let sender = &self.execution.sender;
            let is_last = sender.flushing.fetch_sub(1, Ordering::AcqRel) == 1;
            let connection = Arc::clone(&self.execution.connection);
            let queue = |execution: &Execution, task: &Task| {
                execution.respond_after_flush(task, then, &flushed);
            };
            if is_last {
                self.finish(queue);
            } else {
                drop(self.end(queue));
                connection.waker.wake();
            }
        });
    }

    fn finish(self, answer: impl FnOnce(&Execution, &Task)) {
        let execution = self.execution.clone();
        let ended = self.end(answer);
        execution.send_from_worker();
        drop(ended);
    }

    /// Queues the response. The result must be dropped after it is sent: aborts that were waiting
    /// for this task, and the mark that it is pending.
    fn end(self, answer: impl FnOnce(&Execution, &Task)) -> (Vec<Arc<Barrier>>, Pending) {
        let (may_answer, barriers) = self.running.end();
        if may_answer {
            answer(&self.execution, &self.task);
        } else if !self.task.immediate {
            self.execution.session.release();
        }
        (barriers, self.pending)
    }
}
