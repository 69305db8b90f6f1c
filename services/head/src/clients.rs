//! Packet losses of clients' connections, by the client's address. The kernel counts them for each connection, and
//! ss(8) prints them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use api::backend::{Listener, PeerLosses};
use cluster::host::Host;

use super::cluster_view;

/// The last result is reused within this interval, for callers that request it many times a second.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Peers with individual counts, for each service.
const PEERS_MAX: usize = 256;
/// Name of the sum of all further peers.
const OTHER: &str = "other";
/// Our reasons, in the order of [`Counts`].
const REASONS: [&str; 3] = ["send_repeated", "receive_out_of_order", "receive_dropped"];

/// Packets by reason.
type Counts = [u64; REASONS.len()];

/// Losses since this process started to count.
#[derive(Default)]
pub struct Clients {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: Option<Instant>,
    tally: Tally,
}

impl Clients {
    /// Reads the connections to these listeners, and returns the losses so far.
    pub fn losses(&self, listeners: &[Listener], machine: &dyn Host) -> Vec<PeerLosses> {
        let mut state = self.state.lock().expect("no holder panics");
        if state.asked.is_none_or(|at| at.elapsed() >= SAMPLE_INTERVAL) {
            state.asked = Some(Instant::now());
            // Without output of ss, the counts are unchanged.
            if let Some(connections) = connections(listeners, machine) {
                state.tally.note(&connections);
            }
        }
        state.tally.losses()
    }
}

/// The present state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Connection {
    /// The kernel's number of the socket, which is unique.
    socket: u64,
    peer: IpAddr,
    service: Cow<'static, str>,
    /// Since the connection began.
    counts: Counts,
}

fn connections(listeners: &[Listener], machine: &dyn Host) -> Option<Vec<Connection>> {
    if listeners.is_empty() {
        return Some(Vec::new());
    }
    let ports: BTreeSet<u16> = listeners.iter().map(|one| one.port).collect();
    let ports = ports.into_iter().map(|port| format!("sport = :{port}"));
    let filter = format!("( {} )", ports.collect::<Vec<_>>().join(" or "));
    let text = cluster_view::print_of(machine, "ss", &["-tinmHOe", &filter])?;
    Some(
        text.lines()
            .filter_map(|line| parse(listeners, line))
            .collect(),
    )
}

/// Parses a line of `ss -tinmHOe`: state, two queues, the own address, the peer's, and then words such as
/// `sk:1a` (in hex), `skmem:(...,d2)`, `retrans:0/5` (now/in all), `rcv_ooopack:3`; a count of 0 is left out.
fn parse(listeners: &[Listener], line: &str) -> Option<Connection> {
    let mut words = line.split_whitespace().skip(3);
    let (_, port) = address(words.next()?)?;
    let (peer, _) = address(words.next()?)?;
    let service = listeners
        .iter()
        .find(|one| one.port == port)?
        .service
        .clone();
    let mut socket = None;
    let mut counts = Counts::default();
    for (name, value) in words.filter_map(|word| word.split_once(':')) {
        let mut set = |reason: usize, count: Option<&str>| {
            counts[reason] = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        };
        match name {
            "sk" => socket = u64::from_str_radix(value, 16).ok(),
            "retrans" => set(0, value.rsplit('/').next()),
            "rcv_ooopack" => set(1, Some(value)),
            "skmem" => set(2, value.trim_end_matches(')').rsplit(",d").next()),
            _ => {}
        }
    }
    Some(Connection {
        socket: socket?,
        peer,
        service,
        counts,
    })
}

/// `10.0.0.1:3260`, `[::ffff:10.0.0.1]:3260` or `[fe80::1]%eth0:3260`; an IPv4-mapped address becomes IPv4.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.rsplit_once(':')?;
    let address = address.split('%').next()?.trim_matches(['[', ']']);
    let address: IpAddr = address.parse().ok()?;
    Some((address.to_canonical(), port.parse().ok()?))
}

