//! Resets connections of a stopped server, so that clients reconnect.
//!
//! After a takeover of an address, a client with a pending request receives nothing: its request
//! was acknowledged, and TCP has nothing to retransmit. It would wait for its own time-out, ten
//! seconds with the usual settings of a Linux initiator. So the new owner sends it one bare ACK
//! with invalid sequence numbers. The client's TCP replies with a challenge ACK (RFC 5961, section
//! 5). The kernel of the new owner has no such connection and resets it (RFC 9293, section 3.10.7),
//! and the client reconnects immediately. A client that has disconnected or reconnected already is
//! not affected.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, bind, ipproto, sendto, socket_with, sockopt,
};

/// A connection of a stopped server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleConnection {
    /// The server's end.
    pub local: SocketAddr,
    /// The client's end.
    pub remote: SocketAddr,
}

/// The permitted distance to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// On the local network.
    OnLink,
    /// Across routers.
    Routed,
}

/// Interval of the first checks for the address; clients are blocked until it is present.
const ADDRESS_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Interval of later checks.
const LATE_ADDRESS_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Duration of the first checks.
const FAST_POLL_DURATION: Duration = Duration::from_secs(2);
/// Times of the segments after the address is present. They are repeated because segments get lost,
/// and because a switch or neighbour may update its tables later.
const RESET_AFTER: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(5),
    Duration::from_millis(15),
    Duration::from_millis(40),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_500),
];

/// Resets the clients of `stale_connections` within `reach`, each as soon as this host has the
/// server's address, until `deadline`. Returns immediately; errors are logged.
pub fn reset_clients(stale_connections: Vec<StaleConnection>, reach: Reach, deadline: Instant) {
    if stale_connections.is_empty() {
        return;
    }
    let spawned = std::thread::Builder::new()
        .name("stale_connections".into())
        .spawn(move || run(&stale_connections, reach, deadline));
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread to reset the clients' stale connections");
    }
}

/// The stale connections of one local address, and the number of sent segments.
struct Group {
    address: IpAddr,
    reach: Reach,
    stale_connections: Vec<StaleConnection>,
    arrived: Option<(Instant, OwnedFd)>,
    told: usize,
}

