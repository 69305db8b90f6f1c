//! Adds and removes addresses by one call to the kernel (rtnetlink(7)), where ip(8) would be a process for each while
//! clients wait. Two processes of `ip` took 35 ms of a move on a host with two processors. If the agent works on
//! another host, it uses `ip`. The messages are built here and tested against those of `ip`: crates for rtnetlink would
//! be three more dependencies. If one is in the tree for another reason, use it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{netdevice, recv, send, socket_with};

/// A change of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add it. An existing one stays.
    Set,
    /// Remove it. A missing one is no failure.
    Remove,
}

/// Time limit of the kernel, which responds within the call.
const RESPONSE_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Numbers of linux/netlink.h, linux/rtnetlink.h and linux/if_addr.h.
const NLMSG_ERROR: u16 = 2;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_F_NODAD: u8 = 0x2;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_HOST: u8 = 254;
/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// A response repeats the request.
const REPLY_BYTES_MAX: usize = 512;

/// Changes `address` with this prefix length on `interface`. Returns whether that was a change: the kernel does not
/// remove an address with another prefix, or on another interface.
///
/// # Errors
///
/// The interface for a new address does not exist (`ENODEV`), or the kernel refuses.
pub fn change(change: Change, address: IpAddr, prefix: u8, interface: &str) -> io::Result<bool> {
    // Protocol 0 is NETLINK_ROUTE.
    let kind = SocketType::RAW;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, kind, flags, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(RESPONSE_TIME_LIMIT))?;
    let index = match (netdevice::name_to_index(&socket, interface), change) {
        (Ok(index), _) => index,
        (Err(rustix::io::Errno::NODEV), Change::Remove) => return Ok(false),
        (Err(error), _) => return Err(error.into()),
    };
    send(
        &socket,
        &message(change, address, prefix, index),
        SendFlags::empty(),
    )?;
    let code = receive_ack(&socket)?;
    let is_so_already = match change {
        Change::Set => rustix::io::Errno::EXIST,
        Change::Remove => rustix::io::Errno::ADDRNOTAVAIL,
    };
    match code {
        0 => Ok(true),
        code if code == is_so_already.raw_os_error() => Ok(false),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// The error number in the kernel's response; 0 is success.
fn receive_ack(socket: &OwnedFd) -> io::Result<i32> {
    let mut bytes = [0; REPLY_BYTES_MAX];
    let (count, _) = recv(socket, &mut bytes[..], RecvFlags::empty())?;
    let odd = || io::Error::other("the kernel's response cannot be parsed");
    let receive_ack = bytes.get(..count).ok_or_else(odd)?;
    let kind = receive_ack.get(4..6).and_then(|kind| kind.try_into().ok());
    let code = receive_ack.get(HEADER_BYTES..HEADER_BYTES + 4);
    let code = code.and_then(|code| code.try_into().ok()).ok_or_else(odd)?;
    match kind.map(u16::from_ne_bytes) {
        Some(NLMSG_ERROR) => Ok(-i32::from_ne_bytes(code)),
        _ => Err(odd()),
    }
}

/// `struct nlmsghdr`, `struct ifaddrmsg`, attributes.
fn message(change: Change, address: IpAddr, prefix: u8, index: u32) -> Vec<u8> {
    let (kind, flags) = match change {
        Change::Set => (RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL),
        Change::Remove => (RTM_DELADDR, 0),
    };
    let (family, address_flags, bytes) = match address {
        IpAddr::V4(address) => (AddressFamily::INET, 0, address.octets().to_vec()),
        // The cluster ensures that no other head has it.
        IpAddr::V6(address) => (AddressFamily::INET6, IFA_F_NODAD, address.octets().to_vec()),
    };
    let scope = match address {
        IpAddr::V4(address) if address.is_loopback() => RT_SCOPE_HOST,
        _ => RT_SCOPE_UNIVERSE,
    };
    let family = u8::try_from(family.as_raw()).expect("families of addresses are small");
    let mut body = vec![family, prefix, address_flags, scope];
    body.extend(index.to_ne_bytes());
    attribute(&mut body, IFA_LOCAL, &bytes);
    attribute(&mut body, IFA_ADDRESS, &bytes);
    if let (Change::Set, IpAddr::V4(address)) = (change, address) {
        if let Some(broadcast) = broadcast(address, prefix) {
            attribute(&mut body, IFA_BROADCAST, &broadcast.octets());
        }
    }
    let length = u32::try_from(HEADER_BYTES + body.len()).expect("a few attributes");
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    // The sequence number, and port 0: the kernel chooses it.
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    message
}

/// `struct rtattr` and its value. Addresses need no padding.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).expect("an address");
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

/// The broadcast address of the network; networks of one or two addresses have none.
fn broadcast(address: Ipv4Addr, prefix: u8) -> Option<Ipv4Addr> {
    let host_bits = u32::MAX.checked_shr(prefix.into())?;
    (prefix <= 30).then(|| Ipv4Addr::from_bits(address.to_bits() | host_bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of ip(8) for `addr add 10.77.1.100/24 brd + dev …`, from strace(1).
    #[test]
    #[cfg(target_endian = "little")]
    fn netlink_message_matches_that_of_ip() {
        let address = "10.77.1.100".parse().expect("an address");
        let expected = [
            48, 0, 0, 0, 20, 0, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0, // nlmsghdr
            2, 24, 0, 0, 7, 0, 0, 0, // ifaddrmsg
            8, 0, 2, 0, 10, 77, 1, 100, // IFA_LOCAL
            8, 0, 1, 0, 10, 77, 1, 100, // IFA_ADDRESS
            8, 0, 4, 0, 10, 77, 1, 255, // IFA_BROADCAST
        ];
        assert_eq!(message(Change::Set, address, 24, 7), expected);

        let address = "fd77::100".parse().expect("an address");
        let found = message(Change::Remove, address, 64, 7);
        assert_eq!(found.len(), 16 + 8 + 20 + 20);
        assert_eq!(found[4..8], [21, 0, 5, 0]);
        assert_eq!(found[16..24], [10, 64, 2, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn small_networks_have_no_broadcast() {
        let address = Ipv4Addr::new(10, 0, 0, 5);
        for (prefix, expected) in [
            (8, Some(Ipv4Addr::new(10, 255, 255, 255))),
            (30, Some(Ipv4Addr::new(10, 0, 0, 7))),
            (31, None),
            (32, None),
        ] {
            assert_eq!(broadcast(address, prefix), expected, "{prefix}");
        }
    }

    #[test]
    fn address_on_no_interface_is_absent() {
        let address = "127.99.98.97".parse().expect("an address");
        let gone = change(Change::Remove, address, 8, "nowhere0");
        assert!(!gone.expect("a missing address is no failure"));
        let refused = change(Change::Set, address, 8, "nowhere0").expect_err("no interface");
        let code = rustix::io::Errno::NODEV.raw_os_error();
        assert_eq!(refused.raw_os_error(), Some(code));
    }

    /// As root, if the kernel permits changes of addresses.
    #[test]
    fn address_add_and_delete_are_idempotent() {
        for (address, prefix) in [("127.99.98.97", 8), ("fd77:98:97::1", 128)] {
            let address = address.parse().expect("an address");
            for (desired, is_new) in [
                (Change::Set, true),
                (Change::Set, false),
                (Change::Remove, true),
                (Change::Remove, false),
            ] {
                match change(desired, address, prefix, "lo") {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
                    done => assert_eq!(done.expect("the change succeeds"), is_new),
                }
            }
        }
    }
}
