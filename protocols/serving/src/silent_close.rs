//! Closes connections without a message to their clients.
//!
//! When a pool moves to another head, its addresses are removed first, and then its server stops. A
//! FIN or RST would cause clients to reconnect to an address that no head has yet: their first
//! attempt is lost, and TCP waits a second before the next. The new owner resets their connections
//! ([`reset_clients`](crate::reset_clients)) when it is ready.
//!
//! Linux sends no packet from an IPv4 address that it no longer has. From an IPv6 address it does,
//! including the end of the connection, and continues for a minute after the process has exited.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use socket2::SockRef;

use crate::{Connections, Directive, Peer, Stream};

/// An interface without a path to the network.
const LOOPBACK: &[u8] = b"lo";

impl Connections {
    /// Closes connections with a local address that this host no longer has, and ensures that no
    /// packet is sent on them. Returns their number.
    pub fn silence_removed_addresses(&self) -> usize {
        let mut looked_at: Vec<(SocketAddr, bool)> = Vec::new();
        let mut silenced = 0;
        for connection in self.list() {
            let Peer::Tcp { local, .. } = connection.peer else {
                continue;
            };
            let local = without_port(local);
            let known = looked_at.iter().find(|(address, _)| *address == local);
            let is_here = known.map_or_else(|| is_here(local), |(_, is_here)| *is_here);
            if known.is_none() {
                looked_at.push((local, is_here));
            }
            if is_here {
                continue;
            }
            match connection.stream.silence() {
                Ok(()) => {
                    connection.direct(Directive::Drop);
                    silenced += 1;
                }
                Err(error) => {
                    tracing::debug!(peer = %connection.peer, %error, "the client may receive a FIN");
                }
            }
        }
        silenced
    }
}

/// Returns the address alone, as IPv4 if it is mapped, with the interface of a link-local one.
fn without_port(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = address {
        if let Some(v4) = v6.ip().to_ipv4_mapped() {
            return (v4, 0).into();
        }
    }
    address.set_port(0);
    address
}

/// Whether this host has `address`; true if unknown.
fn is_here(address: SocketAddr) -> bool {
    match UdpSocket::bind(address) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    }
}

impl Stream {
    /// Prevents all further packets of this socket, including FIN and RST.
    fn silence(&self) -> io::Result<()> {
        SockRef::from(self).bind_device(Some(LOOPBACK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_detected() {
        for (address, expected) in [
            ("127.0.0.1:0", true),
            // Documentation addresses of RFC 5737 and RFC 3849, which no host has.
            ("192.0.2.1:0", false),
            ("[2001:db8::1]:0", false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(is_here(address), expected, "{address}");
        }
    }

    #[test]
    fn mapped_address_equals_its_ipv4_address() {
        let mapped = "[::ffff:192.0.2.1]:3260".parse().expect("an address");
        assert_eq!(without_port(mapped).to_string(), "192.0.2.1:0");
        let other = "[2001:db8::1]:3260".parse().expect("an address");
        assert_eq!(without_port(other).to_string(), "[2001:db8::1]:0");
    }
}
