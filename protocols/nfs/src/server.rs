//! The server on sockets: one thread for each connection, which executes a call and queues its answer. Changes that others
//! wait behind go to workers, so that one commit serves many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::Permit;
use file_system::FileSystemId;
use serving::{
    Answer, Budget, Connection, ConnectionLimits, Connections, Directive, EarlySockets, Link,
    ListenAddress, ListenError, Listener, OpenSocket, OutboundLimits, Payload, Peer, Reservation,
    TlsError, TlsFiles, TlsTransport, TlsUse, Turn, Workers, bind_udp,
};

use crate::exports::{ExportError, Exports, Shared as SharedFiles, Source};
use crate::locks::sockets::{self, Calling, Task};
use crate::locks::{self, portmap};
use crate::programs::{self, Door, accepts, takes_long};
use crate::rpc::{self, Accepted, BadRecord, Call, Found, NoCall};
use crate::sharenfs::Transport;
use crate::v3;
use crate::v4::{
    Caller, ClientRecord, MESSAGE_BYTES_MAX, NoRecord, Presentation, Remembered, Service,
    Unanswered, Used,
};
use crate::xdr::{Reader, Writer};

/// Bytes of a record besides the arguments that are agreed on in a session: header and credential.
const CALL_HEADER_BYTES: usize = 1024;
/// Bytes of a record.
const RECORD_BYTES_MAX: usize = MESSAGE_BYTES_MAX as usize + CALL_HEADER_BYTES;
/// Input that is gathered: one record with the headers of its fragments.
const BUFFER_BYTES_MAX: usize = RECORD_BYTES_MAX + 8192;
/// The same of clients that send nothing large. What is more is paid from the budget.
const BUFFER_BYTES: usize = 64 << 10;
/// A client that sends nothing for so long needs no large buffer.
const LARGE_INPUT_PAUSE: Duration = Duration::from_secs(1);
/// A client that says nothing for so long connects again when it has something to say.
const IDLE_TIMEOUT: Duration = Duration::from_secs(900);
/// Time for a client's first call, and for the rest of a call that it has begun.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the last answers when the server is drained.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that most answers have.
const ANSWER_BYTES: usize = 512;
/// Bytes from which on an answer is paid from the budget.
const LARGE_ANSWER_BYTES: usize = 16 << 10;
/// How long an answer waits for the budget: others take theirs meanwhile, or are dropped.
const BUDGET_TIMEOUT: Duration = Duration::from_secs(60);

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
    /// What to share.
    pub shared: Vec<SharedFiles>,
    /// Something else is to be shared that cannot be read yet.
    pub has_more_to_come: bool,
    /// File systems that are closed for a while. Clients wait for them, and keep what they have open and locked.
    pub closed: Vec<FileSystemId>,
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
    connections: Arc<Connections>,
    stopping: AtomicBool,
    /// Somebody has mounted something by version 3.
    has_v3: AtomicBool,
    /// Connections of clients that have called.
    live: Mutex<HashMap<u64, Live>>,
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
            connections: Connections::new(limits.connections),
            stopping: AtomicBool::new(false),
            has_v3: AtomicBool::new(false),
            live: Mutex::default(),
            listening: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            listeners: Mutex::default(),
            early: Arc::default(),
            doors: Mutex::default(),
            calls: Mutex::default(),
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
            .with_closed(desired.closed);
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
        }
        Ok(())
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
        let serve = Arc::new(move |connection| Shared::serve(&shared, &connection, &place, door));
        let connections = Arc::clone(&self.shared.connections);
        let stream = Listener::start("nfs-ports", socket, connections, serve).map_err(failed)?;
        Ok(PortDoor {
            stream,
            _datagrams: datagrams,
        })
    }

    /// Calls hosts from now on, and tells those that had locks that the server has started.
    fn start_calls(&self) {
        let mut calls = self.calls.lock().expect("no holder panics");
        if calls.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let first = RandomState::new().hash_one(0) as u32;
        match sockets::call(shared, self.shared.limits.ports.theirs, first) {
            Ok(task) => {
                *calls = Some(task);
                self.shared.service.announce();
            }
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
        let serve = Arc::new(move |connection| Shared::serve(&shared, &connection, &wished, door));
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

    fn serve(
        shared: &Arc<Self>,
        connection: &Arc<Connection>,
        listener: &ListenAddress,
        door: Door,
    ) {
        let peer = connection.peer;
        let (from, here) = match peer {
            Peer::Tcp { remote, local } => {
                let from = Source {
                    address: remote.ip().to_canonical(),
                    port: remote.port(),
                    transport: Transport::Plain,
                };
                (from.behind(door), local.ip().to_canonical())
            }
            Peer::Unix { .. } => (Source::LOCAL, Source::LOCAL.address),
        };
        let exports = shared.service.exports();
        let is_at_home = exports.admits(&Source { port: 0, ..from });
        let door = match exports.admits(&from) {
            true => door,
            false => Door::Guests,
        };
        let ended = if is_at_home {
            let mut session = Session {
                shared,
                connection,
                listener,
                from,
                here,
                door,
                link: shared.link(connection, Arc::clone(&connection.stream) as _),
                tls: None,
                large_input: None,
                elsewhere: Arc::default(),
                is_known: false,
                export: "".into(),
            };
            let ended = session.run();
            if ended.is_err() {
                session.link.outbound().abandon();
            }
            ended
        } else {
            Err(End::Stranger)
        };
        match ended {
            Ok(()) => tracing::debug!(%peer, "NFS connection ended"),
            Err(reason) => tracing::debug!(%peer, %reason, "NFS connection ended"),
        }
        connection.standing.end();
        shared.live().remove(&connection.id);
    }

    fn link(&self, connection: &Connection, transport: Arc<dyn serving::Transport>) -> Link {
        let waker = Arc::clone(&connection.waker);
        let limits = self.limits.outbound;
        Link::growing(transport, waker, limits, BUFFER_BYTES, BUFFER_BYTES_MAX)
    }

    /// The answer to a call, or why there is none.
    fn answer(
        &self,
        call: &Call,
        arguments: &[u8],
        caller: &Caller<'_>,
        door: Door,
    ) -> Result<Answered, End> {
        let mut out = Writer::with_capacity(ANSWER_BYTES);
        let mut export = None;
        match accepts(call, door) {
            Accepted::Success => {
                rpc::write_accepted(&mut out, call.transaction, Accepted::Success);
                match self.execute(call, arguments, caller, door, &mut out) {
                    Ok(used) => export = used.export,
                    Err(Unanswered::Malformed) => {
                        out.truncate(0);
                        let how = Accepted::GarbageArguments;
                        rpc::write_accepted(&mut out, call.transaction, how);
                    }
                    Err(Unanswered::Gone) => return Err(End::Gone),
                }
            }
            refused => rpc::write_accepted(&mut out, call.transaction, refused),
        }
        Ok(Answered {
            bytes: out.into_bytes(),
            export,
        })
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
            _ if number == programs::NULL => Ok(Used::default()),
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
        let answered = self.answer(&call, reader.rest(), &caller, door).ok()?;
        Some(answered.bytes)
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

/// An answer, without its mark.
struct Answered {
    bytes: Vec<u8>,
    export: Option<Arc<str>>,
}

impl Answered {
    fn into_answer(self, reservation: Option<Reservation>) -> Answer {
        let mark = rpc::record_mark(self.bytes.len());
        Answer {
            reservation,
            ..Answer::with_payload(&mark, Payload::Bytes(self.bytes))
        }
    }
}

/// One connection.
struct Session<'a> {
    shared: &'a Arc<Shared>,
    connection: &'a Arc<Connection>,
    listener: &'a ListenAddress,
    from: Source,
    /// The address of ours that the client came to.
    here: IpAddr,
    door: Door,
    link: Link,
    tls: Option<Arc<TlsTransport>>,
    /// While the link's buffer is larger than usual.
    large_input: Option<Reservation>,
    /// Bytes of calls at workers and of their answers, until these are queued.
    elsewhere: Arc<AtomicU64>,
    is_known: bool,
    /// What it used last.
    export: Arc<str>,
}

impl Session<'_> {
    fn run(&mut self) -> Result<(), End> {
        loop {
            let needs = self.execute_all()?;
            self.gather(needs)?;
            let has_begun = !self.link.bytes().is_empty() || !self.is_known;
            let is_guest = self.door != Door::Files;
            let patience = if has_begun || is_guest {
                CALL_TIMEOUT
            } else {
                IDLE_TIMEOUT
            };
            if self.wait(Instant::now() + patience)? {
                self.link.settle(Instant::now() + SETTLE_TIMEOUT);
                self.link.finish();
                return Ok(());
            }
        }
    }

    /// Makes room for a record of so many bytes.
    fn gather(&mut self, needs: usize) -> Result<(), End> {
        if needs > BUFFER_BYTES_MAX {
            return Err(BadRecord::TooLong(RECORD_BYTES_MAX).into());
        }
        if self.link.must_grow_for(needs) {
            let paid = self.pay(&self.shared.input, BUFFER_BYTES_MAX);
            self.large_input = Some(paid.ok_or(End::Stalled)?);
        } else if self.shared.input.is_wanted() {
            self.shrink();
        }
        self.link.require(needs);
        Ok(())
    }

    /// Bytes of a budget, once they are there.
    fn pay(&self, budget: &Arc<Budget>, bytes: usize) -> Option<Reservation> {
        // What waits to be sent is paid for already, and must not wait for this.
        self.link.flush();
        let until = Instant::now() + BUDGET_TIMEOUT;
        budget.reserve_until(bytes as u64, until)
    }

    fn shrink(&mut self) {
        if self.large_input.is_some() && self.link.shrink() {
            self.large_input = None;
        }
    }

    /// Waits for input; whether the server is drained.
    fn wait(&mut self, deadline: Instant) -> Result<bool, End> {
        loop {
            let pause = Instant::now() + LARGE_INPUT_PAUSE;
            let until = match self.large_input {
                Some(_) if self.link.bytes().is_empty() => pause.min(deadline),
                _ => deadline,
            };
            match self.link.turn(Some(until))? {
                Turn::Input(_) => return Ok(false),
                Turn::Closed => return Err(End::Closed),
                Turn::Stalled => return Err(End::Stalled),
                Turn::Deadline if until < deadline => self.shrink(),
                Turn::Deadline => return Err(End::Idle),
                Turn::Woken => match self.connection.directive() {
                    Directive::Serve => {}
                    Directive::Drain => return Ok(true),
                    Directive::Drop => return Err(End::Dropped),
                },
            }
        }
    }

    /// Notes how the connection is secured: with the first bytes behind it that is decided.
    fn note_security(&mut self) {
        if let Some(tls) = self.tls.as_ref().filter(|_| !self.link.bytes().is_empty()) {
            self.from.transport = match tls.client_certificate() {
                Some(_) => Transport::Mutual,
                None => Transport::Tls,
            };
        }
    }

    /// Lets TLS begin, after its announcement.
    fn start_tls(&mut self, config: Arc<rustls::ServerConfig>) -> Result<(), End> {
        // Whatever came in the clear behind the call might be somebody else's.
        let is_alone = self.link.bytes().is_empty();
        if !is_alone || !self.link.settle(Instant::now() + CALL_TIMEOUT) {
            return Err(End::PlainAfterTls);
        }
        let stream = Arc::clone(&self.connection.stream);
        let tls = Arc::new(TlsTransport::new(stream, config)?);
        self.link = self.shared.link(self.connection, Arc::clone(&tls) as _);
        self.large_input = None;
        self.tls = Some(tls);
        Ok(())
    }

    /// What to begin TLS with, if this connection may.
    fn tls_to_begin(&self) -> Option<Arc<rustls::ServerConfig>> {
        let is_first = self.door == Door::Files
            && self.tls.is_none()
            && self.elsewhere.load(Ordering::Relaxed) == 0;
        let config = self.shared.tls.lock().expect("no holder panics");
        config.clone().filter(|_| is_first)
    }

    /// Executes the calls of the input, and says how many bytes the next one needs.
    fn execute_all(&mut self) -> Result<usize, End> {
        self.note_security();
        loop {
            let input = self.link.bytes();
            let (input_bytes, is_one_fragment) = match rpc::find_record(input, RECORD_BYTES_MAX)? {
                Found::Needs(bytes) => return Ok(bytes),
                Found::Whole {
                    input_bytes,
                    is_one_fragment,
                } => (input_bytes, is_one_fragment),
            };
            let has_more = input.len() > input_bytes;
            let joined;
            let record = if is_one_fragment {
                &input[4..input_bytes]
            } else {
                joined = rpc::join_fragments(&input[..input_bytes]);
                &joined
            };
            let executed = self.execute(record, has_more)?;
            self.link.consume(input_bytes);
            if executed.is_call && !self.is_known {
                if !self.connection.let_in() {
                    return Err(End::Full);
                }
                self.is_known = true;
                if self.door == Door::Files {
                    self.enter();
                }
            }
            if let Some(answered) = executed.answered {
                self.push(answered)?;
            }
            if let Some(config) = executed.tls {
                self.start_tls(config)?;
            }
            if self.link.outbound().is_congested() {
                match self.link.make_room(Some(Instant::now() + IDLE_TIMEOUT))? {
                    Turn::Input(_) | Turn::Woken => {}
                    Turn::Closed => return Err(End::Closed),
                    Turn::Stalled | Turn::Deadline => return Err(End::Stalled),
                }
            }
            if self.connection.directive() == Directive::Drop {
                return Err(End::Dropped);
            }
        }
    }

    /// Registers the connection, whose client is known now.
    fn enter(&self) {
        let live = Live {
            connection: Arc::clone(self.connection),
            listener: self.listener.clone(),
            export: "".into(),
        };
        self.shared.live().insert(self.connection.id, live);
        let listening = self.shared.listening.lock().expect("no holder panics");
        if !listening.contains(self.listener) {
            self.connection.direct(Directive::Drain);
        }
    }

    fn push(&mut self, answered: Answered) -> Result<(), End> {
        if let Some(export) = &answered.export {
            if self.export != *export {
                self.export = Arc::clone(export);
                if let Some(live) = self.shared.live().get_mut(&self.connection.id) {
                    live.export = Arc::clone(export);
                }
            }
        }
        let bytes = answered.bytes.len();
        let reservation = match bytes {
            LARGE_ANSWER_BYTES.. => Some(self.pay(&self.shared.budget, bytes).ok_or(End::Stalled)?),
            _ => None,
        };
        self.link.outbound().push(answered.into_answer(reservation));
        Ok(())
    }

    /// Executes a record, or has it executed.
    fn execute(&self, record: &[u8], has_more: bool) -> Result<Executed, End> {
        let mut reader = Reader::new(record);
        let call = match rpc::read_call(&mut reader) {
            Ok(call) => call,
            Err(NoCall::Answer(bytes)) => return Ok(Executed::without_call(bytes, None)),
            Err(NoCall::AsksForTls { transaction }) => {
                let config = self.tls_to_begin();
                let bytes = match config {
                    Some(_) => rpc::begin_tls(transaction),
                    None => rpc::bad_credential(transaction),
                };
                return Ok(Executed::without_call(bytes, config));
            }
            Err(NoCall::Malformed) => return Err(End::NoCall),
        };
        let arguments = reader.rest();
        if self.door == Door::Guests && call.procedure != programs::NULL {
            return Err(End::Stranger);
        }
        let is_call = matches!(accepts(&call, self.door), Accepted::Success);
        let long = has_more.then(|| takes_long(&call, arguments)).flatten();
        if long.is_some_and(|payload| self.execute_elsewhere(&call, arguments, payload)) {
            return Ok(Executed {
                answered: None,
                is_call,
                tls: None,
            });
        }
        let change = self.connection.standing.own_change();
        let _change = change.ok_or(End::Dropped)?;
        let caller = self.caller(&call);
        let answered = self.shared.answer(&call, arguments, &caller, self.door)?;
        Ok(Executed {
            answered: Some(answered),
            is_call,
            tls: None,
        })
    }

    fn caller<'c>(&self, call: &'c Call) -> Caller<'c> {
        Caller {
            credential: &call.credential,
            transaction: call.transaction,
            connection: self.connection.id,
            from: self.from,
            here: self.here,
            now_ms: self.shared.now_ms(),
        }
    }

    /// Has a worker execute a call that answers so many bytes of payload, so that what is behind it need not wait; false if there is no
    /// memory for that, or the client has enough answers to take already.
    fn execute_elsewhere(&self, call: &Call, arguments: &[u8], payload: u32) -> bool {
        let bytes = arguments.len() as u64 + u64::from(payload);
        let waiting =
            self.elsewhere.load(Ordering::Relaxed) + self.link.outbound().queued_bytes() as u64;
        if waiting + bytes > self.shared.limits.outbound.queued_bytes_max as u64 {
            return false;
        }
        let paid = self.shared.budget.try_reserve(bytes);
        let Some(reservation) = paid else {
            return false;
        };
        let pending = self.link.outbound().pending();
        let outbound = Arc::clone(self.link.outbound());
        let change = self.connection.standing.change();
        let (shared, connection) = (Arc::clone(self.shared), Arc::clone(self.connection));
        let (call, arguments) = (call.clone(), arguments.to_vec());
        let (from, here, door) = (self.from, self.here, self.door);
        let elsewhere = Arc::clone(&self.elsewhere);
        elsewhere.fetch_add(bytes, Ordering::Relaxed);
        let job = Box::new(move || {
            if change.begin() {
                let caller = Caller {
                    credential: &call.credential,
                    transaction: call.transaction,
                    connection: connection.id,
                    from,
                    here,
                    now_ms: shared.now_ms(),
                };
                match shared.answer(&call, &arguments, &caller, door) {
                    Ok(answered) => {
                        outbound.answer_elsewhere(answered.into_answer(Some(reservation)));
                    }
                    Err(_) => connection.direct(Directive::Drop),
                }
            }
            elsewhere.fetch_sub(bytes, Ordering::Relaxed);
            drop(pending);
        });
        if let Err(job) = self.shared.workers.submit(job) {
            job();
        }
        true
    }
}

/// What became of a record.
struct Executed {
    /// The answer, unless a worker gives it.
    answered: Option<Answered>,
    /// Whether it was a call of NFS.
    is_call: bool,
    /// What TLS begins with behind the answer.
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Executed {
    fn without_call(bytes: Vec<u8>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        Self {
            answered: Some(Answered {
                bytes,
                export: None,
            }),
            is_call: false,
            tls,
        }
    }
}
