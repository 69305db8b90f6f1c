//! The server: listeners, exports and sessions, which can be changed at run time.

mod access;
mod execute;
mod exports;
mod session;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::SharedDevice;
use rustls::ServerConfig;
use serving::{
    Budget, Connection, ConnectionLimits, Connections, CountersSnapshot, Directive, EarlySockets,
    ListenAddress, ListenError, Listener, OpenSocket, OutboundLimits, Peer, TlsError, TlsFiles,
    TlsUse, Workers,
};

pub use access::Access;
use access::{Client, Verdict};
pub use exports::DesiredExport;
use exports::{Catalog, Export};

use crate::protocol::TlsPolicy;
use crate::protocol::wire::STRING_BYTES_MAX;

/// If client roots are configured, each encrypted client must present a certificate.
const TLS: TlsUse = TlsUse {
    versions: rustls::DEFAULT_VERSIONS,
    name: b"",
    needs_certificate: true,
};

/// Whether clients must use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Optional, but required for exports with identities.
    Offered,
    /// Required: other options are refused before it.
    Required,
}

/// TLS configuration. The files are read again at each [`apply`](NbdServer::apply), so that renewed
/// certificates become effective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whether clients must use TLS.
    pub mode: TlsMode,
    /// The certificate files.
    pub files: TlsFiles,
}

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Limits of connections.
    pub connections: ConnectionLimits,
    /// Replies that one connection may queue.
    pub outbound: OutboundLimits,
    /// Bytes of payload in memory over all connections.
    pub payload_bytes_max: u64,
    /// Threads for blocking operations.
    pub workers_max: usize,
    /// Time-out of each message of a handshake.
    pub handshake_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: ConnectionLimits::default(),
            outbound: OutboundLimits::default(),
            payload_bytes_max: 512 << 20,
            workers_max: 32,
            handshake_timeout: Duration::from_secs(30),
        }
    }
}

/// The desired state of the server.
#[derive(Clone, Default)]
pub struct DesiredState {
    /// Where to listen.
    pub listeners: Vec<ListenAddress>,
    /// TLS, if any.
    pub tls: Option<TlsSettings>,
    /// The exports.
    pub exports: Vec<DesiredExport>,
}

/// The changes of [`NbdServer::apply`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// New listening addresses.
    pub listening: Vec<ListenAddress>,
    /// Closed listening addresses.
    pub closed: Vec<ListenAddress>,
    /// Exports that are new or have another device.
    pub added: Vec<String>,
    /// Exports with a changed description or changed rules.
    pub changed: Vec<String>,
    /// Removed exports.
    pub removed: Vec<String>,
    /// Sessions that were ended by the changes.
    pub sessions_ended: usize,
}

/// Why a desired state cannot be applied. No change was made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An address cannot be listened on.
    #[error("NBD server")]
    Listen(#[from] ListenError),
    /// TLS cannot be set up.
    #[error("TLS of the NBD server")]
    Tls(#[from] TlsError),
    /// Two exports have the same name.
    #[error("two NBD exports are named {name:?}: give each its own name")]
    DuplicateExport {
        /// The name.
        name: String,
    },
    /// The protocol cannot encode the name.
    #[error("{name:?} cannot name an NBD export: use at most 4096 bytes and no NUL")]
    BadName {
        /// The name.
        name: String,
    },
    /// The server was drained or dropped.
    #[error("the NBD server has ended")]
    Ended,
}

/// The message to clients when a server is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// The exports are removed: late requests are refused with `NBD_ESHUTDOWN`.
    Shutdown,
    /// The exports move to another head: connections are closed without an error, and clients retry
    /// late requests after they have reconnected.
    HandOver,
}

/// The outcome for the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Sessions with pending requests at the deadline, which were dropped.
    pub dropped: usize,
}

