//! The server on sockets: one thread for each connection, which executes a call and queues its answer. Changes that others
//! wait behind go to workers, so that one commit serves many.

mod session;

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
    Answer, Budget, Connection, ConnectionLimits, Connections, Directive, EarlySockets,
    ListenAddress, ListenError, Listener, OpenSocket, OutboundLimits, Payload, Peer, Refusals,
    Reservation, TlsError, TlsFiles, TlsUse, Workers, bind_udp,
};

use crate::activity::{Activity, Used};
use crate::exports::{ExportError, Exports, Shared as SharedFiles, Source};
use crate::handles::HandleKey;
use crate::locks::sockets::{self, Calling, Task};
use crate::locks::{self, portmap};
use crate::programs::{Door, accepts};
use crate::rpc::{self, Accepted, BadAuthentication, BadRecord, Call};
use crate::secured::{Contexts, Seal};
use crate::sharenfs::{Security, Transport};
use crate::v3;
use crate::v4::{
    Caller, ClientRecord, NoRecord, Presentation, Recovery, Remembered, Service, Unanswered, Usage,
};
use crate::xdr::{Reader, Writer};

/// Bytes that most answers have.
const ANSWER_BYTES: usize = 512;

/// Whose keys are used, of those in a keytab (RFC 7530, 3.2.1).
const SERVICE: &str = "nfs";
/// TLS as RFC 9289 wants it (section 5). Whether a client must show a certificate is said by shares.
const TLS: TlsUse = TlsUse {
    versions: &[&rustls::version::TLS13],
    name: b"sunrpc",
    needs_certificate: false,
};

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections that are taken.
    pub connections: ConnectionLimits,
    /// Answers that one connection may have waiting.
    pub outbound: OutboundLimits,
    /// Calls that wait for workers and long answers, over all connections.
    pub payload_bytes_max: u64,
    /// Threads for calls that wait.
    pub workers_max: usize,
    /// Where clients of NFS 3 and the server find each other.
    pub ports: LockPorts,
}

