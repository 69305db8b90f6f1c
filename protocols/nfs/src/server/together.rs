//! Calls of one connection that a worker executes. Those that change names or attributes, and wait for a worker at the
//! same time, are executed by one worker and share a commit: a thread for each of them would cost more than the change.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use block_device::Permit;
use file_system::{FileError, FileSystem};
use serving::{Change, Connection, Directive, Job, Outbound, Pending, Reservation};

use super::session::LARGE_ANSWER_BYTES;
use super::{ANSWER_BYTES, End, Replied, Shared, reject};
use crate::activity::ExportUsage;
use crate::exports::Source;
use crate::programs::CallListener;
use crate::rpc::{self, Accepted, Call};
use crate::secured::Seal;
use crate::v4::{Caller, NoReply, Uncommitted};
use crate::xdr::Writer;

/// Calls that one worker executes together: each of them may block, and the next ones then wait for it.
const TOGETHER_MAX: usize = 8;
/// After this time another worker executes the remaining ones: a commit takes about as long.
const TOGETHER_TIME_MAX: Duration = Duration::from_millis(2);

/// A call that a worker executes.
pub(super) struct Given {
    pub call: Call,
    pub arguments: Vec<u8>,
    pub seal: Option<Seal>,
    pub from: Source,
    pub arrived: Instant,
    pub change: Change,
    pub reservation: Reservation,
    /// Held until the reply is queued.
    pub pending: Pending,
    pub bytes: BytesElsewhere,
}

/// Bytes of a call at a worker and of its reply, until this is queued.
pub(super) struct BytesElsewhere {
    /// Those of all calls of the connection.
    total: Arc<AtomicU64>,
    bytes: u64,
}

impl BytesElsewhere {
    pub fn new(total: &Arc<AtomicU64>, bytes: u64) -> Self {
        total.fetch_add(bytes, Ordering::Relaxed);
        Self {
            total: Arc::clone(total),
            bytes,
        }
    }
}

impl Drop for BytesElsewhere {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The calls that wait for a worker and may share a commit, with one job for [`TOGETHER_MAX`] of them.
pub(super) struct Waiting<T = Given>(Mutex<Queue<T>>);

struct Queue<T> {
    calls: VecDeque<T>,
    /// Jobs that were announced and have taken no calls yet.
    jobs: usize,
}

impl<T> Queue<T> {
    /// Whether another job is needed. It must be submitted.
    fn needs_job(&mut self) -> bool {
        let needs = self.jobs < self.calls.len().div_ceil(TOGETHER_MAX);
        self.jobs += usize::from(needs);
        needs
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        let (calls, jobs) = (VecDeque::new(), 0);
        Self(Mutex::new(Queue { calls, jobs }))
    }
}

impl<T> Waiting<T> {
    /// Adds a call. Returns whether another job is needed.
    pub fn push(&self, call: T) -> bool {
        let mut queue = self.0.lock().expect("no holder panics");
        queue.calls.push_back(call);
        queue.needs_job()
    }

    /// Removes the calls of one job.
    fn take(&self) -> Vec<T> {
        let mut queue = self.0.lock().expect("no holder panics");
        queue.jobs -= 1;
        let count = queue.calls.len().min(TOGETHER_MAX);
        queue.calls.drain(..count).collect()
    }

