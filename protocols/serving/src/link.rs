//! A connection from the view of its own thread: input arrives in turns, and replies are sent
//! concurrently.

use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Outbound, OutboundLimits, ReceiveWait, Stream, Transport, Waker};

/// Why [`Link::turn`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Number of received bytes.
    Input(usize),
    /// The peer will send no more, or the connection failed.
    Closed,
    /// The waker was raised, so that directives must be checked.
    Woken,
    /// The caller's deadline passed without input.
    Deadline,
    /// The peer does not read replies and must be dropped.
    Stalled,
}

/// The receive side of a connection, and the wait for both sides.
pub struct Link {
    transport: Arc<dyn Transport>,
    waker: Arc<Waker>,
    outbound: Arc<Outbound>,
    buffer: Box<[u8]>,
    usual_bytes: usize,
    bytes_max: usize,
    start: usize,
    end: usize,
    /// The last receive filled the whole buffer, or a poll reported input.
    more_expected: bool,
    /// Input was not read since the last check for the peer's presence.
    was_congested: bool,
    appetite: usize,
}

impl Link {
    /// Creates a link over `transport` with a receive buffer of `buffer_bytes`, which bounds the
    /// largest message that [`require`](Self::require) can gather.
    pub fn new(
        transport: Arc<dyn Transport>,
        waker: Arc<Waker>,
        limits: OutboundLimits,
        buffer_bytes: usize,
    ) -> Self {
        Self::growing(transport, waker, limits, buffer_bytes, buffer_bytes)
    }

    /// Creates a link with a buffer of `usual_bytes`. It grows to `bytes_max` when a larger message
    /// is required, until it is [shrunk](Self::shrink).
    pub fn growing(
        transport: Arc<dyn Transport>,
        waker: Arc<Waker>,
        limits: OutboundLimits,
        usual_bytes: usize,
        bytes_max: usize,
    ) -> Self {
        let outbound = Outbound::new(Arc::clone(&transport), Arc::clone(&waker), limits);
        Self {
            transport,
            waker,
            outbound,
            buffer: vec![0; usual_bytes].into(),
            usual_bytes,
            bytes_max,
            start: 0,
            end: 0,
            more_expected: false,
            was_congested: false,
            appetite: bytes_max,
        }
    }

    /// Limits a single receive to about `bytes`. With a small limit payloads remain in the socket
    /// and are received directly to their destination without a copy.
    pub fn set_read_limit(&mut self, bytes: usize) {
        self.appetite = bytes.max(1);
    }

    /// The queue of replies.
    pub fn outbound(&self) -> &Arc<Outbound> {
        &self.outbound
    }

    /// The waker of this link's thread.
    pub fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Received input that is not consumed yet.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Removes the first `count` bytes of the input.
    pub fn consume(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Ensures room for a message of `count` bytes at the front of the buffer. Returns `false` if
    /// it can never fit.
    pub fn require(&mut self, count: usize) -> bool {
        if count > self.bytes_max {
            return false;
        }
        if count > self.buffer.len() {
            self.replace_buffer(self.bytes_max);
        }
        if self.start + count > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        true
    }

    /// Whether a message of `count` bytes requires more memory than the link has.
    pub fn must_grow_for(&self, count: usize) -> bool {
        count > self.buffer.len()
    }

    /// Shrinks the buffer to its usual size if all input is consumed. Returns whether it has that
    /// size.
    pub fn shrink(&mut self) -> bool {
        if self.buffer.len() > self.usual_bytes && self.start == self.end {
            self.replace_buffer(self.usual_bytes);
        }
        self.buffer.len() == self.usual_bytes
    }

    fn replace_buffer(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes].into_boxed_slice();
        let input = self.start..self.end;
        buffer[..input.len()].copy_from_slice(&self.buffer[input.clone()]);
        (self.buffer, self.start, self.end) = (buffer, 0, input.len());
    }

    /// Sends queued replies, then blocks until more input arrives.
    pub fn turn(&mut self, deadline: Option<Instant>) -> io::Result<Turn> {
        self.turn_into(Vec::new(), deadline)
    }

    /// Like [`turn`](Self::turn), but receives to `target` first, and the rest to the buffer, which
    /// must have been consumed. [`Turn::Input`] counts both.
    pub fn turn_into(
        &mut self,
        target: Vec<IoSliceMut<'_>>,
        deadline: Option<Instant>,
    ) -> io::Result<Turn> {
        let target_bytes: usize = target.iter().map(|part| part.len()).sum();
        if self.end == self.buffer.len() && target_bytes == 0 {
            let moved = self.require(self.end - self.start + 1);
            debug_assert!(moved, "the caller gathers more than the buffer holds");
        }
        let mut parts = target;
        let offered = self.buffer.len().min(self.end + self.appetite);
        parts.push(IoSliceMut::new(&mut self.buffer[self.end..offered]));
        let capacity: usize = parts.iter().map(|part| part.len()).sum();
        let mut waiting = Waiting {
            transport: &*self.transport,
            waker: &self.waker,
            outbound: &self.outbound,
            more_expected: self.more_expected,
            was_congested: self.was_congested,
        };
        let turn = waiting.turn(&mut parts, deadline)?;
        self.more_expected = waiting.more_expected;
        self.was_congested = waiting.was_congested;
        drop(parts);
        if let Turn::Input(count) = turn {
            self.more_expected = count == capacity;
            self.end += count.saturating_sub(target_bytes);
        }
        Ok(turn)
    }

