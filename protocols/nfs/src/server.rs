//! The NFS server on sockets. One thread per connection executes each call and queues its reply.
//! Changes that block other calls are passed to workers, so that one commit serves many calls.

mod session;
mod together;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use file_system::FileSystemId;
use kerberos::Acceptor;
pub use kerberos::{ConfigurationError, KeytabError};
use serving::{
    Budget, Connection, ConnectionLimits, Connections, Directive, EarlySockets, ListenAddress,
    ListenError, Listener, OpenSocket, OutboundLimits, Payload, Peer, Refusals, Reply, Reservation,
    TlsError, TlsFiles, TlsUse, Workers, bind_udp,
};

use crate::activity::{Activity, ExportUsage};
use crate::exports::{ExportError, Exports, Shared as SharedFiles, Source};
use crate::handles::HandleKey;
use crate::locks::sockets::{self, Calling, Task};
use crate::locks::{self, portmap};
use crate::programs::{CallListener, accepts};
use crate::rpc::{self, Accepted, BadAuthentication, BadRecord, Call};
use crate::secured::{Contexts, Seal};
use crate::sharenfs::{Security, Transport};
use crate::v3;
use crate::v4::{
    Caller, ClientRecord, NoRecord, NoReply, PersistentState, Presentation, Recovery, Service,
    Usage,
};
use crate::xdr::{Reader, Writer};

/// Initial buffer size, sufficient for most replies.
const ANSWER_BYTES: usize = 512;

/// The service name of the keytab entries (RFC 7530, 3.2.1).
const SERVICE: &str = "nfs";
/// TLS per RFC 9289, section 5. Each share defines whether a client needs a certificate.
const TLS: TlsUse = TlsUse {
    versions: &[&rustls::version::TLS13],
    name: b"sunrpc",
    needs_certificate: false,
};

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Limits of connections.
    pub connections: ConnectionLimits,
    /// Replies that one connection may queue.
    pub outbound: OutboundLimits,
    /// Bytes of calls queued for workers and of long replies, over all connections.
    pub payload_bytes_max: u64,
    /// Threads for blocking calls.
    pub workers_max: usize,
    /// Ports of the port mapper for NFS 3 clients.
    pub ports: LockPorts,
}

/// Ports of the port mapper for NFS 3 clients.
#[derive(Clone, Copy, Debug)]
pub struct LockPorts {
    /// Addresses with this NFS port also serve the port mapper and NFS 3 locks.
    pub nfs: Option<u16>,
    /// The port of this server's port mapper.
    pub own: u16,
    /// The port of the hosts' port mapper.
    pub theirs: u16,
}

impl Default for LockPorts {
    fn default() -> Self {
        Self {
            nfs: None,
            own: portmap::PORT,
            theirs: portmap::PORT,
        }
    }
}

/// An address without a port mapper for NFS 3 clients.
#[derive(Debug)]
pub struct NoPorts {
    /// The address.
    pub address: SocketAddr,
    /// The error of the system.
    pub cause: io::Error,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: ConnectionLimits::default(),
            outbound: OutboundLimits::default(),
            payload_bytes_max: 512 << 20,
            workers_max: 32,
            ports: LockPorts::default(),
        }
    }
}

/// The desired state of the server.
#[derive(Clone, Default)]
pub struct DesiredState {
    /// Where to listen.
    pub listeners: Vec<ListenAddress>,
    /// TLS that clients may use, if any. The files are read again at each update.
    pub tls: Option<TlsFiles>,
    /// The keytab of the service `nfs`, for Kerberos, if any. It is read for each client. An
    /// unusable keytab does not affect other clients: see [`NfsServer::keytab_problem`].
    pub keytab: Option<PathBuf>,
    /// The new key that signs filehandles, if it changes.
    pub handle_key: Option<HandleKey>,
    /// The file systems to share.
    pub shared: Vec<SharedFiles>,
    /// More file systems are to be shared that cannot be read yet.
    pub has_more_to_come: bool,
    /// File systems that are temporarily closed. Their clients are delayed and retain their opens
    /// and locks.
    pub closed: Vec<FileSystemId>,
    /// The names of all file systems of the pool, shared or not. Clients cannot create an object
    /// with such a name.
    pub names: BTreeSet<String>,
}