/// The current state of the server.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Listening addresses with their actual ports.
    pub listeners: Vec<ListenAddress>,
    /// The exports, by name.
    pub exports: Vec<ExportStatus>,
    /// The sessions, in order of their start.
    pub connections: Vec<ConnectionStatus>,
    /// Live connections, including those without a session.
    pub connections_alive: usize,
    /// Connections refused by a limit.
    pub connections_refused: u64,
    /// Bytes of payload in memory.
    pub payload_bytes: u64,
}

/// The current state of an export.
#[derive(Clone, Debug)]
pub struct ExportStatus {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Counters of its requests.
    pub counters: CountersSnapshot,
}

/// A current session.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// Its number.
    pub id: u64,
    /// The client.
    pub peer: Peer,
    /// Whether it uses TLS.
    pub encrypted: bool,
    /// The export it uses.
    pub export: String,
    /// The listener that accepted it, as configured.
    pub listener: ListenAddress,
}

/// State that the threads of a server share.
pub(crate) struct Shared {
    limits: ServerLimits,
    budget: Arc<Budget>,
    workers: Workers,
    connections: Arc<Connections>,
    stopping: AtomicBool,
    handing_over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    catalog: Arc<Catalog>,
    tls: Option<(TlsPolicy, Arc<ServerConfig>)>,
    /// Active listeners.
    listening: BTreeSet<ListenAddress>,
    sessions: HashMap<u64, Live>,
}

/// A session in its transmission phase.
struct Live {
    connection: Arc<Connection>,
    client: Client,
    export: Arc<Export>,
    /// The listener that accepted it.
    listener: ListenAddress,
}

/// An NBD server. Dropping it drops its sessions.
pub struct NbdServer {
    shared: Arc<Shared>,
    listeners: Mutex<BTreeMap<ListenAddress, Listener>>,
    early: Arc<EarlySockets>,
    /// TLS that replaces the configured files.
    own_tls: Option<(TlsPolicy, Arc<ServerConfig>)>,
}

impl NbdServer {
    /// Creates a server without exports.
    pub fn new(limits: ServerLimits) -> Self {
        let shared = Shared {
            limits,
            budget: Budget::new(limits.payload_bytes_max),
            workers: Workers::new("nbd-worker", limits.workers_max),
            connections: Connections::new(limits.connections),
            stopping: AtomicBool::new(false),
            handing_over: AtomicBool::new(false),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            listeners: Mutex::default(),
            early: Arc::default(),
            own_tls: None,
        }
    }

