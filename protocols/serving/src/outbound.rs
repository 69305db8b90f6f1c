//! The answers of one connection on their way out, shared by its thread and the workers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::link::{Interest, wait_for};
use crate::{Answer, Transport, Waker};

/// Most slices that one system call takes (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;
/// Answers gathered for one system call; a loan in small blocks has many slices.
const ANSWERS_PER_SEND_MAX: usize = 128;
/// Bytes gathered for one system call: sockets rarely take more at once.
const BYTES_PER_SEND_MAX: usize = 2 << 20;

/// Longest wait for room in a socket before a loan is copied and given back.
const LOAN_PATIENCE: Duration = Duration::from_millis(2);

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub struct OutboundLimits {
    /// Queued bytes over which no more requests are read.
    pub queued_bytes_max: usize,
    /// Operations at workers and flushes over which no more requests are read.
    pub pending_max: usize,
    /// A peer that takes no byte for so long is dropped.
    pub stall_timeout: Duration,
}

impl Default for OutboundLimits {
    fn default() -> Self {
        Self {
            queued_bytes_max: 4 << 20,
            pending_max: 256,
            stall_timeout: Duration::from_secs(30),
        }
    }
}

/// What [`Outbound::flush_now`] achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything queued was sent.
    Drained,
    /// The socket takes no more now.
    Blocked,
    /// Another thread is sending, and will send what was queued meanwhile or wake the connection's thread for it.
    Elsewhere,
    /// One batch was sent, and there is more.
    More,
    /// The connection is broken; answers are thrown away.
    Broken,
}

/// Queue, send state and bounds of one connection's answers.
pub struct Outbound {
    transport: Arc<dyn Transport>,
    waker: Arc<Waker>,
    limits: OutboundLimits,
    state: Mutex<State>,
    pending: AtomicUsize,
    /// The connection's thread waits for room or for the last pending operation.
    throttled: AtomicBool,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Answer>,
    /// Bytes of the first answer that are sent.
    sent_of_first: usize,
    queued_bytes: usize,
    sending: bool,
    broken: bool,
    /// The transport holds bytes it could not pass on.
    held_back: bool,
    blocked_since: Option<Instant>,
    /// Kept for its allocation.
    spare: VecDeque<Answer>,
}

/// An operation whose answer is still to come. Dropping it says that it has come, or never will.
pub struct Pending {
    outbound: Arc<Outbound>,
}

