//! Connection slots of the receiver. Unauthenticated connections share a few slots for a short time, and the oldest is
//! closed for a new one. Authenticated pools have slots of their own, which no other client can occupy.

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpStream};
use std::sync::{Mutex, MutexGuard};

use control::replication::Fingerprint;

/// Maximum number of unauthenticated connections.
pub const UNAUTHENTICATED_MAX: usize = 32;
/// Such connections from one network: an address of IPv4, a /64 of IPv6.
pub const UNAUTHENTICATED_PER_NETWORK_MAX: usize = 8;
/// Connections of one accepted pool. It has one at a time, and old ones that a cut link left behind.
pub const PER_PEER_MAX: usize = 4;

/// The connections of this process: it serves one pool.
static CONNECTIONS: Mutex<ConnectionSlots<TcpStream>> = Mutex::new(ConnectionSlots::new());

/// The connections of this process.
pub fn connections() -> MutexGuard<'static, ConnectionSlots<TcpStream>> {
    CONNECTIONS.lock().expect("no holder panics")
}

/// The holder of a slot.
#[derive(Clone, PartialEq, Eq)]
enum Holder {
    UnauthenticatedFrom(IpAddr),
    Peer(Fingerprint),
}

/// All places, the longest held first.
pub struct ConnectionSlots<C> {
    next: u64,
    held: BTreeMap<u64, (Holder, C)>,
}

impl<C> ConnectionSlots<C> {
    const fn new() -> Self {
        Self {
            next: 0,
            held: BTreeMap::new(),
        }
    }

    /// Assigns a slot to a connection from `address`. Returns the connection that must be closed
    /// for it.
    pub fn admit(&mut self, connection: C, address: IpAddr) -> (u64, Option<C>) {
        let own = Holder::UnauthenticatedFrom(network(address));
        let is_stranger = |holder: &Holder| matches!(holder, Holder::UnauthenticatedFrom(_));
        let ended = self
            .make_room(UNAUTHENTICATED_PER_NETWORK_MAX, |holder| *holder == own)
            .or_else(|| self.make_room(UNAUTHENTICATED_MAX, is_stranger));
        self.next += 1;
        self.held.insert(self.next, (own, connection));
        (self.next, ended)
    }

    /// Moves the connection in this slot to its authenticated pool. Returns the connection of the same pool that must
    /// be closed for it. Fails if the slot was reassigned concurrently.
    pub fn identify(&mut self, number: u64, peer: &Fingerprint) -> Result<Option<C>, Lost> {
        let own = Holder::Peer(peer.clone());
        let (_, connection) = self.held.remove(&number).ok_or(Lost)?;
        let ended = self.make_room(PER_PEER_MAX, |holder| *holder == own);
        self.held.insert(number, (own, connection));
        Ok(ended)
    }

    /// The connection has ended.
    pub fn forget(&mut self, number: u64) {
        self.held.remove(&number);
    }

    /// The connections of a pool.
    pub fn of(&self, peer: &Fingerprint) -> impl Iterator<Item = &C> {
        let own = Holder::Peer(peer.clone());
        let own = move |holder: &Holder| *holder == own;
        let held = self.held.values();
        held.filter(move |(holder, _)| own(holder))
            .map(|(_, connection)| connection)
    }

    /// All connections.
    pub fn all(&self) -> impl Iterator<Item = &C> {
        self.held.values().map(|(_, connection)| connection)
    }

    /// Frees the slot that was held longest, if all `most` slots are occupied.
    fn make_room(&mut self, most: usize, is_one: impl Fn(&Holder) -> bool) -> Option<C> {
        let mut ours = self.held.iter().filter(|(_, (holder, _))| is_one(holder));
        let oldest = *ours.next()?.0;
        if ours.count() + 1 < most {
            return None;
        }
        self.held.remove(&oldest).map(|(_, connection)| connection)
    }
}

/// The slot was reassigned to another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// A host has as many addresses of IPv6 as it likes, all of one /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << 64)).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn peer(digit: &str) -> Fingerprint {
        digit.repeat(64).parse().expect("a fingerprint")
    }

    #[test]
    fn oldest_unauthenticated_connection_is_evicted() {
        let mut connection_slots = ConnectionSlots::new();
        for name in 0..UNAUTHENTICATED_PER_NETWORK_MAX {
            assert_eq!(connection_slots.admit(name, address("10.0.0.1")).1, None);
        }
        assert_eq!(connection_slots.admit(100, address("10.0.0.1")).1, Some(0));
        assert_eq!(
            connection_slots.admit(101, address("::ffff:10.0.0.1")).1,
            Some(1)
        );
        for n in connection_slots.held.len()..UNAUTHENTICATED_MAX {
            assert_eq!(
                connection_slots.admit(n, address(&format!("10.0.1.{n}"))).1,
                None
            );
        }
        assert_eq!(connection_slots.admit(102, address("10.0.0.2")).1, Some(2));
        assert_eq!(connection_slots.held.len(), UNAUTHENTICATED_MAX);
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let mut connection_slots = ConnectionSlots::new();
        let ended = (0..100).filter_map(|n| {
            connection_slots
                .admit(n, address(&format!("fd00::{n:x}")))
                .1
        });
        assert_eq!(ended.count(), 100 - UNAUTHENTICATED_PER_NETWORK_MAX);
    }

    /// The slots of a pool are its own, regardless of unauthenticated connections and other pools.
    #[test]
    fn authenticated_peer_evicts_only_its_own_connections() {
        let mut connection_slots = ConnectionSlots::new();
        let (number, _) = connection_slots.admit(0, address("10.0.0.1"));
        assert_eq!(connection_slots.identify(number, &peer("a")), Ok(None));
        for n in 1..200 {
            let (stranger, ended) = connection_slots.admit(n, address("10.0.0.1"));
            assert_ne!(ended, Some(0));
            if n % 2 == 0 {
                assert_ne!(connection_slots.identify(stranger, &peer("b")), Ok(Some(0)));
            }
        }
        assert_eq!(connection_slots.of(&peer("a")).collect::<Vec<_>>(), [&0]);
        assert_eq!(connection_slots.of(&peer("b")).count(), PER_PEER_MAX);
        connection_slots.forget(number);
        assert_eq!(connection_slots.of(&peer("a")).count(), 0);
    }

    #[test]
    fn evicted_slot_cannot_be_authenticated() {
        let mut connection_slots = ConnectionSlots::new();
        let (first, _) = connection_slots.admit(0, address("10.0.0.1"));
        for n in 0..UNAUTHENTICATED_PER_NETWORK_MAX {
            connection_slots.admit(n, address("10.0.0.1"));
        }
        assert_eq!(connection_slots.identify(first, &peer("a")), Err(Lost));
    }
}
