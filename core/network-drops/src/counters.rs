//! Counters of interfaces, their queues, queueing disciplines, processors and protocols, in the forms of the kernel and
//! of ethtool(8) and tc(8).

use serde::Deserialize;

use crate::{Layer, Source};

/// Most lines of a text that are read.
const LINES_MAX: usize = 16_384;
/// Files of `/sys/class/net/NAME/statistics` that count lost packets
/// (Documentation/ABI/testing/sysfs-class-net-statistics). `rx_errors` and `tx_errors` are sums of these.
pub const INTERFACE_COUNTERS: [&str; 12] = [
    "rx_dropped",
    "rx_missed_errors",
    "rx_nohandler",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_length_errors",
    "tx_dropped",
    "tx_fifo_errors",
    "tx_carrier_errors",
    "tx_aborted_errors",
];
/// Parts of the names of drivers' counters that count lost packets.
const DRIVER_WORDS: [&str; 9] = [
    "drop", "discard", "miss", "no_buf", "nobuf", "err", "fifo", "full", "timeout",
];
/// Counters of `/proc/net/snmp` and `/proc/net/netstat` about lost or repeated packets.
const PROTOCOL_COUNTERS: &[(&str, &[&str])] = &[
    (
        "Ip",
        &[
            "InDiscards",
            "OutDiscards",
            "OutNoRoutes",
            "InHdrErrors",
            "InAddrErrors",
            "ReasmFails",
            "FragFails",
        ],
    ),
    (
        "Tcp",
        &["RetransSegs", "InErrs", "InCsumErrors", "AttemptFails"],
    ),
    (
        "Udp",
        &["RcvbufErrors", "SndbufErrors", "InCsumErrors", "MemErrors"],
    ),
    (
        "TcpExt",
        &[
            "ListenOverflows",
            "ListenDrops",
            "TCPBacklogDrop",
            "TCPRcvQDrop",
            "TCPOFODrop",
            "TCPZeroWindowDrop",
            "TCPMemoryPressures",
            "PruneCalled",
            "RcvPruned",
            "OfoPruned",
            "TCPMinTTLDrop",
            "TCPDeferAcceptDrop",
            "TCPReqQFullDrop",
            "TCPReqQFullDoCookies",
            "TCPAbortOnTimeout",
            "TCPAbortOnMemory",
            "TCPTimeouts",
            "TCPLostRetransmit",
        ],
    ),
    ("IpExt", &["InNoRoutes", "InTruncatedPkts", "InCsumErrors"]),
];
/// The same in `/proc/net/snmp6`, where the name of the protocol is a prefix.
const PROTOCOL6_COUNTERS: &[(&str, &str)] = &[
    ("Ip6", "InDiscards"),
    ("Ip6", "OutDiscards"),
    ("Ip6", "OutNoRoutes"),
    ("Ip6", "InHdrErrors"),
    ("Ip6", "InTooBigErrors"),
    ("Ip6", "ReasmFails"),
    ("Udp6", "RcvbufErrors"),
    ("Udp6", "SndbufErrors"),
    ("Udp6", "InCsumErrors"),
];

/// One counter of an interface, by the name of its file and its text.
pub fn interface(name: &str, counter: &str, text: &str) -> Option<(Source, u64)> {
    let count = text.trim().parse().ok()?;
    Some((Source::new(Layer::Interface, name, counter), count))
}

/// The counters of a driver about lost packets: the output of `ethtool -S NAME`.
pub fn driver(name: &str, text: &str) -> Vec<(Source, u64)> {
    let lines = text.lines().take(LINES_MAX);
    let counters = lines.filter_map(|line| {
        let (counter, count) = line.trim().rsplit_once(':')?;
        let count = count.trim().parse().ok()?;
        let lower = counter.to_ascii_lowercase();
        if !DRIVER_WORDS.iter().any(|word| lower.contains(word)) {
            return None;
        }
        let source = match queue_of(&lower) {
            Some(queue) => Source::new(Layer::Queue, &format!("{name} queue {queue}"), counter),
            None => Source::new(Layer::Interface, name, counter),
        };
        Some((source, count))
    });
    counters.collect()
}