impl Outbound {
    /// A queue in front of `transport`; `waker` is raised when the connection's thread has to
    /// wait for the socket to take more.
    pub fn new(
        transport: Arc<dyn Transport>,
        waker: Arc<Waker>,
        limits: OutboundLimits,
    ) -> Arc<Self> {
        Arc::new(Self {
            transport,
            waker,
            limits,
            state: Mutex::default(),
            pending: AtomicUsize::new(0),
            throttled: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Queues `answer`. Nothing is sent before [`flush_now`](Self::flush_now).
    pub fn push(&self, answer: Answer) {
        let mut state = self.lock();
        if !state.broken {
            state.queued_bytes += answer.byte_count();
            state.queue.push_back(answer);
        }
    }

    /// Announces an operation that will be answered by another thread. Keep it until its answer
    /// is pushed.
    pub fn pending(self: &Arc<Self>) -> Pending {
        self.pending.fetch_add(1, Ordering::SeqCst);
        Pending {
            outbound: Arc::clone(self),
        }
    }

    /// Queues and sends from a worker's thread; the connection's thread is woken if the socket
    /// does not take everything.
    pub fn answer_elsewhere(&self, answer: Answer) {
        self.push(answer);
        if self.flush_now() == Flushed::Blocked {
            self.waker.wake();
        }
    }

    /// Sends what is queued from a thread that many connections share: once. What came meanwhile, and what the socket does
    /// not take, is the connection's thread's.
    pub fn flush_once(&self) {
        if matches!(self.flush(None, 1), Flushed::Blocked | Flushed::More) {
            self.waker.wake();
        }
    }

    /// Sends as much as the socket takes without waiting. What it does not take is copied, and
    /// loans are given back.
    pub fn flush_now(&self) -> Flushed {
        self.flush(None, usize::MAX)
    }

    /// Like [`flush_now`](Self::flush_now), but waits a moment before it copies a loan: most
    /// clients make room sooner than a large copy takes. For the connection's own thread.
    pub(crate) fn flush_patiently(&self) -> Flushed {
        self.flush(Some(LOAN_PATIENCE), usize::MAX)
    }

    fn flush(&self, patience: Option<Duration>, batches_max: usize) -> Flushed {
        let mut state = self.lock();
        let mut batches = 0;
        loop {
            if state.broken {
                return Flushed::Broken;
            }
            if state.sending {
                return Flushed::Elsewhere;
            }
            if state.queue.is_empty() && !state.held_back {
                state.blocked_since = None;
                return Flushed::Drained;
            }
            if batches == batches_max {
                return Flushed::More;
            }
            batches += 1;
            let spare = std::mem::take(&mut state.spare);
            let mut batch = std::mem::replace(&mut state.queue, spare);
            let mut sent = state.sent_of_first;
            state.sending = true;
            drop(state);

            let until = patience.map(|patience| Instant::now() + patience);
            let outcome = self.send_batch(&mut batch, &mut sent, until);
            state = self.lock();
            state.sending = false;
            let blocked = self.settle(&mut state, batch, sent, outcome);
            if self.throttled.load(Ordering::SeqCst) {
                self.waker.wake();
            }
            // What was queued meanwhile may be lent: it has to be copied, too.
            if blocked && !state.queue.iter().any(Answer::is_borrowing) {
                return Flushed::Blocked;
            }
        }
    }

    /// Puts back what was not sent, and notes what that means. Whether the socket is full.
    fn settle(
        &self,
        state: &mut State,
        mut batch: VecDeque<Answer>,
        sent: usize,
        outcome: io::Result<Sent>,
    ) -> bool {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::debug!(%error, "connection broke while sending");
                self.break_off(state);
                return false;
            }
        };
        if state.broken {
            // The connection was given up meanwhile, with everything that was counted.
            return false;
        }
        if batch.is_empty() {
            state.spare = batch;
        } else {
            // Answers pushed meanwhile go behind.
            batch.append(&mut state.queue);
            state.spare = std::mem::replace(&mut state.queue, batch);
        }
        state.sent_of_first = sent;
        state.queued_bytes -= outcome.bytes;
        state.held_back = outcome.held_back;
        if !outcome.blocked {
            state.blocked_since = None;
        } else if outcome.bytes > 0 || state.blocked_since.is_none() {
            state.blocked_since = Some(Instant::now());
        }
        outcome.blocked
    }

    /// Sends from the front of `batch` until it is empty or the socket is full.
    fn send_batch(
        &self,
        batch: &mut VecDeque<Answer>,
        sent: &mut usize,
        until: Option<Instant>,
    ) -> io::Result<Sent> {
        let mut total = Sent::default();
        while !batch.is_empty() {
            let (offered, outcome) = self.send_some(batch, *sent);
            let taken = match outcome {
                Ok(taken) => taken,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            total.bytes += taken;
            *sent += taken;
            while let Some(first) = batch.front() {
                let length = first.byte_count();
                if *sent < length {
                    break;
                }
                *sent -= length;
                batch.pop_front();
            }
            if taken == offered {
                continue;
            }
            if !self.wait_for_room(batch, until) {
                total.blocked = true;
                break;
            }
        }
        for (index, answer) in batch.iter_mut().enumerate() {
            if answer.is_borrowing() {
                let skip = if index == 0 { std::mem::take(sent) } else { 0 };
                answer.own_remainder(skip);
            }
        }
        match self.transport.flush() {
            Ok(true) => {}
            Ok(false) => {
                total.blocked = true;
                total.held_back = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                total.blocked = true;
                total.held_back = true;
            }
            Err(error) => return Err(error),
        }
        Ok(total)
    }

    /// Whether the socket has room again before `until`, and that is worth waiting for.
    fn wait_for_room(&self, batch: &VecDeque<Answer>, until: Option<Instant>) -> bool {
        let Some(until) = until else { return false };
        if !batch.iter().any(Answer::is_borrowing) {
            return false;
        }
        let interest = Interest {
            input: false,
            room: true,
        };
        match wait_for(Some(self.transport.stream()), None, interest, Some(until)) {
            Ok(ready) => ready.room,
            Err(_) => false,
        }
    }

    /// One system call's worth: bytes offered, and what became of them.
    fn send_some(&self, batch: &VecDeque<Answer>, sent: usize) -> (usize, io::Result<usize>) {
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(batch.len().min(32) * 3);
        let mut scratch = Vec::new();
        let mut offered = 0;
        for (index, answer) in batch.iter().take(ANSWERS_PER_SEND_MAX).enumerate() {
            let skip = if index == 0 { sent } else { 0 };
            answer.append_slices(skip, &mut scratch, &mut slices);
            offered += answer.byte_count() - skip;
            if slices.len() > SLICES_MAX || offered >= BYTES_PER_SEND_MAX {
                break;
            }
        }
        if slices.len() > SLICES_MAX {
            slices.truncate(SLICES_MAX);
            offered = slices.iter().map(|slice| slice.len()).sum();
        }
        (offered, self.transport.send(&slices))
    }

    fn break_off(&self, state: &mut State) {
        state.broken = true;
        state.queue.clear();
        state.spare.clear();
        state.queued_bytes = 0;
        state.sent_of_first = 0;
        state.held_back = false;
        self.transport.stream().shutdown();
        self.waker.wake();
    }

    /// Ends the connection and throws away what is queued.
    pub fn abandon(&self) {
        let mut state = self.lock();
        if !state.broken {
            self.break_off(&mut state);
        }
    }

    /// Whether more requests should wait: too much is queued or pending.
    pub fn is_congested(&self) -> bool {
        self.pending_count() >= self.limits.pending_max
            || self.lock().queued_bytes > self.limits.queued_bytes_max
    }

    /// Whether every operation is answered and every answer is sent.
    pub fn is_idle(&self) -> bool {
        if self.pending_count() > 0 {
            return false;
        }
        let state = self.lock();
        state.broken || (state.queue.is_empty() && !state.sending && !state.held_back)
    }

    /// Whether nothing can be sent any more.
    pub fn is_broken(&self) -> bool {
        self.lock().broken
    }

    /// Bytes queued now.
    pub fn queued_bytes(&self) -> usize {
        self.lock().queued_bytes
    }

    fn pending_count(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    /// When a peer that goes on taking nothing is to be dropped.
    pub(crate) fn stall_deadline(&self) -> Option<Instant> {
        self.lock()
            .blocked_since
            .map(|since| since + self.limits.stall_timeout)
    }

    /// From now on whatever makes room or finishes raises the waker. Check again after this.
    pub(crate) fn set_throttled(&self, throttled: bool) {
        self.throttled.store(throttled, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Sent {
    bytes: usize,
    blocked: bool,
    held_back: bool,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.outbound.pending.fetch_sub(1, Ordering::SeqCst);
        if self.outbound.throttled.load(Ordering::SeqCst) {
            self.outbound.waker.wake();
        }
    }
}
