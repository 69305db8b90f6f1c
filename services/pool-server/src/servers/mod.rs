//! The protocols by which clients reach volumes.
//!
//! The server holds a list of [`Protocol`]s. It reads the pool's documents, has every protocol serve them, and lists,
//! counts, drains and disconnects the clients of all. `docs/protocols.md` describes how to add a protocol.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ::protocol_list::Description;
use block_device::SharedDevice;
use control::answer::{
    ExportView, FileSystemActivity, OpenFilesView, ProtocolView, RecoveryView, SessionView, Status,
};
use control::exports::{DesiredState, Problem};
use control::portal::PortalView;
use control::{Answer, Failure, FailureKind};
use file_system::FileSystem;
use serving::{ListenAddress, Peer, TlsFiles};
use units::{PoolName, VolumeName};

use super::portals::Addresses;
use super::serving::Setup;
use super::shared_pool::SharedPool;
use super::volumes::Volumes;
use operations::DocumentCache;
use operations::documents::All;
use operations::seals::Ring;

macro_rules! serve {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        /// Every protocol, in the order in which they are applied and shown. None serves an export yet.
        pub fn all(start: &Start<'_>) -> Vec<Box<dyn Protocol>> {
            vec![$(Box::new($name::Server::new(start))),*]
        }

        /// Checks the settings of all protocols, such as TLS files, before the pool is touched.
        pub fn check(setup: &Setup) -> Result<(), Failure> {
            $($name::Server::check_settings(setup)?;)*
            Ok(())
        }
    };
}
::protocol_list::registered!(serve);

/// Whether a protocol could do TLS with the files as they are now.
fn check_tls(protocol: &Description, files: Option<&TlsFiles>) -> Result<(), Failure> {
    let (Some(options), Some(files)) = (&protocol.tls, files) else {
        return Ok(());
    };
    files.check().map_err(|error| {
        Failure::from_chain(FailureKind::Usage, &error).advise(format!(
            "give PEM files that fit together: --{}, --{} and, for the authority of the clients, --{}",
            options.certificate, options.key, options.authority
        ))
    })
}

/// The arguments of a protocol's constructor.
pub struct Start<'a> {
    /// Where and how to serve.
    pub setup: &'a Setup,
    /// The pool.
    pub pool: &'a Arc<SharedPool>,
    /// Its documents.
    pub documents: &'a Arc<DocumentCache>,
}

/// The desired exports.
pub struct Wanted<'a> {
    /// The pool's documents, which may contain properties of the protocol.
    pub documents: &'a All,
    /// The state that the documents define.
    pub desired: &'a DesiredState,
    /// Volumes with missing keys, each with the dataset that has the key. They cannot be read.
    pub locked: &'a BTreeMap<VolumeName, String>,
    /// Volumes that only a rescue may use.
    pub rescued: &'a BTreeSet<VolumeName>,
    /// Datasets that must not be opened now, with all below them.
    pub closed: &'a [VolumeName],
    /// Opens the secrets in the documents.
    pub ring: &'a Ring,
    /// The devices of the volumes, opened by their first command.
    pub volumes: &'a Volumes,
    /// Listening addresses.
    pub addresses: &'a Addresses,
}

/// The current exports.
pub struct Served<'a> {
    /// The pool.
    pub pool: &'a PoolName,
    /// The state that the documents define.
    pub desired: &'a DesiredState,
    /// The result of [`Protocol::exports`].
    pub exports: &'a [Export],
}

/// An export that clients can connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name in the protocol: a target, an export.
    pub name: String,
    /// The volumes that it shows.
    pub volumes: BTreeSet<VolumeName>,
    /// The file system that it shows.
    pub file_system: Option<VolumeName>,
}

/// A connected client. It may have several connections.
#[derive(Clone, Debug)]
pub struct Client {
    /// [`Export::name`].
    pub export: String,
    /// The client's own name; the export's name if the protocol has none.
    pub name: String,
    /// A title for messages: `initiator NAME from`, `NBD client`.
    pub title: String,
    /// Its connections.
    pub peers: Vec<Peer>,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        for peer in &self.peers {
            write!(f, " {peer}")?;
        }
        write!(f, " at {}", self.export)
    }
}

/// The sessions by the name of the export.
fn sessions(clients: Vec<Client>) -> BTreeMap<String, Vec<SessionView>> {
    let mut sessions: BTreeMap<_, Vec<SessionView>> = BTreeMap::new();
    for client in clients {
        let peers = client.peers.iter().map(ToString::to_string);
        let view = SessionView {
            name: client.name,
            peers: peers.collect(),
        };
        sessions.entry(client.export).or_default().push(view);
    }
    sessions
}

/// The portals of a protocol without groups, each with its number of clients in `came_by`.
fn portal_views(
    pool: &PoolName,
    protocol: &str,
    addresses: &Addresses,
    came_by: impl Fn(&ListenAddress) -> u64,
) -> Vec<PortalView> {
    let listeners = addresses.listeners(protocol);
    let views = listeners.iter().map(|listener| PortalView {
        pool: pool.clone(),
        protocol: protocol.to_owned(),
        address: listener.to_string(),
        group: None,
        is_here: listener
            .tcp()
            .is_none_or(|address| serving::is_here(address.ip())),
        clients: came_by(listener),
    });
    views.collect()
}

/// How clients were notified of a volume's new contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentsNotified {
    /// Sessions that were notified.
    pub sessions: u64,
    /// Connections that were closed, because the protocol has no such notification.
    pub closed: u64,
}

impl std::ops::AddAssign for ContentsNotified {
    fn add_assign(&mut self, more: Self) {
        self.sessions += more.sessions;
        self.closed += more.closed;
    }
}

