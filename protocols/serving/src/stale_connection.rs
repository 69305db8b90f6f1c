//! Connections whose server is gone, and how their clients are told.
//!
//! When an address moves to another head, a client that waits for an answer hears nothing: its
//! request was received, and TCP has nothing left to send again. It would wait for a time-out of
//! its own, ten seconds with the usual settings of a Linux initiator. So the new owner sends it
//! one bare acknowledgement with numbers that fit no connection. The client's TCP replies with
//! what it takes for the right numbers (RFC 5961, section 5), the new owner's kernel knows no
//! such connection and resets it (RFC 9293, section 3.10.7), and the client connects anew
//! at once. A client that has gone, or has connected anew already, is not disturbed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, bind, ipproto, sendto, socket_with, sockopt,
};

/// A connection whose server is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleConnection {
    /// The server's end.
    pub local: SocketAddr,
    /// The client's end.
    pub remote: SocketAddr,
}

/// How far it may be to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No router lies in between.
    OnLink,
    /// Anywhere.
    Routed,
}

/// Pause between two looks whether an address has arrived: clients wait for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// The same when it did not come soon.
const LATE_LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long an address is looked for often.
const SOON: Duration = Duration::from_secs(2);
/// When clients are told, after their address has arrived: segments get lost, and a switch or a
/// neighbour may learn a moment later where the address is now.
const TELL_AFTER: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(5),
    Duration::from_millis(15),
    Duration::from_millis(40),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_500),
];

/// Tells the clients of `stale_connections` within `reach`, each as soon as the server's address is one of this machine's,
/// until `deadline`. Returns at once; what cannot be sent is logged.
pub fn tell_clients(stale_connections: Vec<StaleConnection>, reach: Reach, deadline: Instant) {
    if stale_connections.is_empty() {
        return;
    }
    let spawned = std::thread::Builder::new()
        .name("stale_connections".into())
        .spawn(move || run(&stale_connections, reach, deadline));
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread to tell clients of the takeover");
    }
}

/// The stale_connections of one of our addresses, and how often their clients were told.
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
                // Usual where the process may not make raw sockets (CAP_NET_RAW).
                tracing::info!(%address, %error, "clients are not told of the takeover");
                false
            }
        });
        std::thread::sleep(match begun.elapsed() < SOON {
            true => LOOK_INTERVAL,
            false => LATE_LOOK_INTERVAL,
        });
    }
}

impl Group {
    /// Does what is due; whether there is more to come.
    fn step(&mut self) -> io::Result<bool> {
        if self.arrived.is_none() {
            self.arrived = open(self.address, self.reach)?.map(|socket| (Instant::now(), socket));
        }
        let Some((since, socket)) = &self.arrived else {
            return Ok(true);
        };
        if since.elapsed() >= TELL_AFTER[self.told] {
            for stale in &self.stale_connections {
                tell(socket, stale);
            }
            if self.told == 0 {
                let (address, count) = (self.address, self.stale_connections.len());
                tracing::info!(%address, count, "told clients of the takeover");
            }
            self.told += 1;
        }
        Ok(self.told < TELL_AFTER.len())
    }
}

/// A socket that sends from `address`; none as long as this machine does not have it.
fn open(address: IpAddr, reach: Reach) -> io::Result<Option<OwnedFd>> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::RAW, flags, Some(ipproto::TCP))?;
    if reach == Reach::OnLink {
        // The first router would drop it.
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

fn tell(socket: &OwnedFd, stale: &StaleConnection) {
    let segment = segment(stale);
    let to = SocketAddr::new(stale.remote.ip(), 0);
    // Lost, it is sent again; and a client that cannot be reached has nothing to do with us.
    if let Err(error) = sendto(socket, &segment, SendFlags::empty(), &to) {
        tracing::debug!(client = %stale.remote, %error, "not told");
    }
}

/// Bytes of a TCP header without options.
const HEADER_BYTES: usize = 20;
/// Protocol number of TCP.
const PROTOCOL: u8 = 6;

/// A bare acknowledgement from the server's end to the client's (RFC 9293, section 3.1).
fn segment(stale: &StaleConnection) -> [u8; HEADER_BYTES] {
    const OFFSET_WORDS: u8 = 5;
    const ACK: u8 = 0x10;
    let mut header = [0; HEADER_BYTES];
    header[0..2].copy_from_slice(&stale.local.port().to_be_bytes());
    header[2..4].copy_from_slice(&stale.remote.port().to_be_bytes());
    // Sequence and acknowledgement numbers stay 0: they must not fit.
    header[12] = OFFSET_WORDS << 4;
    header[13] = ACK;
    header[14..16].copy_from_slice(&1_024_u16.to_be_bytes());
    let sum = checksum(stale, &header);
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The checksum over pseudo-header and header (RFC 9293, section 3.1; RFC 8200, section 8.1).
fn checksum(stale: &StaleConnection, header: &[u8; HEADER_BYTES]) -> u16 {
    let mut bytes = Vec::with_capacity(64);
    for address in [stale.local.ip(), stale.remote.ip()] {
        match address {
            IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()),
        }
    }
    // Both pseudo-headers add up to the same words behind the addresses.
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

    /// The receiver adds up all words, the checksum among them, to all ones.
    #[test]
    fn a_receiver_finds_the_checksum_right() {
        for one in [
            stale("10.77.1.100:3260", "10.77.1.200:45678"),
            stale("[fd77::100]:10809", "[fd77::ffff:200]:1"),
        ] {
            let segment = segment(&one);
            assert_eq!(checksum(&one, &segment), 0, "{one:?}");
            assert_eq!(segment[13], 0x10, "only ACK");
        }
    }

    /// Where both ends know each other, the numbers that do not fit change nothing.
    #[test]
    fn a_client_whose_server_lives_is_not_disturbed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let (server, _) = listener.accept().expect("a client");
        let one = StaleConnection {
            local: server.local_addr().expect("connected"),
            remote: server.peer_addr().expect("connected"),
        };
        let socket = match open(one.local.ip(), Reach::OnLink) {
            Ok(socket) => socket.expect("this machine has it"),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return skip(&error),
            Err(error) => panic!("{error}"),
        };
        tell(&socket, &one);
        std::io::Write::write_all(&mut &server, b"on").expect("still connected");
        let mut bytes = [0; 2];
        client.read_exact(&mut bytes).expect("still connected");
        assert_eq!(&bytes, b"on");
    }

    #[test]
    fn an_address_that_is_not_here_yet_is_waited_for() {
        // RFC 5737: for documentation, so nobody's.
        let address = "192.0.2.1".parse().expect("an address");
        match open(address, Reach::Routed) {
            Ok(socket) => assert!(socket.is_none()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => skip(&error),
            Err(error) => panic!("{error}"),
        }
    }

    #[expect(clippy::print_stderr, reason = "a test that cannot run says why")]
    fn skip(error: &io::Error) {
        eprintln!("skipped: no raw sockets here: {error}");
    }
}
