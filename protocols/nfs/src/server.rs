//! The server on sockets: one thread for each connection, which executes a call and queues its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serving::{
    Answer, Connection, ConnectionLimits, Connections, Directive, EarlySockets, Link,
    ListenAddress, ListenError, Listener, OpenSocket, OutboundLimits, Payload, Turn,
};

use crate::file_system::FileSystem;
use crate::rpc::{self, Accepted, BadRecord, Found, NoCall};
use crate::v4::{Caller, MESSAGE_BYTES_MAX, Presentation, Service};
use crate::xdr::{Reader, Writer};

/// The program number of NFS.
const PROGRAM: u32 = 100_003;
/// The version that is served.
const VERSION: u32 = 4;
/// Bytes of a record besides the arguments that are agreed on in a session: header and credential.
const CALL_HEADER_BYTES: usize = 1024;
/// Bytes of a record.
const RECORD_BYTES_MAX: usize = MESSAGE_BYTES_MAX as usize + CALL_HEADER_BYTES;
/// Input that is gathered: one record with the headers of its fragments.
const BUFFER_BYTES: usize = RECORD_BYTES_MAX + 8192;
/// A client that says nothing for so long connects again when it has something to say.
const IDLE_TIMEOUT: Duration = Duration::from_secs(900);
/// Time for a client's first call, and for the rest of a call that it has begun.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the last answers when the server is drained.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bounds of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerLimits {
    /// Connections that are taken.
    pub connections: ConnectionLimits,
    /// Answers that one connection may have waiting.
    pub outbound: OutboundLimits,
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
    #[error(transparent)]
    BadRecord(#[from] BadRecord),
    #[error("the connection broke")]
    Io(#[from] std::io::Error),
}

struct Shared {
    service: Service,
    limits: ServerLimits,
    started: Instant,
    connections: Arc<Connections>,
    next_connection: AtomicU64,
}

/// An NFS server. Dropping it drops its connections.
pub struct NfsServer {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
}

impl NfsServer {
    /// Serves `files` at `addresses`.
    pub fn start(
        files: Arc<dyn FileSystem>,
        presentation: Presentation,
        limits: ServerLimits,
        addresses: &[ListenAddress],
    ) -> Result<Self, ListenError> {
        let shared = Arc::new(Shared {
            service: Service::new(files, presentation),
            limits,
            started: Instant::now(),
            connections: Connections::new(limits.connections),
            next_connection: AtomicU64::new(1),
        });
        let early = EarlySockets::default();
        let mut listeners = Vec::new();
        for address in addresses {
            let socket = OpenSocket::open(address, &early)?;
            let of_connection = Arc::clone(&shared);
            let serve = Arc::new(move |connection| of_connection.serve(&connection));
            listeners.push(Listener::start(
                "nfs",
                socket,
                Arc::clone(&shared.connections),
                serve,
            )?);
        }
        Ok(Self { shared, listeners })
    }

    /// Addresses listened on, with their real ports.
    pub fn listeners(&self) -> Vec<ListenAddress> {
        self.listeners
            .iter()
            .map(|listener| listener.address().clone())
            .collect()
    }

    /// Ends the service: clients get the answers to what they asked. Whether all had ended at `deadline`.
    pub fn drain(&mut self, deadline: Instant) -> bool {
        self.listeners.clear();
        self.shared.connections.direct_all(Directive::Drain);
        self.shared.connections.wait_until_empty(deadline)
    }
}

impl Drop for NfsServer {
    fn drop(&mut self) {
        self.shared.connections.direct_all(Directive::Drop);
    }
}

impl Shared {
    fn serve(&self, connection: &Arc<Connection>) {
        let peer = connection.peer;
        let transport = Arc::clone(&connection.stream);
        let waker = Arc::clone(&connection.waker);
        let mut session = Session {
            shared: self,
            connection,
            link: Link::new(transport, waker, self.limits.outbound, BUFFER_BYTES),
            number: self.next_connection.fetch_add(1, Ordering::Relaxed),
            is_known: false,
        };
        match session.run() {
            Ok(()) => tracing::debug!(%peer, "NFS connection ended"),
            Err(reason) => {
                session.link.outbound().abandon();
                tracing::debug!(%peer, %reason, "NFS connection ended");
            }
        }
        connection.standing.end();
    }
}

/// One connection.
struct Session<'a> {
    shared: &'a Shared,
    connection: &'a Connection,
    link: Link,
    number: u64,
    is_known: bool,
}

impl Session<'_> {
    fn run(&mut self) -> Result<(), End> {
        loop {
            let needs = self.execute_all()?;
            if !self.link.require(needs) {
                return Err(BadRecord::TooLong(RECORD_BYTES_MAX).into());
            }
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

    /// Waits for input; whether the server is drained.
    fn wait(&mut self, deadline: Instant) -> Result<bool, End> {
        loop {
            match self.link.turn(Some(deadline))? {
                Turn::Input(_) => return Ok(false),
                Turn::Closed => return Err(End::Closed),
                Turn::Stalled => return Err(End::Stalled),
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
            let answer = if is_one_fragment {
                self.execute(&input[4..input_bytes])
            } else {
                self.execute(&rpc::join_fragments(&input[..input_bytes]))
            };
            let (answer, is_call) = answer?;
            self.link.consume(input_bytes);
            if is_call && !self.is_known {
                if !self.connection.let_in() {
                    return Err(End::Full);
                }
                self.is_known = true;
            }
            let mark = rpc::record_mark(answer.len());
            let answer = Answer::with_payload(&mark, Payload::Bytes(answer));
            self.link.outbound().push(answer);
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

    /// The answer to a record, and whether it was a call of NFS.
    fn execute(&self, record: &[u8]) -> Result<(Vec<u8>, bool), End> {
        let mut reader = Reader::new(record);
        let call = match rpc::read_call(&mut reader) {
            Ok(call) => call,
            Err(NoCall::Answer(answer)) => return Ok((answer, false)),
            Err(NoCall::Malformed) => return Err(End::NoCall),
        };
        let mut out = Writer::new();
        let mut accepted = |how| rpc::write_accepted(&mut out, call.transaction, how);
        if call.program != PROGRAM {
            accepted(Accepted::ProgramUnavailable);
            return Ok((out.into_bytes(), false));
        }
        if call.version != VERSION {
            accepted(Accepted::ProgramMismatch {
                lowest: VERSION,
                highest: VERSION,
            });
            return Ok((out.into_bytes(), false));
        }
        match call.procedure {
            0 => accepted(Accepted::Success),
            1 => {
                let elapsed = self.shared.started.elapsed().as_millis();
                let caller = Caller {
                    credential: &call.credential,
                    connection: self.number,
                    now_ms: elapsed.try_into().unwrap_or(u64::MAX),
                };
                match self.shared.service.compound(reader.rest(), &caller) {
                    Ok(result) => {
                        accepted(Accepted::Success);
                        out.append(&result);
                    }
                    Err(_) => accepted(Accepted::GarbageArguments),
                }
            }
            _ => accepted(Accepted::ProcedureUnavailable),
        }
        Ok((out.into_bytes(), true))
    }
}
