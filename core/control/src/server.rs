//! The server of the control socket: a thread per connection, a bounded number of them, each with
//! one request at a time. The socket has mode 0600, so that only root and the server's own user can
//! connect.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::net::SendFlags;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::client::Client;
use crate::descriptor::{Receiving, is_hung_up};
use crate::failure::{Failure, FailureKind};
use crate::frame::{self, FrameError, PREVIEW_VERSION, PROTOCOL_VERSION};
use crate::lock::{Holder, PoolLock};
use crate::request::{Request, ServerRequest};
use crate::slots::{self, Slot, Slots};

/// Longest time that a connection may be idle.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// Longest time in which a connection without a slot may send its request.
const UNSLOTTED_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest time for a command to release the pool when a server starts.
const COMMAND_WAIT: Duration = Duration::from_secs(10);
/// Interval of attempts to acquire a held lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The health of a pool that its server is still opening.
pub const OPENING: &str = "OPENING";

/// A request as it is sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentRequest {
    /// [`PROTOCOL_VERSION`], or [`PREVIEW_VERSION`].
    pub version: u32,
    /// The request.
    pub request: Request,
    /// A head sends it on behalf of a user, and records it in the audit log itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_noted: bool,
}

/// A message to the client. Any number of progress reports, then one of the other variants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Its progress.
    Progress(String),
    /// It worked.
    Answer(Answer),
    /// It did not.
    Failure(Failure),
}

/// The peer's credentials, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user.
    pub uid: u32,
    /// The process.
    pub pid: i32,
}

/// Receives the outcome of a request.
pub type Witness<'a> = Box<dyn FnOnce(Option<&Failure>) + 'a>;

/// Performs requests. Called on several threads at once.
pub trait Handler: Send + Sync {
    /// Called before a request is performed that its client does not record itself.
    fn witness(&self, asker: Peer, request: &Request) -> Option<Witness<'_>> {
        let _ = (asker, request);
        None
    }

    /// Performs one; a long one must report progress at least every minute.
    fn handle(&self, request: Request, progress: &mut dyn FnMut(&str)) -> Result<Answer, Failure>;

    /// Performs one with a descriptor.
    fn handle_with(
        &self,
        request: Request,
        attached: Attached<'_>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Answer, Failure> {
        drop(attached);
        self.handle(request, progress)
    }
}

/// Attachments of a request.
pub struct Attached<'a> {
    /// To be read or written.
    pub descriptor: OwnedFd,
    /// Whether the client has hung up, so that the response has no recipient.
    pub is_abandoned: &'a dyn Fn() -> bool,
}

/// A listening control socket. Dropping it stops listening and removes the socket, unless a killed server left the
/// socket and this one has not taken over its devices: the sign of the kill is retained.
pub struct Server {
    listener: Arc<UnixListener>,
    path: PathBuf,
    activity: Arc<Activity>,
    /// A killed server left the socket, and no server has taken over yet.
    is_left: AtomicBool,
    /// Prevents two servers from replacing each other's socket; locked while this one runs.
    _lock: PoolLock,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another server holds the socket, or a command has the pool open.
    #[error("{}", in_use(.path, .holder.as_ref()))]
    InUse {
        /// The socket.
        path: PathBuf,
        /// The command.
        holder: Option<Holder>,
    },
    /// The system refuses.
    #[error("listen on the control socket {path}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

fn in_use(path: &Path, holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("{} has the pool open", holder.command),
        None => format!("another server is running at {}", path.display()),
    }
}

