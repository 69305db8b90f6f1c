//! The live connections of a server: their limits, how they are stopped, and how to wait for their
//! end.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Instant;

use crate::workers::STACK_BYTES;
use crate::{ConnectionChanges, Peer, Stream, Waker};

/// Bits of an IPv6 address that identify its network; a host can choose the remaining ones.
const IPV6_NETWORK_BITS: u32 = 64;

/// Limits of connections. Connections that were not [let in](Connection::admit_peer) have separate
/// limits, so that idle unauthenticated clients do not block the other clients.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Authenticated connections.
    pub total_max: usize,
    /// Authenticated connections of one IPv4 address or IPv6 network (/64); Unix sockets are not
    /// counted.
    pub per_network_max: usize,
    /// Unauthenticated connections.
    pub strangers_max: usize,
    /// Unauthenticated connections of one IPv4 address or IPv6 network (/64).
    pub strangers_per_network_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            total_max: 4096,
            per_network_max: 1024,
            strangers_max: 1024,
            strangers_per_network_max: 512,
        }
    }
}

impl ConnectionLimits {
    /// Maximum number of connection threads, including dropped connections with a running thread.
    pub const fn threads_max(&self) -> usize {
        self.total_max + 2 * self.strangers_max
    }
}

/// Returns the identity that limits count for: an IPv4 address, or the IPv6 network of a link or
/// site.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - IPV6_NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        v4 => v4,
    }
}

/// A directive to a connection's thread. Ordered: a later one replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Directive {
    /// Serve.
    Serve,
    /// Announce the end with the protocol's message, complete pending requests, and close.
    Drain,
    /// Close immediately and send nothing: another head may own the volume.
    Drop,
}

/// A connection, shared by its thread, the server and the thread that closes it.
pub struct Connection {
    /// Unique within its [`Connections`] for the life of the process.
    pub id: u64,
    /// The peer.
    pub peer: Peer,
    /// The socket.
    pub stream: Arc<Stream>,
    /// Wakes the connection's thread.
    pub waker: Arc<Waker>,
    /// Whether its requests may still change data.
    pub changes_in_flight: Arc<ConnectionChanges>,
    /// The set that it belongs to.
    all: Weak<Connections>,
    directive: AtomicU8,
    /// The client announced the end of its requests, and may close before it receives the replies.
    has_said_goodbye: AtomicBool,
    /// The connection's thread did not check its socket for a while.
    was_away: AtomicBool,
}

impl Connection {
    /// Returns the current directive; must be checked after each
    /// [`Turn::Woken`](crate::Turn::Woken).
    pub fn directive(&self) -> Directive {
        match self.directive.load(Ordering::Acquire) {
            0 => Directive::Serve,
            1 => Directive::Drain,
            _ => Directive::Drop,
        }
    }

    /// Sets the directive of the connection's thread; never reverts to an earlier one.
    pub fn direct(&self, directive: Directive) {
        let code = directive as u8;
        if self.directive.fetch_max(code, Ordering::AcqRel) < code {
            if directive == Directive::Drop {
                self.changes_in_flight.end();
                self.stream.shutdown();
            }
            self.waker.wake();
        }
    }

    /// Records that the client has logged in or chosen an export. Returns `false` if a limit is
    /// reached; the connection must be closed then.
    pub fn admit_peer(&self) -> bool {
        self.all.upgrade().is_some_and(|all| all.admit_peer(self))
    }

    /// Records that the client will close the connection in an orderly way, so that its pending
    /// requests are completed.
    pub fn goodbye(&self) {
        self.has_said_goodbye.store(true, Ordering::Release);
    }

    /// Drops the connection if the client has left it unexpectedly. Returns whether its requests
    /// may no longer take effect.
    pub fn ends_if_left(&self) -> bool {
        if self.changes_in_flight.is_over() {
            return true;
        }
        if self.has_said_goodbye.load(Ordering::Acquire) || !self.stream.peer_has_left() {
            return false;
        }
        self.direct(Directive::Drop);
        true
    }

