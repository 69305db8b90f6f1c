//! Connected sockets, their peers, and the transport interface that TLS implements.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt,
};

/// Maximum time in a receive of a busy connection's thread. It saves a poll for each request at low
/// queue depths, and bounds the latency of a raised [`Waker`](crate::Waker).
const BRIEF_WAIT: Duration = Duration::from_millis(20);
/// Idle time before the kernel probes the peer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// Maximum input that is discarded from a closing connection: more than the default size of a
/// socket buffer.
const DISCARDED_BYTES_MAX: usize = 16 << 20;
/// Congestion control of local connections. The kernel always has this one, and it sends
/// immediately. An algorithm with pacing (BBR, if configured on the host) sets a timer for every
/// segment. That costs as much as a copy of the data (in a virtual machine an exit to the
/// hypervisor), and a local connection has no congestion. Remote connections retain the host's
/// configuration.
const CONGESTION_ON_THIS_HOST: &str = "reno";

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP.
    Tcp {
        /// The client's address.
        remote: SocketAddr,
        /// The local address, the portal that it connected to.
        local: SocketAddr,
    },
    /// Over a Unix socket.
    Unix {
        /// The client's user, from the kernel.
        uid: u32,
        /// The client's process, from the kernel.
        pid: i32,
    },
}

impl Peer {
    /// The client's address; `None` for a Unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp { remote, .. } => Some(remote.ip().to_canonical()),
            Self::Unix { .. } => None,
        }
    }

    /// Whether packets never leave this host, for any of its addresses.
    fn stays_on_host(&self) -> bool {
        match self {
            Self::Tcp { remote, local } => self.is_local() || remote.ip() == local.ip(),
            Self::Unix { .. } => true,
        }
    }

    /// Whether the client is on this host.
    pub fn is_local(&self) -> bool {
        self.address().is_none_or(|address| address.is_loopback())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { remote, .. } => write!(f, "{remote}"),
            Self::Unix { uid, pid } => write!(f, "unix(uid {uid}, pid {pid})"),
        }
    }
}

/// Whether a receive may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWait {
    /// Return `WouldBlock` immediately.
    No,
    /// Wait a few milliseconds for input before `WouldBlock`.
    Briefly,
}

/// A connected socket as the connection's threads use it: sends never block.
pub trait Transport: Send + Sync {
    /// Receives into `parts` in order; zero bytes mean the end of the stream. Called by the
    /// connection's thread only.
    fn receive(&self, parts: &mut [IoSliceMut<'_>], wait: ReceiveWait) -> io::Result<usize>;

    /// Accepts as many bytes of `parts` as possible without blocking; `WouldBlock` if none. Calls
    /// do not overlap.
    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends bytes that [`send`](Self::send) accepted and still holds. Returns whether none are
    /// left.
    fn flush(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Whether input was received that the socket no longer shows as readable.
    fn has_input(&self) -> bool {
        false
    }

    /// Sends the end of the stream in the way of the transport's protocol.
    fn finish(&self) {}

    /// The socket, for polling and shutting down.
    fn stream(&self) -> &Stream;
}

/// A connected TCP or Unix socket.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
}

impl Stream {
    /// Configures a connected TCP socket for requests and replies.
    pub fn tcp(socket: OwnedFd, peer: &Peer) -> io::Result<Self> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
        if peer.stays_on_host() {
            if let Err(error) = sockopt::set_tcp_congestion(&socket, CONGESTION_ON_THIS_HOST) {
                tracing::debug!(%error, "the host's congestion control remains");
            }
        }
        Self::unix(socket)
    }

    /// Configures a connected Unix socket.
    pub fn unix(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(BRIEF_WAIT))?;
        Ok(Self { socket })
    }

    /// Closes the connection in both directions; threads that wait for it return. Idempotent.
    pub fn shutdown(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether the peer has closed or reset the connection, as far as the system has detected.
    /// Earlier bytes may still be unread.
    pub fn peer_has_left(&self) -> bool {
        let events = PollFlags::RDHUP;
        let mut socket = [PollFd::from_borrowed_fd(self.socket.as_fd(), events)];
        poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Discards received and unread input without blocking. A socket that is closed with unread
    /// input is reset: the peer gets an error instead of the end of the stream, and may lose unread
    /// replies.
    pub fn discard_input(&self) {
        let mut bytes = [0; 16 << 10];
        for _ in 0..DISCARDED_BYTES_MAX / bytes.len() {
            match rustix::net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((1.., _)) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Sends the end of the stream.
    pub fn shutdown_send(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transport for Stream {
    fn receive(&self, parts: &mut [IoSliceMut<'_>], wait: ReceiveWait) -> io::Result<usize> {
        let flags = match wait {
            ReceiveWait::No => RecvFlags::DONTWAIT,
            ReceiveWait::Briefly => RecvFlags::empty(),
        };
        if let [only] = parts {
            let (count, _) = rustix::net::recv(&self.socket, &mut **only, flags)?;
            return Ok(count);
        }
        let mut no_control = RecvAncillaryBuffer::default();
        Ok(rustix::net::recvmsg(&self.socket, parts, &mut no_control, flags)?.bytes)
    }

    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let [only] = parts {
            return Ok(rustix::net::send(&self.socket, only, flags)?);
        }
        let mut no_control = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(
            &self.socket,
            parts,
            &mut no_control,
            flags,
        )?)
    }

    fn stream(&self) -> &Stream {
        self
    }
}
