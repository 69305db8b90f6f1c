//! What a loss means, and what an administrator does about it.

use crate::{Layer, Source};

/// The cause of a loss, and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The cause.
    pub cause: &'static str,
    /// The remedy: a command or a part to check.
    pub remedy: &'static str,
}

const RING: Meaning = Meaning {
    cause: "the receive ring of the card was full: no processor emptied it in time",
    remedy: "enlarge it with `ethtool -G INTERFACE rx NUMBER`, and spread the interrupts of the queues over the processors",
};
const CABLE: Meaning = Meaning {
    cause: "packets arrived damaged",
    remedy: "replace the cable or the transceiver, and see the counters of the switch port",
};
const SEND_QUEUE: Meaning = Meaning {
    cause: "packets to send were dropped, because the queue of the interface was full",
    remedy: "the link is slower than its senders: see its speed with `ethtool INTERFACE`, and the qdisc with `tc -s qdisc`",
};
const NO_PROTOCOL: Meaning = Meaning {
    cause: "packets arrived that no protocol here receives, such as of another VLAN",
    remedy: "usually harmless: see which with `tcpdump -i INTERFACE`",
};
const BACKLOG: Meaning = Meaning {
    cause: "the backlog of a processor was full",
    remedy: "raise net.core.netdev_max_backlog with `sysctl`, and spread the load with RSS or RPS",
};
const BUDGET: Meaning = Meaning {
    cause: "a processor did not empty its queues in one poll: packets are late, and not lost",
    remedy: "raise net.core.netdev_budget with `sysctl` if the ring overflows, too",
};
const LISTEN: Meaning = Meaning {
    cause: "connections arrived faster than a server accepted them",
    remedy: "see the log of the pool's server; raise net.core.somaxconn with `sysctl`",
};
const RETRANSMITTED: Meaning = Meaning {
    cause: "segments were not acknowledged in time: they were lost on the way, or the peer is stuck",
    remedy: "compare the counters of both hosts and of the switches; see whether the MTU fits with `bulkhead appliance check --ssh`",
};
const UDP_BUFFER: Meaning = Meaning {
    cause: "the receive buffer of a UDP socket was full: its process did not read in time",
    remedy: "raise net.core.rmem_max and net.core.rmem_default with `sysctl`; see whether the process has processor time",
};
const TCP_MEMORY: Meaning = Meaning {
    cause: "the memory for TCP, or the buffer of a connection, was exhausted",
    remedy: "raise net.ipv4.tcp_mem and net.ipv4.tcp_rmem with `sysctl`; see whether the process reads",
};
const CHECKSUM: Meaning = Meaning {
    cause: "packets arrived with a wrong checksum",
    remedy: "a defective card, memory or switch: turn the offloads of the card off with `ethtool -K` to find out",
};
const NO_SOCKET: Meaning = Meaning {
    cause: "packets arrived for a port at which no process listens, such as of clients of a pool that has moved",
    remedy: "see which address with `tcpdump`; harmless during a takeover",
};
const FILTER: Meaning = Meaning {
    cause: "a firewall rule of this host dropped packets",
    remedy: "see the counters of the rules with `nft list ruleset`",
};
const ROUTE: Meaning = Meaning {
    cause: "there is no route to the address, or its sender is not expected on this interface",
    remedy: "see `ip route` and net.ipv4.conf.INTERFACE.rp_filter",
};
const NEIGHBOUR: Meaning = Meaning {
    cause: "the hardware address of a neighbour could not be resolved",
    remedy: "the peer is off or its cable is cut: see `ip neighbour`",
};

