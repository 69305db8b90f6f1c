//! Sockets that exist before there is anything to serve.
//!
//! A client that comes while a pool is still being opened would be refused, or hear nothing, and try again
//! some time later. A socket that listens already has the kernel complete its connection, and keep what the client
//! says first; it is answered as soon as there is a [`Listener`](crate::Listener) that accepts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use crate::listener::{BACKLOG, bind_tcp};
use crate::{ListenAddress, ListenError};

/// Bound sockets that no listener has taken yet.
#[derive(Debug, Default)]
pub struct EarlySockets(Mutex<BTreeMap<SocketAddr, OwnedFd>>);

impl EarlySockets {
    /// Binds all `addresses`, whether this machine has them or not. They refuse connections as if nobody was there.
    ///
    /// # Errors
    ///
    /// One cannot be had.
    pub fn bind(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self, ListenError> {
        let mut sockets = BTreeMap::new();
        for address in addresses {
            // Which port it is, only the listener's owner could tell.
            if address.port() == 0 || sockets.contains_key(&address) {
                continue;
            }
            let (address, socket) = bind(address)?;
            sockets.insert(address, socket);
        }
        Ok(Self(Mutex::new(sockets)))
    }

    /// Binds `address`, with port 0 at a free one; where it is.
    ///
    /// # Errors
    ///
    /// It cannot be had.
    pub fn reserve(&self, address: SocketAddr) -> Result<SocketAddr, ListenError> {
        let (address, socket) = bind(address)?;
        self.sockets().insert(address, socket);
        Ok(address)
    }

    /// Binds all `addresses`, with port 0 at a free one, and takes connections there from now on; where it is.
    ///
    /// # Errors
    ///
    /// One cannot be had; then none is kept.
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

    /// Lets go of the sockets of `addresses` that no listener has taken.
    pub fn forget(&self, addresses: &[SocketAddr]) {
        self.sockets()
            .retain(|address, _| !addresses.contains(address));
    }

    /// Takes connections from now on. Nobody answers them before a listener does.
    ///
    /// # Errors
    ///
    /// Another program listens at one of the addresses.
    pub fn listen(&self) -> Result<(), ListenError> {
        for (address, socket) in &*self.sockets() {
            let listening = rustix::net::listen(socket, BACKLOG);
            listening.map_err(|cause| failure(*address, "listen", cause.into()))?;
        }
        Ok(())
    }

    /// The socket of that address, for a listener of its own.
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
