//! The live connections of a server: how many there may be, how they are told to stop, and how
//! to wait until they are gone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use crate::workers::STACK_BYTES;
use crate::{Peer, Standing, Stream, Waker};

/// How many connections a server takes.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In all.
    pub total_max: usize,
    /// From one address; Unix sockets are not counted by address.
    pub per_address_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            total_max: 4096,
            per_address_max: 1024,
        }
    }
}

/// What a connection's thread is asked to do. Ordered: a later one replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Directive {
    /// Serve.
    Serve,
    /// Say goodbye in the protocol's way, finish what is under way, and end.
    Drain,
    /// End at once, without another word: the volume may be somebody else's by now.
    Drop,
}

/// A connection, shared by its thread, the server and whoever ends it.
pub struct Connection {
    /// Unique in the process's life among its [`Connections`].
    pub id: u64,
    /// Who is connected.
    pub peer: Peer,
    /// The socket.
    pub stream: Arc<Stream>,
    /// Wakes the connection's thread.
    pub waker: Arc<Waker>,
    /// Whether what it asked for may still change anything.
    pub standing: Arc<Standing>,
    directive: AtomicU8,
    /// The client said that it will ask for nothing more, and may close before it is answered.
    has_said_goodbye: AtomicBool,
    /// The connection's thread did not look at its socket for a while.
    was_away: AtomicBool,
}

impl Connection {
    /// What the connection's thread has to do now; look at it after each
    /// [`Turn::Woken`](crate::Turn::Woken).
    pub fn directive(&self) -> Directive {
        match self.directive.load(Ordering::Acquire) {
            0 => Directive::Serve,
            1 => Directive::Drain,
            _ => Directive::Drop,
        }
    }

    /// Asks the connection's thread to do something; never takes an earlier wish back.
    pub fn direct(&self, directive: Directive) {
        let code = directive as u8;
        if self.directive.fetch_max(code, Ordering::AcqRel) < code {
            if directive == Directive::Drop {
                self.standing.end();
                self.stream.shutdown();
            }
            self.waker.wake();
        }
    }

    /// The client will close its end in an orderly way: that is no reason to drop what is under way.
    pub fn goodbye(&self) {
        self.has_said_goodbye.store(true, Ordering::Release);
    }

    /// Drops the connection if the client has left it without a word; whether nothing of it may
    /// take effect any more.
    pub fn ends_if_left(&self) -> bool {
        if self.standing.is_over() {
            return true;
        }
        if self.has_said_goodbye.load(Ordering::Acquire) || !self.stream.peer_has_left() {
            return false;
        }
        self.direct(Directive::Drop);
        true
    }

    /// For the connection's thread: it is going to wait for something else than its socket.
    pub fn note_absence(&self) {
        self.was_away.store(true, Ordering::Relaxed);
    }

    /// For the connection's thread: whether the client has left while the thread was away. What it
    /// had sent before must not be executed then: it is answered elsewhere by now, perhaps.
    pub fn left_meanwhile(&self) -> bool {
        self.was_away.load(Ordering::Relaxed) && {
            self.was_away.store(false, Ordering::Relaxed);
            self.ends_if_left()
        }
    }
}

/// All live connections of one server, over all its listeners.
pub struct Connections {
    limits: ConnectionLimits,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    live: HashMap<u64, Arc<Connection>>,
    by_address: HashMap<IpAddr, usize>,
    next_id: u64,
    directive: Directive,
    refused: u64,
}

impl Connections {
    /// No connections yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::new(State {
                live: HashMap::new(),
                by_address: HashMap::new(),
                next_id: 1,
                directive: Directive::Serve,
                refused: 0,
            }),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Connections alive now.
    pub fn count(&self) -> usize {
        self.lock().live.len()
    }

    /// Connections refused so far because of a limit.
    pub fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// The live connections, in no order.
    pub fn list(&self) -> Vec<Arc<Connection>> {
        self.lock().live.values().cloned().collect()
    }

    /// The other ends of the live connections, in no order.
    pub fn peers(&self) -> Vec<Peer> {
        let state = self.lock();
        state.live.values().map(|live| live.peer).collect()
    }

    /// Asks every connection, and each that comes later, to do something.
    pub fn direct_all(&self, directive: Directive) {
        let live: Vec<_> = {
            let mut state = self.lock();
            state.directive = state.directive.max(directive);
            state.live.values().cloned().collect()
        };
        for connection in live {
            connection.direct(directive);
        }
    }

    /// Waits until no connection is alive; `false` if some are at `deadline`.
    pub fn wait_until_empty(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !state.live.is_empty() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            state = self
                .changed
                .wait_timeout(state, left)
                .expect("no holder panics")
                .0;
        }
        true
    }

    /// Runs `serve` for a new connection in a thread of its own. A connection over a limit is
    /// closed at once.
    pub fn start(
        self: &Arc<Self>,
        name: &str,
        stream: Stream,
        peer: Peer,
        serve: Arc<dyn Fn(Arc<Connection>) + Send + Sync>,
    ) {
        let Some(connection) = self.admit(stream, peer) else {
            return;
        };
        let guard = Live {
            connections: Arc::clone(self),
            connection: Arc::clone(&connection),
        };
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let guard = guard;
                serve(Arc::clone(&guard.connection));
            });
        if let Err(error) = spawned {
            tracing::warn!(%peer, %error, "connection refused: no thread for it");
        }
    }

    fn admit(&self, stream: Stream, peer: Peer) -> Option<Arc<Connection>> {
        let waker = match Waker::new() {
            Ok(waker) => Arc::new(waker),
            Err(error) => {
                tracing::warn!(%peer, %error, "connection refused: no descriptor for its waker");
                return None;
            }
        };
        let mut state = self.lock();
        if state.directive != Directive::Serve {
            return None;
        }
        let same_address = peer.address().map_or(0, |address| {
            state.by_address.get(&address).copied().unwrap_or(0)
        });
        if state.live.len() >= self.limits.total_max || same_address >= self.limits.per_address_max
        {
            state.refused += 1;
            // Each power of two is enough to see a flood, and does not become one in the log.
            if state.refused.is_power_of_two() {
                let (live, refused) = (state.live.len(), state.refused);
                tracing::warn!(%peer, live, same_address, refused, "connection refused: too many");
            }
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        let connection = Arc::new(Connection {
            id,
            peer,
            stream: Arc::new(stream),
            waker,
            standing: Arc::default(),
            directive: AtomicU8::new(Directive::Serve as u8),
            has_said_goodbye: AtomicBool::new(false),
            was_away: AtomicBool::new(false),
        });
        state.live.insert(id, Arc::clone(&connection));
        if let Some(address) = peer.address() {
            *state.by_address.entry(address).or_default() += 1;
        }
        Some(connection)
    }

    fn remove(&self, connection: &Connection) {
        let mut state = self.lock();
        state.live.remove(&connection.id);
        if let Some(address) = connection.peer.address() {
            if let Some(count) = state.by_address.get_mut(&address) {
                *count -= 1;
                if *count == 0 {
                    state.by_address.remove(&address);
                }
            }
        }
        self.changed.notify_all();
    }
}

/// Takes the connection off the list when its thread ends, even by a panic.
struct Live {
    connections: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.connection.standing.end();
        self.connection.stream.shutdown();
        self.connections.remove(&self.connection);
    }
}