impl Server {
    /// Claims `path` without serving yet. The socket of a killed server is replaced.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        let fail = |cause| ListenError::Io {
            path: path.to_owned(),
            cause,
        };
        let in_use = || ListenError::InUse {
            path: path.to_owned(),
            holder: PoolLock::holder(path),
        };
        let lock = take_lock(path).map_err(fail)?.ok_or_else(in_use)?;
        let is_left = match std::fs::remove_file(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(fail(error)),
        };
        let listener = UnixListener::bind(path).map_err(fail)?;
        let owner_only = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, owner_only).map_err(fail)?;
        Ok(Self {
            listener: Arc::new(listener),
            path: path.to_owned(),
            activity: Arc::default(),
            is_left: AtomicBool::new(is_left),
            _lock: lock,
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records that this server has taken over from the previous one, if a killed one left the
    /// socket.
    pub fn take_over(&self) {
        self.is_left.store(false, Ordering::Relaxed);
    }

    /// Starts to serve requests on threads of its own.
    pub fn serve(&self, handler: Arc<dyn Handler>) -> io::Result<()> {
        self.take_over();
        self.serve_early(handler)
    }

    /// The same before this server has taken over the devices of a killed one.
    pub fn serve_early(&self, handler: Arc<dyn Handler>) -> io::Result<()> {
        let listener = self.listener.clone();
        let activity = Arc::clone(&self.activity);
        std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept_all(&listener, &handler, &activity))?;
        Ok(())
    }

    /// Stops accepting connections, and blocks until active requests are complete; `false` if some
    /// are not at `deadline`.
    pub fn finish(&self, deadline: Instant) -> bool {
        self.stop_listening();
        self.activity.wait_until_idle(deadline)
    }

    fn stop_listening(&self) {
        // Wakes the accepting thread, which then exits.
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_listening();
        if !self.is_left.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Active requests, and responses that are being sent.
#[derive(Default)]
struct Activity {
    count: Mutex<usize>,
    idle: Condvar,
}

/// One of them.
struct Active<'a>(&'a Activity);

impl Activity {
    fn begin(&self) -> Active<'_> {
        *self.count.lock().expect("no holder panics") += 1;
        Active(self)
    }

    fn wait_until_idle(&self, deadline: Instant) -> bool {
        let count = self.count.lock().expect("no holder panics");
        let wait = deadline.saturating_duration_since(Instant::now());
        let (count, _) = self
            .idle
            .wait_timeout_while(count, wait, |count| *count > 0)
            .expect("no holder panics");
        *count == 0
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        let mut count = self.0.count.lock().expect("no holder panics");
        *count -= 1;
        self.0.idle.notify_all();
    }
}

