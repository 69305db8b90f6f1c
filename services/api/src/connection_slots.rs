//! Slots for connections: authenticated clients have slots of their own, and so have other heads. Among unauthenticated
//! connections, the oldest one of the most numerous network is dropped for a new one, so that silent connections cannot
//! occupy all slots.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::limits::network;

/// Unauthenticated connections.
const UNAUTHENTICATED_MAX: usize = 256;
/// Unauthenticated connections of one network.
const UNAUTHENTICATED_PER_NETWORK_MAX: usize = 64;
/// Connections of authenticated clients. A browser opens six, and a stream for each page.
const AUTHENTICATED_MAX: usize = 512;
/// Connections of authenticated clients of one network.
const AUTHENTICATED_PER_NETWORK_MAX: usize = 128;
/// Connections of other heads.
const HEADS_MAX: usize = 64;

/// The class of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionClass {
    Unauthenticated,
    Authenticated,
    Head,
}

struct One {
    network: IpAddr,
    whose: ConnectionClass,
    evicted: Arc<Notify>,
}

#[derive(Default)]
struct State {
    live: BTreeMap<u64, One>,
    last: u64,
}

impl State {
    fn count(&self, whose: ConnectionClass, of: Option<IpAddr>) -> usize {
        let all = self.live.values().filter(|one| one.whose == whose);
        all.filter(|one| of.is_none_or(|network| one.network == network))
            .count()
    }

    /// The network with most unauthenticated connections.
    fn crowd(&self) -> Option<IpAddr> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for one in self.live.values() {
            if one.whose == ConnectionClass::Unauthenticated {
                *counts.entry(one.network).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(network, _)| network)
    }

    /// Drops the oldest unauthenticated connection of `network`.
    fn make_room(&mut self, network: IpAddr) {
        let is_meant =
            |one: &One| one.whose == ConnectionClass::Unauthenticated && one.network == network;
        let oldest = self.live.iter().find(|(_, one)| is_meant(one));
        if let Some(one) = oldest
            .map(|(id, _)| *id)
            .and_then(|id| self.live.remove(&id))
        {
            one.evicted.notify_one();
        }
    }
}

/// All connections.
#[derive(Clone, Default)]
pub(crate) struct ConnectionSlots(Arc<Mutex<State>>);

impl ConnectionSlots {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    /// The number of connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().live.len()
    }

    /// A slot for a connection from `peer`, and whether another connection was dropped for it.
    pub(crate) fn take(&self, peer: IpAddr) -> (ConnectionSlot, bool) {
        let network = network(peer);
        let mut state = self.lock();
        let crowd = if state.count(ConnectionClass::Unauthenticated, Some(network))
            >= UNAUTHENTICATED_PER_NETWORK_MAX
        {
            Some(network)
        } else if state.count(ConnectionClass::Unauthenticated, None) >= UNAUTHENTICATED_MAX {
            state.crowd()
        } else {
            None
        };
        if let Some(crowd) = crowd {
            state.make_room(crowd);
        }
        state.last += 1;
        let (id, evicted) = (state.last, Arc::new(Notify::new()));
        let one = One {
            network,
            whose: ConnectionClass::Unauthenticated,
            evicted: Arc::clone(&evicted),
        };
        state.live.insert(id, one);
        drop(state);
        let seat = ConnectionSlot {
            all: self.clone(),
            id,
            evicted,
        };
        (seat, crowd.is_some())
    }

    /// Moves a connection to the class `whose` if that has a free slot; otherwise it stays unauthenticated.
    fn promote(&self, id: u64, whose: ConnectionClass) {
        let mut state = self.lock();
        let Some(one) = state.live.get(&id) else {
            return;
        };
        if one.whose != ConnectionClass::Unauthenticated {
            return;
        }
        let network = one.network;
        let has_slot = match whose {
            ConnectionClass::Unauthenticated => false,
            ConnectionClass::Authenticated => {
                state.count(whose, None) < AUTHENTICATED_MAX
                    && state.count(whose, Some(network)) < AUTHENTICATED_PER_NETWORK_MAX
            }
            ConnectionClass::Head => state.count(whose, None) < HEADS_MAX,
        };
        if let Some(one) = state.live.get_mut(&id).filter(|_| has_slot) {
            one.whose = whose;
        }
    }
}