/// Sums that outlive the connections.
#[derive(Default)]
struct Tally {
    /// The last counts of each connection; `None` before the first read.
    last: Option<HashMap<u64, Counts>>,
    services: BTreeMap<Cow<'static, str>, BTreeMap<String, Sum>>,
    looks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    counts: Counts,
    /// The last read that included a connection of this peer.
    seen: u64,
}

impl Tally {
    /// Adds the losses of the connections since the last read. Losses before the first read were
    /// counted by the previous process.
    fn note(&mut self, connections: &[Connection]) {
        self.looks += 1;
        let last = self.last.take();
        let mut now = HashMap::with_capacity(connections.len());
        for connection in connections {
            let before = match &last {
                None => connection.counts,
                Some(last) => last.get(&connection.socket).copied().unwrap_or_default(),
            };
            let sum = self.sum(connection.service.clone(), connection.peer.to_string());
            for (sum, lost) in sum.iter_mut().zip(since(before, connection.counts)) {
                *sum += lost;
            }
            now.insert(connection.socket, connection.counts);
        }
        self.last = Some(now);
    }

    /// The sum of a connected peer. If there is no free slot, it replaces the peer that has been disconnected
    /// longest, and adds that peer's sum to [`OTHER`].
    fn sum(&mut self, service: Cow<'static, str>, peer: String) -> &mut Counts {
        let peers = self.services.entry(service).or_default();
        let others = usize::from(peers.contains_key(OTHER));
        let mut name = peer;
        if !peers.contains_key(&name) && peers.len() - others >= PEERS_MAX {
            let named = peers.iter().filter(|(name, _)| *name != OTHER);
            let oldest = named.min_by_key(|(_, sum)| sum.seen);
            let gone = oldest.filter(|(_, sum)| sum.seen < self.looks);
            let gone = gone.map(|(name, _)| name.clone());
            match gone.and_then(|gone| peers.remove(&gone)) {
                Some(sum) => {
                    let others = peers.entry(OTHER.to_owned()).or_default();
                    for (others, lost) in others.counts.iter_mut().zip(sum.counts) {
                        *others += lost;
                    }
                }
                None => OTHER.clone_into(&mut name),
            }
        }
        let sum = peers.entry(name).or_default();
        sum.seen = self.looks;
        &mut sum.counts
    }

    fn losses(&self) -> Vec<PeerLosses> {
        let mut losses = Vec::new();
        for (service, peers) in &self.services {
            losses.extend(peers.iter().map(|(peer, sum)| PeerLosses {
                peer: peer.clone(),
                service: service.clone(),
                lost: REASONS.into_iter().zip(sum.counts).collect(),
            }));
        }
        losses
    }
}