/// Acquires the lock. Blocks on a command that briefly has the pool open, and on a killed server
/// that has not exited yet. A running server responds on its socket, and is not waited for.
fn take_lock(socket: &Path) -> io::Result<Option<PoolLock>> {
    let deadline = Instant::now() + COMMAND_WAIT;
    loop {
        if let Some(lock) = PoolLock::try_take(socket)? {
            return Ok(Some(lock));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || answers(socket, left) {
            return Ok(None);
        }
        std::thread::sleep(LOCK_POLL_INTERVAL);
    }
}

/// Returns whether a server responds. A successful connect proves nothing: the memory of a killed
/// process is freed slowly, and its socket and its lock are closed after that.
fn answers(socket: &Path, patience: Duration) -> bool {
    let client = Client::connect(socket).ok();
    let Some(mut client) = client.and_then(|client| client.with_silence_limit(patience).ok())
    else {
        return false;
    };
    match client.call(Request::Server(ServerRequest::Ping), &mut |_| ()) {
        Ok(_) => true,
        // Any response proves that it is running.
        Err(failure) => failure.kind != FailureKind::Unreachable,
    }
}

fn accept_all(listener: &UnixListener, handler: &Arc<dyn Handler>, activity: &Arc<Activity>) {
    let slots = Arc::new(Slots::default());
    loop {
        match listener.accept() {
            Ok((stream, _)) => admit(stream, handler, slots.acquire(), activity),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(EMFILE) => {
                tracing::warn!("control socket: no file descriptor left for a connection");
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(_) => return,
        }
    }
}

/// "Too many open files": recovers when connections are closed.
const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();

/// Starts the thread of a connection.
fn admit(stream: UnixStream, handler: &Arc<dyn Handler>, slot: Slot, activity: &Arc<Activity>) {
    let handler = handler.clone();
    let activity = Arc::clone(activity);
    let spawned = std::thread::Builder::new()
        .name("control-client".into())
        .spawn(move || {
            if let Err(error) = serve_connection(stream, handler.as_ref(), slot, &activity) {
                tracing::debug!(error = %crate::failure::chain(&error), "control connection");
            }
        });
    if let Err(error) = spawned {
        tracing::warn!(%error, "control socket: no thread for a connection");
    }
}

/// Serves one connection until it is closed or idle for too long.
fn serve_connection(
    mut stream: UnixStream,
    handler: &dyn Handler,
    mut slot: Slot,
    activity: &Activity,
) -> Result<(), FrameError> {
    let hearing_ends = Instant::now() + UNSLOTTED_REQUEST_TIMEOUT;
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(io::Error::from)?;
    let asker = Peer {
        uid: peer.uid.as_raw(),
        pid: peer.pid.as_raw_nonzero().get(),
    };
    loop {
        let deadline = match slot.is_served() {
            true => Instant::now() + IDLE_MAX,
            false => hearing_ends,
        };
        let mut receiving = Receiving::until(&stream, deadline);
        let received = frame::receive::<serde_json::Value>(&mut receiving);
        let descriptor = receiving.descriptor;
        let _active = activity.begin();
        let admitted = match received {
            Ok(value) => parse_request(value).and_then(|question| {
                slot.admit(&question.request)?;
                Ok(question)
            }),
            Err(FrameError::Closed) => return Ok(()),
            Err(error) => {
                let failure = match slot.is_served() || !error.is_late() {
                    true => Failure::usage(crate::failure::chain(&error)),
                    false => slots::busy(),
                };
                stream.set_write_timeout(Some(UNSLOTTED_REQUEST_TIMEOUT))?;
                let _ = frame::send(&mut stream, &Message::Failure(failure));
                return Err(error);
            }
        };
        // A client that does not read must not block the slots for further connections.
        stream.set_write_timeout(Some(match slot.is_served() {
            true => IDLE_MAX,
            false => UNSLOTTED_REQUEST_TIMEOUT,
        }))?;
        let (owed, message) = match admitted {
            Ok(question) => witnessed(&stream, handler, asker, question, descriptor),
            Err(failure) => (Vec::new(), Message::Failure(failure)),
        };
        stream.write_all(&owed)?;
        frame::send(&mut stream, &message)?;
    }
}

/// Parses the request in `value`, if it is of our version. The version is checked first, because
/// the rest of another version cannot be parsed.
fn parse_request(value: serde_json::Value) -> Result<SentRequest, Failure> {
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    let known = [PROTOCOL_VERSION, PREVIEW_VERSION].map(u64::from);
    if !version.is_some_and(|version| known.contains(&version)) {
        let message = format!(
            "the request has protocol version {}, this server speaks {PROTOCOL_VERSION} and {PREVIEW_VERSION}",
            version.map_or("none".to_owned(), |v| v.to_string())
        );
        return Err(Failure::usage(message).advise("use a bulkhead binary of the same version"));
    }
    serde_json::from_value(value)
        .map_err(|error| Failure::usage(format!("the request is not understood: {error}")))
}

/// Sends progress to a client that may not read: a stopped terminal does not stop the work. A report that the client
/// cannot receive at once is dropped; the next one is newer.
struct ProgressSender<'a> {
    stream: &'a UnixStream,
    /// The rest of a partially sent frame.
    rest: Vec<u8>,
}

impl ProgressSender<'_> {
    fn progress(&mut self, text: &str) {
        if !self.rest.is_empty() && !self.send_rest() {
            return;
        }
        match frame::framed(&Message::Progress(text.to_owned())) {
            Ok(bytes) => self.rest = bytes,
            Err(_) => return,
        }
        let length = self.rest.len();
        // A frame of which no byte was sent can be dropped.
        if !self.send_rest() && self.rest.len() == length {
            self.rest.clear();
        }
    }

    /// Returns whether all of it was sent. After a disconnect no further reports are sent; the work
    /// continues.
    fn send_rest(&mut self) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Ok(count) = rustix::net::send(self.stream, &self.rest, flags) {
            self.rest.drain(..count);
        }
        self.rest.is_empty()
    }
}

/// Performs a request, and passes its outcome to the audit log.
fn witnessed(
    stream: &UnixStream,
    handler: &dyn Handler,
    asker: Peer,
    question: SentRequest,
    descriptor: Option<OwnedFd>,
) -> (Vec<u8>, Message) {
    let witness = match question.is_noted {
        true => None,
        false => handler.witness(asker, &question.request),
    };
    let (owed, message) = perform(stream, handler, question.request, descriptor);
    if let Some(witness) = witness {
        witness(match &message {
            Message::Failure(failure) => Some(failure),
            Message::Answer(_) | Message::Progress(_) => None,
        });
    }
    (owed, message)
}

fn perform(
    stream: &UnixStream,
    handler: &dyn Handler,
    request: Request,
    descriptor: Option<OwnedFd>,
) -> (Vec<u8>, Message) {
    let is_abandoned = || is_hung_up(stream);
    let mut telling = ProgressSender {
        stream,
        rest: Vec::new(),
    };
    let mut progress = |text: &str| telling.progress(text);
    let outcome = match descriptor {
        None => handler.handle(request, &mut progress),
        Some(descriptor) => {
            let attached = Attached {
                descriptor,
                is_abandoned: &is_abandoned,
            };
            handler.handle_with(request, attached, &mut progress)
        }
    };
    let message = match outcome {
        Ok(answer) => Message::Answer(answer),
        Err(failure) => Message::Failure(failure),
    };
    (telling.rest, message)
}
