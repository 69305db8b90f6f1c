//! The kernel's reports of single packets, as lines of `trace_pipe` (Documentation/trace/events.rst): dropped packets
//! with the reason, TCP segments that are sent again, and UDP packets that found a full buffer, with both addresses.

use std::net::IpAddr;

use crate::{Layer, Source};

/// The events, as directories below `events`. Some are missing in an older kernel.
pub const EVENTS: [&str; 3] = [
    "skb/kfree_skb",
    "tcp/tcp_retransmit_skb",
    "udp/udp_fail_queue_rcv_skb",
];

/// Reasons of packets that were not lost on their way: a socket was closed, or the packet was a duplicate.
const HARMLESS: [&str; 9] = [
    "NOT_SPECIFIED",
    "QUEUE_PURGE",
    "SOCKET_CLOSE",
    "TCP_CLOSE",
    "UNIX_DISCONNECT",
    "TCP_OLD_DATA",
    "TCP_OLD_ACK",
    "TCP_OFOMERGE",
    "CONSUMED",
];

/// What a line reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// One lost packet.
    Lost(Source),
    /// The kernel's buffer was full: so many reports are missing.
    Missing(u64),
    /// A packet that was not lost, or a line of another form.
    Other,
}

/// Reads a line.
pub fn report(line: &str) -> Report {
    if let Some((_, rest)) = line.split_once("[LOST ") {
        let count = rest.split_ascii_whitespace().next();
        return Report::Missing(count.and_then(|count| count.parse().ok()).unwrap_or(1));
    }
    let found = match line {
        _ if line.contains(": kfree_skb: ") => dropped(line),
        _ if line.contains(": tcp_retransmit_skb: ") => retransmitted(line),
        _ if line.contains(": udp_fail_queue_rcv_skb: ") => full(line),
        _ => None,
    };
    found.map_or(Report::Other, Report::Lost)
}

/// The value after `name`.
fn value<'line>(line: &'line str, name: &str) -> Option<&'line str> {
    let rest = &line[line.find(name)? + name.len()..];
    rest.split_ascii_whitespace().next()
}

/// `... protocol=2048 location=tcp_v4_rcv+0x99/0x1400 reason: NO_SOCKET`
fn dropped(line: &str) -> Option<Source> {
    let reason = value(line, " reason: ")?;
    if HARMLESS.contains(&reason) {
        return None;
    }
    let function = value(line, " location=")?.split('+').next()?;
    Some(Source::new(Layer::Kernel, function, reason))
}

/// `... sport=3260 dport=51234 saddr=10.0.0.1 daddr=10.0.0.2 saddrv6=::ffff:10.0.0.1 daddrv6=... state=TCP_ESTABLISHED`
fn retransmitted(line: &str) -> Option<Source> {
    let end = |port: &str, address: &str, address6: &str| {
        let port: u16 = value(line, port)?.parse().ok()?;
        let old: IpAddr = value(line, address)?.parse().ok()?;
        let new = value(line, address6).and_then(|text| text.parse::<IpAddr>().ok());
        // A connection of IPv6 has no address of IPv4.
        let address = new.filter(|_| old.is_unspecified()).unwrap_or(old);
        Some(std::net::SocketAddr::new(address, port).to_string())
    };
    let local = end(" sport=", " saddr=", " saddrv6=")?;
    let peer = end(" dport=", " daddr=", " daddrv6=")?;
    Some(Source::new(Layer::Kernel, "TCP", "retransmitted").between(&local, &peer))
}

/// `... rc=-12 family=AF_INET src=127.0.0.1:47607 dest=127.0.0.1:7777`. Before Linux 6.10 there are no addresses.
fn full(line: &str) -> Option<Source> {
    let source = Source::new(Layer::Kernel, "UDP", "receive_buffer_full");
    Some(match (value(line, " dest="), value(line, " src=")) {
        (Some(local), Some(peer)) => source.between(local, peer),
        _ => source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(line: &str) -> Source {
        match report(line) {
            Report::Lost(source) => source,
            other => panic!("{other:?}: {line}"),
        }
    }

    #[test]
    fn dropped_packet_has_the_function_and_the_reason() {
        let source = lost(
            "  python3-23853   [001] ..s1.  4431.853670: kfree_skb: skbaddr=00000000b01af2bf rx_sk=0 protocol=2048 \
             location=tcp_v4_rcv+0x99/0x1400 reason: NO_SOCKET",
        );
        assert_eq!(
            (source.at.as_str(), source.reason.as_str()),
            ("tcp_v4_rcv", "NO_SOCKET")
        );
        let purged = "x [0] 1: kfree_skb: skbaddr=0 location=sk_stream_kill_queues+0x57/0xf0 reason: QUEUE_PURGE";
        assert_eq!(report(purged), Report::Other);
    }

    #[test]
    fn retransmission_has_both_addresses() {
        let line = "<idle>-0 [001] b.s3. 5.0: tcp_retransmit_skb: skbaddr=1 skaddr=2 family=AF_INET \
                    state=TCP_ESTABLISHED sport=3260 dport=51234 saddr=10.77.1.100 daddr=10.77.1.50 \
                    saddrv6=::ffff:10.77.1.100 daddrv6=::ffff:10.77.1.50";
        let source = lost(line);
        assert_eq!(source.local.as_deref(), Some("10.77.1.100:3260"));
        assert_eq!(source.peer.as_deref(), Some("10.77.1.50:51234"));
        let line = "<idle>-0 [001] b.s3. 5.0: tcp_retransmit_skb: family=AF_INET6 sport=2049 dport=900 saddr=0.0.0.0 \
                    daddr=0.0.0.0 saddrv6=fd00::1 daddrv6=fd00::2";
        assert_eq!(lost(line).peer.as_deref(), Some("[fd00::2]:900"));
    }

    #[test]
    fn full_buffer_is_at_the_destination() {
        let line = "p-1 [000] ..s1. 4.4: udp_fail_queue_rcv_skb: rc=-12 family=AF_INET src=127.0.0.1:47607 dest=127.0.0.1:7777";
        let source = lost(line);
        assert_eq!(source.local.as_deref(), Some("127.0.0.1:7777"));
        assert_eq!(source.peer.as_deref(), Some("127.0.0.1:47607"));
        let older = "p-1 [000] ..s1. 4.4: udp_fail_queue_rcv_skb: rc=-12 port=7777";
        assert_eq!(lost(older).local, None);
    }

    #[test]
    fn missing_reports_are_counted() {
        assert_eq!(report("CPU:1 [LOST 123 EVENTS]"), Report::Missing(123));
        assert_eq!(report("CPU:1 [LOST EVENTS]"), Report::Missing(1));
        assert_eq!(report(": kfree_skb: location=x"), Report::Other);
        assert_eq!(report(""), Report::Other);
    }
}
