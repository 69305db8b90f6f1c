//! Which thread receives the replies of a leg.
//!
//! A thread of the leg does, except for [awaited](super::NbdLeg::submit_awaited) operations: a thread that commits an intent log has
//! nothing else to do than to wait for the reply, and to wake it costs more than the reply. So while all pending operations are
//! awaited, the leg's thread leaves the socket to the threads that wait. It takes over as soon as a thread gives its reply up, and in
//! any case some milliseconds after the last awaited operation began, so that no reply depends on what other threads do.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::{Inner, Line, Link, Pending, State};
use crate::request::{REPLY_BYTES, decode};
use crate::{Done, LegError, Operation};

/// The leg's thread leaves the socket alone for so long after an awaited operation began.
const LEFT_ALONE: Duration = Duration::from_millis(20);

/// The state of reception.
#[derive(Default)]
pub(super) struct Duty {
    /// A thread receives.
    is_taken: bool,
    /// Pending operations that are received by their own threads.
    pub(super) awaited: usize,
    /// Until then the leg's thread receives only replies that no other thread awaits.
    left_alone_until: Option<Instant>,
    /// The leg's thread has to be woken.
    pub(super) is_idle: bool,
    /// Received by a thread that awaits another reply: the leg's thread completes them. Bounded as the operations are.
    received: VecDeque<(Done, Vec<u8>, u32)>,
}

/// How receiving ended.
pub(super) enum Received {
    Ended,
    Broken(LegError),
}

/// A reply that a thread receives by itself. Dropped, the leg's thread receives it.
pub struct Awaited {
    inner: Arc<Inner>,
    cookie: u64,
}

impl Duty {
    pub(super) fn note_awaited(&mut self) {
        self.awaited += 1;
        self.left_alone_until = Some(Instant::now() + LEFT_ALONE);
    }

    /// Another connection is used from now on.
    pub(super) fn begin_anew(&mut self) {
        self.is_taken = false;
        self.left_alone_until = None;
    }
}

impl State {
    fn remove(&mut self, cookie: u64, generation: u64) -> Option<Pending> {
        if self.generation != generation || !matches!(self.link, Link::Up(..)) {
            return None;
        }
        let pending = self.pending.remove(&cookie)?;
        self.pending_bytes -= pending.operation.extent().length;
        if pending.is_awaited {
            self.duty.awaited -= 1;
        }
        Some(pending)
    }

    /// Whether replies come that no thread awaits.
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

fn complete(done: Done, data: Vec<u8>, errno: u32) {
    match errno {
        0 => done(Ok(data)),
        errno => done(Err(LegError::Disk(errno))),
    }
}

impl Inner {
    /// The leg's thread for one connection.
    pub(super) fn receive_always(&self, line: &Line) {
        let end = loop {
            if !self.await_turn(line) {
                break Received::Ended;
            }
            let received = self.receive_one(line);
            self.end_turn(line);
            match received {
                Ok((pending, data, errno)) => complete(pending.done, data, errno),
                Err(end) => break end,
            }
        };
        line.wire.shut();
        match end {
            Received::Ended => self.lost(line.generation),
            Received::Broken(error) => self.fail_if(line.generation, error),
        }
        // None is added when the connection is not in use.
        while let Some((done, data, errno)) = self.take_received() {
            complete(done, data, errno);
        }
    }

    fn take_received(&self) -> Option<(Done, Vec<u8>, u32)> {
        self.lock().duty.received.pop_front()
    }

    /// Blocks until the leg's thread is to receive; `false` when the connection is not in use any more.
    fn await_turn(&self, line: &Line) -> bool {
        let mut state = self.lock();
        loop {
            if let Some((done, data, errno)) = state.duty.received.pop_front() {
                drop(state);
                complete(done, data, errno);
                state = self.lock();
                continue;
            }
            if state.generation != line.generation || !matches!(state.link, Link::Up(..)) {
                return false;
            }
            let until = state.duty.left_alone_until;
            let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
            if !state.duty.is_taken && (left.is_none() || state.has_unawaited()) {
                state.duty.is_taken = true;
                return true;
            }
            // The receiving thread notifies this thread at its end if it is needed.
            state.duty.is_idle = true;
            let waited = self.turn.wait_timeout(state, left.unwrap_or(LEFT_ALONE));
            state = waited.expect("no holder panics").0;
            state.duty.is_idle = false;
        }
    }