    /// Called by the connection's thread before it blocks on an event other than its socket.
    pub fn note_absence(&self) {
        self.was_away.store(true, Ordering::Relaxed);
    }

    /// Called by the connection's thread. Returns whether the client has left while the thread was
    /// away. Its earlier requests must not be executed then, because a retry may have been served
    /// elsewhere.
    pub fn left_during_absence(&self) -> bool {
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
    /// Authenticated connections, in all and by network.
    known: usize,
    known_by_network: HashMap<IpAddr, usize>,
    /// Unauthenticated connections, oldest first.
    strangers: BTreeSet<u64>,
    strangers_by_network: HashMap<IpAddr, usize>,
    /// Evicted unauthenticated connections with a running thread.
    evicted: HashSet<u64>,
    next_id: u64,
    directive: Directive,
    refused: u64,
}

impl Connections {
    /// Creates an empty set.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::new(State {
                live: HashMap::new(),
                known: 0,
                known_by_network: HashMap::new(),
                strangers: BTreeSet::new(),
                strangers_by_network: HashMap::new(),
                evicted: HashSet::new(),
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

    /// Number of live connections.
    pub fn count(&self) -> usize {
        self.lock().live.len()
    }

    /// Number of connections refused by a limit.
    pub fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// Returns the live connections in any order.
    pub fn list(&self) -> Vec<Arc<Connection>> {
        self.lock().live.values().cloned().collect()
    }

    /// Returns the peers of the live connections in any order.
    pub fn peers(&self) -> Vec<Peer> {
        let state = self.lock();
        state.live.values().map(|live| live.peer).collect()
    }

    /// Sets the directive of every connection, including later ones.
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

    /// Blocks until no connection is alive. Returns `false` if some are at `deadline`.
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
    /// closed immediately.
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

    fn admit(self: &Arc<Self>, stream: Stream, peer: Peer) -> Option<Arc<Connection>> {
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
        let network = peer.address().map(network);
        let evicted = match state.make_room(&self.limits, network) {
            Ok(evicted) => evicted,
            Err(Full) => {
                state.refuse(&peer, "connection refused: too many");
                return None;
            }
        };
        let id = state.next_id;
        state.next_id += 1;
        let connection = Arc::new(Connection {
            id,
            peer,
            stream: Arc::new(stream),
            waker,
            changes_in_flight: Arc::default(),
            all: Arc::downgrade(self),
            directive: AtomicU8::new(Directive::Serve as u8),
            has_said_goodbye: AtomicBool::new(false),
            was_away: AtomicBool::new(false),
        });
        state.live.insert(id, Arc::clone(&connection));
        state.strangers.insert(id);
        count(&mut state.strangers_by_network, network);
        if let Some(evicted) = &evicted {
            state.refuse(
                &evicted.peer,
                "connection dropped before its login to admit a newer one",
            );
        }
        drop(state);
        if let Some(evicted) = evicted {
            evicted.direct(Directive::Drop);
        }
        Some(connection)
    }

    fn admit_peer(&self, connection: &Connection) -> bool {
        let mut state = self.lock();
        if !state.strangers.contains(&connection.id) {
            // It was let in before, or dropped concurrently.
            return connection.directive() != Directive::Drop;
        }
        let network = connection.peer.address().map(network);
        let same_network = counted(&state.known_by_network, network);
        if state.known >= self.limits.total_max || same_network >= self.limits.per_network_max {
            state.refuse(&connection.peer, "client refused: too many are served");
            return false;
        }
        state.remove_unauthenticated(connection);
        state.known += 1;
        count(&mut state.known_by_network, network);
        true
    }

