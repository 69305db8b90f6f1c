//! Slots for connections: authenticated clients have slots of their own, and so have other heads. Among unauthenticated
//! connections, the oldest one of the most numerous network is dropped for a new one, so that silent connections cannot
//! occupy all slots.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::limits::network;

/// Unauthenticated connections.
const STRANGERS_MAX: usize = 256;
/// Unauthenticated connections of one network.
const STRANGERS_PER_NETWORK_MAX: usize = 64;
/// Connections of authenticated clients. A browser opens six, and a stream for each page.
const KNOWN_MAX: usize = 512;
/// Connections of authenticated clients of one network.
const KNOWN_PER_NETWORK_MAX: usize = 128;
/// Connections of other heads.
const HEADS_MAX: usize = 64;

/// The class of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Stranger,
    Known,
    Head,
}

struct One {
    network: IpAddr,
    whose: Whose,
    gives_way: Arc<Notify>,
}

#[derive(Default)]
struct State {
    live: BTreeMap<u64, One>,
    last: u64,
}

impl State {
    fn count(&self, whose: Whose, of: Option<IpAddr>) -> usize {
        let all = self.live.values().filter(|one| one.whose == whose);
        all.filter(|one| of.is_none_or(|network| one.network == network))
            .count()
    }

    /// The network with most unauthenticated connections.
    fn crowd(&self) -> Option<IpAddr> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for one in self.live.values() {
            if one.whose == Whose::Stranger {
                *counts.entry(one.network).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(network, _)| network)
    }

    /// Drops the oldest unauthenticated connection of `network`.
    fn make_room(&mut self, network: IpAddr) {
        let is_meant = |one: &One| one.whose == Whose::Stranger && one.network == network;
        let oldest = self.live.iter().find(|(_, one)| is_meant(one));
        if let Some(one) = oldest
            .map(|(id, _)| *id)
            .and_then(|id| self.live.remove(&id))
        {
            one.gives_way.notify_one();
        }
    }
}

/// All connections.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<State>>);

impl Seats {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    /// The number of connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().live.len()
    }

    /// A slot for a connection from `peer`, and whether another connection was dropped for it.
    pub(crate) fn take(&self, peer: IpAddr) -> (Seat, bool) {
        let network = network(peer);
        let mut state = self.lock();
        let crowd = if state.count(Whose::Stranger, Some(network)) >= STRANGERS_PER_NETWORK_MAX {
            Some(network)
        } else if state.count(Whose::Stranger, None) >= STRANGERS_MAX {
            state.crowd()
        } else {
            None
        };
        if let Some(crowd) = crowd {
            state.make_room(crowd);
        }
        state.last += 1;
        let (id, gives_way) = (state.last, Arc::new(Notify::new()));
        let one = One {
            network,
            whose: Whose::Stranger,
            gives_way: Arc::clone(&gives_way),
        };
        state.live.insert(id, one);
        drop(state);
        let seat = Seat {
            all: self.clone(),
            id,
            gives_way,
        };
        (seat, crowd.is_some())
    }

    /// Moves a connection to the class `whose` if that has a free slot; otherwise it stays unauthenticated.
    fn promote(&self, id: u64, whose: Whose) {
        let mut state = self.lock();
        let Some(one) = state.live.get(&id) else {
            return;
        };
        if one.whose != Whose::Stranger {
            return;
        }
        let network = one.network;
        let has_place = match whose {
            Whose::Stranger => false,
            Whose::Known => {
                state.count(whose, None) < KNOWN_MAX
                    && state.count(whose, Some(network)) < KNOWN_PER_NETWORK_MAX
            }
            Whose::Head => state.count(whose, None) < HEADS_MAX,
        };
        if let Some(one) = state.live.get_mut(&id).filter(|_| has_place) {
            one.whose = whose;
        }
    }
}

/// The slot of a connection.
pub(crate) struct Seat {
    all: Seats,
    id: u64,
    gives_way: Arc<Notify>,
}

impl Seat {
    /// Marks its client as authenticated.
    pub(crate) fn is_known(&self) {
        self.all.promote(self.id, Whose::Known);
    }

    /// Marks it as another head's.
    pub(crate) fn is_a_heads(&self) {
        self.all.promote(self.id, Whose::Head);
    }

    /// Returns when it must be dropped.
    pub(crate) async fn gives_way(&self) {
        self.gives_way.notified().await;
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Seat").field(&self.id).finish()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.all.lock().live.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_place(seat: &Seat) -> bool {
        seat.all.lock().live.contains_key(&seat.id)
    }

    fn from(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn silent_connections_of_any_number_of_addresses_keep_nobody_out() {
        let seats = Seats::default();
        let user = seats.take(from(1)).0;
        user.is_known();
        let head = seats.take(from(2)).0;
        head.is_a_heads();
        let silent: Vec<Seat> = (0..1000)
            .map(|n| seats.take(from(100 + (n % 100) as u8)).0)
            .collect();
        assert!(has_place(&user) && has_place(&head));
        assert_eq!(seats.count(), STRANGERS_MAX + 2);
        let newcomer = seats.take(from(3)).0;
        assert!(has_place(&newcomer));
        // Its own network has the most connections, but other networks are dropped first.
        let more: Vec<Seat> = (0..100).map(|n| seats.take(from(100 + n)).0).collect();
        assert!(has_place(&newcomer));
        drop((silent, more));
        assert_eq!(seats.count(), 3);
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_count_as_one() {
        let seats = Seats::default();
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n]);
        let all: Vec<Seat> = (0..100).map(|n| seats.take(address(n)).0).collect();
        assert_eq!(seats.count(), STRANGERS_PER_NETWORK_MAX);
        assert!(!has_place(&all[0]) && has_place(&all[99]));
    }

    #[test]
    fn who_is_known_has_no_more_than_a_share_and_heads_have_their_own() {
        let seats = Seats::default();
        let known: Vec<Seat> = (0..200)
            .map(|_| {
                let seat = seats.take(from(1)).0;
                seat.is_known();
                seat
            })
            .collect();
        let of = |whose| seats.lock().count(whose, None);
        assert_eq!(of(Whose::Known), KNOWN_PER_NETWORK_MAX);
        assert_eq!(of(Whose::Stranger), STRANGERS_PER_NETWORK_MAX);
        let head = seats.take(from(1)).0;
        head.is_a_heads();
        assert!(has_place(&head));
        assert_eq!(of(Whose::Head), 1);
        drop(known);
    }

    #[test]
    fn a_connection_that_gives_way_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let seats = Seats::default();
        let first = seats.take(from(1)).0;
        let others: Vec<Seat> = (0..STRANGERS_PER_NETWORK_MAX)
            .map(|_| seats.take(from(1)).0)
            .collect();
        runtime.block_on(first.gives_way());
        drop((first, others));
        assert_eq!(seats.count(), 0);
    }
}