/// The number of the queue in a counter such as `rx_queue_3_drops`, `rx3_dropped` or `[3]: rx_discards`. Other numbers,
/// such as in `rx_802_errors`, belong to no queue.
fn queue_of(counter: &str) -> Option<u32> {
    let digits_after = |prefix: &str| {
        let at = counter.find(prefix)? + prefix.len();
        let digits: String = counter[at..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    };
    ["queue_", "queue", "[", "ch", "rx", "tx", "rx-", "tx-"]
        .into_iter()
        .find_map(digits_after)
}

/// A queueing discipline, in the output of `tc -s -j qdisc show`.
#[derive(Deserialize)]
struct Qdisc {
    kind: String,
    #[serde(default)]
    dev: Option<String>,
    #[serde(default)]
    drops: u64,
}

/// The drops of queueing disciplines: the output of `tc -s -j qdisc show`. Text of another form has none.
pub fn qdiscs(text: &str) -> Vec<(Source, u64)> {
    let found: Vec<Qdisc> = serde_json::from_str(text).unwrap_or_default();
    let found = found.into_iter().take(LINES_MAX);
    found
        .filter_map(|one| Some((Source::new(Layer::Qdisc, &one.dev?, &one.kind), one.drops)))
        .collect()
}

/// The backlogs of the processors: `/proc/net/softnet_stat`, whose columns are hexadecimal. The second one counts
/// packets that were dropped because the backlog was full, the third one how often the budget of a poll was exhausted.
/// The thirteenth is the number of the processor.
pub fn processors(text: &str) -> Vec<(Source, u64)> {
    let lines = text.lines().take(LINES_MAX).enumerate();
    let counters = lines.flat_map(|(row, line)| {
        let columns: Vec<u64> = line
            .split_ascii_whitespace()
            .map_while(|column| u64::from_str_radix(column, 16).ok())
            .collect();
        let number = columns.get(12).copied().unwrap_or(row as u64);
        let at = format!("cpu {number}");
        [("backlog_full", 1), ("budget_exhausted", 2)]
            .into_iter()
            .filter_map(move |(reason, column)| {
                let count = *columns.get(column)?;
                Some((Source::new(Layer::Processor, &at, reason), count))
            })
            .collect::<Vec<_>>()
    });
    counters.collect()
}

/// Counters of protocols: `/proc/net/snmp` or `/proc/net/netstat`, pairs of lines with names and values.
pub fn protocols(text: &str) -> Vec<(Source, u64)> {
    let mut counters = Vec::new();
    let mut lines = text.lines().take(LINES_MAX);
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((protocol, names)), Some((same, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        let wanted = PROTOCOL_COUNTERS.iter().find(|(name, _)| *name == protocol);
        let Some((_, wanted)) = wanted.filter(|_| same == protocol) else {
            continue;
        };
        let pairs = names
            .split_ascii_whitespace()
            .zip(values.split_ascii_whitespace());
        counters.extend(pairs.filter_map(|(name, value)| {
            let count = value.parse().ok()?;
            let source = Source::new(Layer::Protocol, protocol, name);
            wanted.contains(&name).then_some((source, count))
        }));
    }
    counters
}

/// The same for IPv6: `/proc/net/snmp6`, a name and a value in each line.
pub fn protocols6(text: &str) -> Vec<(Source, u64)> {
    let lines = text.lines().take(LINES_MAX);
    let counters = lines.filter_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let count = value.trim().parse().ok()?;
        let (protocol, counter) = PROTOCOL6_COUNTERS
            .iter()
            .find(|(protocol, counter)| name.strip_prefix(protocol) == Some(counter))?;
        Some((Source::new(Layer::Protocol, protocol, counter), count))
    });
    counters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(counters: Vec<(Source, u64)>) -> Vec<(String, String, u64)> {
        let counters = counters.into_iter();
        counters
            .map(|(source, count)| (source.at, source.reason, count))
            .collect()
    }

    fn owned(counters: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
        let counters = counters.iter();
        counters
            .map(|&(at, reason, count)| (at.to_owned(), reason.to_owned(), count))
            .collect()
    }

    #[test]
    fn queues_of_several_drivers_are_named() {
        let text = "NIC statistics:\n     rx_packets: 17\n     rx_queue_3_drops: 4\n     rx1_cache_full: 2\n     \
                    tx-0.tx_timeout: 1\n     [7]: rx_discards: 9\n     rx_missed_errors: 5\n     tx_bytes: 12\n";
        let expected = owned(&[
            ("ens1f0 queue 3", "rx_queue_3_drops", 4),
            ("ens1f0 queue 1", "rx1_cache_full", 2),
            ("ens1f0 queue 0", "tx-0.tx_timeout", 1),
            ("ens1f0 queue 7", "[7]: rx_discards", 9),
            ("ens1f0", "rx_missed_errors", 5),
        ]);
        assert_eq!(shown(driver("ens1f0", text)), expected);
    }

    #[test]
    fn drops_of_processors_are_in_the_second_column() {
        let text = "00130022 0000000a 00000001 0 0 0 0 0 0 0 0 0 00000001 0 0\nnonsense\n0013c8b8 00000000 00000004 0 0 \
                    0 0 0 0 0 0\n";
        let expected = owned(&[
            ("cpu 1", "backlog_full", 10),
            ("cpu 1", "budget_exhausted", 1),
            ("cpu 2", "backlog_full", 0),
            ("cpu 2", "budget_exhausted", 4),
        ]);
        assert_eq!(shown(processors(text)), expected);
    }

    #[test]
    fn counters_of_protocols_are_paired_with_their_names() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 2 3\nUdp: InDatagrams RcvbufErrors\n\
                    Udp: 9 8\nTcp: RetransSegs\nUdp: 5\n";
        let expected = owned(&[
            ("TcpExt", "ListenOverflows", 2),
            ("TcpExt", "ListenDrops", 3),
            ("Udp", "RcvbufErrors", 8),
        ]);
        assert_eq!(shown(protocols(text)), expected);
        let text = "Ip6InReceives   7\nUdp6RcvbufErrors \t 3\nIp6OutNoRoutes x\n";
        assert_eq!(
            shown(protocols6(text)),
            owned(&[("Udp6", "RcvbufErrors", 3)])
        );
    }

    #[test]
    fn qdiscs_without_a_device_or_of_another_form_are_left_out() {
        let text = r#"[{"kind":"noqueue","drops":3},{"kind":"fq_codel","dev":"ens1f0","drops":17,"qlen":0}]"#;
        assert_eq!(shown(qdiscs(text)), owned(&[("ens1f0", "fq_codel", 17)]));
        assert_eq!(qdiscs("{}"), []);
        assert_eq!(qdiscs("[{"), []);
    }

    #[test]
    fn counter_of_an_interface_must_be_a_number() {
        assert!(interface("lo", "rx_dropped", "12\n").is_some_and(|(_, count)| count == 12));
        assert_eq!(interface("lo", "rx_dropped", "-1"), None);
    }
}