    fn remove(&self, connection: &Connection) {
        let mut state = self.lock();
        state.live.remove(&connection.id);
        if !state.remove_unauthenticated(connection) && !state.evicted.remove(&connection.id) {
            state.known -= 1;
            uncount(
                &mut state.known_by_network,
                connection.peer.address().map(network),
            );
        }
        self.changed.notify_all();
    }
}

/// A limit is reached, and no connection can be evicted.
struct Full;

impl State {
    /// Finds room for an unauthenticated connection from `network`. If necessary the oldest one of
    /// the network with the most such connections is evicted. A genuine client logs in long before
    /// that.
    fn make_room(
        &mut self,
        limits: &ConnectionLimits,
        network: Option<IpAddr>,
    ) -> Result<Option<Arc<Connection>>, Full> {
        if self.live.len() >= limits.threads_max() {
            return Err(Full);
        }
        let same_network = counted(&self.strangers_by_network, network);
        let from = if same_network >= limits.strangers_per_network_max {
            network
        } else if self.strangers.len() >= limits.strangers_max {
            let most = self
                .strangers_by_network
                .iter()
                .max_by_key(|(_, many)| **many);
            most.map(|(network, _)| *network)
        } else {
            return Ok(None);
        };
        let oldest = self.strangers.iter().find_map(|id| {
            let connection = self.live.get(id)?;
            let fits = from.is_none() || connection.peer.address().map(self::network) == from;
            fits.then(|| Arc::clone(connection))
        });
        let oldest = oldest.ok_or(Full)?;
        self.remove_unauthenticated(&oldest);
        self.evicted.insert(oldest.id);
        Ok(Some(oldest))
    }

    /// Returns whether it was one.
    fn remove_unauthenticated(&mut self, connection: &Connection) -> bool {
        let was = self.strangers.remove(&connection.id);
        if was {
            let network = connection.peer.address().map(network);
            uncount(&mut self.strangers_by_network, network);
        }
        was
    }

    fn refuse(&mut self, peer: &Peer, what: &str) {
        self.refused += 1;
        // A log line at each power of two shows a flood and does not flood the log.
        if self.refused.is_power_of_two() {
            let (known, strangers, refused) = (self.known, self.strangers.len(), self.refused);
            tracing::warn!(%peer, known, strangers, refused, "{what}");
        }
    }
}

fn counted(counts: &HashMap<IpAddr, usize>, network: Option<IpAddr>) -> usize {
    network.map_or(0, |network| counts.get(&network).copied().unwrap_or(0))
}

fn count(counts: &mut HashMap<IpAddr, usize>, network: Option<IpAddr>) {
    if let Some(network) = network {
        *counts.entry(network).or_default() += 1;
    }
}

fn uncount(counts: &mut HashMap<IpAddr, usize>, network: Option<IpAddr>) {
    if let Some(network) = network {
        if let Some(count) = counts.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&network);
            }
        }
    }
}

/// Removes the connection from the set when its thread exits, even after a panic.
struct Live {
    connections: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.connection.changes_in_flight.end();
        self.connection.stream.shutdown_send();
        self.connection.stream.discard_input();
        self.connection.stream.shutdown();
        self.connections.remove(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    #[test]
    fn close_with_unread_input_sends_fin_not_rst() {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"goodbye").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let stream = Stream::unix(server.into()).unwrap();
        let connections = Connections::new(ConnectionLimits::default());
        let peer = Peer::Unix { uid: 0, pid: 1 };
        let (told, tells) = std::sync::mpsc::channel();
        let serve = move |connection: Arc<Connection>| {
            let _ = told.send(Arc::downgrade(&connection.stream));
        };
        connections.start("test", stream, peer, Arc::new(serve));
        let stream = tells.recv().expect("served");
        let begun = Instant::now();
        // The socket reports an error as soon as it is closed.
        while stream.strong_count() > 0 {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60));
            std::thread::yield_now();
        }
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_network_is_an_ipv4_address_or_64_bits_of_an_ipv6_one() {
        let network = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
