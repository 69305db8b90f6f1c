//! Which thread receives the replies of a leg.
//!
//! A thread of the leg does, except for [awaited](super::NbdLeg::submit_awaited) operations: a thread that commits an
//! intent log has no other work than to wait for the reply, and waking it costs more than the reply. So while all
//! pending operations are awaited, the leg's thread leaves the socket to the waiting threads.
//!
//! Each awaited operation has a deadline, which its thread enforces: then that thread gives the reply up, even in the
//! middle of it, and the leg's thread continues. The leg's thread also takes over without being woken, at the deadline
//! of the last awaited operation. So no reply depends on the progress of another thread.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::input::Received;
use super::{Inner, Line, Link, Pending, State};
use crate::{LegError, Operation};

/// Deadline of an awaited operation: longer than a round trip and a write to a disk.
const AWAITED_MAX: Duration = Duration::from_millis(20);

/// The state of reception.
#[derive(Default)]
pub(super) struct Duty {
    /// A thread receives.
    is_taken: bool,
    /// Pending operations that are received by their own threads.
    pub(super) awaited: usize,
    /// Until then the leg's thread receives only if there are replies that no other thread awaits.
    left_alone_until: Option<Instant>,
    /// The leg's thread must be woken.
    is_idle: bool,
    /// Received by a thread that awaits another reply: the leg's thread completes them. Bounded as the operations are.
    received: VecDeque<Completion>,
}

/// A received reply.
struct Completion {
    cookie: u64,
    pending: Pending,
    data: Vec<u8>,
    errno: u32,
}

impl Completion {
    fn complete(self) {
        (self.pending.done)(match self.errno {
            0 => Ok(self.data),
            errno => Err(LegError::Disk(errno)),
        });
    }

    /// Whether the continuation blocks on no lock that is held across I/O: such locks must not delay an awaiting thread.
    fn is_of_log(&self) -> bool {
        matches!(
            self.pending.operation,
            Operation::Write { durable: true, .. }
        )
    }
}

/// A reply that a thread receives itself. Dropped, the leg's thread receives it.
pub struct Awaited {
    inner: Arc<Inner>,
    cookie: u64,
    until: Instant,
}

impl Duty {
    pub(super) fn note_awaited(&mut self) {
        self.awaited += 1;
        self.left_alone_until = Some(Instant::now() + AWAITED_MAX);
    }

    /// Another connection is used from now on.
    pub(super) fn begin_anew(&mut self) {
        self.is_taken = false;
        self.left_alone_until = None;
    }
}

impl State {
    fn remove(&mut self, cookie: u64, generation: u64) -> Option<Pending> {
        if !self.uses(generation) {
            return None;
        }
        let pending = self.pending.remove(&cookie)?;
        self.pending_bytes -= pending.operation.extent().length;
        if pending.is_awaited {
            self.duty.awaited -= 1;
        }
        Some(pending)
    }

    /// Whether that connection is in use.
    fn uses(&self, generation: u64) -> bool {
        self.generation == generation && matches!(self.link, Link::Up(..))
    }

    /// Whether there are replies to come that no thread awaits.
    fn has_unawaited(&self) -> bool {
        self.pending.len() > self.duty.awaited
    }

    /// The thread of an operation does not wait for its reply any more.
    fn give_up(&mut self, cookie: u64) {
        if let Some(pending) = self.pending.get_mut(&cookie) {
            if std::mem::replace(&mut pending.is_awaited, false) {
                self.duty.awaited -= 1;
            }
        }
    }
}

impl Inner {
    /// The leg's thread for one connection.
    pub(super) fn receive_always(&self, line: &Line) {
        let end = loop {
            if !self.await_turn(line) {
                break Received::Ended;
            }
            let received = self.receive_one(line, None);
            self.end_turn(line);
            match received {
                Ok(Some(completion)) => completion.complete(),
                Ok(None) => {}
                Err(end) => break end,
            }
        };
        line.wire.shut();
        match end {
            Received::Ended => self.lost(line.generation),
            Received::Broken(error) => self.fail_if(line.generation, error),
        }
        // None is added when the connection is not in use.
        while let Some(completion) = self.take_received() {
            completion.complete();
        }
    }

    fn take_received(&self) -> Option<Completion> {
        self.lock().duty.received.pop_front()
    }

