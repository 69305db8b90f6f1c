//! Calls of one connection that a worker executes. Those that change names or attributes, and wait for a worker at the
//! same time, are executed by one worker and share a commit: a thread for each of them would cost more than the change.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use block_device::Permit;
use serving::{Change, Connection, Directive, Outbound, Pending, Reservation};

use super::{ANSWER_BYTES, End, Replied, Shared, reject};
use crate::activity::ExportUsage;
use crate::exports::Source;
use crate::programs::CallListener;
use crate::rpc::{self, Accepted, Call};
use crate::secured::Seal;
use crate::v4::{Caller, Uncommitted, commit};
use crate::xdr::Writer;

/// Calls that one worker executes together: each of them may block, and the next ones then wait for it.
const TOGETHER_MAX: usize = 8;

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
    /// Its part of [`Elsewhere::bytes`].
    pub bytes: u64,
}

/// The calls that wait for a worker and may share a commit.
#[derive(Default)]
pub(super) struct Waiting(Mutex<VecDeque<Given>>);

impl Waiting {
    /// Adds a call. Returns whether another worker is needed: one for [`TOGETHER_MAX`] calls.
    pub fn push(&self, given: Given) -> bool {
        let mut calls = self.0.lock().expect("no holder panics");
        calls.push_back(given);
        calls.len() % TOGETHER_MAX == 1
    }

    fn take(&self) -> Vec<Given> {
        let mut calls = self.0.lock().expect("no holder panics");
        let count = calls.len().min(TOGETHER_MAX);
        calls.drain(..count).collect()
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
    /// Bytes of calls at workers and of their replies, until these are queued.
    pub bytes: Arc<AtomicU64>,
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
        if given.change.begin() {
            let caller = self.caller(&given);
            let (call, seal) = (&given.call, given.seal.as_ref());
            let arrived = given.arrived;
            let answered =
                self.shared
                    .answer(arrived, call, &given.arguments, &caller, self.door, seal);
            match answered {
                Ok(answered) => {
                    let answer = answered.into_answer(Some(given.reservation));
                    self.outbound.reply_from_worker(answer);
                }
                Err(_) => self.connection.direct(Directive::Drop),
            }
        }
        self.bytes.fetch_sub(given.bytes, Ordering::Relaxed);
    }

    /// Executes calls that wait, commits their changes, and then sends their replies.
    pub fn execute_waiting(&self) {
        let mut executed = Vec::new();
        let mut bytes = 0;
        for given in self.waiting.take() {
            bytes += given.bytes;
            if !given.change.begin() {
                continue;
            }
            match self.begin(given) {
                Ok(begun) => executed.push(begun),
                Err(_) => self.connection.direct(Directive::Drop),
            }
        }
        let is_durable = commit(executed.iter().filter_map(|one| one.uncommitted.as_ref())).is_ok();
        let ended: Vec<_> = executed
            .into_iter()
            .filter_map(|one| self.end(one, is_durable))
            .collect();
        let last = ended.len().saturating_sub(1);
        let mut are_held = Vec::new();
        for (number, (answered, given)) in ended.into_iter().enumerate() {
            let answer = answered.into_answer(Some(given.reservation));
            match number == last {
                true => self.outbound.reply_from_worker(answer),
                false => self.outbound.push(answer),
            }
            are_held.push((given.change, given.pending));
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
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

    /// Completes a call. There is no reply if its change is not durable.
    fn end(&self, executed: Executed, is_durable: bool) -> Option<(Replied, Given)> {
        let Executed {
            given,
            mut out,
            used,
            uncommitted,
        } = executed;
        if let Some(uncommitted) = &uncommitted {
            let reply = is_durable.then_some(&mut out);
            self.shared.service.complete(uncommitted, reply);
            if !is_durable {
                self.connection.direct(Directive::Drop);
                return None;
            }
        }
        if let Some(activity) = &used.activity {
            activity.add(used.moved, given.arrived.elapsed());
        }
        let export = used.export;
        Some((Replied { out, export }, given))
    }
}
