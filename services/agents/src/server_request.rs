//! Requests to a server with a strict time-out. Each is sent on its own thread, so
//! that nothing that happens at the socket, not even a full queue of a frozen server, holds the
//! agent up. A blocked thread terminates with the agent.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use control::failure::chain;
use control::{Answer, Client, Failure, Request};

/// The result of a request.
#[derive(Debug)]
pub enum RequestResult {
    /// The server responded.
    Responded(Result<Answer, Failure>),
    /// No process listens.
    Absent,
    /// A process may listen, and there was no response in time.
    Silent,
}

/// Sends a request to the server that listens on `socket`.
pub fn send(socket: &Path, request: Request, limit: Duration) -> RequestResult {
    let path = socket.to_owned();
    let asked = within(limit, move || match Client::connect(&path) {
        Ok(mut client) => RequestResult::Responded(client.call(request, &mut |_| ())),
        Err(error) if error.is_absent() => RequestResult::Absent,
        Err(error) => {
            tracing::debug!(error = %chain(&error), "the request was not sent to the server");
            RequestResult::Silent
        }
    });
    asked.unwrap_or(RequestResult::Silent)
}

/// The process that listens on `socket`, as reported by the kernel; it need not respond.
pub fn listener_pid(socket: &Path, limit: Duration) -> Option<i32> {
    let path = socket.to_owned();
    within(limit, move || {
        let stream = UnixStream::connect(path).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(stream.as_fd()).ok()?;
        // 0 is a process in a namespace that this one does not see.
        Some(peer.pid.as_raw_pid()).filter(|pid| *pid > 0)
    })
    .flatten()
}

/// The result of `work`, or `None` after `limit`.
pub fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("question".into())
        .spawn(move || {
            // The receiver is gone after the time-out.
            let _ = sender.send(work());
        })
        .ok()?;
    // A thread that terminates without a result counts as a time-out.
    receiver.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use control::request::ServerRequest;

    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn unresponsive_listener_times_out_and_names_its_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("tank.sock");
        let ping = || Request::Server(ServerRequest::Ping);
        assert!(matches!(
            send(&socket, ping(), SHORT),
            RequestResult::Absent
        ));
        assert_eq!(listener_pid(&socket, SHORT), None);
        let listener = UnixListener::bind(&socket).expect("bound");
        let started = Instant::now();
        assert!(matches!(
            send(&socket, ping(), SHORT),
            RequestResult::Silent
        ));
        assert!(started.elapsed() < Duration::from_secs(60));
        let own = i32::try_from(std::process::id()).expect("a number");
        assert_eq!(listener_pid(&socket, SHORT), Some(own));
        drop(listener);
        assert!(matches!(
            send(&socket, ping(), SHORT),
            RequestResult::Absent
        ));
    }
}