    /// Sets a TLS configuration that clients must use. A desired state with files replaces it.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.own_tls = Some((TlsPolicy::Required, config));
        self
    }

    /// Adds sockets that may have accepted connections before they are configured.
    #[must_use]
    pub fn with_early(mut self, early: Arc<EarlySockets>) -> Self {
        self.early = early;
        self
    }

    /// Applies the desired state by changing the differences. Unaffected sessions continue; those
    /// of a removed listener are closed. Either the whole state is applied, or an error is returned
    /// and no change is made, unless the system refuses a thread.
    pub fn apply(&self, desired: DesiredState) -> Result<Applied, ApplyError> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(ApplyError::Ended);
        }
        check_names(&desired.exports)?;
        let tls = match &desired.tls {
            Some(tls) => {
                let policy = match tls.mode {
                    TlsMode::Offered => TlsPolicy::Offered,
                    TlsMode::Required => TlsPolicy::Required,
                };
                Some((policy, tls.files.load(&TLS)?))
            }
            None => self.own_tls.clone(),
        };
        let mut listeners = self.listeners.lock().expect("no holder panics");
        let wanted: BTreeSet<ListenAddress> = desired.listeners.into_iter().collect();
        let mut opened = Vec::new();
        for address in wanted
            .iter()
            .filter(|&address| !listeners.contains_key(address))
        {
            opened.push((address.clone(), OpenSocket::open(address, &self.early)?));
        }
        // Before queued connections are accepted.
        let mut applied = self.shared.replace(desired.exports, tls, wanted.clone());
        let closed: Vec<_> = listeners
            .keys()
            .filter(|&address| !wanted.contains(address))
            .cloned()
            .collect();
        for address in closed {
            listeners.remove(&address);
            applied.closed.push(address);
        }
        for (address, socket) in opened {
            let listener = self.listen(address.clone(), socket)?;
            applied.listening.push(listener.address().clone());
            listeners.insert(address, listener);
        }
        Ok(applied)
    }

    fn listen(&self, wished: ListenAddress, socket: OpenSocket) -> Result<Listener, ListenError> {
        let shared = Arc::clone(&self.shared);
        let serve = Arc::new(move |connection| session::serve(&shared, connection, &wished));
        Listener::start("nbd", socket, Arc::clone(&self.shared.connections), serve)
    }

    /// Stops the service: stops accepting, completes pending requests of all sessions, closes them,
    /// and drops those that are left at `deadline`. The server cannot be used again.
    pub fn drain(&self, deadline: Instant, farewell: Farewell) -> Drained {
        let handing_over = farewell == Farewell::HandOver;
        self.shared
            .handing_over
            .store(handing_over, Ordering::Release);
        self.end(Directive::Drain);
        if self.shared.connections.wait_until_empty(deadline) {
            return Drained { dropped: 0 };
        }
        let dropped = self.shared.connections.count();
        self.shared.connections.direct_all(Directive::Drop);
        Drained { dropped }
    }

    /// Silences connections of removed local addresses, so that their clients receive nothing more.
    /// Returns their number.
    pub fn silence_removed_addresses(&self) -> usize {
        self.shared.connections.silence_removed_addresses()
    }

    /// Stops the service immediately and sends nothing to clients, because another head may own the
    /// volume. Returns when the sockets are shut down. Threads that are blocked on a device may
    /// remain, but can reach no client.
    pub fn drop_all(&self) {
        self.end(Directive::Drop);
    }

    fn end(&self, directive: Directive) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.connections.direct_all(directive);
        self.listeners.lock().expect("no holder panics").clear();
    }

    /// Drops the sessions on exports of `device` immediately. Returns their number. Clients
    /// reconnect and read the new size, because the protocol has no message for a change of the
    /// size.
    pub fn drop_sessions_of(&self, device: &SharedDevice) -> usize {
        let concerned = self.shared.connections_on(device);
        for connection in &concerned {
            connection.direct(Directive::Drop);
        }
        concerned.len()
    }

    /// Returns the listening addresses with their actual ports.
    pub fn listeners(&self) -> Vec<ListenAddress> {
        let listeners = self.listeners.lock().expect("no holder panics");
        listeners
            .values()
            .map(|listener| listener.address().clone())
            .collect()
    }

    /// Returns the peers of all connections, including those without a session.
    pub fn peers(&self) -> Vec<Peer> {
        self.shared.connections.peers()
    }

    /// Returns the sessions in order of their start.
    pub fn sessions(&self) -> Vec<ConnectionStatus> {
        let state = self.shared.lock();
        let mut connections: Vec<_> = state
            .sessions
            .values()
            .map(|live| ConnectionStatus {
                id: live.connection.id,
                peer: live.connection.peer,
                encrypted: live.client.encrypted,
                export: live.export.name.clone(),
                listener: live.listener.clone(),
            })
            .collect();
        connections.sort_by_key(|connection| connection.id);
        connections
    }

    /// Returns the state of the server.
    pub fn status(&self) -> ServerStatus {
        let (listeners, connections) = (self.listeners(), self.sessions());
        // Reading the size of a device may block: not under the lock.
        let catalog = self.shared.catalog();
        let exports = catalog.values().map(|export| ExportStatus {
            name: export.name.clone(),
            size: export.device.geometry().size,
            read_only: export.is_read_only(),
            counters: export.counters.snapshot(),
        });
        ServerStatus {
            listeners,
            exports: exports.collect(),
            connections,
            connections_alive: self.shared.connections.count(),
            connections_refused: self.shared.connections.refused(),
            payload_bytes: self.shared.budget.bytes_used(),
        }
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.drop_all();
    }
}

