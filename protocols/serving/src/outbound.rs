//! The queue of a connection's replies, shared by its thread and the workers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::link::{Interest, wait_for};
use crate::{Reply, Transport, Waker};

/// Maximum slices of one system call (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;
/// Replies gathered for one system call; a loan in small blocks has many slices.
const REPLIES_PER_SEND_MAX: usize = 128;
/// Bytes gathered for one system call: sockets rarely accept more at once.
const BYTES_PER_SEND_MAX: usize = 2 << 20;

/// Longest wait for room in a socket before a loan is copied and returned.
const LOAN_WAIT_MAX: Duration = Duration::from_millis(2);

/// Limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct OutboundLimits {
    /// Above this number of queued bytes no more requests are read.
    pub queued_bytes_max: usize,
    /// Above this number of pending operations no more requests are read.
    pub pending_max: usize,
    /// A peer that reads no byte for this time is dropped.
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

/// The result of [`Outbound::flush_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// The queue is empty.
    Drained,
    /// The socket is full.
    Blocked,
    /// Another thread is sending. It also sends replies that are queued concurrently, or wakes the
    /// connection's thread for them.
    OtherThread,
    /// One batch was sent, and the queue is not empty.
    More,
    /// The connection failed; replies are discarded.
    Broken,
}

/// Queue, send state and limits of one connection's replies.
pub struct Outbound {
    transport: Arc<dyn Transport>,
    waker: Arc<Waker>,
    limits: OutboundLimits,
    state: Mutex<State>,
    pending: AtomicUsize,
    /// The connection's thread is waiting for room or for the last pending operation.
    throttled: AtomicBool,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Reply>,
    /// Sent bytes of the first reply.
    sent_of_first: usize,
    queued_bytes: usize,
    sending: bool,
    broken: bool,
    /// The transport holds bytes that it could not send.
    held_back: bool,
    blocked_since: Option<Instant>,
    /// Reused for its allocation.
    spare: VecDeque<Reply>,
}

/// A pending operation. It is dropped when its reply was pushed, or when there will be none.
pub struct Pending {
    outbound: Arc<Outbound>,
}

impl Outbound {
    /// Creates a queue in front of `transport`; `waker` is raised when the connection's thread must
    /// wait for room in the socket.
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

    /// Queues `answer`. It is sent by the next [`flush_now`](Self::flush_now).
    pub fn push(&self, answer: Reply) {
        let mut state = self.lock();
        if !state.broken {
            state.queued_bytes += answer.byte_count();
            state.queue.push_back(answer);
        }
    }

    /// Announces an operation with a reply from another thread. It must be held until the reply is
    /// pushed.
    pub fn pending(self: &Arc<Self>) -> Pending {
        self.pending.fetch_add(1, Ordering::SeqCst);
        Pending {
            outbound: Arc::clone(self),
        }
    }

    /// Queues and sends a reply from a worker's thread. The connection's thread is woken if the
    /// socket is full.
    pub fn reply_from_worker(&self, answer: Reply) {
        self.push(answer);
        if self.flush_now() == Flushed::Blocked {
            self.waker.wake();
        }
    }

    /// Sends one batch from a thread that many connections share. The rest is left to the
    /// connection's thread.
    pub fn flush_once(&self) {
        if matches!(self.flush(None, 1), Flushed::Blocked | Flushed::More) {
            self.waker.wake();
        }
    }

    /// Sends as much as the socket accepts without blocking. The rest is copied, and loans are
    /// returned.
    pub fn flush_now(&self) -> Flushed {
        self.flush(None, usize::MAX)
    }

    /// Like [`flush_now`](Self::flush_now), but with a short wait before it copies a loan: most
    /// clients make room sooner than a large copy is done. For the connection's own thread.
    pub(crate) fn flush_with_wait(&self) -> Flushed {
        self.flush(Some(LOAN_WAIT_MAX), usize::MAX)
    }

    fn flush(&self, patience: Option<Duration>, batches_max: usize) -> Flushed {
        let mut state = self.lock();
        let mut batches = 0;
        loop {
            if state.broken {
                return Flushed::Broken;
            }
            if state.sending {
                return Flushed::OtherThread;
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
            // Replies that were queued concurrently may be loans, which must be copied, too.
            if blocked && !state.queue.iter().any(Reply::is_borrowing) {
                return Flushed::Blocked;
            }
        }
    }

    /// Returns unsent replies to the queue and updates its state. Returns whether the socket is
    /// full.
    fn settle(
        &self,
        state: &mut State,
        mut batch: VecDeque<Reply>,
        sent: usize,
        outcome: io::Result<Sent>,
    ) -> bool {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::debug!(%error, "connection broke while sending");
                self.abort_connection(state);
                return false;
            }
        };
        if state.broken {
            // The connection was abandoned concurrently, and its counts were reset.
            return false;
        }
        if batch.is_empty() {
            state.spare = batch;
        } else {
            // Replies that were pushed concurrently follow.
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
        batch: &mut VecDeque<Reply>,
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

    /// Blocks until the socket has room, at most until `until`, if the batch is worth it. Returns
    /// whether there is room.
    fn wait_for_room(&self, batch: &VecDeque<Reply>, until: Option<Instant>) -> bool {
        let Some(until) = until else { return false };
        if !batch.iter().any(Reply::is_borrowing) {
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

    /// Performs one system call. Returns the offered bytes and the result.
    fn send_some(&self, batch: &VecDeque<Reply>, sent: usize) -> (usize, io::Result<usize>) {
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(batch.len().min(32) * 3);
        let mut scratch = Vec::new();
        let mut offered = 0;
        for (index, answer) in batch.iter().take(REPLIES_PER_SEND_MAX).enumerate() {
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

    fn abort_connection(&self, state: &mut State) {
        state.broken = true;
        state.queue.clear();
        state.spare.clear();
        state.queued_bytes = 0;
        state.sent_of_first = 0;
        state.held_back = false;
        self.transport.stream().shutdown();
        self.waker.wake();
    }

    /// Closes the connection and discards its queue.
    pub fn abandon(&self) {
        let mut state = self.lock();
        if !state.broken {
            self.abort_connection(&mut state);
        }
    }

    /// Whether no more requests should be read: too much is queued or pending.
    pub fn is_congested(&self) -> bool {
        self.pending_count() >= self.limits.pending_max
            || self.lock().queued_bytes > self.limits.queued_bytes_max
    }

    /// Whether all operations are completed and all replies are sent.
    pub fn is_idle(&self) -> bool {
        if self.pending_count() > 0 {
            return false;
        }
        let state = self.lock();
        state.broken || (state.queue.is_empty() && !state.sending && !state.held_back)
    }

    /// Whether sending is no longer possible.
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

    /// Returns when a peer that still does not read must be dropped.
    pub(crate) fn stall_deadline(&self) -> Option<Instant> {
        self.lock()
            .blocked_since
            .map(|since| since + self.limits.stall_timeout)
    }

    /// Enables wake-ups by room in the socket and by completions. The caller must check again after
    /// this call.
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