fn run(stale_connections: &[StaleConnection], reach: Reach, deadline: Instant) {
    let mut addresses: Vec<IpAddr> = stale_connections.iter().map(|one| one.local.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let group = |address| Group {
        address,
        reach,
        stale_connections: stale_connections
            .iter()
            .filter(|one| one.local.ip() == address)
            .copied()
            .collect(),
        arrived: None,
        told: 0,
    };
    let mut groups: Vec<Group> = addresses.into_iter().map(group).collect();
    let begun = Instant::now();
    while !groups.is_empty() && Instant::now() < deadline {
        groups.retain_mut(|group| match group.step() {
            Ok(goes_on) => goes_on,
            Err(error) => {
                let address = group.address;
                // Usual if the process may not create raw sockets (CAP_NET_RAW).
                tracing::info!(%address, %error, "cannot reset the clients' stale connections");
                false
            }
        });
        std::thread::sleep(match begun.elapsed() < FAST_POLL_DURATION {
            true => ADDRESS_POLL_INTERVAL,
            false => LATE_ADDRESS_POLL_INTERVAL,
        });
    }
}

impl Group {
    /// Performs the due action. Returns whether more follow.
    fn step(&mut self) -> io::Result<bool> {
        if self.arrived.is_none() {
            self.arrived = open(self.address, self.reach)?.map(|socket| (Instant::now(), socket));
        }
        let Some((since, socket)) = &self.arrived else {
            return Ok(true);
        };
        if since.elapsed() >= RESET_AFTER[self.told] {
            for stale in &self.stale_connections {
                send_resets(socket, stale);
            }
            if self.told == 0 {
                let (address, count) = (self.address, self.stale_connections.len());
                tracing::info!(%address, count, "resetting the clients' stale connections");
            }
            self.told += 1;
        }
        Ok(self.told < RESET_AFTER.len())
    }
}

/// Opens a socket that sends from `address`; `None` while this host does not have it.
fn open(address: IpAddr, reach: Reach) -> io::Result<Option<OwnedFd>> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::RAW, flags, Some(ipproto::TCP))?;
    if reach == Reach::OnLink {
        // The first router would drop the segment.
        match address {
            IpAddr::V4(_) => sockopt::set_ip_ttl(&socket, 1)?,
            IpAddr::V6(_) => sockopt::set_ipv6_unicast_hops(&socket, Some(1))?,
        }
    }
    match bind(&socket, &SocketAddr::new(address, 0)) {
        Ok(()) => Ok(Some(socket)),
        Err(rustix::io::Errno::ADDRNOTAVAIL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn send_resets(socket: &OwnedFd, stale: &StaleConnection) {
    let segment = segment(stale);
    let to = SocketAddr::new(stale.remote.ip(), 0);
    // A lost segment is repeated, and an unreachable client is not our concern.
    if let Err(error) = sendto(socket, &segment, SendFlags::empty(), &to) {
        tracing::debug!(client = %stale.remote, %error, "not told");
    }
}

/// Bytes of a TCP header without options.
const HEADER_BYTES: usize = 20;
/// Protocol number of TCP.
const PROTOCOL: u8 = 6;

/// Builds a bare ACK from the server to the client (RFC 9293, section 3.1).
fn segment(stale: &StaleConnection) -> [u8; HEADER_BYTES] {
    const OFFSET_WORDS: u8 = 5;
    const ACK: u8 = 0x10;
    let mut header = [0; HEADER_BYTES];
    header[0..2].copy_from_slice(&stale.local.port().to_be_bytes());
    header[2..4].copy_from_slice(&stale.remote.port().to_be_bytes());
    // Sequence and acknowledgement numbers remain 0: they must be invalid.
    header[12] = OFFSET_WORDS << 4;
    header[13] = ACK;
    header[14..16].copy_from_slice(&1_024_u16.to_be_bytes());
    let sum = checksum(stale, &header);
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    header
}

/// Computes the checksum over pseudo-header and header (RFC 9293, section 3.1; RFC 8200, section
/// 8.1).
fn checksum(stale: &StaleConnection, header: &[u8; HEADER_BYTES]) -> u16 {
    let mut bytes = Vec::with_capacity(64);
    for address in [stale.local.ip(), stale.remote.ip()] {
        match address {
            IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()),
        }
    }
    // After the addresses both pseudo-headers have the same sum.
    bytes.extend_from_slice(&[0, PROTOCOL, 0, HEADER_BYTES as u8]);
    bytes.extend_from_slice(header);
    let words = bytes.chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};

    fn stale(local: &str, remote: &str) -> StaleConnection {
        StaleConnection {
            local: local.parse().expect("an address"),
            remote: remote.parse().expect("an address"),
        }
    }

    /// The receiver's sum over all words, including the checksum, is all ones.
    #[test]
    fn segment_checksum_verifies() {
        for one in [
            stale("10.77.1.100:3260", "10.77.1.200:45678"),
            stale("[fd77::100]:10809", "[fd77::ffff:200]:1"),
        ] {
            let segment = segment(&one);
            assert_eq!(checksum(&one, &segment), 0, "{one:?}");
            assert_eq!(segment[13], 0x10, "only ACK");
        }
    }

    /// In an established connection the invalid numbers have no effect.
    #[test]
    fn connection_with_a_live_server_is_not_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let (server, _) = listener.accept().expect("a client");
        let one = StaleConnection {
            local: server.local_addr().expect("connected"),
            remote: server.peer_addr().expect("connected"),
        };
        let socket = match open(one.local.ip(), Reach::OnLink) {
            Ok(socket) => socket.expect("this host has it"),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return skip(&error),
            Err(error) => panic!("{error}"),
        };
        send_resets(&socket, &one);
        std::io::Write::write_all(&mut &server, b"on").expect("still connected");
        let mut bytes = [0; 2];
        client.read_exact(&mut bytes).expect("still connected");
        assert_eq!(&bytes, b"on");
    }

    #[test]
    fn reset_waits_until_the_address_is_local() {
        // A documentation address of RFC 5737, which no host has.
        let address = "192.0.2.1".parse().expect("an address");
        match open(address, Reach::Routed) {
            Ok(socket) => assert!(socket.is_none()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => skip(&error),
            Err(error) => panic!("{error}"),
        }
    }

    #[expect(clippy::print_stderr, reason = "a skipped test reports its reason")]
    fn skip(error: &io::Error) {
        eprintln!("skipped: no raw sockets here: {error}");
    }
}
