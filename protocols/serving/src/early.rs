//! Sockets that listen before the server is ready.
//!
//! A client that connects while a pool is being opened would be refused or get no reply, and would
//! retry some time later. With a listening socket the kernel completes the connection and queues
//! the client's first bytes. They are handled when a [`Listener`](crate::Listener) accepts the
//! connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use crate::listener::{BACKLOG, bind_tcp};
use crate::{ListenAddress, ListenError};

/// Bound sockets that no listener has acquired yet.
#[derive(Debug, Default)]
pub struct EarlySockets(Mutex<BTreeMap<SocketAddr, OwnedFd>>);

impl EarlySockets {
    /// Binds all `addresses`, even those that this host does not have yet. They refuse connections
    /// like a closed port.
    ///
    /// # Errors
    ///
    /// An address cannot be bound.
    pub fn bind(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self, ListenError> {
        let mut sockets = BTreeMap::new();
        for address in addresses {
            // Only the listener's owner could report the actual port.
            if address.port() == 0 || sockets.contains_key(&address) {
                continue;
            }
            let (address, socket) = bind(address)?;
            sockets.insert(address, socket);
        }
        Ok(Self(Mutex::new(sockets)))
    }

    /// Binds `address`, with port 0 to a free port. Returns the bound address.
    ///
    /// # Errors
    ///
    /// It cannot be bound.
    pub fn reserve(&self, address: SocketAddr) -> Result<SocketAddr, ListenError> {
        let (address, socket) = bind(address)?;
        self.sockets().insert(address, socket);
        Ok(address)
    }

    /// Binds all `addresses`, with port 0 to a free port, and listens. Returns the bound addresses.
    ///
    /// # Errors
    ///
    /// An address cannot be bound; then all are closed.
    pub fn open(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, ListenError> {
        let mut opened = Vec::new();
        for address in addresses {
            let (address, socket) = bind(address)?;
            let listening = rustix::net::listen(&socket, BACKLOG);
            listening.map_err(|cause| failure(address, "listen", cause.into()))?;
            opened.push((address, socket));
        }
        let places = opened.iter().map(|(address, _)| *address).collect();
        self.sockets().extend(opened);
        Ok(places)
    }

    /// Closes the sockets of `addresses` that no listener has acquired.
    pub fn forget(&self, addresses: &[SocketAddr]) {
        self.sockets()
            .retain(|address, _| !addresses.contains(address));
    }

    /// Starts to listen. Connections are queued until a listener accepts them.
    ///
    /// # Errors
    ///
    /// Another process listens on one of the addresses.
    pub fn listen(&self) -> Result<(), ListenError> {
        for (address, socket) in &*self.sockets() {
            let listening = rustix::net::listen(socket, BACKLOG);
            listening.map_err(|cause| failure(*address, "listen", cause.into()))?;
        }
        Ok(())
    }

    /// Returns the socket of an address, for a listener of its own.
    pub(crate) fn take(&self, address: SocketAddr) -> Option<OwnedFd> {
        self.sockets().remove(&address)
    }

    fn sockets(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, OwnedFd>> {
        self.0.lock().expect("no holder panics")
    }
}

fn bind(address: SocketAddr) -> Result<(SocketAddr, OwnedFd), ListenError> {
    let bound = bind_tcp(address).map_err(|cause| failure(address, "bind", cause))?;
    Ok((bound.1, bound.0))
}

fn failure(address: SocketAddr, step: &'static str, cause: std::io::Error) -> ListenError {
    ListenError {
        address: ListenAddress::Tcp(address),
        step,
        cause,
    }
}