/// Parts of reasons, in the order in which they are compared. Names of drivers differ, so parts have to do.
const BY_PART: &[(&str, Meaning)] = &[
    ("retransmitted", RETRANSMITTED),
    ("retrans", RETRANSMITTED),
    ("tcptimeouts", RETRANSMITTED),
    ("tcpabortontimeout", RETRANSMITTED),
    ("receive_buffer_full", UDP_BUFFER),
    ("listen", LISTEN),
    ("reqqfull", LISTEN),
    ("backlog_full", BACKLOG),
    ("cpu_backlog", BACKLOG),
    ("budget_exhausted", BUDGET),
    ("csum", CHECKSUM),
    ("crc", CABLE),
    ("frame_err", CABLE),
    ("length_err", CABLE),
    ("carrier", CABLE),
    ("nohandler", NO_PROTOCOL),
    ("unhandled_proto", NO_PROTOCOL),
    ("no_socket", NO_SOCKET),
    ("netfilter", FILTER),
    ("noroutes", ROUTE),
    ("rpfilter", ROUTE),
    ("addrerrors", ROUTE),
    ("neigh", NEIGHBOUR),
    ("qdisc", SEND_QUEUE),
    ("full_ring", SEND_QUEUE),
    ("tcpbacklogdrop", TCP_MEMORY),
    ("rcvq", TCP_MEMORY),
    ("prune", TCP_MEMORY),
    ("ofodrop", TCP_MEMORY),
    ("memory", TCP_MEMORY),
    ("proto_mem", TCP_MEMORY),
];

/// The meaning of a loss; none where only the name of its counter is known.
pub fn meaning(source: &Source) -> Option<Meaning> {
    let reason = source.reason.to_ascii_lowercase();
    let by_part = BY_PART.iter().find(|(part, _)| reason.contains(part));
    if let Some((_, meaning)) = by_part {
        return Some(*meaning);
    }
    let has = |word: &str| reason.contains(word);
    let is_udp = source.at.starts_with("Udp") || source.at.starts_with("udp");
    match source.layer {
        Layer::Qdisc => Some(SEND_QUEUE),
        Layer::Interface | Layer::Queue if has("tx") => Some(SEND_QUEUE),
        Layer::Interface | Layer::Queue if has("rx") => Some(RING),
        Layer::Protocol | Layer::Kernel if has("rcvbuf") && is_udp => Some(UDP_BUFFER),
        Layer::Protocol | Layer::Kernel if has("rcvbuf") => Some(TCP_MEMORY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_each_layer_have_a_remedy() {
        let cases = [
            (Layer::Interface, "ens1f0", "rx_missed_errors", RING),
            (Layer::Interface, "ens1f0", "rx_crc_errors", CABLE),
            (Layer::Interface, "ens1f0", "tx_dropped", SEND_QUEUE),
            (Layer::Queue, "ens1f0 queue 3", "rx_queue_3_drops", RING),
            (Layer::Qdisc, "ens1f0", "fq_codel", SEND_QUEUE),
            (Layer::Processor, "cpu 1", "backlog_full", BACKLOG),
            (Layer::Processor, "cpu 1", "budget_exhausted", BUDGET),
            (Layer::Protocol, "TcpExt", "ListenOverflows", LISTEN),
            (Layer::Protocol, "Tcp", "RetransSegs", RETRANSMITTED),
            (Layer::Protocol, "Udp", "RcvbufErrors", UDP_BUFFER),
            (Layer::Socket, "UDP", "receive_buffer_full", UDP_BUFFER),
            (
                Layer::Kernel,
                "udp_queue_rcv_one_skb",
                "SOCKET_RCVBUFF",
                UDP_BUFFER,
            ),
            (Layer::Kernel, "tcp_v4_rcv", "NO_SOCKET", NO_SOCKET),
            (Layer::Kernel, "nf_hook_slow", "NETFILTER_DROP", FILTER),
        ];
        for (layer, at, reason, expected) in cases {
            let found = meaning(&Source::new(layer, at, reason));
            assert_eq!(found, Some(expected), "{at} {reason}");
        }
        assert_eq!(
            meaning(&Source::new(Layer::Kernel, "x", "NEW_REASON")),
            None
        );
    }
}