    /// Sends queued replies until the connection is no longer congested, which returns
    /// [`Turn::Input`] with zero bytes. For a caller with requests left in the buffer.
    pub fn make_room(&mut self, deadline: Option<Instant>) -> io::Result<Turn> {
        let mut waiting = Waiting {
            transport: &*self.transport,
            waker: &self.waker,
            outbound: &self.outbound,
            more_expected: self.more_expected,
            was_congested: self.was_congested,
        };
        let turn = waiting.make_room(deadline);
        self.was_congested = waiting.was_congested;
        turn
    }

    /// Signals the end of the stream to the peer.
    pub fn finish(&self) {
        self.transport.finish();
        self.transport.stream().shutdown_send();
    }

    /// Sends queued replies as far as the socket accepts them.
    pub fn flush(&self) {
        self.outbound.flush_with_wait();
    }

    /// Like [`turn`](Self::turn), but does not read input: blocks until the waker is raised.
    pub fn pause(&mut self, deadline: Instant) -> io::Result<Turn> {
        loop {
            self.outbound.set_throttled(true);
            self.outbound.flush_with_wait();
            if self.waker.take() {
                return Ok(Turn::Woken);
            }
            let stalls_at = self.outbound.stall_deadline();
            let interest = Interest {
                input: false,
                room: stalls_at.is_some(),
            };
            let until = stalls_at.map_or(deadline, |at| at.min(deadline));
            let stream = self.transport.stream();
            let ready = wait_for(Some(stream), Some(&self.waker), interest, Some(until))?;
            if ready.timed_out {
                let stalled = self.outbound.stall_deadline().is_some_and(|at| at <= until);
                return Ok(if stalled {
                    Turn::Stalled
                } else {
                    Turn::Deadline
                });
            }
            if ready.over {
                return Ok(Turn::Closed);
            }
        }
    }

    /// Blocks until all pending operations are completed and all replies are sent, or until
    /// `deadline`. Returns whether that was achieved. Input is not read.
    pub fn settle(&mut self, deadline: Instant) -> bool {
        loop {
            self.outbound.set_throttled(true);
            self.outbound.flush_with_wait();
            if self.outbound.is_idle() {
                return true;
            }
            let interest = Interest {
                input: false,
                room: self.outbound.stall_deadline().is_some(),
            };
            // A failed socket is always ready; then only the operations are awaited.
            let stream = (!self.outbound.is_broken()).then(|| self.transport.stream());
            match wait_for(stream, Some(&self.waker), interest, Some(deadline)) {
                Ok(ready) if ready.timed_out => return false,
                Ok(ready) => {
                    self.waker.take();
                    if ready.over {
                        self.outbound.abandon();
                    }
                }
                Err(_) => return false,
            }
        }
    }
}

/// The parameters of a turn besides its buffer.
struct Waiting<'a> {
    transport: &'a dyn Transport,
    waker: &'a Waker,
    outbound: &'a Outbound,
    more_expected: bool,
    was_congested: bool,
}

