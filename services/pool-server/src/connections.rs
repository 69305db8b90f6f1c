//! Stores in the pool which clients are connected, so that its next owner can reset their connections. A hint: a
//! missing or stale entry costs a client its own time-out and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::serving::{Peer, Reach, StaleConnection, reset_clients};
use engine::dataset::Value;
use operations::ServerHooks;
use operations::documents::Own;

use super::core::Core;

/// The property of the root dataset.
const PROPERTY: &str = "bulkhead:connections";
/// Longest stored value, in bytes; ZFS stores 8,191.
const VALUE_BYTES_MAX: usize = 8_000;
/// Most connections of a previous owner to reset: the connection limit of a server.
const ORPHANS_MAX: usize = 4_096;
/// Polling interval of the connections.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest interval between two stores: each costs the pool a transaction group.
const KEEP_INTERVAL: Duration = Duration::from_millis(500);
/// How long the clients of the previous server stay in the record next to those that reconnected.
const INHERITED_FOR: Duration = Duration::from_secs(30);
/// Longest wait for the addresses after a start.
const ADDRESSES_WAIT: Duration = Duration::from_secs(120);

/// Decodes the previous owner's connections from `own`, the properties of the root dataset.
pub fn previous(own: Option<&Own>) -> Vec<StaleConnection> {
    let kept = own.and_then(|own| own.get(PROPERTY));
    decode(kept.map_or("", String::as_str))
}

/// Decodes the same list from the labels of the pool's devices, before the pool is open.
pub fn noted(note: &str) -> Vec<StaleConnection> {
    decode(note)
}

/// Whether a client of the previous owner was connected to `address`.
pub fn was_used(address: SocketAddr, stale_connections: &[StaleConnection]) -> bool {
    let address = canonical(address);
    let mut locals = stale_connections.iter().map(|stale| stale.local);
    locals.any(|local| local == address)
}

/// Resets the connections of the previous owner's clients. `listening` holds the addresses of this server.
pub fn reset_previous(stale_connections: &[StaleConnection], listening: &[SocketAddr]) {
    let deadline = Instant::now() + ADDRESSES_WAIT;
    for reach in [Reach::OnLink, Reach::Routed] {
        let of_reach = |stale: &StaleConnection| reach_of(stale, listening) == Some(reach);
        let chosen = stale_connections.iter().copied().filter(of_reach).collect();
        reset_clients(chosen, reach, deadline);
    }
}

/// How far the client may be; `None` if it is not notified. A foreign pool may name arbitrary hosts, so only
/// connections to an address that is configured for this server are reset across routers.
fn reach_of(stale: &StaleConnection, listening: &[SocketAddr]) -> Option<Reach> {
    let remote = stale.remote;
    if remote.ip().is_multicast() || remote.ip().is_unspecified() || remote.port() == 0 {
        return None;
    }
    let local = stale.local;
    if listening.iter().any(|one| canonical(*one) == local) {
        return Some(Reach::Routed);
    }
    let takes_any = |one: &SocketAddr| {
        let same_family = one.is_ipv4() == local.is_ipv4();
        one.ip().is_unspecified() && one.port() == local.port() && same_family
    };
    listening.iter().any(takes_any).then_some(Reach::OnLink)
}

/// Starts the thread that stores the connected clients. It exits with the server.
pub fn keep(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::downgrade(core);
    std::thread::Builder::new()
        .name("connections".into())
        .spawn(move || {
            loop {
                std::thread::sleep(POLL_INTERVAL);
                let Some(core) = core.upgrade() else { return };
                core.connections.keep(&core, KEEP_INTERVAL);
                if core.is_ending() {
                    return;
                }
            }
        })
        .map(drop)
}

/// The stored record of connected clients.
pub struct Kept(Mutex<Last>);

/// The last stored record.
struct Last {
    at: Instant,
    /// In the order of the last poll.
    peers: Vec<Peer>,
    /// Clients of the previous server. They need time to reconnect, and this server may exit before they do.
    inherited: BTreeSet<StaleConnection>,
    began: Instant,
    kept: BTreeSet<StaleConnection>,
}

impl Kept {
    /// An empty record.
    pub fn begin() -> Self {
        let now = Instant::now();
        Self(Mutex::new(Last {
            at: now,
            peers: Vec::new(),
            inherited: BTreeSet::new(),
            began: now,
            kept: BTreeSet::new(),
        }))
    }