/// Where clients of NFS 3 and the server find each other.
#[derive(Clone, Copy, Debug)]
pub struct LockPorts {
    /// Addresses with this port of NFS answer where programs are, and have locks for NFS 3.
    pub nfs: Option<u16>,
    /// The port where they answer.
    pub own: u16,
    /// The port where hosts do.
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

/// An address where clients of NFS 3 do not find out where programs are.
#[derive(Debug)]
pub struct NoPorts {
    /// It.
    pub address: SocketAddr,
    /// What the system says.
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

/// The server as it should be.
#[derive(Clone, Default)]
pub struct DesiredState {
    /// Where to listen.
    pub listeners: Vec<ListenAddress>,
    /// TLS, which clients may use then, if any. The files are read again each time.
    pub tls: Option<TlsFiles>,
    /// The keys of the service `nfs`, by which clients may use Kerberos, if any. The file is read for each client. One that cannot be used keeps
    /// nothing else from being served: see [`NfsServer::keytab_problem`].
    pub keytab: Option<PathBuf>,
    /// Signs the handles of clients from now on, if another one than until now.
    pub handle_key: Option<HandleKey>,
    /// What to share.
    pub shared: Vec<SharedFiles>,
    /// Something else is to be shared that cannot be read yet.
    pub has_more_to_come: bool,
    /// File systems that are closed for a while. Clients wait for them, and keep what they have open and locked.
    pub closed: Vec<FileSystemId>,
    /// The names of all file systems of the pool: no client gives one of these to something else, also where it is not shared.
    pub names: BTreeSet<String>,
}

/// Why a desired state cannot be fulfilled. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An address cannot be listened on.
    #[error("NFS server")]
    Listen(#[from] ListenError),
    /// TLS cannot be set up.
    #[error("TLS of the NFS server")]
    Tls(#[from] TlsError),
    /// The file systems do not fit together.
    #[error("shares of the NFS server")]
    Exports(#[from] ExportError),
    /// The server was drained or dropped.
    #[error("the NFS server has ended")]
    Ended,
}

/// Whether clients could use Kerberos with a keytab as it is now.
///
/// # Errors
///
/// The file cannot be read, or has no key of NFS.
pub fn check_keytab(keytab: &Path) -> Result<(), KeytabError> {
    Acceptor::open(keytab, SERVICE).map(drop)
}

/// A connection now.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// Its number.
    pub id: u64,
    /// The client.
    pub peer: Peer,
    /// The name of the file system that it used last.
    pub export: Arc<str>,
    /// The address, as it was wished for, that it came in by.
    pub listener: ListenAddress,
}

/// Why a connection ended, if not by the client's wish.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client closed the connection")]
    Closed,
    #[error("the server drops it")]
    Dropped,
    #[error("the client takes no answers")]
    Stalled,
    #[error("the client said nothing for too long")]
    Idle,
    #[error("too many clients")]
    Full,
    #[error("no RPC call")]
    NoCall,
    #[error("the client sent more than TLS allows for")]
    PlainAfterTls,
    #[error("TLS")]
    Tls(#[from] rustls::Error),
    #[error("the library of Kerberos secures no answer")]
    NoSeal,
    #[error(
        "a call by Kerberos came later than so many others that nobody knows whether it came before"
    )]
    TooLate,
    #[error("the pool is lost")]
    Gone,
    #[error("nothing is shared with the client")]
    Stranger,
    #[error(transparent)]
    BadRecord(#[from] BadRecord),
    #[error("the connection broke")]
    Io(#[from] io::Error),
}

struct Shared {
    service: Service,
    v3: v3::Memory,
    limits: ServerLimits,
    /// Of answers, and of calls that wait for workers.
    budget: Arc<Budget>,
    /// Of calls that are being received: clients that take no answers keep nobody from sending.
    input: Arc<Budget>,
    workers: Workers,
    started: Instant,
    tls: Mutex<Option<Arc<rustls::ServerConfig>>>,
    contexts: Contexts,
    connections: Arc<Connections>,
    stopping: AtomicBool,
    /// Somebody has mounted something by version 3.
    has_v3: AtomicBool,
    /// Connections of clients that have called.
    live: Mutex<HashMap<u64, Live>>,
    /// Keeps clients that are refused again and again out of the log.
    refusals: Refusals<IpAddr>,
    /// Where clients may come in.
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
    /// Where it answers which programs there are, by the address of NFS.
    doors: Mutex<BTreeMap<SocketAddr, Result<PortDoor, io::Error>>>,
    calls: Mutex<Option<Task>>,
    keytab: Mutex<Keytab>,
}

/// Where the keys of the service are.
#[derive(Default)]
struct Keytab {
    path: Option<PathBuf>,
    /// Why they cannot be used.
    problem: Option<KeytabError>,
}

/// Answers where programs are.
struct PortDoor {
    stream: Listener,
    _datagrams: Task,
}

impl NfsServer {
    /// A server that serves nothing yet, after which nobody knows who had something open, and which follows none.
    pub fn new(presentation: Presentation, limits: ServerLimits) -> Self {
        Self::after(
            presentation,
            limits,
            Remembered::default(),
            Arc::new(NoRecord),
        )
    }

    /// A server that serves nothing yet, after one whose clients may take back what they had; who has something open at it is kept in
    /// `record`.
    pub fn after(
        presentation: Presentation,
        limits: ServerLimits,
        earlier: Remembered,
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

    /// The same, with sockets that may have connections already when they are wished for.
    #[must_use]
    pub fn with_early(mut self, early: Arc<EarlySockets>) -> Self {
        self.early = early;
        self
    }

    /// Makes the server what is wished for, by changing what differs. Connections that came in by a listener that goes end. Either all of it
    /// is done, or an error is returned and nothing, unless the system refuses a thread.
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
        self.open_doors(&listeners);
        if !listeners.is_empty() {
            self.start_calls();
            self.shared.service.announce(self.shared.now_ms());
        }
        Ok(())
    }

    /// Has clients use Kerberos by this file. If the same could be used before and cannot now, they go on by what it was.
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

    /// Why the keytab cannot be used now.
    pub fn keytab_problem(&self) -> Option<KeytabError> {
        let keytab = self.keytab.lock().expect("no holder panics");
        keytab.problem.clone()
    }

    /// Why every user of Kerberos is nobody now, if clients may use it.
    pub fn configuration_problem(&self) -> Option<ConfigurationError> {
        let uses = self.has_kerberos().then(kerberos::check_configuration);
        uses?.err()
    }

    /// Tries again what [`keytab_problem`](Self::keytab_problem) tells of.
    pub fn try_keytab_again(&self) {
        let keytab = self.keytab.lock().expect("no holder panics");
        let path = keytab.problem.as_ref().and(keytab.path.clone());
        drop(keytab);
        if path.is_some() {
            self.open_keytab(path);
        }
    }

    /// Answers at each address of NFS where the programs are.
    fn open_doors(&self, listeners: &BTreeMap<ListenAddress, Listener>) {
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
                .or_insert_with(|| self.open_door(address));
        }
    }

    /// Tries again to listen where [`without_ports`](Self::without_ports) says that it does not.
    pub fn try_ports_again(&self) {
        if !self.without_ports().is_empty() {
            self.open_doors(&self.listeners.lock().expect("no holder panics"));
        }
    }

    fn open_door(&self, nfs: SocketAddr) -> io::Result<PortDoor> {
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
        let door = Door::Ports(ports, portmap::Transport::Tcp);
        let serve = Arc::new(move |connection| session::serve(&shared, &connection, &place, door));
        let connections = Arc::clone(&self.shared.connections);
        let stream = Listener::start("nfs-ports", socket, connections, serve).map_err(failed)?;
        Ok(PortDoor {
            stream,
            _datagrams: datagrams,
        })
    }

    /// Calls hosts from now on.
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

    /// Where clients of NFS 3 find no locks, if there are such clients.
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

    /// Where it answers which programs there are.
    pub fn port_doors(&self) -> Vec<SocketAddr> {
        let doors = self.doors.lock().expect("no holder panics");
        let open = doors.values().flatten();
        open.filter_map(|door| door.stream.address().tcp())
            .collect()
    }

    fn listen(&self, wished: ListenAddress, socket: OpenSocket) -> Result<Listener, ListenError> {
        let shared = Arc::clone(&self.shared);
        let door = Door::Files;
        let serve = Arc::new(move |connection| session::serve(&shared, &connection, &wished, door));
        let connections = Arc::clone(&self.shared.connections);
        Listener::start("nfs", socket, connections, serve)
    }

    /// Addresses listened on, with their real ports.
    pub fn listeners(&self) -> Vec<ListenAddress> {
        let listeners = self.listeners.lock().expect("no holder panics");
        let addresses = listeners.values().map(|one| one.address().clone());
        addresses.collect()
    }

    /// The other ends of all connections, also of those that have not called.
    pub fn peers(&self) -> Vec<Peer> {
        self.shared.connections.peers()
    }

    /// Connections of clients that have called, in order of their start.
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

    /// What is left of the time in which clients take back what they had at the server before.
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

    /// What clients did in each file system since it was first shared, by its name; those beyond
    /// [`COUNTED_MAX`](crate::activity::COUNTED_MAX) are counted together, under an empty one.
    pub fn activity(&self) -> Vec<(Arc<str>, Arc<Activity>)> {
        self.shared.service.activity()
    }

    /// What clients have open and locked in a file system. May wait for disks.
    pub fn usage(&self, file_system: FileSystemId) -> Usage {
        let now_ms = self.shared.now_ms();
        self.shared.service.usage(file_system, now_ms)
    }

    /// Takes away what a client has open and locked, as if its lease were over; whether there is such a client.
    pub fn expire(&self, client: u64) -> bool {
        self.shared.service.expire(client, self.shared.now_ms())
    }

    /// Makes sure that clients whose address here went away hear nothing more; their number.
    pub fn silence_withdrawn(&self) -> usize {
        self.shared.connections.silence_withdrawn()
    }

    /// Ends the service: clients get the answers to what they asked. Whether all had ended at `deadline`; the others are dropped.
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

    /// Ends the service at once, without a word to the clients: for a pool that may be somebody else's by now.
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

    /// Lets go of all file systems, which nobody may use any more: after [`drain`](Self::drain) or [`drop_all`](Self::drop_all).
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

    /// Connections that came in by another address end.
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

    /// The answer to a call that arrived then, or why there is none.
    fn answer(
        &self,
        arrived: Instant,
        call: &Call,
        arguments: &[u8],
        caller: &Caller<'_>,
        door: Door,
        seal: Option<&Seal>,
    ) -> Result<Answered, End> {
        let checksum = seal.map(|seal| seal.checksum().ok_or(End::NoSeal));
        let checksum = checksum.transpose()?;
        let accept = |out: &mut Writer, how| {
            rpc::write_accepted(out, call.transaction, checksum.as_deref(), how);
        };
        // What is encrypted or signed has to be in one piece.
        let is_plain = caller.from.transport == Transport::Plain
            && matches!(caller.from.security, Security::System | Security::Kerberos);
        let mut out = Writer::with_capacity(ANSWER_BYTES).lending(is_plain && door == Door::Files);
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
                    Err(Unanswered::Malformed) => {
                        out.truncate(0);
                        accept(&mut out, Accepted::GarbageArguments);
                    }
                    Err(Unanswered::TooWeak) => {
                        let why = BadAuthentication::TooWeak;
                        let out = rpc::bad_authentication(call.transaction, why).into();
                        return Ok(Answered { out, export });
                    }
                    Err(Unanswered::Gone) => return Err(End::Gone),
                }
            }
            refused => accept(&mut out, refused),
        }
        Ok(Answered { out, export })
    }

    /// Appends the result of a call that is accepted.
    fn execute(
        &self,
        call: &Call,
        arguments: &[u8],
        caller: &Caller<'_>,
        door: Door,
        out: &mut Writer,
    ) -> Result<Used, Unanswered> {
        let (number, service) = (call.procedure, &self.service);
        if let (portmap::PROGRAM, Door::Ports(ports, _)) = (call.program, door) {
            portmap::execute(&ports, call.version, number, arguments, out)?;
            return Ok(Used::default());
        }
        match (call.program, call.version) {
            (v3::MOUNT_PROGRAM, _) => {
                self.has_v3.store(true, Ordering::Relaxed);
                v3::mount(service, number, arguments, caller, out)
            }
            (locks::PROGRAM, _) => locks::execute(service, number, arguments, caller, out),
            (locks::STATUS_PROGRAM, _) => locks::monitor(service, number, arguments, caller),
            (_, v3::VERSION) => v3::execute(service, &self.v3, number, arguments, caller, out),
            _ if number == rpc::NULL => Ok(Used::default()),
            _ => service.compound(arguments, caller, out),
        }
    }

    /// The answer to what came without a connection, if it is a call by somebody who may use something. Who he is, nobody knows for sure.
    fn answer_datagram(
        &self,
        from: SocketAddr,
        record: &[u8],
        ports: portmap::Ports,
    ) -> Option<Vec<u8>> {
        let door = Door::Ports(ports, portmap::Transport::Udp);
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

impl Calling for Shared {
    fn service(&self) -> &Service {
        &self.service
    }

    fn now_ms(&self) -> u64 {
        self.now_ms()
    }
}

impl Source {
    /// The same, where no port of the client is asked for.
    fn behind(self, door: Door) -> Self {
        match door {
            Door::Files | Door::Guests => self,
            Door::Ports(..) => Self { port: 0, ..self },
        }
    }
}

/// An answer, without its mark. What is lent is sent at once: changes of the file wait for that.
struct Answered {
    out: Writer,
    export: Option<Arc<str>>,
}

impl Answered {
    fn into_answer(self, reservation: Option<Reservation>) -> Answer {
        let mark = rpc::record_mark(self.out.len());
        let payload = match self.out.into_pieces() {
            Ok(pieces) => Payload::Loan(Box::new(pieces)),
            Err(bytes) => Payload::Bytes(bytes),
        };
        Answer {
            reservation,
            ..Answer::with_payload(&mark, payload)
        }
    }
}
