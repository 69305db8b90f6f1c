//! The server on sockets: one thread for each connection, which executes a call and queues its answer. Changes that others
//! wait behind go to workers, so that one commit serves many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::Permit;
use file_system::FileSystemId;
use serving::{
    Answer, Budget, Connection, ConnectionLimits, Connections, Directive, EarlySockets, Link,
    ListenAddress, ListenError, Listener, OpenSocket, OutboundLimits, Payload, Peer, Reservation,
    Turn, Workers,
};

use crate::exports::{ExportError, Exports, Shared as SharedFiles, Source};
use crate::rpc::{self, Accepted, BadRecord, Call, Found, NoCall};
use crate::v3;
use crate::v4::{
    self, Caller, ClientRecord, Holders, MESSAGE_BYTES_MAX, NoRecord, Presentation, Service,
    Unanswered, Used,
};
use crate::xdr::{Reader, Writer};

/// The program number of NFS.
const PROGRAM: u32 = 100_003;
/// The version with compounds.
const VERSION: u32 = 4;
const NULL: u32 = 0;
const COMPOUND: u32 = 1;
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
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: ConnectionLimits::default(),
            outbound: OutboundLimits::default(),
            payload_bytes_max: 512 << 20,
            workers_max: 32,
        }
    }
}

/// The server as it should be.
#[derive(Clone, Default)]
pub struct DesiredState {
    /// Where to listen.
    pub listeners: Vec<ListenAddress>,
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
    #[error("the pool is lost")]
    Gone,
    #[error("nothing is shared with the client")]
    Stranger,
    #[error(transparent)]
    BadRecord(#[from] BadRecord),
    #[error("the connection broke")]
    Io(#[from] std::io::Error),
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
    connections: Arc<Connections>,
    stopping: AtomicBool,
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
}

impl NfsServer {
    /// A server that serves nothing yet, after which nobody knows who had something open, and which follows none.
    pub fn new(presentation: Presentation, limits: ServerLimits) -> Self {
        Self::after(presentation, limits, Holders::default(), Arc::new(NoRecord))
    }

    /// A server that serves nothing yet, after one whose clients may take back what they had; who has something open at it is kept in
    /// `record`.
    pub fn after(
        presentation: Presentation,
        limits: ServerLimits,
        earlier: Holders,
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
            connections: Connections::new(limits.connections),
            stopping: AtomicBool::new(false),
            live: Mutex::default(),
            listening: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            listeners: Mutex::default(),
            early: Arc::default(),
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
        let mut listeners = self.listeners.lock().expect("no holder panics");
        let wanted: BTreeSet<ListenAddress> = desired.listeners.into_iter().collect();
        let mut opened = Vec::new();
        for address in &wanted {
            if !listeners.contains_key(address) {
                opened.push((address.clone(), OpenSocket::open(address, &self.early)?));
            }
        }
        self.shared.service.share(exports);
        listeners.retain(|address, _| wanted.contains(address));
        self.shared.listen_only_at(wanted);
        for (address, socket) in opened {
            let listener = self.listen(address.clone(), socket)?;
            listeners.insert(address, listener);
        }
        Ok(())
    }

    fn listen(&self, wished: ListenAddress, socket: OpenSocket) -> Result<Listener, ListenError> {
        let shared = Arc::clone(&self.shared);
        let serve = Arc::new(move |connection| Shared::serve(&shared, &connection, &wished));
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
        let have_ended = self.shared.connections.wait_until_empty(deadline);
        self.shared.connections.direct_all(Directive::Drop);
        have_ended
    }

    /// Ends the service at once, without a word to the clients: for a pool that may be somebody else's by now.
    pub fn drop_all(&self) {
        self.end(Directive::Drop);
    }

    fn end(&self, directive: Directive) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.connections.direct_all(directive);
        self.listeners.lock().expect("no holder panics").clear();
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

    fn serve(shared: &Arc<Self>, connection: &Arc<Connection>, listener: &ListenAddress) {
        let peer = connection.peer;
        let from = match peer {
            Peer::Tcp { remote, .. } => Source {
                address: remote.ip().to_canonical(),
                port: remote.port(),
            },
            Peer::Unix { .. } => Source::LOCAL,
        };
        let transport = Arc::clone(&connection.stream);
        let waker = Arc::clone(&connection.waker);
        let ended = if shared.service.exports().admits(&from) {
            let mut session = Session {
                shared,
                connection,
                listener,
                from,
                link: Link::growing(
                    transport,
                    waker,
                    shared.limits.outbound,
                    BUFFER_BYTES,
                    BUFFER_BYTES_MAX,
                ),
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

    /// The answer to a call, or why there is none.
    fn answer(&self, call: &Call, arguments: &[u8], caller: &Caller<'_>) -> Result<Answered, End> {
        let mut out = Writer::with_capacity(ANSWER_BYTES);
        let mut export = None;
        match accepts(call) {
            Accepted::Success => {
                rpc::write_accepted(&mut out, call.transaction, Accepted::Success);
                match self.execute(call, arguments, caller, &mut out) {
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
        out: &mut Writer,
    ) -> Result<Used, Unanswered> {
        let (number, service) = (call.procedure, &self.service);
        match (call.program, call.version) {
            (v3::MOUNT_PROGRAM, _) => v3::mount(service, number, arguments, caller, out),
            (_, v3::VERSION) => v3::execute(service, &self.v3, number, arguments, caller, out),
            _ if number == NULL => Ok(Used::default()),
            _ => service.compound(arguments, caller, out),
        }
    }

    fn now_ms(&self) -> u64 {
        let elapsed = self.started.elapsed().as_millis();
        elapsed.try_into().unwrap_or(u64::MAX)
    }
}

/// Whether there is such a procedure.
const fn accepts(call: &Call) -> Accepted {
    let is_known = match (call.program, call.version) {
        (PROGRAM, VERSION) => call.procedure <= COMPOUND,
        (PROGRAM, v3::VERSION) => v3::is_procedure(call.procedure),
        (v3::MOUNT_PROGRAM, v3::VERSION) => v3::is_mount_procedure(call.procedure),
        (PROGRAM, _) => {
            return Accepted::ProgramMismatch {
                lowest: v3::VERSION,
                highest: VERSION,
            };
        }
        (v3::MOUNT_PROGRAM, _) => {
            return Accepted::ProgramMismatch {
                lowest: v3::VERSION,
                highest: v3::VERSION,
            };
        }
        _ => return Accepted::ProgramUnavailable,
    };
    match is_known {
        true => Accepted::Success,
        false => Accepted::ProcedureUnavailable,
    }
}

/// The answer that a call takes long for, as far as its beginning tells.
fn takes_long(call: &Call, arguments: &[u8]) -> Option<u32> {
    match (call.program, call.version) {
        (PROGRAM, VERSION) if call.procedure == COMPOUND => v4::takes_long(arguments),
        (PROGRAM, v3::VERSION) => v3::takes_long(call.procedure, arguments),
        _ => None,
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
    link: Link,
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
            let patience = if has_begun {
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

    /// Executes the calls of the input, and says how many bytes the next one needs.
    fn execute_all(&mut self) -> Result<usize, End> {
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
                self.enter();
            }
            if let Some(answered) = executed.answered {
                self.push(answered)?;
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
            Err(NoCall::Answer(bytes)) => {
                let answered = Answered {
                    bytes,
                    export: None,
                };
                return Ok(Executed {
                    answered: Some(answered),
                    is_call: false,
                });
            }
            Err(NoCall::Malformed) => return Err(End::NoCall),
        };
        let arguments = reader.rest();
        let is_call = matches!(accepts(&call), Accepted::Success);
        let long = has_more.then(|| takes_long(&call, arguments)).flatten();
        if long.is_some_and(|payload| self.execute_elsewhere(&call, arguments, payload)) {
            return Ok(Executed {
                answered: None,
                is_call,
            });
        }
        let change = self.connection.standing.own_change();
        let _change = change.ok_or(End::Dropped)?;
        let caller = self.caller(&call);
        let answered = self.shared.answer(&call, arguments, &caller)?;
        Ok(Executed {
            answered: Some(answered),
            is_call,
        })
    }

    fn caller<'c>(&self, call: &'c Call) -> Caller<'c> {
        Caller {
            credential: &call.credential,
            transaction: call.transaction,
            connection: self.connection.id,
            from: self.from,
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
        let (call, arguments, from) = (call.clone(), arguments.to_vec(), self.from);
        let elsewhere = Arc::clone(&self.elsewhere);
        elsewhere.fetch_add(bytes, Ordering::Relaxed);
        let job = Box::new(move || {
            if change.begin() {
                let caller = Caller {
                    credential: &call.credential,
                    transaction: call.transaction,
                    connection: connection.id,
                    from,
                    now_ms: shared.now_ms(),
                };
                match shared.answer(&call, &arguments, &caller) {
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
}