    /// Adds the connections of the previous server's clients.
    pub fn inherit(&self, stale_connections: Vec<StaleConnection>) {
        let mut last = self.0.lock().expect("no holder panics");
        last.inherited = stale_connections.into_iter().collect();
        last.kept = last.inherited.clone();
    }

    /// Stores the clients connected to `core` if they changed and the last store is at least `interval` ago.
    pub fn keep(&self, core: &Core, interval: Duration) {
        let mut last = self.0.lock().expect("no holder panics");
        if last.at.elapsed() < interval {
            return;
        }
        let is_over = !last.inherited.is_empty() && last.began.elapsed() > INHERITED_FOR;
        if is_over {
            last.inherited.clear();
        }
        let peers = core.serving.peers();
        // A cheap check for a frequent poll: without a change the order is the same.
        if peers == last.peers && !is_over {
            return;
        }
        let now = connections(&peers);
        let absent: BTreeSet<StaleConnection> = last.inherited.difference(&now).copied().collect();
        let all: BTreeSet<StaleConnection> = now.union(&absent).copied().collect();
        // Checked last: on shutdown the record from before the disconnects must remain.
        if core.is_ending() {
            return;
        }
        let is_kept = all == last.kept || store(core, &encode(&[&now, &absent]));
        // Also after a failure, so that the next attempt has the same delay.
        last.at = Instant::now();
        if is_kept {
            last.peers = peers;
            last.kept = all;
        }
    }
}

/// Connections from other hosts.
fn connections(peers: &[Peer]) -> BTreeSet<StaleConnection> {
    let peers = peers.iter();
    peers
        .filter(|peer| !peer.is_local())
        .filter_map(|peer| match peer {
            Peer::Tcp { remote, local } => Some(StaleConnection {
                local: canonical(*local),
                remote: canonical(*remote),
            }),
            Peer::Unix { .. } => None,
        })
        .collect()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Stores the record. Returns whether it succeeded; a pool that does not respond is retried later.
fn store(core: &Core, value: &str) -> bool {
    if core.watch.is_suspended() {
        return false;
    }
    let Some(pool) = core.pool.get() else {
        return false;
    };
    let root = pool.name().to_string();
    // The next owner reads the labels before it opens the pool. Written together with the property.
    if let Err(error) = pool.leave_note(value) {
        tracing::debug!(%error, "connected clients cannot be stored in the labels");
    }
    let values = [(PROPERTY.to_owned(), Value::Text(value.to_owned()))];
    match pool.set_dataset_properties(pool.name().into(), &values) {
        Ok(()) => {
            core.serving.documents.changed(&root);
            true
        }
        Err(error) => {
            tracing::debug!(%error, "connected clients cannot be stored");
            false
        }
    }
}

/// Encodes `LOCAL CLIENT PORT,PORT;…`, as many entries as fit, in the order of `parts`.
fn encode(parts: &[&BTreeSet<StaleConnection>]) -> String {
    let mut text = String::new();
    for part in parts {
        let mut groups: BTreeMap<(SocketAddr, IpAddr), Vec<u16>> = BTreeMap::new();
        for one in *part {
            let group = groups.entry((one.local, one.remote.ip())).or_default();
            group.push(one.remote.port());
        }
        add_groups(&mut text, groups);
    }
    text
}

fn add_groups(text: &mut String, groups: BTreeMap<(SocketAddr, IpAddr), Vec<u16>>) {
    for ((local, client), ports) in groups {
        let mut group = format!("{local} {client} ");
        for (index, port) in ports.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(group, "{comma}{port}");
        }
        if text.len() + group.len() < VALUE_BYTES_MAX {
            text.push_str(&group);
            text.push(';');
        }
    }
}

