//! Listeners on TCP and Unix sockets.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::link::timespec;
use crate::{Connection, Connections, EarlySockets, Peer, Stream, Waker};

/// Connections that the kernel completes before they are accepted.
pub(crate) const BACKLOG: i32 = 1024;
/// Pause after an accept that failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The owner and the group may connect.
const UNIX_SOCKET_MODE: u32 = 0o660;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// A TCP address; this host need not have it yet.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether it is only reachable from this host.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// The address and port of a TCP listener.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why a text is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address to listen on: write ADDRESS:PORT, [ADDRESS]:PORT or unix:/PATH")]
pub struct ParseListenAddressError {
    text: String,
}

impl FromStr for ListenAddress {
    type Err = ParseListenAddressError;

    fn from_str(text: &str) -> Result<Self, ParseListenAddressError> {
        let refuse = || ParseListenAddressError {
            text: text.to_owned(),
        };
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(refuse()),
            None => text.parse().map(Self::Tcp).map_err(|_| refuse()),
        }
    }
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address}: {step}")]
pub struct ListenError {
    /// The address.
    pub address: ListenAddress,
    /// The failed step.
    pub step: &'static str,
    /// The error of the system.
    #[source]
    pub cause: io::Error,
}

/// A listening socket. Connections are queued until a [`Listener`] accepts them.
pub struct OpenSocket {
    socket: OwnedFd,
    address: ListenAddress,
    file: Option<SocketFile>,
}

impl OpenSocket {
    /// Listens on `address`. A socket from `early` retains its queued connections.
    ///
    /// # Errors
    ///
    /// Another process uses the address, or this process has no permission.
    pub fn open(address: &ListenAddress, early: &EarlySockets) -> Result<Self, ListenError> {
        let failed = |step: &'static str| {
            move |cause: io::Error| ListenError {
                address: address.clone(),
                step,
                cause,
            }
        };
        let (socket, bound, file) = match address {
            ListenAddress::Tcp(tcp) => {
                let (socket, bound) = match early.take(*tcp) {
                    Some(socket) => (socket, address.clone()),
                    None => {
                        let (socket, bound) = bind_tcp(*tcp).map_err(failed("bind"))?;
                        (socket, ListenAddress::Tcp(bound))
                    }
                };
                (socket, bound, None)
            }
            ListenAddress::Unix(path) => {
                let socket = bound_unix(path).map_err(failed("bind"))?;
                (socket, address.clone(), Some(SocketFile(path.clone())))
            }
        };
        // A repeated listen is harmless.
        rustix::net::listen(&socket, BACKLOG).map_err(|e| failed("listen")(e.into()))?;
        if let ListenAddress::Unix(path) = address {
            let mode = std::fs::Permissions::from_mode(UNIX_SOCKET_MODE);
            std::fs::set_permissions(path, mode).map_err(failed("set the socket's mode"))?;
        }
        Ok(Self {
            socket,
            address: bound,
            file,
        })
    }

    /// The address with the actual port.
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// The file of a Unix socket, removed with it.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A thread that accepts connections on one address until it is dropped.
pub struct Listener {
    address: ListenAddress,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    _file: Option<SocketFile>,
}

struct Shared {
    socket: OwnedFd,
    waker: Waker,
    stopping: AtomicBool,
}

impl Listener {
    /// Accepts the connections of `socket`; each is served by `serve` in a thread named `name`.
    /// Connections may be queued already, so that their exports must be ready.
    pub fn start(
        name: &str,
        socket: OpenSocket,
        connections: Arc<Connections>,
        serve: Arc<dyn Fn(Arc<Connection>) + Send + Sync>,
    ) -> Result<Self, ListenError> {
        let OpenSocket {
            socket,
            address,
            file,
        } = socket;
        let failed = |step: &'static str| {
            let address = address.clone();
            move |cause: io::Error| ListenError {
                address,
                step,
                cause,
            }
        };
        let shared = Arc::new(Shared {
            socket,
            waker: Waker::new().map_err(failed("create a waker"))?,
            stopping: AtomicBool::new(false),
        });
        let accepting = Accepting {
            name: name.to_owned(),
            address: address.clone(),
            shared: Arc::clone(&shared),
            connections,
            serve,
        };
        let thread = std::thread::Builder::new()
            .name(format!("{name}-accept"))
            .stack_size(crate::workers::STACK_BYTES)
            .spawn(move || accepting.run())
            .map_err(failed("start a thread"))?;
        tracing::info!(%address, "listening");
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
            _file: file,
        })
    }

    /// The address with the actual port.
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }
}