/// The difference, or the new counts if counting restarted.
fn since(before: Counts, now: Counts) -> Counts {
    let began_anew = now.iter().zip(before).any(|(now, before)| *now < before);
    match began_anew {
        true => now,
        false => std::array::from_fn(|reason| now[reason] - before[reason]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENERS: [Listener; 2] = [
        Listener {
            service: Cow::Borrowed("iscsi"),
            port: 3260,
        },
        Listener {
            service: Cow::Borrowed("nbd"),
            port: 10809,
        },
    ];

    fn connection(socket: u64, peer: &str, counts: Counts) -> Connection {
        Connection {
            socket,
            peer: peer.parse().expect("an address"),
            service: Cow::Borrowed("nbd"),
            counts,
        }
    }

    fn counted(tally: &Tally, peer: &str) -> Option<Counts> {
        tally.services.get("nbd")?.get(peer).map(|sum| sum.counts)
    }

    /// As iproute2 6.1 printed them after a short outage of a link; and one without losses.
    #[test]
    fn kernel_counters_are_parsed_from_ss_output() {
        let quiet = "ESTAB 0 0 [::1]:10809 [::1]:58252 ino:6144576 sk:1a cgroup:/ <-> \
                     skmem:(r0,rb131072,t0,tb3939840,f0,w0,o0,bl0,d0) ts sack bbr wscale:10,10 rto:200";
        let lines = include_str!("recorded/ss.txt").lines().chain([quiet]);
        let found: Vec<_> = lines.filter_map(|line| parse(&LISTENERS, line)).collect();
        let iscsi = |connection| Connection {
            service: Cow::Borrowed("iscsi"),
            ..connection
        };
        assert_eq!(
            found,
            [
                connection(0x1011, "fd00:78::2", [2535, 2193, 1004]),
                iscsi(connection(0x1012, "10.78.1.2", [13887, 3144, 1590])),
                iscsi(connection(
                    0x1013,
                    "fe80::146a:43ff:fe8e:5ae5",
                    [1222, 3677, 2923]
                )),
                connection(0x1a, "::1", [0, 0, 0]),
            ]
        );
    }

    #[test]
    fn lines_of_other_ports_and_truncated_lines_are_skipped() {
        for line in [
            "",
            "ESTAB 0 0 127.0.0.1:22 127.0.0.1:49286 sk:1",
            "ESTAB 0 0 127.0.0.1:3260",
            "ESTAB 0 0 127.0.0.1:3260 *:* sk:1",
            "ESTAB 0 0 127.0.0.1:3260 127.0.0.1:49286 retrans:0/5",
        ] {
            assert_eq!(parse(&LISTENERS, line), None, "{line}");
        }
    }

    #[test]
    fn totals_survive_connections_and_new_ones_start_at_zero() {
        let mut tally = Tally::default();
        tally.note(&[]);
        tally.note(&[connection(1, "10.0.0.1", [2, 0, 0])]);
        tally.note(&[
            connection(1, "10.0.0.1", [5, 1, 0]),
            connection(2, "10.0.0.1", [1, 0, 0]),
            connection(3, "10.0.0.2", [0, 0, 0]),
        ]);
        assert_eq!(counted(&tally, "10.0.0.1"), Some([6, 1, 0]));
        assert_eq!(counted(&tally, "10.0.0.2"), Some([0, 0, 0]));
        tally.note(&[]);
        assert_eq!(counted(&tally, "10.0.0.1"), Some([6, 1, 0]));
        tally.note(&[connection(1, "10.0.0.1", [7, 0, 0])]);
        assert_eq!(counted(&tally, "10.0.0.1"), Some([13, 1, 0]));
        tally.note(&[connection(1, "10.0.0.1", [1, 0, 4])]);
        assert_eq!(counted(&tally, "10.0.0.1"), Some([14, 1, 4]));
    }

    /// Otherwise each restart of the head would report old losses again.
    #[test]
    fn losses_before_first_sample_are_not_counted() {
        let mut tally = Tally::default();
        tally.note(&[connection(1, "10.0.0.1", [40, 0, 0])]);
        assert_eq!(counted(&tally, "10.0.0.1"), Some([0, 0, 0]));
        tally.note(&[connection(1, "10.0.0.1", [42, 0, 0])]);
        assert_eq!(counted(&tally, "10.0.0.1"), Some([2, 0, 0]));
    }

    #[test]
    fn peers_beyond_the_limit_are_counted_together() {
        let address = |number: usize| format!("10.0.{}.{}", number / 256, number % 256);
        let mut tally = Tally::default();
        tally.note(&[]);
        tally.note(&[connection(9999, "10.9.9.9", [7, 0, 0])]);
        // One more than all slots, and one more; the one before is gone.
        let all: Vec<_> = (0..PEERS_MAX + 2)
            .map(|number| connection(number as u64, &address(number), [1, 0, 0]))
            .collect();
        tally.note(&all);
        assert_eq!(tally.losses().len(), PEERS_MAX + 1);
        assert_eq!(counted(&tally, "10.9.9.9"), None);
        assert_eq!(counted(&tally, &address(0)), Some([1, 0, 0]));
        assert_eq!(counted(&tally, OTHER), Some([9, 0, 0]));
        let total = |tally: &Tally| -> u64 {
            let losses = tally.losses();
            losses
                .iter()
                .flat_map(|one| &one.lost)
                .map(|(_, n)| n)
                .sum()
        };
        assert_eq!(total(&tally), 7 + PEERS_MAX as u64 + 2);
    }
}