/// Decodes the valid entries of a stored value.
fn decode(text: &str) -> Vec<StaleConnection> {
    let mut found = Vec::new();
    for group in text.split_terminator(';') {
        let mut words = group.split(' ');
        let (Some(local), Some(client), Some(ports)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Ok(local), Ok(client)) = (local.parse::<SocketAddr>(), client.parse::<IpAddr>())
        else {
            continue;
        };
        let ports = ports.split(',').filter_map(|port| port.parse().ok());
        let stale = |port| StaleConnection {
            local,
            remote: SocketAddr::new(client, port),
        };
        if local.is_ipv4() == client.is_ipv4() {
            found.extend(ports.map(stale));
        }
    }
    found.truncate(ORPHANS_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(local: &str, remote: &str) -> StaleConnection {
        StaleConnection {
            local: local.parse().expect("an address"),
            remote: remote.parse().expect("an address"),
        }
    }

    #[test]
    fn connections_survive_encode_and_decode() {
        let all: BTreeSet<StaleConnection> = [
            stale("10.77.1.100:3260", "10.77.1.9:40000"),
            stale("10.77.1.100:3260", "10.77.1.9:40002"),
            stale("10.77.2.100:10809", "10.77.2.9:1"),
            stale("[fd77::100]:3260", "[fd77::9]:65535"),
        ]
        .into();
        let text = encode(&[&all]);
        assert!(
            text.starts_with("10.77.1.100:3260 10.77.1.9 40000,40002;"),
            "{text}"
        );
        assert_eq!(decode(&text).into_iter().collect::<BTreeSet<_>>(), all);
        assert_eq!(encode(&[&BTreeSet::new()]), "");
    }

    #[test]
    fn current_connections_precede_previous_ones() {
        let ports = |client: &'static str, count: u16| {
            let one = move |port| stale("10.77.1.100:3260", &format!("{client}:{port}"));
            (40_000..40_000 + count).map(one).collect::<BTreeSet<_>>()
        };
        let (here, before) = (ports("10.77.1.9", 1_000), ports("10.77.1.8", 1_000));
        let kept: BTreeSet<_> = decode(&encode(&[&here, &before])).into_iter().collect();
        assert_eq!(kept, here);
        let few = ports("10.77.1.8", 100);
        let kept: BTreeSet<_> = decode(&encode(&[&here, &few])).into_iter().collect();
        assert_eq!(kept, here.union(&few).copied().collect());
    }

    #[test]
    fn oversized_connection_list_is_truncated_at_a_client() {
        let many = (0..4_000_u32).map(|n| {
            let client = format!("10.{}.{}.7:40000", n / 200, n % 200);
            stale("10.77.1.100:3260", &client)
        });
        let text = encode(&[&many.collect()]);
        assert!(text.len() <= VALUE_BYTES_MAX);
        assert!(decode(&text).len() > 200);
    }

    #[test]
    fn only_own_or_configured_addresses_reset_old_connections() {
        let at = |local: &str, listening: &[&str]| {
            let listening: Vec<SocketAddr> = listening
                .iter()
                .map(|one| one.parse().expect("an address"))
                .collect();
            reach_of(&stale(local, "198.51.100.7:40000"), &listening)
        };
        let given = ["10.77.1.100:3260", "10.77.1.100:10809"];
        assert_eq!(at("10.77.1.100:3260", &given), Some(Reach::Routed));
        assert_eq!(at("10.77.1.100:22", &given), None);
        assert_eq!(at("10.77.1.101:3260", &given), None);
        assert_eq!(
            at("10.77.1.101:3260", &["0.0.0.0:3260"]),
            Some(Reach::OnLink)
        );
        assert_eq!(at("10.77.1.101:22", &["0.0.0.0:3260"]), None);
        assert_eq!(at("10.77.1.101:3260", &["[::]:3260"]), None);
        let mut everybody = stale("10.77.1.100:3260", "224.0.0.1:1");
        let listening = [everybody.local];
        assert_eq!(reach_of(&everybody, &listening), None);
        everybody.remote = "10.77.1.9:0".parse().expect("an address");
        assert_eq!(reach_of(&everybody, &listening), None);
    }

    #[test]
    fn decoded_connections_are_bounded() {
        let ports = ["7"; 3_900].join(",");
        let text = format!("10.77.1.100:3260 10.77.1.9 {ports};").repeat(2);
        assert_eq!(decode(&text).len(), ORPHANS_MAX);
    }

    #[test]
    fn malformed_connections_are_skipped() {
        for text in [
            "",
            ";",
            "x",
            "a b c;",
            "10.0.0.1:1 ::1 5;",
            "10.0.0.1:1 10.0.0.2 x,70000;",
        ] {
            assert_eq!(decode(text), [], "{text}");
        }
    }
}