/// A protocol server, as the pool's server uses it. Calls of [`Self::apply`] are serialized; the other methods may run
/// concurrently.
pub trait Protocol: Send + Sync {
    /// Creates a server without exports.
    fn new(start: &Start<'_>) -> Self
    where
        Self: Sized;

    /// The static description: its name, where it may listen.
    fn description(&self) -> &'static Description;

    /// Checks the settings, such as TLS files, without a change.
    fn check_settings(setup: &Setup) -> Result<(), Failure>
    where
        Self: Sized,
    {
        let _ = setup;
        Ok(())
    }

    /// Checks the current settings.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// [`Description::name`].
    fn name(&self) -> &'static str {
        self.description().name
    }

    /// The exports for `wanted`. Their volumes stay open.
    fn exports(&self, wanted: &Wanted<'_>) -> Vec<Export>;

    /// Applies the difference to the current exports; unaffected clients notice nothing. Applies as much as possible,
    /// also on an error.
    fn apply(&self, wanted: &Wanted<'_>) -> Result<(), Failure>;

    /// Problems of single exports from the last [`Self::apply`].
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// Whether [`Self::apply`] should be retried after some seconds, because a failed step may succeed or
    /// [`Self::problems`] has changed.
    fn wants_retry(&self) -> bool {
        false
    }

    /// Retries failed steps that do not depend on the desired state.
    fn try_again(&self) {}

    /// The protocol as one that shares file systems, if it does.
    fn as_files(&self) -> Option<&dyn FileProtocol> {
        None
    }

    /// Renames a dataset and all below it.
    fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        let _ = (from, to);
    }

    /// Notifies clients that a volume has new contents, and a new size if it `was_resized`. Commands on `device` are
    /// paused.
    fn contents_changed(
        &self,
        volume: &VolumeName,
        device: &SharedDevice,
        was_resized: bool,
    ) -> ContentsNotified;

    /// Its addresses as text. Some may open only with the first export.
    fn addresses(&self) -> Vec<String> {
        self.listeners()
    }

    /// Adds the exports and clients to `status`. A protocol with a view of its own overrides this.
    fn show(&self, served: &Served<'_>, status: &mut Status) {
        let listeners = self.listeners();
        if served.exports.is_empty() && listeners.is_empty() {
            return;
        }
        let mut sessions = sessions(self.clients());
        let exports = served.exports.iter().map(|export| ExportView {
            name: export.name.clone(),
            volumes: export.volumes.iter().cloned().collect(),
            sessions: sessions.remove(&export.name).unwrap_or_default(),
        });
        status.other_protocols.push(ProtocolView {
            name: self.name().to_owned(),
            listeners,
            exports: exports.collect(),
            secured_by: self.secured_by(),
            recovery: self.as_files().and_then(FileProtocol::recovery),
        });
    }

    /// The available security methods of connections.
    fn secured_by(&self) -> Vec<String> {
        Vec::new()
    }

    /// Adds the connected clients to a response that lists exports.
    fn add_sessions(&self, answer: &mut Answer) {
        let _ = answer;
    }

    /// The connected clients.
    fn clients(&self) -> Vec<Client>;

    /// Clients with the connections that did not arrive at `addresses`.
    fn clients_beyond(&self, addresses: &Addresses) -> Vec<Client>;

    /// Connections accepted at each of its `addresses`.
    fn portals(&self, pool: &PoolName, addresses: &Addresses) -> Vec<PortalView>;

    /// The listening addresses as text.
    fn listeners(&self) -> Vec<String>;

    /// The listening TCP addresses.
    fn tcp_listeners(&self) -> Vec<SocketAddr>;

    /// The peers of all connections, including those before login.
    fn peers(&self) -> Vec<Peer>;

    /// Announces to clients that the server is about to stop and that they may reconnect at once, if the protocol has
    /// such a message.
    fn announce_end(&self) {}

    /// Closes connections after their local address was removed from this host, without a FIN or RST. Returns their
    /// number.
    fn silence_removed_addresses(&self) -> usize;

    /// Drops all connections without further replies.
    fn drop_all(&self);

    /// Lets clients finish until `deadline`, then drops the remaining connections.
    fn drain(&self, deadline: Instant);
}

/// The part of a [`Protocol`] that only protocols for file systems have.
pub trait FileProtocol {
    /// Changes refused for lack of space since each file system was opened, by name. `None` while that cannot be read
    /// without blocking.
    fn refused_for_space(&self) -> Option<Vec<(VolumeName, u64)>>;

    /// The activity of clients in each shared file system.
    fn activity(&self) -> Vec<FileSystemActivity>;

    /// The open files and locks of clients in a file system. `None` if this protocol does not share it. May block on
    /// disks.
    fn open_files(&self, name: &VolumeName) -> Option<OpenFilesView>;

    /// The files of a file system that it has open.
    fn files(&self, name: &VolumeName) -> Option<Arc<dyn FileSystem>>;

    /// Revokes the open files and locks of a client. Returns whether the client exists.
    fn expire_client(&self, client: u64) -> bool;

    /// Closes the file systems at and below `dataset`, before they are destroyed or changed. [`Protocol::apply`] reopens
    /// them when they are no longer [`Wanted::closed`].
    fn close(&self, dataset: &VolumeName);

    /// Closes the file systems at and below `dataset`, which may be the pool's root. [`Protocol::apply`] reopens them.
    fn close_for_reopen(&self, dataset: &str);

    /// Closes all file systems, after [`Protocol::drain`] and before the pool is closed. May block.
    fn close_all(&self);

    /// The rest of the grace period in which clients reclaim their state from the previous server.
    fn recovery(&self) -> Option<RecoveryView>;
}
