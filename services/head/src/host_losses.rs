//! Losses of the protocols in this host's kernel, from its tables in `/proc/net`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use api::backend::HostLosses;

/// Directory of the tables.
const DIRECTORY: &str = "/proc/net";

/// A table's file and the kernel's name of a counter in it, by our protocol and reason.
const COUNTERS: &[(&str, &str, &str, &str)] = &[
    ("ip", "receive_discarded", "snmp", "Ip.InDiscards"),
    ("ip", "receive_header_error", "snmp", "Ip.InHdrErrors"),
    ("ip", "reassembly_failed", "snmp", "Ip.ReasmFails"),
    (
        "ip",
        "reverse_path_filter",
        "netstat",
        "TcpExt.IPReversePathFilter",
    ),
    ("ip", "send_discarded", "snmp", "Ip.OutDiscards"),
    ("ip6", "receive_discarded", "snmp6", "Ip6InDiscards"),
    ("ip6", "receive_header_error", "snmp6", "Ip6InHdrErrors"),
    ("ip6", "reassembly_failed", "snmp6", "Ip6ReasmFails"),
    ("ip6", "send_discarded", "snmp6", "Ip6OutDiscards"),
    ("tcp", "backlog_full", "netstat", "TcpExt.TCPBacklogDrop"),
    ("tcp", "listen_dropped", "netstat", "TcpExt.ListenDrops"),
    (
        "tcp",
        "listen_overflow",
        "netstat",
        "TcpExt.ListenOverflows",
    ),
    ("tcp", "receive_checksum", "snmp", "Tcp.InCsumErrors"),
    ("tcp", "receive_queue_full", "netstat", "TcpExt.TCPRcvQDrop"),
    ("udp", "receive_buffer_full", "snmp", "Udp.RcvbufErrors"),
    ("udp", "receive_checksum", "snmp", "Udp.InCsumErrors"),
    ("udp", "send_buffer_full", "snmp", "Udp.SndbufErrors"),
    ("udp6", "receive_buffer_full", "snmp6", "Udp6RcvbufErrors"),
    ("udp6", "receive_checksum", "snmp6", "Udp6InCsumErrors"),
    ("udp6", "send_buffer_full", "snmp6", "Udp6SndbufErrors"),
];

/// Losses since boot. Counters that this kernel does not have are left out.
pub fn counted() -> Vec<HostLosses> {
    let text = |file| fs::read_to_string(Path::new(DIRECTORY).join(file)).unwrap_or_default();
    of(&text("snmp"), &text("netstat"), &text("snmp6"))
}

fn of(snmp: &str, netstat: &str, snmp6: &str) -> Vec<HostLosses> {
    let (snmp, netstat, snmp6) = (in_pairs(snmp), in_pairs(netstat), in_lines(snmp6));
    let counters = COUNTERS.iter();
    let found = counters.filter_map(|(protocol, reason, file, name)| {
        let table = match *file {
            "snmp" => &snmp,
            "netstat" => &netstat,
            _ => &snmp6,
        };
        Some(HostLosses {
            protocol,
            reason,
            count: *table.get(*name)?,
        })
    });
    found.collect()
}

/// Parses a line of names, then one of their values, with the same prefix: `Udp: InErrors RcvbufErrors`, `Udp: 0 3`.
fn in_pairs(text: &str) -> HashMap<String, u64> {
    let mut found = HashMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (mut names, mut values) = (names.split_whitespace(), values.split_whitespace());
        let (Some(protocol), Some(same)) = (names.next(), values.next()) else {
            continue;
        };
        if protocol != same {
            continue;
        }
        for (name, value) in names.zip(values) {
            if let Ok(value) = value.parse() {
                found.insert(format!("{}.{name}", protocol.trim_end_matches(':')), value);
            }
        }
    }
    found
}

/// Parses a name and its value in each line.
fn in_lines(text: &str) -> HashMap<String, u64> {
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name_and_missing_ones_skipped() {
        let snmp = "Tcp: RtoMin MaxConn InCsumErrors\nTcp: 200 -1 4\n\
                    Udp: NoPorts RcvbufErrors InCsumErrors\nUdp: 9 3 0\n";
        let netstat = "TcpExt: ListenDrops\nTcpExt: 7\nIpExt: InOctets\n";
        let snmp6 =
            "Ip6InReceives                   \t18531\nUdp6RcvbufErrors                \t2\n";
        let found = of(snmp, netstat, snmp6);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.protocol, one.reason, one.count))
            .collect();
        assert_eq!(
            found,
            [
                ("tcp", "listen_dropped", 7),
                ("tcp", "receive_checksum", 4),
                ("udp", "receive_buffer_full", 3),
                ("udp", "receive_checksum", 0),
                ("udp6", "receive_buffer_full", 2),
            ]
        );
    }

    #[test]
    fn kernel_provides_counters_of_the_table() {
        let here = counted();
        let is_there = |protocol| here.iter().any(|one| one.protocol == protocol);
        assert!(["ip", "tcp", "udp"].into_iter().all(is_there), "{here:?}");
    }
}