/// Why a desired state cannot be applied. No change was made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An address cannot be listened on.
    #[error("NFS server")]
    Listen(#[from] ListenError),
    /// TLS cannot be set up.
    #[error("TLS of the NFS server")]
    Tls(#[from] TlsError),
    /// The file systems conflict.
    #[error("shares of the NFS server")]
    Exports(#[from] ExportError),
    /// The server was drained or dropped.
    #[error("the NFS server has ended")]
    Ended,
}

/// Checks that a keytab is usable now.
///
/// # Errors
///
/// The file cannot be read, or has no key of the service `nfs`.
pub fn check_keytab(keytab: &Path) -> Result<(), KeytabError> {
    Acceptor::open(keytab, SERVICE).map(drop)
}

/// A current connection.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// Its number.
    pub id: u64,
    /// The client.
    pub peer: Peer,
    /// The name of the last file system that it used.
    pub export: Arc<str>,
    /// The listener that accepted it, as configured.
    pub listener: ListenAddress,
}

/// Why a connection was closed.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client closed the connection")]
    Closed,
    #[error("the server drops it")]
    Dropped,
    #[error("the client does not read replies")]
    Stalled,
    #[error("the client was idle for too long")]
    Idle,
    #[error("too many clients")]
    Full,
    #[error("no RPC call")]
    NotExecutable,
    #[error("the client sent more than TLS allows for")]
    PlainAfterTls,
    #[error("TLS")]
    Tls(#[from] rustls::Error),
    #[error("the Kerberos library cannot protect a reply")]
    NoSeal,
    #[error("the sequence number of a Kerberos call is below the window")]
    TooLate,
    #[error("the pool is lost")]
    Gone,
    #[error("nothing is shared with the client")]
    UnauthorizedClient,
    #[error(transparent)]
    BadRecord(#[from] BadRecord),
    #[error("the connection broke")]
    Io(#[from] io::Error),
}

struct Shared {
    service: Service,
    v3: v3::Memory,
    limits: ServerLimits,
    /// Budget of replies and of calls queued for workers.
    budget: Arc<Budget>,
    /// Budget of calls that are being received. It is separate, so that clients that do not read
    /// replies do not block senders.
    input: Arc<Budget>,
    workers: Workers,
    started: Instant,
    tls: Mutex<Option<Arc<rustls::ServerConfig>>>,
    contexts: Contexts,
    connections: Arc<Connections>,
    stopping: AtomicBool,
    /// A client has mounted an export with version 3.
    has_v3: AtomicBool,
    /// Connections of clients that have called.
    live: Mutex<HashMap<u64, Live>>,
    /// Limits log lines about clients that are refused repeatedly.
    refusals: Refusals<IpAddr>,
    /// Active listeners.
    listening: Mutex<BTreeSet<ListenAddress>>,
}

struct Live {
    connection: Arc<Connection>,
    listener: ListenAddress,
    export: Arc<str>,
}

/// An NFS server. Dropping it drops its connections.
pub struct NfsServer {
    shared: Arc<Shared>,
    listeners: Mutex<BTreeMap<ListenAddress, Listener>>,
    early: Arc<EarlySockets>,
    /// The port mapper listeners, by the NFS address.
    doors: Mutex<BTreeMap<SocketAddr, Result<PortListener, io::Error>>>,
    calls: Mutex<Option<Task>>,
    keytab: Mutex<Keytab>,
}

/// The configured keytab.
#[derive(Default)]
struct Keytab {
    path: Option<PathBuf>,
    /// Why it is unusable.
    problem: Option<KeytabError>,
}

/// A port mapper listener.
struct PortListener {
    stream: Listener,
    _datagrams: Task,
}

impl NfsServer {
    /// Creates a server without exports. It follows no earlier server, and it does not record
    /// holders of opens.
    pub fn new(presentation: Presentation, limits: ServerLimits) -> Self {
        Self::after(
            presentation,
            limits,
            PersistentState::default(),
            Arc::new(NoRecord),
        )
    }

    /// Creates a server without exports after an earlier server. Clients of that server may reclaim
    /// their state. Holders of opens are stored in `record`.
    pub fn after(
        presentation: Presentation,
        limits: ServerLimits,
        earlier: PersistentState,
        record: Arc<dyn ClientRecord>,
    ) -> Self {
        let shared = Shared {
            service: Service::new(presentation, earlier, record),
            v3: v3::Memory::default(),
            limits,
            budget: Budget::new(limits.payload_bytes_max),
            input: Budget::new(limits.payload_bytes_max),
            workers: Workers::new("nfs-worker", limits.workers_max),
            started: Instant::now(),
            tls: Mutex::default(),
            contexts: Contexts::default(),
            connections: Connections::new(limits.connections),
            stopping: AtomicBool::new(false),
            has_v3: AtomicBool::new(false),
            live: Mutex::default(),
            refusals: Refusals::default(),
            listening: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            listeners: Mutex::default(),
            early: Arc::default(),
            doors: Mutex::default(),
            calls: Mutex::default(),
            keytab: Mutex::default(),
        }
    }

    /// Adds sockets that may have accepted connections before they are configured.
    #[must_use]
    pub fn with_early(mut self, early: Arc<EarlySockets>) -> Self {
        self.early = early;
        self
    }

    /// Applies the desired state by changing the differences. Connections of a removed listener are
    /// closed. Either the whole state is applied, or an error is returned and no change is made,
    /// unless the system refuses a thread.
    pub fn apply(&self, desired: DesiredState) -> Result<(), ApplyError> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(ApplyError::Ended);
        }
        let exports = Exports::new(desired.shared)?
            .with_more_to_come(desired.has_more_to_come)
            .with_closed(desired.closed)
            .with_names(desired.names);
        let tls = desired.tls.map(|files| files.load(&TLS)).transpose()?;
        let mut listeners = self.listeners.lock().expect("no holder panics");
        let wanted: BTreeSet<ListenAddress> = desired.listeners.into_iter().collect();
        let mut opened = Vec::new();
        for address in &wanted {
            if !listeners.contains_key(address) {
                opened.push((address.clone(), OpenSocket::open(address, &self.early)?));
            }
        }
        *self.shared.tls.lock().expect("no holder panics") = tls;
        self.open_keytab(desired.keytab);
        if let Some(key) = desired.handle_key {
            self.shared.service.sign_by(key);
        }
        self.shared.service.share(exports);
        listeners.retain(|address, _| wanted.contains(address));
        self.shared.listen_only_at(wanted);
        for (address, socket) in opened {
            let listener = self.listen(address.clone(), socket)?;
            listeners.insert(address, listener);
        }
        self.open_port_listeners(&listeners);
        if !listeners.is_empty() {
            self.start_calls();
            self.shared.service.announce(self.shared.now_ms());
        }
        Ok(())
    }

    /// Opens this keytab for Kerberos. If the same path was usable before and is not now, the
    /// earlier keys stay in use.
    fn open_keytab(&self, path: Option<PathBuf>) {
        let mut keytab = self.keytab.lock().expect("no holder panics");
        let opened = path.as_deref().map(|path| Acceptor::open(path, SERVICE));
        let is_other = keytab.path != path;
        keytab.path = path;
        keytab.problem = match opened.transpose() {
            Ok(acceptor) => {
                self.shared.contexts.accept_by(acceptor);
                None
            }
            Err(error) => {
                if is_other {
                    self.shared.contexts.accept_by(None);
                }
                Some(error)
            }
        };
    }

    /// Returns why the keytab is unusable.
    pub fn keytab_problem(&self) -> Option<KeytabError> {
        let keytab = self.keytab.lock().expect("no holder panics");
        keytab.problem.clone()
    }

    /// Returns why every Kerberos user is mapped to `nobody`, if Kerberos is enabled.
    pub fn configuration_problem(&self) -> Option<ConfigurationError> {
        let uses = self.has_kerberos().then(kerberos::check_configuration);
        uses?.err()
    }

    /// Retries after a [`keytab_problem`](Self::keytab_problem).
    pub fn try_keytab_again(&self) {
        let keytab = self.keytab.lock().expect("no holder panics");
        let path = keytab.problem.as_ref().and(keytab.path.clone());
        drop(keytab);
        if path.is_some() {
            self.open_keytab(path);
        }
    }

    /// Opens a port mapper at each NFS address.
    fn open_port_listeners(&self, listeners: &BTreeMap<ListenAddress, Listener>) {
        let ports = self.shared.limits.ports;
        let addresses = listeners.iter().filter_map(|(wished, listener)| {
            let has_locks = wished
                .tcp()
                .is_some_and(|wished| ports.nfs == Some(wished.port()));
            listener.address().tcp().filter(|_| has_locks)
        });
        let addresses: BTreeSet<SocketAddr> = addresses.collect();
        let mut doors = self.doors.lock().expect("no holder panics");
        doors.retain(|address, door| addresses.contains(address) && door.is_ok());
        for address in addresses {
            doors
                .entry(address)
                .or_insert_with(|| self.open_port_listener(address));
        }
    }

    /// Retries the addresses of [`without_ports`](Self::without_ports).
    pub fn try_ports_again(&self) {
        if !self.without_ports().is_empty() {
            self.open_port_listeners(&self.listeners.lock().expect("no holder panics"));
        }
    }

    fn open_port_listener(&self, nfs: SocketAddr) -> io::Result<PortListener> {
        let here = nfs.ip().to_canonical();
        let own = self.shared.limits.ports.own;
        let place = ListenAddress::Tcp(SocketAddr::new(nfs.ip(), own));
        let failed = |error: ListenError| error.cause;
        let socket = OpenSocket::open(&place, &self.early).map_err(failed)?;
        let bound = socket.address().tcp().unwrap_or(nfs);
        let ports = portmap::Ports {
            here,
            nfs: nfs.port(),
            own: bound.port(),
        };
        let datagrams = bind_udp(bound)?;
        let shared = Arc::clone(&self.shared);
        let answer = move |from, bytes: &[u8]| shared.answer_datagram(from, bytes, ports);
        let datagrams = sockets::answer(datagrams, answer)?;
        let shared = Arc::clone(&self.shared);
        let door = CallListener::Ports(ports, portmap::Transport::Tcp);
        let serve = Arc::new(move |connection| session::serve(&shared, &connection, &place, door));
        let connections = Arc::clone(&self.shared.connections);
        let stream = Listener::start("nfs-ports", socket, connections, serve).map_err(failed)?;
        Ok(PortListener {
            stream,
            _datagrams: datagrams,
        })
    }

    /// Starts the thread that calls hosts.
    fn start_calls(&self) {
        let mut calls = self.calls.lock().expect("no holder panics");
        if calls.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        match sockets::call(shared, self.shared.limits.ports.theirs) {
            Ok(task) => *calls = Some(task),
            Err(error) => tracing::error!(%error, "start the thread that calls hosts of NFS 3"),
        }
    }

    /// Returns the addresses without NFS 3 locks, if NFS 3 clients exist.
    pub fn without_ports(&self) -> Vec<NoPorts> {
        if !self.shared.has_v3.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let doors = self.doors.lock().expect("no holder panics");
        let failed = doors.iter().filter_map(|(address, door)| {
            let cause = door.as_ref().err()?;
            Some(NoPorts {
                address: SocketAddr::new(address.ip(), self.shared.limits.ports.own),
                cause: cause.kind().into(),
            })
        });
        failed.collect()
    }

    /// Returns the addresses of the port mapper.
    pub fn port_listeners(&self) -> Vec<SocketAddr> {
        let doors = self.doors.lock().expect("no holder panics");
        let open = doors.values().flatten();
        open.filter_map(|door| door.stream.address().tcp())
            .collect()
    }

    fn listen(&self, wished: ListenAddress, socket: OpenSocket) -> Result<Listener, ListenError> {
        let shared = Arc::clone(&self.shared);
        let door = CallListener::Files;
        let serve = Arc::new(move |connection| session::serve(&shared, &connection, &wished, door));
        let connections = Arc::clone(&self.shared.connections);
        Listener::start("nfs", socket, connections, serve)
    }

    /// Returns the listening addresses with their actual ports.
    pub fn listeners(&self) -> Vec<ListenAddress> {
        let listeners = self.listeners.lock().expect("no holder panics");
        let addresses = listeners.values().map(|one| one.address().clone());
        addresses.collect()
    }

    /// Returns the peers of all connections, including those without a call.
    pub fn peers(&self) -> Vec<Peer> {
        self.shared.connections.peers()
    }

    /// Returns the connections with at least one call, in order of their start.
    pub fn clients(&self) -> Vec<ConnectionStatus> {
        let live = self.shared.live();
        let clients = live.values().map(|live| ConnectionStatus {
            id: live.connection.id,
            peer: live.connection.peer,
            export: Arc::clone(&live.export),
            listener: live.listener.clone(),
        });
        let mut clients: Vec<_> = clients.collect();
        clients.sort_by_key(|client| client.id);
        clients
    }

    /// Returns the remaining grace period.
    pub fn recovery(&self) -> Option<Recovery> {
        self.shared.service.recovery(self.shared.now_ms())
    }

    /// Whether clients may use TLS.
    pub fn has_tls(&self) -> bool {
        self.shared.tls.lock().expect("no holder panics").is_some()
    }

    /// Whether clients may use Kerberos.
    pub fn has_kerberos(&self) -> bool {
        self.shared.contexts.has_acceptor()
    }

    /// Returns the activity of clients by the name of the file system, counted since it was first
    /// shared. File systems beyond [`COUNTED_MAX`](crate::activity::COUNTED_MAX) share one entry
    /// with an empty name.
    pub fn activity(&self) -> Vec<(Arc<str>, Arc<Activity>)> {
        self.shared.service.activity()
    }

    /// Returns opens and locks of clients in a file system. May block on disks.
    pub fn usage(&self, file_system: FileSystemId) -> Usage {
        let now_ms = self.shared.now_ms();
        self.shared.service.usage(file_system, now_ms)
    }

    /// Removes the opens and locks of a client as if its lease had expired. Returns whether the
    /// client exists.
    pub fn expire(&self, client: u64) -> bool {
        self.shared.service.expire(client, self.shared.now_ms())
    }

    /// Silences connections of removed local addresses, so that their clients receive nothing more.
    /// Returns their number.
    pub fn silence_removed_addresses(&self) -> usize {
        self.shared.connections.silence_removed_addresses()
    }

    /// Completes the pending calls and stops the service. Returns whether all connections had
    /// closed at `deadline`; the remaining ones are dropped.
    pub fn drain(&self, deadline: Instant) -> bool {
        self.end(Directive::Drain);
        let calls = self.calls.lock().expect("no holder panics").take();
        if let Some(calls) = calls {
            calls.end(deadline);
        }
        let have_ended = self.shared.connections.wait_until_empty(deadline);
        self.shared.connections.direct_all(Directive::Drop);
        have_ended
    }

    /// Stops the service immediately and sends nothing to clients, because another head may own the
    /// pool.
    pub fn drop_all(&self) {
        self.end(Directive::Drop);
        drop(self.calls.lock().expect("no holder panics").take());
    }

    fn end(&self, directive: Directive) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.connections.direct_all(directive);
        self.listeners.lock().expect("no holder panics").clear();
        self.doors.lock().expect("no holder panics").clear();
    }

    /// Releases all file systems, after [`drain`](Self::drain) or [`drop_all`](Self::drop_all).
    pub fn forget_files(&self) {
        self.shared.service.share(Exports::none());
    }
}

