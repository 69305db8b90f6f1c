//! Which clients are connected, kept in the pool, so that whoever owns the pool next can tell
//! them that their connections are gone. A hint: what is missing or out of date in it costs a
//! client the wait for its own time-outs, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::serving::{Orphan, Peer, tell_clients};
use zpool::dataset::Value;

use super::core::Core;
use crate::operations::Live;
use crate::operations::documents::Own;

/// The property of the root dataset.
const PROPERTY: &str = "bulkhead:connections";
/// Longest value that is kept, in bytes; ZFS keeps 8,191.
const VALUE_BYTES_MAX: usize = 8_000;
/// Pause between two looks at who is connected. Each change costs the pool a transaction group.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the addresses are waited for after a start.
const ADDRESSES_WAIT: Duration = Duration::from_secs(120);

/// Tells the clients of the previous owner, whose connections `own`, the properties of the root
/// dataset, name.
pub fn tell_previous(own: Option<&Own>) {
    let kept = own.and_then(|own| own.get(PROPERTY));
    let orphans = decode(kept.map_or("", String::as_str));
    tell_clients(orphans, Instant::now() + ADDRESSES_WAIT);
}

/// Starts to keep who is connected. The thread ends with the server.
pub fn keep(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::downgrade(core);
    std::thread::Builder::new()
        .name("connections".into())
        .spawn(move || {
            let mut kept = None;
            loop {
                std::thread::sleep(LOOK_INTERVAL);
                let Some(core) = core.upgrade() else { return };
                let now = encode(&connections(&core));
                // Looked at last: when the server ends, those who were connected before count.
                if core.is_ending() {
                    return;
                }
                if kept.as_ref() != Some(&now) && store(&core, &now) {
                    kept = Some(now);
                }
            }
        })
        .map(drop)
}

/// Everybody who is connected from another machine.
fn connections(core: &Core) -> BTreeSet<Orphan> {
    let peers = core.serving.peers().into_iter();
    peers
        .filter(|peer| !peer.is_local())
        .filter_map(|peer| match peer {
            Peer::Tcp { remote, local } => Some(Orphan {
                local: canonical(local),
                remote: canonical(remote),
            }),
            Peer::Unix { .. } => None,
        })
        .collect()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether it was stored; a pool that does not answer is asked again later.
fn store(core: &Core, value: &str) -> bool {
    if core.watch.is_suspended() {
        return false;
    }
    let Some(pool) = core.pool.get() else {
        return false;
    };
    let root = pool.name().to_string();
    let values = [(PROPERTY.to_owned(), Value::Text(value.to_owned()))];
    match pool.set_dataset_properties(pool.name(), &values) {
        Ok(()) => {
            core.serving.known.changed(&root);
            true
        }
        Err(error) => {
            tracing::debug!(%error, "who is connected was not kept");
            false
        }
    }
}

/// `LOCAL CLIENT PORT,PORT;…`, as much as fits.
fn encode(connections: &BTreeSet<Orphan>) -> String {
    let mut groups: BTreeMap<(SocketAddr, IpAddr), Vec<u16>> = BTreeMap::new();
    for one in connections {
        let group = groups.entry((one.local, one.remote.ip())).or_default();
        group.push(one.remote.port());
    }
    let mut text = String::new();
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
    text
}

/// What of a kept value makes sense.
fn decode(text: &str) -> Vec<Orphan> {
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
        let orphan = |port| Orphan {
            local,
            remote: SocketAddr::new(client, port),
        };
        if local.is_ipv4() == client.is_ipv4() {
            found.extend(ports.map(orphan));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphan(local: &str, remote: &str) -> Orphan {
        Orphan {
            local: local.parse().expect("an address"),
            remote: remote.parse().expect("an address"),
        }
    }

    #[test]
    fn connections_are_read_as_they_were_kept() {
        let all: BTreeSet<Orphan> = [
            orphan("10.77.1.100:3260", "10.77.1.9:40000"),
            orphan("10.77.1.100:3260", "10.77.1.9:40002"),
            orphan("10.77.2.100:10809", "10.77.2.9:1"),
            orphan("[fd77::100]:3260", "[fd77::9]:65535"),
        ]
        .into();
        let text = encode(&all);
        assert!(
            text.starts_with("10.77.1.100:3260 10.77.1.9 40000,40002;"),
            "{text}"
        );
        assert_eq!(decode(&text).into_iter().collect::<BTreeSet<_>>(), all);
        assert_eq!(encode(&BTreeSet::new()), "");
    }

    #[test]
    fn more_than_fits_is_cut_at_a_client() {
        let many = (0..4_000_u32).map(|n| {
            let client = format!("10.{}.{}.7:40000", n / 200, n % 200);
            orphan("10.77.1.100:3260", &client)
        });
        let text = encode(&many.collect());
        assert!(text.len() <= VALUE_BYTES_MAX);
        assert!(decode(&text).len() > 200);
    }

    #[test]
    fn nonsense_is_left_out() {
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
