//! Limits the requests of one peer: a token bucket for each address, and a growing delay after each wrong password.
//! Pure: the time is an argument.
//!
//! Not by the crate `governor`: its buckets cost as much (320 against 360 ns for a request of one of 64 peers), its
//! number of peers is unbounded, and the delays would remain; it would save 20 lines.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Size of a peer's bucket.
const BURST: f64 = 400.0;
/// Requests per second of a peer, in the long run.
const REQUESTS_PER_S: f64 = 100.0;
/// Stored peers and names; beyond this number, the longest idle one is dropped.
const KEYS_MAX: usize = 4096;
/// Wrong passwords without a delay: users mistype.
const FREE_FAILURES: u32 = 5;
/// Longest delay after wrong passwords.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Time without a wrong password after which the count is reset.
const FORGIVEN_AFTER: Duration = Duration::from_secs(15 * 60);

/// An IPv6 peer has a whole network of addresses, so all of one /64 count as one.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << 64)).into()),
        v4 => v4,
    }
}

/// A map that never grows beyond [`KEYS_MAX`].
struct Bounded<K, V>(HashMap<K, V>);

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    fn entry(&mut self, key: K, new: impl FnOnce() -> V, seen: impl Fn(&V) -> Instant) -> &mut V {
        if self.0.len() >= KEYS_MAX && !self.0.contains_key(&key) {
            let quiet = self.0.iter().min_by_key(|(_, value)| seen(value));
            if let Some(quiet) = quiet.map(|(key, _)| key.clone()) {
                self.0.remove(&quiet);
            }
        }
        self.0.entry(key).or_insert_with(new)
    }
}

struct Bucket {
    left: f64,
    at: Instant,
}

/// A limit on requests by peer.
pub struct Requests(Mutex<Bounded<IpAddr, Bucket>>);

impl Default for Requests {
    fn default() -> Self {
        Self(Mutex::new(Bounded(HashMap::new())))
    }
}

impl Requests {
    /// Consumes one request of `peer`; returns the delay if there is none left.
    pub fn take(&self, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.0.lock().expect("no holder panics");
        let full = || Bucket {
            left: BURST,
            at: now,
        };
        let bucket = buckets.entry(network(peer), full, |bucket| bucket.at);
        let refill = now.saturating_duration_since(bucket.at).as_secs_f64() * REQUESTS_PER_S;
        bucket.left = (bucket.left + refill).min(BURST);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64(
                (1.0 - bucket.left) / REQUESTS_PER_S,
            ));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

/// The source of a login attempt: a peer as a whole, and a peer with a name.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Trier {
    Peer(IpAddr),
    Named(IpAddr, String),
}

struct Failures {
    count: u32,
    at: Instant,
}

/// A limit on wrong passwords. A name is never locked for other peers, or any client could lock users out.
pub struct Logins(Mutex<Bounded<Trier, Failures>>);

impl Default for Logins {
    fn default() -> Self {
        Self(Mutex::new(Bounded(HashMap::new())))
    }
}

impl Logins {
    fn triers(peer: IpAddr, name: &str) -> [(Trier, u32); 2] {
        let peer = network(peer);
        // Several users may share one address.
        [
            (Trier::Named(peer, name.to_owned()), FREE_FAILURES),
            (Trier::Peer(peer), 4 * FREE_FAILURES),
        ]
    }

    /// Whether `peer` may try now; otherwise returns the delay.
    pub fn check_delay(&self, peer: IpAddr, name: &str, now: Instant) -> Result<(), Duration> {
        let failures = self.0.lock().expect("no holder panics");
        let mut wait = Duration::ZERO;
        for (trier, free) in Self::triers(peer, name) {
            let Some(found) = failures.0.get(&trier) else {
                continue;
            };
            let since = now.saturating_duration_since(found.at);
            wait = wait.max(pause(found.count, free).saturating_sub(since));
        }
        match wait.is_zero() {
            true => Ok(()),
            false => Err(wait),
        }
    }

    /// Records a wrong password.
    pub fn failed(&self, peer: IpAddr, name: &str, now: Instant) {
        let mut failures = self.0.lock().expect("no holder panics");
        for (trier, _) in Self::triers(peer, name) {
            let none = || Failures { count: 0, at: now };
            let found = failures.entry(trier, none, |failures| failures.at);
            if now.saturating_duration_since(found.at) > FORGIVEN_AFTER {
                found.count = 0;
            }
            *found = Failures {
                count: found.count.saturating_add(1),
                at: now,
            };
        }
    }

    /// Records a correct password.
    pub fn succeeded(&self, peer: IpAddr, name: &str) {
        let mut failures = self.0.lock().expect("no holder panics");
        for (trier, _) in Self::triers(peer, name) {
            failures.0.remove(&trier);
        }
    }
}

fn pause(count: u32, free: u32) -> Duration {
    match count.checked_sub(free) {
        None => Duration::ZERO,
        Some(over) => Duration::from_secs(1 << over.min(20)).min(PAUSE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn excess_requests_throttle_only_their_peer() {
        let (requests, now) = (Requests::default(), Instant::now());
        let taken = (0..1000)
            .filter(|_| requests.take(PEER, now).is_ok())
            .count();
        assert_eq!(taken, BURST as usize);
        assert!(requests.take(OTHER, now).is_ok());
        let later = now + Duration::from_secs(1);
        let taken = (0..1000)
            .filter(|_| requests.take(PEER, later).is_ok())
            .count();
        assert_eq!(taken, REQUESTS_PER_S as usize);
    }

    #[test]
    fn addresses_of_an_ipv6_network_are_one_peer() {
        let (requests, now) = (Requests::default(), Instant::now());
        let taken = (0..1000u128).filter(|n| {
            let address = IpAddr::V6((0xfd00 << 112 | n).into());
            requests.take(address, now).is_ok()
        });
        assert_eq!(taken.count(), BURST as usize);
    }

    #[test]
    fn wrong_passwords_increase_delay_until_success() {
        let (logins, now) = (Logins::default(), Instant::now());
        for _ in 0..FREE_FAILURES {
            logins.check_delay(PEER, "anna", now).expect("free");
            logins.failed(PEER, "anna", now);
        }
        let first = logins.check_delay(PEER, "anna", now).expect_err("a pause");
        logins.failed(PEER, "anna", now);
        let second = logins.check_delay(PEER, "anna", now).expect_err("a pause");
        assert!(second > first, "{second:?} {first:?}");
        logins
            .check_delay(OTHER, "anna", now)
            .expect("another peer is not locked out");
        logins
            .check_delay(PEER, "bert", now)
            .expect("another name is not locked out yet");
        logins
            .check_delay(PEER, "anna", now + second)
            .expect("after the pause");
        logins.succeeded(PEER, "anna");
        logins.check_delay(PEER, "anna", now).expect("forgotten");
        for _ in 0..100 {
            logins.failed(PEER, "anna", now);
        }
        assert_eq!(logins.check_delay(PEER, "anna", now), Err(PAUSE_MAX));
    }

    #[test]
    fn many_user_names_are_throttled_too() {
        let (logins, now) = (Logins::default(), Instant::now());
        for number in 0..100 {
            logins.failed(PEER, &format!("user{number}"), now);
        }
        assert!(logins.check_delay(PEER, "another", now).is_err());
    }

    #[test]
    fn throttle_state_is_bounded() {
        let (requests, now) = (Requests::default(), Instant::now());
        for number in 0..2 * KEYS_MAX as u32 {
            let _ = requests.take(IpAddr::V4(number.into()), now);
        }
        assert_eq!(requests.0.lock().expect("free").0.len(), KEYS_MAX);
    }
}
