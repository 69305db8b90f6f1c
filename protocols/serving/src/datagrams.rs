//! UDP sockets for connectionless requests.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::Waker;
use crate::link::timespec;

/// Binds a non-blocking socket to `address`, even if a takeover has not moved the address to this
/// host yet.
///
/// # Errors
///
/// Another process uses the address, or this process has no permission.
pub fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    match address {
        SocketAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_v6only(&socket, true)?;
            sockopt::set_ipv6_freebind(&socket, true)?;
        }
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

/// Blocks until a socket has input, the waker is raised, or the pause is over.
pub fn wait_for_datagrams(waker: &Waker, sockets: &[&UdpSocket], pause: Duration) {
    let pause = timespec(pause);
    let waker = PollFd::from_borrowed_fd(waker.as_fd(), PollFlags::IN);
    let sockets = sockets.iter();
    let sockets = sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
    let mut descriptors: Vec<_> = std::iter::once(waker).chain(sockets).collect();
    let _ = poll(&mut descriptors, Some(&pause));
}