    /// Returns calls that were not executed. Returns whether another job is needed.
    fn put_back(&self, calls: impl DoubleEndedIterator<Item = T>) -> bool {
        let mut queue = self.0.lock().expect("no holder panics");
        calls.rev().for_each(|call| queue.calls.push_front(call));
        queue.needs_job()
    }
}

/// The connection of calls that workers execute.
#[derive(Clone)]
pub(super) struct Elsewhere {
    pub shared: Arc<Shared>,
    pub connection: Arc<Connection>,
    pub outbound: Arc<Outbound>,
    pub here: IpAddr,
    pub door: CallListener,
    pub waiting: Arc<Waiting>,
}

/// An executed call before its commit.
struct Executed {
    given: Given,
    out: Writer,
    used: ExportUsage,
    uncommitted: Option<Uncommitted>,
}

impl Elsewhere {
    fn caller<'c>(&self, given: &'c Given) -> Caller<'c> {
        Caller {
            credential: &given.call.credential,
            transaction: given.call.transaction,
            connection: self.connection.id,
            from: given.from,
            here: self.here,
            now_ms: self.shared.now_ms(),
        }
    }

    /// Executes a call and sends its reply.
    pub fn execute(&self, given: Given) {
        if !given.change.begin() {
            return;
        }
        let caller = self.caller(&given);
        let (call, seal) = (&given.call, given.seal.as_ref());
        let arrived = given.arrived;
        let answered =
            self.shared
                .answer(arrived, call, &given.arguments, &caller, self.door, seal);
        let paid = answered.ok().and_then(|answered| {
            let reservation = self.pay(given.reservation, &given.bytes, answered.out.len())?;
            Some(answered.into_answer(Some(reservation)))
        });
        match paid {
            Some(answer) => self.outbound.reply_from_worker(answer),
            None => self.connection.direct(Directive::Drop),
        }
    }

    /// Reserves the bytes of a reply. Those of its call are reserved, and small replies need no reservation. `None`: there
    /// is no memory, or the client has enough unread replies. A worker must not wait for either.
    fn pay(
        &self,
        of_call: Reservation,
        call: &BytesElsewhere,
        reply_bytes: usize,
    ) -> Option<Reservation> {
        if reply_bytes as u64 <= call.bytes + LARGE_ANSWER_BYTES as u64 {
            return Some(of_call);
        }
        if self.outbound.queued_bytes() > self.shared.limits.outbound.queued_bytes_max {
            return None;
        }
        drop(of_call);
        self.shared.budget.try_reserve(reply_bytes as u64)
    }

    /// Executes calls that wait, and commits their changes. Sends the replies after the commit.
    pub fn execute_waiting(&self) {
        while self.execute_some() {}
    }

    /// Executes the calls of one job. Returns whether this thread must execute more, because no worker is available.
    fn execute_some(&self) -> bool {
        let started = Instant::now();
        let mut calls = self.waiting.take().into_iter();
        let mut executed = Vec::new();
        for given in calls.by_ref() {
            if !given.change.begin() {
                continue;
            }
            match self.begin(given) {
                Ok(begun) => executed.push(begun),
                Err(_) => self.connection.direct(Directive::Drop),
            }
            if started.elapsed() > TOGETHER_TIME_MAX {
                break;
            }
        }
        let must_continue = self.waiting.put_back(calls) && {
            let place = self.clone();
            let job: Job = Box::new(move || place.execute_waiting());
            self.shared.workers.submit_waiting(job).is_err()
        };
        self.end_all(executed);
        must_continue
    }

    /// Commits the changes of executed calls and sends their replies. Calls of one file system do not wait for the commit
    /// of another.
    fn end_all(&self, executed: Vec<Executed>) {
        let mut unchanged = Vec::new();
        let mut groups: Vec<(Arc<dyn FileSystem>, Vec<Executed>)> = Vec::new();
        for one in executed {
            let Some(files) = one.uncommitted.as_ref().map(Uncommitted::files) else {
                unchanged.push(one);
                continue;
            };
            match groups.iter_mut().find(|group| Arc::ptr_eq(&group.0, files)) {
                Some(group) => group.1.push(one),
                None => groups.push((Arc::clone(files), vec![one])),
            }
        }
        self.send(unchanged, Ok(()));
        let own = groups.pop();
        for (files, calls) in groups {
            let place = self.clone();
            let job: Job = Box::new(move || place.send(calls, files.commit(None)));
            if let Err(job) = self.shared.workers.submit_waiting(job) {
                job();
            }
        }
        if let Some((files, calls)) = own {
            self.send(calls, files.commit(None));
        }
    }

    /// Sends the replies of calls after the commit of their changes.
    fn send(&self, executed: Vec<Executed>, committed: Result<(), FileError>) {
        let mut are_held = Vec::new();
        let mut answers = Vec::new();
        for one in executed {
            let paid = self.end(one, committed).ok().and_then(|(answered, given)| {
                let reservation = self.pay(given.reservation, &given.bytes, answered.out.len())?;
                are_held.push((given.change, given.pending, given.bytes));
                Some(answered.into_answer(Some(reservation)))
            });
            match paid {
                Some(answer) => answers.push(answer),
                None => self.connection.direct(Directive::Drop),
            }
        }
        let last = answers.pop();
        answers
            .into_iter()
            .for_each(|answer| self.outbound.push(answer));
        if let Some(last) = last {
            self.outbound.reply_from_worker(last);
        }
    }

    /// Executes a compound up to its commit.
    fn begin(&self, given: Given) -> Result<Executed, End> {
        let transaction = given.call.transaction;
        let mut out = Writer::with_capacity(ANSWER_BYTES);
        rpc::write_accepted(&mut out, transaction, None, Accepted::Success);
        let service = &self.shared.service;
        let caller = self.caller(&given);
        let performed = service.compound_before_commit(&given.arguments, &caller, &mut out);
        let (used, uncommitted) = match performed {
            Ok(outcome) => outcome,
            Err(why) => {
                reject(&mut out, transaction, None, why)?;
                <(ExportUsage, Option<Uncommitted>)>::default()
            }
        };
        Ok(Executed {
            given,
            out,
            used,
            uncommitted,
        })
    }

    /// Completes a call after the commit of its changes.
    fn end(
        &self,
        executed: Executed,
        committed: Result<(), FileError>,
    ) -> Result<(Replied, Given), NoReply> {
        let Executed {
            given,
            mut out,
            mut used,
            uncommitted,
        } = executed;
        if let Some(uncommitted) = &uncommitted {
            self.shared
                .service
                .complete(uncommitted, &mut out, committed)?;
            used.moved.has_failed |= committed == Err(FileError::Io);
        }
        if let Some(activity) = &used.activity {
            activity.add(used.moved, given.arrived.elapsed());
        }
        let export = used.export;
        Ok((Replied { out, export }, given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job may take fewer calls than it could, or return some of them.
    #[test]
    fn each_waiting_call_has_a_job() {
        let waiting = Waiting::default();
        let pushed = (0..20).filter(|number| waiting.push(*number)).count();
        assert_eq!(pushed, 3);
        let mut jobs = pushed;
        let mut executed = Vec::new();
        while jobs > 0 {
            jobs -= 1;
            let mut calls = waiting.take().into_iter();
            executed.extend(calls.by_ref().take(3));
            jobs += usize::from(waiting.put_back(calls));
        }
        assert_eq!(executed, Vec::from_iter(0..20));
        assert!(waiting.push(20), "none is left");
        assert_eq!(waiting.take(), [20]);
    }
}