/// The slot of a connection.
pub(crate) struct ConnectionSlot {
    all: ConnectionSlots,
    id: u64,
    evicted: Arc<Notify>,
}

impl ConnectionSlot {
    /// Marks its client as authenticated.
    pub(crate) fn is_known(&self) {
        self.all.promote(self.id, ConnectionClass::Authenticated);
    }

    /// Marks it as another head's.
    pub(crate) fn is_of_a_head(&self) {
        self.all.promote(self.id, ConnectionClass::Head);
    }

    /// Returns when it must be dropped.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl std::fmt::Debug for ConnectionSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConnectionSlot").field(&self.id).finish()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.all.lock().live.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_slot(seat: &ConnectionSlot) -> bool {
        seat.all.lock().live.contains_key(&seat.id)
    }

    fn from(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn silent_connections_do_not_exhaust_slots() {
        let connection_slots = ConnectionSlots::default();
        let user = connection_slots.take(from(1)).0;
        user.is_known();
        let head = connection_slots.take(from(2)).0;
        head.is_of_a_head();
        let silent: Vec<ConnectionSlot> = (0..1000)
            .map(|n| connection_slots.take(from(100 + (n % 100) as u8)).0)
            .collect();
        assert!(has_slot(&user) && has_slot(&head));
        assert_eq!(connection_slots.count(), UNAUTHENTICATED_MAX + 2);
        let newcomer = connection_slots.take(from(3)).0;
        assert!(has_slot(&newcomer));
        // Its own network has the most connections, but other networks are dropped first.
        let more: Vec<ConnectionSlot> = (0..100)
            .map(|n| connection_slots.take(from(100 + n)).0)
            .collect();
        assert!(has_slot(&newcomer));
        drop((silent, more));
        assert_eq!(connection_slots.count(), 3);
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let connection_slots = ConnectionSlots::default();
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n]);
        let all: Vec<ConnectionSlot> = (0..100)
            .map(|n| connection_slots.take(address(n)).0)
            .collect();
        assert_eq!(connection_slots.count(), UNAUTHENTICATED_PER_NETWORK_MAX);
        assert!(!has_slot(&all[0]) && has_slot(&all[99]));
    }

    #[test]
    fn authenticated_clients_share_slots_and_heads_have_own() {
        let connection_slots = ConnectionSlots::default();
        let known: Vec<ConnectionSlot> = (0..200)
            .map(|_| {
                let seat = connection_slots.take(from(1)).0;
                seat.is_known();
                seat
            })
            .collect();
        let of = |whose| connection_slots.lock().count(whose, None);
        assert_eq!(
            of(ConnectionClass::Authenticated),
            AUTHENTICATED_PER_NETWORK_MAX
        );
        assert_eq!(
            of(ConnectionClass::Unauthenticated),
            UNAUTHENTICATED_PER_NETWORK_MAX
        );
        let head = connection_slots.take(from(1)).0;
        head.is_of_a_head();
        assert!(has_slot(&head));
        assert_eq!(of(ConnectionClass::Head), 1);
        drop(known);
    }

    #[test]
    fn evicted_connection_is_notified() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let connection_slots = ConnectionSlots::default();
        let first = connection_slots.take(from(1)).0;
        let others: Vec<ConnectionSlot> = (0..UNAUTHENTICATED_PER_NETWORK_MAX)
            .map(|_| connection_slots.take(from(1)).0)
            .collect();
        runtime.block_on(first.evicted());
        drop((first, others));
        assert_eq!(connection_slots.count(), 0);
    }
}
