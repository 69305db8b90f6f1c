//! Losses of heartbeats to other heads, by head and network, from corosync-cmapctl(8).

use std::collections::BTreeMap;
use std::sync::Mutex;

use api::backend::HeartbeatLosses;
use appliance::Appliance;

use super::cluster_view;

/// Prefix of the counters of a link: `stats.knet.node2.link0.down_count (u32) = 1`.
const PREFIX: &str = "stats.knet.node";

/// Unacknowledged pings, by head and network.
#[derive(Default)]
pub struct Heartbeats {
    outstanding: Mutex<BTreeMap<(String, String), OutstandingPings>>,
}

/// A link's counters since Corosync started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    pings_sent: u64,
    pongs_received: u64,
    send_errors: u64,
    downs: u64,
}

impl Counters {
    fn missing(self) -> u64 {
        self.pings_sent.saturating_sub(self.pongs_received)
    }
}

/// Pings over a link without a pong. One may be in flight at any time, and some pongs arrive late.
#[derive(Clone, Copy, Debug)]
struct OutstandingPings {
    pings_sent: u64,
    /// Pings without a pong that are in `count`, or predate the first read.
    settled: u64,
    count: u64,
}

impl OutstandingPings {
    fn new(now: Counters) -> Self {
        Self {
            pings_sent: now.pings_sent,
            settled: now.missing(),
            count: 0,
        }
    }

    fn note(&mut self, now: Counters) {
        let missing = now.missing();
        // Corosync was restarted, or pongs arrived late.
        if now.pings_sent < self.pings_sent || missing < self.settled {
            self.settled = missing;
        }
        // The pong of the last one may be pending.
        let lost = missing.saturating_sub(1).saturating_sub(self.settled);
        self.count += lost;
        self.settled += lost;
        self.pings_sent = now.pings_sent;
    }
}

impl Heartbeats {
    /// Updates the counts from Corosync's statistics of the configured links, and returns the losses so far.
    pub fn losses(&self, appliance: &Appliance, own: &str, text: &str) -> Vec<HeartbeatLosses> {
        let mut outstanding = self.outstanding.lock().expect("no holder panics");
        let links = links(text).into_iter();
        let losses = links.filter_map(|((node, heartbeat), now)| {
            let to = cluster_view::head_by_number(appliance, node)?.to_string();
            let network = cluster_view::network_by_heartbeat(appliance, heartbeat)?.to_string();
            if to == own {
                return None;
            }
            let key = (to.clone(), network.clone());
            let pings = outstanding.entry(key).or_insert(OutstandingPings::new(now));
            pings.note(now);
            Some(HeartbeatLosses {
                to,
                network,
                lost: vec![
                    ("ping_unanswered", pings.count),
                    ("send_error", now.send_errors),
                ],
                downs: now.downs,
            })
        });
        losses.collect()
    }
}

/// Parses `corosync-cmapctl -m stats`: the counters of each link by the numbers of the node and of the link.
fn links(text: &str) -> BTreeMap<(u32, u32), Counters> {
    let mut links: BTreeMap<_, Counters> = BTreeMap::new();
    for line in text.lines() {
        let Some((node, link, name, value)) = counter(line) else {
            continue;
        };
        let counters = links.entry((node, link)).or_default();
        match name {
            "tx_ping_packets" => counters.pings_sent = value,
            "rx_pong_packets" => counters.pongs_received = value,
            "tx_total_errors" => counters.send_errors = value,
            "down_count" => counters.downs = value,
            _ => {}
        }
    }
    links
}

fn counter(line: &str) -> Option<(u32, u32, &str, u64)> {
    let (node, rest) = line.strip_prefix(PREFIX)?.split_once(".link")?;
    let (link, rest) = rest.split_once('.')?;
    let (name, value) = rest.split_once(" = ")?;
    let name = name.split(' ').next()?;
    Some((
        node.parse().ok()?,
        link.parse().ok()?,
        name,
        value.trim().parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appliance() -> Appliance {
        let text = include_str!("../../../examples/pair.toml");
        appliance::parse(text).expect("well formed").appliance
    }

    fn joined_losses(pings_sent: u64, pongs_received: u64) -> String {
        format!(
            "stats.knet.node2.link0.rx_pong_packets (u64) = {pongs_received}\n\
             stats.knet.node2.link0.tx_ping_packets (u64) = {pings_sent}\n"
        )
    }

    fn outstanding(heartbeats: &Heartbeats, pings_sent: u64, pongs_received: u64) -> u64 {
        let text = joined_losses(pings_sent, pongs_received);
        let losses = heartbeats.losses(&appliance(), "left", &text);
        assert_eq!(losses.len(), 1);
        assert_eq!(losses[0].lost[0].0, "ping_unanswered");
        losses[0].lost[0].1
    }

    /// As Corosync 3.1.7 printed them on the head `left` of a lab.
    #[test]
    fn only_links_of_the_file_to_other_heads_are_counted() {
        let text = include_str!("recorded/knet.txt").to_owned()
            + "stats.knet.node2.link7.down_count (u32) = 1\n\
               stats.knet.node9.link0.down_count (u32) = 1\n\
               stats.knet.handle.tx_crypt_packets (u64) = 544\nstats.knet.node2.link\n";
        let losses = Heartbeats::default().losses(&appliance(), "left", &text);
        let links: Vec<_> = losses
            .iter()
            .map(|one| (one.to.as_str(), one.network.as_str(), one.downs))
            .collect();
        assert_eq!(
            links,
            [("right", "storage-a", 2), ("right", "storage-b", 1)]
        );
        assert_eq!(losses[0].lost, [("ping_unanswered", 0), ("send_error", 0)]);
    }

    #[test]
    fn outstanding_ping_and_late_pong_are_not_lost() {
        let heartbeats = Heartbeats::default();
        for (sent, received) in [(500, 400), (515, 414), (530, 430), (545, 444), (560, 460)] {
            assert_eq!(outstanding(&heartbeats, sent, received), 0);
        }
    }

    /// The numbers of a link of the lab that was cut for four seconds; some pongs arrived after it was repaired.
    #[test]
    fn pings_over_a_cut_link_are_counted_and_the_count_never_falls() {
        let heartbeats = Heartbeats::default();
        assert_eq!(outstanding(&heartbeats, 299, 299), 0);
        assert_eq!(outstanding(&heartbeats, 320, 299), 20);
        assert_eq!(outstanding(&heartbeats, 341, 326), 20);
        assert_eq!(outstanding(&heartbeats, 351, 326), 29);
        // Corosync was restarted.
        assert_eq!(outstanding(&heartbeats, 10, 10), 29);
        assert_eq!(outstanding(&heartbeats, 20, 15), 33);
    }
}