impl Waiting<'_> {
    fn turn(
        &mut self,
        parts: &mut [IoSliceMut<'_>],
        deadline: Option<Instant>,
    ) -> io::Result<Turn> {
        loop {
            self.outbound.flush_with_wait();
            if self.waker.take() {
                return Ok(Turn::Woken);
            }
            let congested = self.is_congested();
            if !congested {
                if self.peer_left_during_absence() {
                    return Ok(Turn::Closed);
                }
                // Without pending operations no other thread needs this one soon: a short blocking
                // receive saves the poll.
                let idle = self.outbound.is_idle();
                if idle || self.more_expected || self.transport.has_input() {
                    if let Some(turn) = self.receive(parts, idle)? {
                        return Ok(turn);
                    }
                }
            }
            let stalls_at = self.outbound.stall_deadline();
            let interest = Interest {
                input: !congested,
                room: stalls_at.is_some(),
            };
            let until = [deadline, stalls_at].into_iter().flatten().min();
            let ready = wait_for(
                Some(self.transport.stream()),
                Some(self.waker),
                interest,
                until,
            )?;
            self.more_expected = ready.input;
            if ready.over && congested {
                return Ok(Turn::Closed);
            }
            if ready.timed_out {
                let now = Instant::now();
                if self.outbound.stall_deadline().is_some_and(|at| at <= now) {
                    return Ok(Turn::Stalled);
                }
                if deadline.is_some_and(|at| at <= now) {
                    return Ok(Turn::Deadline);
                }
            }
        }
    }

    fn make_room(&mut self, deadline: Option<Instant>) -> io::Result<Turn> {
        loop {
            self.outbound.flush_with_wait();
            if self.waker.take() {
                return Ok(Turn::Woken);
            }
            if !self.is_congested() {
                let left = self.peer_left_during_absence();
                return Ok(if left { Turn::Closed } else { Turn::Input(0) });
            }
            let stalls_at = self.outbound.stall_deadline();
            let interest = Interest {
                input: false,
                room: stalls_at.is_some(),
            };
            let until = [deadline, stalls_at].into_iter().flatten().min();
            let stream = Some(self.transport.stream());
            let ready = wait_for(stream, Some(self.waker), interest, until)?;
            if ready.over {
                return Ok(Turn::Closed);
            }
            if ready.timed_out {
                let now = Instant::now();
                if self.outbound.stall_deadline().is_some_and(|at| at <= now) {
                    return Ok(Turn::Stalled);
                }
                if deadline.is_some_and(|at| at <= now) {
                    return Ok(Turn::Deadline);
                }
            }
        }
    }

    /// The throttle flag is set before the last check, so that no completion is missed.
    fn is_congested(&mut self) -> bool {
        if !self.outbound.is_congested() {
            self.outbound.set_throttled(false);
            return false;
        }
        self.outbound.set_throttled(true);
        let congested = self.outbound.is_congested();
        self.was_congested |= congested;
        congested
    }

    /// Whether the peer disconnected while its input was not read. Its earlier requests are then
    /// obsolete.
    fn peer_left_during_absence(&mut self) -> bool {
        std::mem::take(&mut self.was_congested) && self.transport.stream().peer_has_left()
    }

    fn receive(&mut self, parts: &mut [IoSliceMut<'_>], idle: bool) -> io::Result<Option<Turn>> {
        let wait = if idle {
            ReceiveWait::Briefly
        } else {
            ReceiveWait::No
        };
        match self.transport.receive(parts, wait) {
            Ok(0) => Ok(Some(Turn::Closed)),
            Ok(count) => Ok(Some(Turn::Input(count))),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => {
                    self.more_expected = false;
                    Ok(None)
                }
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::TimedOut => {
                    Ok(Some(Turn::Closed))
                }
                _ => Err(error),
            },
        }
    }
}

/// The events to wait for on a socket.
#[derive(Clone, Copy)]
pub(crate) struct Interest {
    pub(crate) input: bool,
    pub(crate) room: bool,
}

/// The events that occurred.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) input: bool,
    pub(crate) room: bool,
    /// The connection failed, or both sides closed it.
    pub(crate) over: bool,
    pub(crate) timed_out: bool,
}

/// Blocks until an event of a socket, a waker, or a deadline.
pub(crate) fn wait_for(
    stream: Option<&Stream>,
    waker: Option<&Waker>,
    interest: Interest,
    until: Option<Instant>,
) -> io::Result<Ready> {
    let mut events = PollFlags::empty();
    events.set(PollFlags::IN, interest.input);
    events.set(PollFlags::OUT, interest.room);
    let timeout = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
    let socket = stream.map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), events));
    let event = waker.map(|waker| PollFd::from_borrowed_fd(waker.as_fd(), PollFlags::IN));
    let polled = match (socket, event) {
        (Some(socket), Some(event)) => poll_all(&mut [socket, event], timeout),
        (Some(only), None) => poll_all(&mut [only], timeout),
        (None, Some(event)) => poll_all(&mut [event], timeout).map(|(count, _)| (count, None)),
        (None, None) => poll_all(&mut [], timeout),
    };
    let (count, seen) = polled?;
    let seen = seen.unwrap_or(PollFlags::empty());
    let over = seen.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
    Ok(Ready {
        input: over || seen.contains(PollFlags::IN),
        room: over || seen.contains(PollFlags::OUT),
        over,
        timed_out: count == 0,
    })
}

/// Returns the number of ready descriptors, and the events of the first one. A signal counts as
/// ready.
fn poll_all(
    descriptors: &mut [PollFd<'_>],
    timeout: Option<Timespec>,
) -> io::Result<(usize, Option<PollFlags>)> {
    let count = match poll(descriptors, timeout.as_ref()) {
        Ok(count) => count,
        Err(rustix::io::Errno::INTR) => 1,
        Err(error) => return Err(error.into()),
    };
    Ok((count, descriptors.first().map(PollFd::revents)))
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