    /// Wakes the leg's thread if replies are left to it.
    pub(super) fn leave(&self, state: MutexGuard<'_, State>) {
        let duty = &state.duty;
        let is_needed = !duty.received.is_empty() || state.has_unawaited() && !duty.is_taken;
        let wakes = duty.is_idle && is_needed;
        drop(state);
        if wakes {
            self.turn.notify_one();
        }
    }

    fn end_turn(&self, line: &Line) {
        let mut state = self.lock();
        if state.generation == line.generation {
            state.duty.is_taken = false;
        }
    }

    /// Receives a reply. For the thread that has the turn.
    fn receive_one(&self, line: &Line) -> Result<(Pending, Vec<u8>, u32), Received> {
        let mut from = line.input.lock().expect("no holder panics");
        let ended = |_| Received::Ended;
        let mut head = [0; REPLY_BYTES];
        from.read_exact(&mut head).map_err(ended)?;
        let reply = decode(&head).map_err(Received::Broken)?;
        let length = {
            let mut state = self.lock();
            if state.generation != line.generation {
                return Err(Received::Ended);
            }
            state.heard = Instant::now();
            match state.pending.get(&reply.cookie) {
                Some(pending) => pending.operation.read_bytes(),
                None => {
                    let error = LegError::Protocol("a reply without a request");
                    return Err(Received::Broken(error));
                }
            }
        };
        let mut data = Vec::new();
        if reply.errno == 0 && length > 0 {
            data = vec![0; length];
            from.read_exact(&mut data).map_err(ended)?;
        }
        let pending = self.lock().remove(reply.cookie, line.generation);
        let pending = pending.ok_or(Received::Ended)?;
        Ok((pending, data, reply.errno))
    }
}

impl Awaited {
    pub(super) fn new(inner: &Arc<Inner>, cookie: u64) -> Self {
        Self {
            inner: Arc::clone(inner),
            cookie,
        }
    }

    /// Blocks for one reply, and completes its operation. `false` if the own operation is complete, or if another thread receives:
    /// then that thread completes the operation.
    pub fn receive(&self) -> bool {
        let Some(line) = self.take_turn() else {
            return false;
        };
        let received = self.inner.receive_one(&line);
        let mut state = self.inner.lock();
        let is_current = state.generation == line.generation;
        if is_current {
            state.duty.is_taken = false;
        }
        let (pending, data, errno) = match received {
            Ok(received) => received,
            Err(end) => {
                drop(state);
                self.end(&line, end);
                return false;
            }
        };
        // The operations after an awaited operation of a log do not depend on this thread. The leg's thread handles the
        // rest, as long as there is one.
        let is_up = is_current && matches!(state.link, Link::Up(..));
        if is_of_log(&pending) || !is_up {
            self.inner.leave(state);
            complete(pending.done, data, errno);
        } else {
            state.duty.received.push_back((pending.done, data, errno));
            self.inner.leave(state);
        }
        true
    }

    /// The connection, if this thread is to receive.
    fn take_turn(&self) -> Option<Arc<Line>> {
        let mut state = self.inner.lock();
        if !state.pending.contains_key(&self.cookie) {
            return None;
        }
        let line = match &state.link {
            Link::Up(line, _) if !state.duty.is_taken => Arc::clone(line),
            _ => {
                state.give_up(self.cookie);
                return None;
            }
        };
        state.duty.is_taken = true;
        Some(line)
    }

    /// The leg's thread reports the end of the connection.
    fn end(&self, line: &Line, end: Received) {
        line.wire.shut();
        if let Received::Broken(error) = end {
            self.inner.fail_if(line.generation, error);
        }
        self.give_up();
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

fn is_of_log(pending: &Pending) -> bool {
    matches!(pending.operation, Operation::Write { durable: true, .. })
}