    /// Blocks until the leg's thread must receive; `false` when the connection is not in use any more.
    fn await_turn(&self, line: &Line) -> bool {
        let mut state = self.lock();
        loop {
            if let Some(completion) = state.duty.received.pop_front() {
                drop(state);
                completion.complete();
                state = self.lock();
                continue;
            }
            if !state.uses(line.generation) {
                return false;
            }
            let until = state.duty.left_alone_until;
            let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
            if !state.duty.is_taken && (left.is_none() || state.has_unawaited()) {
                state.duty.is_taken = true;
                return true;
            }
            // The receiving thread notifies this thread when it stops, if this thread is needed.
            state.duty.is_idle = true;
            let waited = self.turn.wait_timeout(state, left.unwrap_or(AWAITED_MAX));
            state = waited.expect("no holder panics").0;
            if state.generation == line.generation {
                state.duty.is_idle = false;
            }
        }
    }

    /// Wakes the leg's thread if replies are left to it.
    pub(super) fn leave(&self, state: MutexGuard<'_, State>) {
        let duty = &state.duty;
        let is_needed = !duty.received.is_empty() || state.has_unawaited() && !duty.is_taken;
        let wakes = duty.is_idle && is_needed;
        drop(state);
        if wakes {
            // All: the thread of an earlier connection may not have terminated yet.
            self.turn.notify_all();
        }
    }

    fn end_turn(&self, line: &Line) {
        let mut state = self.lock();
        if state.generation == line.generation {
            state.duty.is_taken = false;
        }
    }

    /// Receives a reply, for the thread that has the turn. `None` when that time has passed.
    fn receive_one(
        &self,
        line: &Line,
        until: Option<Instant>,
    ) -> Result<Option<Completion>, Received> {
        let mut input = line.input.lock().expect("no holder panics");
        let received = input.reply(until, |reply| {
            let mut state = self.lock();
            if state.generation != line.generation {
                return Err(Received::Ended);
            }
            state.heard = Instant::now();
            let pending = state.pending.get(&reply.cookie);
            let pending = pending.ok_or(Received::Broken(LegError::Protocol(
                "a reply without a request",
            )))?;
            Ok(pending.operation.read_bytes())
        })?;
        let Some((reply, data)) = received else {
            return Ok(None);
        };
        let pending = self.lock().remove(reply.cookie, line.generation);
        Ok(Some(Completion {
            cookie: reply.cookie,
            pending: pending.ok_or(Received::Ended)?,
            data,
            errno: reply.errno,
        }))
    }
}

impl Awaited {
    pub(super) fn new(inner: &Arc<Inner>, cookie: u64) -> Self {
        Self {
            inner: Arc::clone(inner),
            cookie,
            until: Instant::now() + AWAITED_MAX,
        }
    }

    /// Blocks for one reply, until the deadline of the own operation, and completes the operation of that reply. Returns
    /// whether the own reply is still to be received by this thread; otherwise the leg's thread receives it, or it has
    /// been received.
    pub fn receive(&self) -> bool {
        let Some(line) = self.take_turn() else {
            return false;
        };
        let received = self.inner.receive_one(&line, Some(self.until));
        self.inner.end_turn(&line);
        match received {
            Ok(Some(completion)) => {
                let is_own = completion.cookie == self.cookie;
                self.complete(&line, completion);
                !is_own
            }
            Ok(None) => {
                self.give_up();
                false
            }
            Err(end) => {
                // The leg's thread reports the end of the connection.
                line.wire.shut();
                if let Received::Broken(error) = end {
                    self.inner.fail_if(line.generation, error);
                }
                self.give_up();
                false
            }
        }
    }

    /// Completes an operation here, or on the leg's thread if there is one.
    fn complete(&self, line: &Line, completion: Completion) {
        let mut state = self.inner.lock();
        if completion.is_of_log() || !state.uses(line.generation) {
            self.inner.leave(state);
            completion.complete();
        } else {
            state.duty.received.push_back(completion);
            self.inner.leave(state);
        }
    }

    /// The connection, if this thread may receive; otherwise the operation is left to the leg's thread.
    fn take_turn(&self) -> Option<Arc<Line>> {
        let mut state = self.inner.lock();
        if !state.pending.contains_key(&self.cookie) {
            return None;
        }
        let line = match &state.link {
            Link::Up(line, _) if !state.duty.is_taken && Instant::now() < self.until => {
                Arc::clone(line)
            }
            _ => {
                state.give_up(self.cookie);
                self.inner.leave(state);
                return None;
            }
        };
        state.duty.is_taken = true;
        Some(line)
    }

    fn give_up(&self) {
        let mut state = self.inner.lock();
        state.give_up(self.cookie);
        self.inner.leave(state);
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.give_up();
    }
}
