//! Sockets that lost packets, in the output of ss(8): retransmissions of TCP connections and drops of UDP sockets, with
//! the addresses and ports of both sides.

use crate::{Layer, Source};

/// Most lines that are read: a server has some thousand connections.
const LINES_MAX: usize = 65_536;

/// A counter of a socket, with the names of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketCounter {
    /// Between which addresses.
    pub source: Source,
    /// The count since the socket was opened.
    pub count: u64,
    /// The processes that have it open.
    pub processes: Vec<String>,
}

/// The segments that TCP connections sent again: the output of `ss -tinpOH`.
pub fn tcp(text: &str) -> Vec<SocketCounter> {
    let lines = text.lines().take(LINES_MAX);
    lines
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            // `retrans:NOW/ALL` is missing until the first retransmission.
            let again = words.iter().find_map(|word| word.strip_prefix("retrans:"));
            let count = match again {
                Some(counts) => counts.rsplit_once('/')?.1.parse().ok()?,
                None => 0,
            };
            counter(&words, "TCP", "retransmitted", count)
        })
        .collect()
}

/// The packets that found the buffer of a UDP socket full: the output of `ss -uanmpOH`.
pub fn udp(text: &str) -> Vec<SocketCounter> {
    let lines = text.lines().take(LINES_MAX);
    lines
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let memory = words.iter().find_map(|word| word.strip_prefix("skmem:("))?;
            let drops = memory.trim_end_matches(')').rsplit(',').next()?;
            let count = drops.strip_prefix('d')?.parse().ok()?;
            counter(&words, "UDP", "receive_buffer_full", count)
        })
        .collect()
}

/// The columns before the options are the state, two queues, the local address and that of the peer.
fn counter(words: &[&str], protocol: &str, reason: &str, count: u64) -> Option<SocketCounter> {
    let (local, peer) = (words.get(3)?, words.get(4)?);
    let users = words.iter().find(|word| word.starts_with("users:("));
    Some(SocketCounter {
        source: Source::new(Layer::Socket, protocol, reason).between(local, peer),
        count,
        processes: users.map_or_else(Vec::new, |users| processes(users)),
    })
}

/// The names in `users:(("bulkhead",pid=605,fd=29),("x",pid=1,fd=2))`.
fn processes(users: &str) -> Vec<String> {
    let mut parts = users.split('"');
    let mut names = Vec::new();
    while let (Some(_), Some(name)) = (parts.next(), parts.next()) {
        names.push(name.to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = concat!(
        "ESTAB 0 0 10.77.1.100:3260 10.77.1.50:56836 users:((\"bulkhead\",pid=605,fd=7)) cubic wscale:10,10 ",
        "retrans:1/17 lost:1\n",
        "ESTAB 0 0 [fd00::1]:2049 [fd00::2]:900 users:((\"bulkhead\",pid=605,fd=9),(\"x\",pid=7,fd=1)) cubic\n",
        "broken line\n",
        "ESTAB 0 0 10.0.0.1:1 10.0.0.2:2 retrans:nonsense\n",
    );

    #[test]
    fn retransmissions_have_both_addresses_and_the_process() {
        let found = tcp(TCP);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].count, 17);
        assert_eq!(found[0].source.local.as_deref(), Some("10.77.1.100:3260"));
        assert_eq!(found[0].source.peer.as_deref(), Some("10.77.1.50:56836"));
        assert_eq!(found[0].processes, ["bulkhead"]);
        assert_eq!((found[1].count, found[1].processes.len()), (0, 2));
        assert_eq!(found[1].source.peer.as_deref(), Some("[fd00::2]:900"));
    }

    #[test]
    fn drops_of_udp_are_the_last_part_of_its_memory() {
        let text = "UNCONN 3840 0 10.77.1.11:5405 0.0.0.0:* users:((\"corosync\",pid=4,fd=4)) \
                    skmem:(r3840,rb4608,t0,tb212992,f256,w0,o0,bl0,d23)\nUNCONN 0 0 1.1.1.1:1 0.0.0.0:*\n";
        let found = udp(text);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].count, found[0].processes.as_slice()),
            (23, &["corosync".to_owned()][..])
        );
    }
}
