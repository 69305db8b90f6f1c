//! Threads next to those of connections: one handles the port mapper and restart notifications over
//! UDP, and one calls hosts.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serving::{Waker, bind_udp, wait_for_datagrams};

use super::calls::{Calls, Datagram};
use crate::hosts::Outcome;
use crate::v4::Service;

/// Bytes of a received datagram. Valid requests and replies are shorter.
const DATAGRAM_BYTES_MAX: usize = 2048;
/// Datagrams of one socket that are handled in a row.
const DATAGRAMS_PER_TURN: usize = 64;
/// Interval of the check for grantable locks, because an expired lease causes no event.
const TICK: Duration = Duration::from_secs(1);
/// Bytes of a thread's stack.
const STACK_BYTES: usize = 256 << 10;

/// A thread that is stopped when this is dropped.
pub struct Task {
    signals: Arc<Signals>,
    ended: Receiver<()>,
}

struct Signals {
    waker: Arc<Waker>,
    is_stopping: AtomicBool,
}

impl Task {
    fn start(name: &str, run: impl FnOnce(&Signals) + Send + 'static) -> io::Result<Self> {
        let signals = Arc::new(Signals {
            waker: Arc::new(Waker::new()?),
            is_stopping: AtomicBool::new(false),
        });
        let (ends, ended): (Sender<()>, _) = channel();
        let own = Arc::clone(&signals);
        std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                run(&own);
                drop(ends);
            })?;
        Ok(Self { signals, ended })
    }

    /// Stops the thread and joins it until `deadline`: it may be blocked by a write to a pool that
    /// does not respond.
    pub fn end(self, deadline: Instant) {
        self.signals.stop();
        let _ = self
            .ended
            .recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.signals.stop();
    }
}

impl Signals {
    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

/// Starts a thread that passes each datagram of `socket` to `answer` and sends the returned reply.
///
/// # Errors
///
/// The system cannot create a thread.
pub fn answer(
    socket: UdpSocket,
    answer: impl Fn(SocketAddr, &[u8]) -> Option<Vec<u8>> + Send + 'static,
) -> io::Result<Task> {
    Task::start("nfs-datagrams", move |signals| {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while !signals.is_stopping() {
            wait_for_datagrams(&signals.waker, &[&socket], TICK);
            signals.waker.take();
            for _ in 0..DATAGRAMS_PER_TURN {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                    break;
                };
                if signals.is_stopping() {
                    return;
                }
                if let Some(bytes) = answer(from, &buffer[..length]) {
                    // A client without a reply retries.
                    let _ = socket.send_to(&bytes, from);
                }
            }
        }
    })
}

/// The interface of the thread that calls hosts.
pub trait Calling: Send + Sync + 'static {
    /// The service with the queued calls.
    fn service(&self) -> &Service;
    /// Milliseconds since the server started.
    fn now_ms(&self) -> u64;
}

/// Starts the thread that sends the queued calls to hosts with rpcbind at port `rpcbind`.
///
/// # Errors
///
/// The system cannot create a thread.
pub fn call(calling: Arc<impl Calling>, rpcbind: u16) -> io::Result<Task> {
    Task::start("nfs-calls", move |signals| {
        let calls = Calls::new(rpcbind);
        calling.service().outbox.wakes(Arc::clone(&signals.waker));
        let mut caller = Caller {
            calling: &*calling,
            calls,
            sockets: HashMap::new(),
        };
        let mut looked_at = Instant::now();
        while !signals.is_stopping() {
            caller.send();
            if signals.is_stopping() {
                return;
            }
            let pause = caller.pause();
            let sockets: Vec<&UdpSocket> = caller.sockets.values().collect();
            wait_for_datagrams(&signals.waker, &sockets, pause);
            signals.waker.take();
            caller.receive();
            if looked_at.elapsed() >= TICK {
                looked_at = Instant::now();
                calling.service().announce(calling.now_ms());
                calling.service().grant_all(calling.now_ms());
            }
        }
    })
}

struct Caller<'a, C> {
    calling: &'a C,
    calls: Calls,
    /// Sockets by local address.
    sockets: HashMap<IpAddr, UdpSocket>,
}

impl<C: Calling> Caller<'_, C> {
    fn send(&mut self) {
        let service = self.calling.service();
        for message in service.outbox.take() {
            let now_ms = self.calling.now_ms();
            if let Some(refused) = self.calls.begin(message, now_ms) {
                let outcome = Outcome::NoReply { was_sent: false };
                service.callback_completed(&refused, &outcome, now_ms);
            }
        }
        let now_ms = self.calling.now_ms();
        let sockets = &mut self.sockets;
        let given_up = self.calls.send_due(
            now_ms,
            |purpose| service.readiness(purpose, now_ms),
            |datagram| {
                let sent = send_from(sockets, datagram);
                if let Err(error) = &sent {
                    tracing::debug!(%error, to = %datagram.there, "call a host");
                }
                sent.is_ok()
            },
        );
        for (message, outcome) in given_up {
            service.callback_completed(&message, &outcome, now_ms);
        }
        if self.calls.next_due_ms().is_none() {
            self.sockets.clear();
        }
    }

    /// Returns the time until the next action.
    fn pause(&self) -> Duration {
        let now_ms = self.calling.now_ms();
        let due = self
            .calls
            .next_due_ms()
            .map(|due| due.saturating_sub(now_ms));
        due.map_or(TICK, |due| Duration::from_millis(due).min(TICK))
    }

    fn receive(&mut self) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        for socket in self.sockets.values() {
            for _ in 0..DATAGRAMS_PER_TURN {
                // An error belongs to an earlier datagram, which will be retried.
                let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                    break;
                };
                let now_ms = self.calling.now_ms();
                let ended = self.calls.received(from, &buffer[..length], now_ms);
                if let Some((message, outcome)) = ended {
                    self.calling
                        .service()
                        .callback_completed(&message, &outcome, now_ms);
                }
            }
        }
    }
}

fn send_from(sockets: &mut HashMap<IpAddr, UdpSocket>, datagram: &Datagram) -> io::Result<()> {
    let socket = match sockets.get(&datagram.here) {
        Some(socket) => socket,
        None => {
            let socket = bind_udp(SocketAddr::new(datagram.here, 0))?;
            sockets.entry(datagram.here).or_insert(socket)
        }
    };
    socket.send_to(&datagram.bytes, datagram.there).map(|_| ())
}