impl Drop for NfsServer {
    fn drop(&mut self) {
        self.drop_all();
    }
}

impl Shared {
    fn live(&self) -> MutexGuard<'_, HashMap<u64, Live>> {
        self.live.lock().expect("no holder panics")
    }

    /// Closes connections of other listeners.
    fn listen_only_at(&self, wanted: BTreeSet<ListenAddress>) {
        let gone = |live: &&Live| !wanted.contains(&live.listener);
        let ending: Vec<_> = self
            .live()
            .values()
            .filter(gone)
            .map(|live| Arc::clone(&live.connection))
            .collect();
        *self.listening.lock().expect("no holder panics") = wanted;
        for connection in ending {
            connection.direct(Directive::Drain);
        }
    }

    /// Returns the reply to a call that arrived at this time, or why there is none.
    fn answer(
        &self,
        arrived: Instant,
        call: &Call,
        arguments: &[u8],
        caller: &Caller<'_>,
        door: CallListener,
        seal: Option<&Seal>,
    ) -> Result<Replied, End> {
        let checksum = seal.map(|seal| seal.checksum().ok_or(End::NoSeal));
        let checksum = checksum.transpose()?;
        let accept = |out: &mut Writer, how| {
            rpc::write_accepted(out, call.transaction, checksum.as_deref(), how);
        };
        // Encrypted or signed data must be contiguous.
        let is_plain = caller.from.transport == Transport::Plain
            && matches!(caller.from.security, Security::System | Security::Kerberos);
        let mut out =
            Writer::with_capacity(ANSWER_BYTES).lending(is_plain && door == CallListener::Files);
        let mut export = None;
        match accepts(call, door) {
            Accepted::Success => {
                accept(&mut out, Accepted::Success);
                let start = out.len();
                match self.execute(call, arguments, caller, door, &mut out) {
                    Ok(used) => {
                        if let Some(activity) = &used.activity {
                            activity.add(used.moved, arrived.elapsed());
                        }
                        export = used.export;
                        if !seal.is_none_or(|seal| seal.close(&mut out, start)) {
                            return Err(End::NoSeal);
                        }
                    }
                    Err(why) => reject(&mut out, call.transaction, checksum.as_deref(), why)?,
                }
            }
            refused => accept(&mut out, refused),
        }
        Ok(Replied { out, export })
    }

    /// Appends the results of an accepted call.
    fn execute(
        &self,
        call: &Call,
        arguments: &[u8],
        caller: &Caller<'_>,
        door: CallListener,
        out: &mut Writer,
    ) -> Result<ExportUsage, NoReply> {
        let (number, service) = (call.procedure, &self.service);
        if let (portmap::PROGRAM, CallListener::Ports(ports, _)) = (call.program, door) {
            portmap::execute(&ports, call.version, number, arguments, out)?;
            return Ok(ExportUsage::default());
        }
        match (call.program, call.version) {
            (v3::MOUNT_PROGRAM, _) => {
                self.has_v3.store(true, Ordering::Relaxed);
                v3::mount(service, number, arguments, caller, out)
            }
            (locks::PROGRAM, _) => locks::execute(service, number, arguments, caller, out),
            (locks::STATUS_PROGRAM, _) => locks::monitor(service, number, arguments, caller),
            (_, v3::VERSION) => v3::execute(service, &self.v3, number, arguments, caller, out),
            _ if number == rpc::NULL => Ok(ExportUsage::default()),
            _ => service.compound(arguments, caller, out),
        }
    }

    /// Returns the reply to a datagram, if it is a call by a client that may use an export. The
    /// source address is not proven.
    fn answer_datagram(
        &self,
        from: SocketAddr,
        record: &[u8],
        ports: portmap::Ports,
    ) -> Option<Vec<u8>> {
        let door = CallListener::Ports(ports, portmap::Transport::Udp);
        let from = Source {
            address: from.ip().to_canonical(),
            port: from.port(),
            transport: Transport::Plain,
            security: Security::System,
        };
        let from = from.behind(door);
        if self.stopping.load(Ordering::Acquire) || !self.service.exports().admits(&from) {
            return None;
        }
        let mut reader = Reader::new(record);
        let call = rpc::read_call(&mut reader).ok()?;
        let caller = Caller {
            credential: &call.credential,
            transaction: call.transaction,
            connection: 0,
            from,
            here: ports.here,
            now_ms: self.now_ms(),
        };
        let answered = self.answer(Instant::now(), &call, reader.rest(), &caller, door, None);
        Some(answered.ok()?.out.into_bytes())
    }

    fn now_ms(&self) -> u64 {
        let elapsed = self.started.elapsed().as_millis();
        elapsed.try_into().unwrap_or(u64::MAX)
    }
}

