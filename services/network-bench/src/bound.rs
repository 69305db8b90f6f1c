//! The part that bounds the throughput of a measurement.

use serde::Serialize;

/// From this share on a processor or a link is full, in percent.
const FULL_PERCENT: f64 = 95.0;
/// The headers of Ethernet, IP and TCP take a share of a link, in percent of it, with packets of 1,500 bytes.
const LINK_FULL_PERCENT: f64 = 90.0;
/// Fewer lost packets in a second do not bound anything.
const DROPS_PER_S_MIN: u64 = 10;
/// From this share on, segments that are sent again bound the windows of TCP, in percent.
const RETRANSMITS_PERCENT_MIN: f64 = 0.1;
/// Bytes of a segment, for the number of segments.
const SEGMENT_BYTES: f64 = 1448.0;

/// The result of one number of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Concurrent connections.
    pub connections: u16,
    /// Throughput of all, in Gb/s (10^9 bits).
    pub gb_per_s: f64,
    /// Segments that were sent again; none if the sender does not report them.
    pub retransmits: Option<u64>,
    /// Use of processors by all processes here, in percent of one.
    pub cpu_percent: f64,
    /// The same of the peer.
    pub peer_cpu_percent: f64,
    /// The processes with the largest use of a processor, here and at the peer, in percent.
    pub process_percent_max: (f64, f64),
    /// The busiest processor of this host, and its use in percent.
    pub busiest: Option<(u32, f64)>,
    /// Packets that the interface, its queues and the processors of this host lost.
    pub drops: u64,
    /// The part that bounds the throughput.
    pub bound: String,
}

/// The part that bounds this throughput, as a phrase. `link_gb_per_s` is the speed of the interface here.
pub fn bound(measured: &Measured, seconds: u64, link_gb_per_s: Option<f64>) -> String {
    let (own, peer) = measured.process_percent_max;
    let bytes = measured.gb_per_s * 1e9 / 8.0 * seconds as f64;
    let segments = (bytes / SEGMENT_BYTES).max(1.0);
    let again = measured.retransmits.unwrap_or(0) as f64 * 100.0 / segments;
    let is_full = |link: f64| measured.gb_per_s * 100.0 >= link * LINK_FULL_PERCENT;
    match (link_gb_per_s, measured.busiest) {
        (Some(link), _) if is_full(link) => format!("the link of {link} Gb/s"),
        _ if measured.drops >= DROPS_PER_S_MIN * seconds => {
            "lost packets here: `bulkhead watch drops` shows the reason".to_owned()
        }
        _ if own >= FULL_PERCENT => "a processor here: one connection uses one".to_owned(),
        _ if peer >= FULL_PERCENT => "a processor of the peer: one connection uses one".to_owned(),
        (_, Some((number, share))) if share >= FULL_PERCENT => {
            format!("processor {number} here: connections or interrupts share it")
        }
        _ if again >= RETRANSMITS_PERCENT_MIN => {
            format!("lost packets on the way: {again:.1} % are sent again")
        }
        _ => "nothing here: see the peer, and the switches between".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_full_part_is_the_bound() {
        let plain = Measured {
            connections: 1,
            gb_per_s: 9.0,
            process_percent_max: (50.0, 50.0),
            busiest: Some((3, 60.0)),
            ..Measured::default()
        };
        type Change = fn(&mut Measured);
        let cases: [(Option<f64>, Change, &str); 8] = [
            (Some(10.0), |_| (), "the link of 10 Gb/s"),
            (Some(25.0), |_| (), "nothing here"),
            (None, |one| one.drops = 50, "bulkhead watch drops"),
            (None, |one| one.drops = 49, "nothing here"),
            (
                None,
                |one| one.process_percent_max.0 = 99.0,
                "a processor here",
            ),
            (None, |one| one.process_percent_max.1 = 96.0, "of the peer"),
            (None, |one| one.busiest = Some((3, 99.5)), "processor 3"),
            (
                None,
                |one| one.retransmits = Some(50_000),
                "1.3 % are sent again",
            ),
        ];
        for (link, change, part) in cases {
            let mut measured = plain.clone();
            change(&mut measured);
            let found = bound(&measured, 5, link);
            assert!(found.contains(part), "{found}: {part}");
        }
    }
}