fn check_names(exports: &[DesiredExport]) -> Result<(), ApplyError> {
    let mut names = BTreeSet::new();
    for DesiredExport { name, .. } in exports {
        if name.len() > STRING_BYTES_MAX || name.contains('\0') {
            return Err(ApplyError::BadName { name: name.clone() });
        }
        if !names.insert(name) {
            return Err(ApplyError::DuplicateExport { name: name.clone() });
        }
    }
    Ok(())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.lock().catalog)
    }

    fn tls(&self) -> Option<(TlsPolicy, Arc<ServerConfig>)> {
        self.lock().tls.clone()
    }

    /// Replaces exports and TLS, and closes the sessions that cannot continue.
    fn replace(
        &self,
        desired: Vec<DesiredExport>,
        tls: Option<(TlsPolicy, Arc<ServerConfig>)>,
        listening: BTreeSet<ListenAddress>,
    ) -> Applied {
        let mut applied = Applied::default();
        let mut state = self.lock();
        let before = Arc::clone(&state.catalog);
        let mut catalog = Catalog::new();
        for desired in desired {
            let name = desired.name.clone();
            let old = before.get(&name);
            let new = Export::new(desired, old.map(|export| &**export));
            let export = match old {
                Some(old) if old.equals(&new) => Arc::clone(old),
                Some(old) if old.can_become(&new) => {
                    applied.changed.push(name.clone());
                    Arc::new(new)
                }
                _ => {
                    applied.added.push(name.clone());
                    Arc::new(new)
                }
            };
            catalog.insert(name, export);
        }
        let gone = before.keys().filter(|&name| !catalog.contains_key(name));
        applied.removed = gone.cloned().collect();
        let ending: Vec<_> = state
            .sessions
            .values()
            .filter(|live| live.connection.directive() == Directive::Serve)
            .filter(|live| !live.may_continue(&catalog, &listening))
            .map(|live| Arc::clone(&live.connection))
            .collect();
        applied.sessions_ended = ending.len();
        state.catalog = Arc::new(catalog);
        state.tls = tls;
        state.listening = listening;
        drop(state);
        for connection in ending {
            connection.direct(Directive::Drain);
        }
        applied
    }

    /// Registers a session; `None` if its export or its listener has been removed.
    fn enter(
        &self,
        connection: &Arc<Connection>,
        client: Client,
        name: &str,
        listener: &ListenAddress,
    ) -> Option<Arc<Export>> {
        let mut state = self.lock();
        let export = Arc::clone(state.catalog.get(name)?);
        let live = Live {
            connection: Arc::clone(connection),
            client,
            export: Arc::clone(&export),
            listener: listener.clone(),
        };
        if !live.may_continue(&state.catalog, &state.listening) {
            return None;
        }
        state.sessions.insert(connection.id, live);
        Some(export)
    }

    /// Returns the connections of the sessions on `device`.
    fn connections_on(&self, device: &SharedDevice) -> Vec<Arc<Connection>> {
        let state = self.lock();
        let sessions = state.sessions.values();
        let concerned = sessions.filter(|live| Arc::ptr_eq(&live.export.device, device));
        concerned.map(|live| Arc::clone(&live.connection)).collect()
    }

    fn remove_connection(&self, id: u64) {
        self.lock().sessions.remove(&id);
    }
}

impl Live {
    fn may_continue(&self, catalog: &Catalog, listening: &BTreeSet<ListenAddress>) -> bool {
        let may_stay = catalog.get(&self.export.name).is_some_and(|export| {
            self.export.can_become(export) && export.access.judge(&self.client) == Verdict::Admitted
        });
        may_stay && listening.contains(&self.listener)
    }
}