impl Drop for Listener {
    /// Stops accepting; existing connections continue.
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds a non-blocking socket to `address`, even if a takeover has not moved the address to this
/// host yet. Returns the socket and its actual address. It does not listen yet.
pub fn bind_tcp(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // The addresses of a pool are added after its server listens.
    match address {
        SocketAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_v6only(&socket, true)?;
            sockopt::set_ipv6_freebind(&socket, true)?;
        }
    }
    rustix::net::bind(&socket, &address)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

/// Whether this host has `address` now, or it is a wildcard.
pub fn is_here(address: IpAddr) -> bool {
    // Without the option that permits to bind an absent address.
    match std::net::UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    }
}

/// Binds sockets at paths, for a process that may not create such sockets itself.
pub type UnixBinder = Box<dyn Fn(&Path) -> io::Result<OwnedFd> + Send + Sync>;

static UNIX_BINDER: OnceLock<UnixBinder> = OnceLock::new();

/// Sets the function that binds Unix sockets for this process. The first one remains.
pub fn bind_unix_by(binder: UnixBinder) {
    let _ = UNIX_BINDER.set(binder);
}

fn bound_unix(path: &Path) -> io::Result<OwnedFd> {
    match UNIX_BINDER.get() {
        Some(binder) => binder(path),
        None => bind_unix(path),
    }
}

/// Binds a socket at `path`, replacing one of a killed server.
///
/// # Errors
///
/// A file exists, or this process may not create it.
pub fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    remove_stale_socket(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// A killed server leaves its socket file behind, without a listener.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

struct Accepting {
    name: String,
    address: ListenAddress,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    serve: Arc<dyn Fn(Arc<Connection>) + Send + Sync>,
}

impl Accepting {
    fn run(self) {
        while !self.shared.stopping.load(Ordering::Acquire) {
            match self.accept() {
                Ok(Some((stream, peer))) => {
                    let serve = Arc::clone(&self.serve);
                    self.connections.start(&self.name, stream, peer, serve);
                }
                Ok(None) => self.wait(PollFlags::IN, None),
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "cannot accept");
                    self.wait(PollFlags::empty(), Some(ACCEPT_PAUSE));
                }
            }
        }
    }

    /// Accepts the next connection; `None` if there is none yet.
    fn accept(&self) -> io::Result<Option<(Stream, Peer)>> {
        use rustix::io::Errno;
        let accepted = rustix::net::acceptfrom_with(&self.shared.socket, SocketFlags::CLOEXEC);
        let (socket, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            // The client disconnected before it was accepted.
            Err(Errno::CONNABORTED | Errno::PROTO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A failure from here on affects one client, not the listener.
        let prepared = match self.address {
            ListenAddress::Tcp(_) => prepare_tcp(socket, remote),
            ListenAddress::Unix(_) => prepare_unix(socket),
        };
        match prepared {
            Ok(prepared) => Ok(Some(prepared)),
            Err(error) => {
                tracing::debug!(%error, "the client disconnected before it was accepted");
                Ok(None)
            }
        }
    }

    fn wait(&self, events: PollFlags, pause: Option<Duration>) {
        let pause = pause.map(timespec);
        let mut descriptors = [
            PollFd::from_borrowed_fd(self.shared.waker.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.shared.socket.as_fd(), events),
        ];
        let _ = poll(&mut descriptors, pause.as_ref());
    }
}

fn prepare_tcp(
    socket: OwnedFd,
    remote: Option<rustix::net::SocketAddrAny>,
) -> io::Result<(Stream, Peer)> {
    let remote = remote.ok_or(io::ErrorKind::NotConnected)?;
    let peer = Peer::Tcp {
        remote: SocketAddr::try_from(remote)?,
        local: SocketAddr::try_from(rustix::net::getsockname(&socket)?)?,
    };
    Ok((Stream::tcp(socket, &peer)?, peer))
}

fn prepare_unix(socket: OwnedFd) -> io::Result<(Stream, Peer)> {
    let credentials = sockopt::socket_peercred(&socket)?;
    let peer = Peer::Unix {
        uid: credentials.uid.as_raw(),
        pid: credentials.pid.as_raw_nonzero().get(),
    };
    Ok((Stream::unix(socket)?, peer))
}
