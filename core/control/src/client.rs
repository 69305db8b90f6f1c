//! The client of the control socket.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::answer::Answer;
use crate::descriptor::Sending;
use crate::failure::{Failure, FailureKind, chain};
use crate::frame::{self, FrameError, PREVIEW_VERSION, PROTOCOL_VERSION};
use crate::request::Request;
use crate::server::{Message, SentRequest};

/// Longest silence of a server during a request. Long work reports progress more often.
pub const SILENCE_SECONDS_MAX: u64 = 120;

/// Longest wait in the queue of connections that a server has not accepted yet. A server that is stalled accepts none.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// A connection to a server.
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    is_noted: bool,
}

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
#[error("connect to the control socket {path}")]
pub struct ClientError {
    /// The socket.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub cause: std::io::Error,
}

impl ClientError {
    /// Returns whether no process listens there, so that the pool has no server.
    pub fn is_absent(&self) -> bool {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(self.cause.kind(), NotFound | ConnectionRefused)
    }
}

/// Returns a socket that is connected to `path`, or `WouldBlock` after [`CONNECT_WAIT`].
fn connected(path: &Path) -> std::io::Result<OwnedFd> {
    connect(path).map_err(|error| match error.kind() {
        // "Resource temporarily unavailable" names no cause.
        std::io::ErrorKind::WouldBlock => {
            let seconds = CONNECT_WAIT.as_secs();
            let why = format!("its process has accepted no connection for {seconds} s: it hangs");
            std::io::Error::new(std::io::ErrorKind::WouldBlock, why)
        }
        _ => error,
    })
}

fn connect(path: &Path) -> std::io::Result<OwnedFd> {
    let kind = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_WAIT))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

impl Client {
    /// Connects to the server that listens on `path`.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let fail = |cause| ClientError {
            path: path.to_owned(),
            cause,
        };
        let stream = UnixStream::from(connected(path).map_err(fail)?);
        let silence = Some(Duration::from_secs(SILENCE_SECONDS_MAX));
        stream.set_read_timeout(silence).map_err(fail)?;
        stream.set_write_timeout(silence).map_err(fail)?;
        Ok(Self {
            stream,
            path: path.to_owned(),
            is_noted: false,
        })
    }

    /// Returns the same connection, for requests that the client records in the audit log itself.
    pub fn noted(self) -> Self {
        Self {
            is_noted: true,
            ..self
        }
    }

    /// Returns the same connection with a limit for the server's silence.
    pub fn with_silence_limit(self, silence: Duration) -> std::io::Result<Self> {
        self.stream.set_read_timeout(Some(silence))?;
        self.stream.set_write_timeout(Some(silence))?;
        Ok(self)
    }

    /// Sends a request, passes every progress report to `progress`, and returns the response.
    pub fn call(
        &mut self,
        request: Request,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Answer, Failure> {
        self.call_with(request, None, progress)
    }

    /// As [`Self::call`], with a descriptor that the server reads or writes.
    pub fn call_with(
        &mut self,
        request: Request,
        descriptor: Option<BorrowedFd<'_>>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Answer, Failure> {
        let version = match request.operation().is_preview() {
            true => PREVIEW_VERSION,
            false => PROTOCOL_VERSION,
        };
        let question = SentRequest {
            version,
            request,
            is_noted: self.is_noted,
        };
        let mut sending = Sending::new(&self.stream, descriptor);
        if let Err(error) = frame::send(&mut sending, &question) {
            return Err(self
                .pending_failure(&error)
                .unwrap_or_else(|| self.broken(&error)));
        }
        loop {
            match frame::receive(&mut self.stream).map_err(|error| self.broken(&error))? {
                Message::Progress(text) => progress(&text),
                Message::Answer(answer) => return Ok(answer),
                Message::Failure(failure) => return Err(failure),
            }
        }
    }

    /// The process of the server, as the kernel reports it.
    pub fn server_pid(&self) -> Option<i32> {
        let peer = rustix::net::sockopt::socket_peercred(&self.stream).ok()?;
        Some(peer.pid.as_raw_nonzero().get())
    }

    /// The server's process, in words.
    fn process(&self) -> String {
        self.server_pid()
            .map_or_else(|| "it".to_owned(), |pid| format!("process {pid}"))
    }

    /// The length of the silence, in words.
    fn silence(&self) -> String {
        let limit = self.stream.read_timeout().ok().flatten();
        limit.map_or_else(String::new, |limit| {
            format!(" within {} s", limit.as_secs())
        })
    }

    /// Returns the error that a server sent before it closed the connection, which is why a request could not be sent.
    fn pending_failure(&mut self, error: &FrameError) -> Option<Failure> {
        if !error.is_write_closed() {
            return None;
        }
        match frame::receive(&mut self.stream) {
            Ok(Message::Failure(failure)) => Some(failure),
            _ => None,
        }
    }

    fn broken(&self, error: &FrameError) -> Failure {
        let socket = self.path.display();
        if error.is_silent() {
            let silence = self.silence();
            let message = format!(
                "talk to the server at {socket}: {} does not respond{silence}",
                self.process()
            );
            return Failure::new(FailureKind::Unreachable, message).advise(
                "look at the server's log: it may be stuck on a disk. A server that hangs may be killed (-9): acknowledged writes are safe",
            );
        }
        let message = format!("talk to the server at {socket}: {}", chain(error));
        Failure::new(FailureKind::Unreachable, message)
            .advise("look at the server's log; it may have ended or be stuck on a disk")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The process is this one: it listens, and never sends a response.
    #[test]
    fn silent_server_is_reported_with_its_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tank.sock");
        let listener = UnixListener::bind(&path).expect("bound");
        let client = Client::connect(&path).expect("connected");
        let mut client = client
            .with_silence_limit(Duration::from_millis(20))
            .expect("a limit");
        let failure = client.call(Request::Status, &mut |_| ());
        let failure = failure.expect_err("no response");
        drop(listener);
        assert_eq!(failure.kind, FailureKind::Unreachable);
        let process = format!("process {} does not", std::process::id());
        assert!(failure.message.contains(&process), "{failure}");
        assert!(!failure.message.contains("temporarily"), "{failure}");
    }
}