/// Replaces the reply by the rejection of a call that was not performed.
fn reject(
    out: &mut Writer,
    transaction: u32,
    checksum: Option<&[u8]>,
    why: NoReply,
) -> Result<(), End> {
    match why {
        NoReply::Malformed => {
            out.truncate(0);
            rpc::write_accepted(out, transaction, checksum, Accepted::GarbageArguments);
        }
        NoReply::TooWeak => {
            *out = rpc::bad_authentication(transaction, BadAuthentication::TooWeak).into();
        }
        NoReply::Gone => return Err(End::Gone),
    }
    Ok(())
}

impl Calling for Shared {
    fn service(&self) -> &Service {
        &self.service
    }

    fn now_ms(&self) -> u64 {
        self.now_ms()
    }
}

impl Source {
    /// The same source for a door that requires no privileged port.
    fn behind(self, door: CallListener) -> Self {
        match door {
            CallListener::Files | CallListener::Unprivileged => self,
            CallListener::Ports(..) => Self { port: 0, ..self },
        }
    }
}

/// A reply without its record mark. Borrowed buffers are sent immediately, because changes of the
/// file block on them.
struct Replied {
    out: Writer,
    export: Option<Arc<str>>,
}

impl Replied {
    fn into_answer(self, reservation: Option<Reservation>) -> Reply {
        let mark = rpc::record_mark(self.out.len());
        let payload = match self.out.into_pieces() {
            Ok(pieces) => Payload::Loan(Box::new(pieces)),
            Err(bytes) => Payload::Bytes(bytes),
        };
        Reply {
            reservation,
            ..Reply::with_payload(&mark, payload)
        }
    }
}
