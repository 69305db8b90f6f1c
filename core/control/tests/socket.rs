//! A client and a server over a real socket, and peers that violate the protocol.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control::answer::Done;
use control::operations::pool::close::Close;
use control::operations::pool::destroy::Destroy;
use control::operations::volume::list::List;
use control::request::{PoolRequest, ServerRequest, VolumeRequest};
use control::server::ListenError;
use control::slots::{CONNECTIONS_MAX, URGENT_MAX};
use control::{Answer, Client, Failure, FailureKind, Handler, PoolLock, Request, Server};

/// Reports progress twice, then accepts a ping and refuses all else.
struct Echo;

impl Handler for Echo {
    fn handle(&self, request: Request, progress: &mut dyn FnMut(&str)) -> Result<Answer, Failure> {
        progress("1");
        progress("2");
        match request {
            Request::Server(ServerRequest::Ping) => Ok(Done::already("here")),
            _ => Err(Failure::not_found("nothing").advise("send another request")),
        }
    }
}

fn start() -> (tempfile::TempDir, PathBuf, Server) {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("tank.sock");
    let server = Server::bind(&path).expect("bind");
    server.serve(Arc::new(Echo)).expect("serve");
    (directory, path, server)
}

#[test]
fn progress_and_result_arrive_on_one_connection() {
    let (_directory, path, _server) = start();
    let mut client = Client::connect(&path).expect("connect");
    let mut seen = Vec::new();
    let ping = Request::Server(ServerRequest::Ping);
    let answer = client.call(ping, &mut |text| seen.push(text.to_owned()));
    assert_eq!(answer, Ok(Done::already("here")));
    assert_eq!(seen, ["1", "2"]);
    let failure = client
        .call(Request::Status, &mut |_| ())
        .expect_err("nothing there");
    assert_eq!(failure.kind, FailureKind::NotFound);
    assert_eq!(failure.advice.as_deref(), Some("send another request"));
}

#[test]
fn socket_is_owner_only_and_removed_with_the_server() {
    let (_directory, path, server) = start();
    let mode = std::fs::metadata(&path)
        .expect("socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(server);
    let Err(error) = Client::connect(&path) else {
        panic!("nobody should listen");
    };
    assert!(error.is_absent());
}

#[test]
fn second_server_is_refused_and_a_stale_socket_replaced() {
    let (_directory, path, server) = start();
    assert!(matches!(
        Server::bind(&path),
        Err(ListenError::InUse { .. })
    ));
    drop(server);
    std::fs::write(&path, "left over").expect("a stale file");
    assert!(Server::bind(&path).is_ok());
}

/// Its socket is the only sign that it was killed. A start that fails before it has the pool retains it.
#[test]
fn failed_start_keeps_the_stale_socket() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("tank.sock");
    drop(Server::bind(&path).expect("bind"));
    assert!(!path.exists(), "nobody was killed");
    drop(UnixListener::bind(&path).expect("bind"));
    drop(Server::bind(&path).expect("bind"));
    assert!(path.exists());
    let server = Server::bind(&path).expect("bind");
    server.take_over();
    drop(server);
    assert!(!path.exists());
}

/// Its socket still exists and queues connections, which no process accepts.
#[test]
fn start_waits_for_a_killed_server_to_exit() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("tank.sock");
    let lock = PoolLock::try_take(&path).expect("lock").expect("free");
    let listener = UnixListener::bind(&path).expect("bind");
    let killed = std::thread::spawn(move || {
        let (asked, _) = listener.accept().expect("somebody asks");
        drop(lock);
        drop(asked);
    });
    assert!(Server::bind(&path).is_ok());
    killed.join().expect("gone");
}

/// Sends `bytes` and returns all received bytes.
fn raw(path: &PathBuf, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).expect("connect");
    stream.write_all(bytes).expect("send");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("half-close");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("answer");
    String::from_utf8_lossy(&back).into_owned()
}

fn framed(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.bytes());
    bytes
}

#[test]
fn other_protocol_version_is_refused_with_a_message() {
    let (_directory, path, _server) = start();
    let back = raw(&path, &framed(r#"{"version":3,"request":"status"}"#));
    assert!(back.contains("speaks 1 and 2"), "{back}");
}

#[test]
fn garbage_gets_an_error_and_other_clients_are_served() {
    let (_directory, path, _server) = start();
    for bytes in [
        b"\xff\xff\xff\xff".to_vec(),
        framed("{"),
        framed(r#"{"version":1,"request":"dance"}"#),
        framed("[]"),
        b"\x00\x00\x00\x10{".to_vec(),
    ] {
        assert!(raw(&path, &bytes).contains("usage"));
    }
    let mut client = Client::connect(&path).expect("connect");
    let ping = Request::Server(ServerRequest::Ping);
    assert!(client.call(ping, &mut |_| ()).is_ok());
}

/// Sends progress far beyond the capacity of a socket, and signals when it is done.
struct Verbose(Mutex<Sender<()>>);

impl Handler for Verbose {
    fn handle(&self, _: Request, progress: &mut dyn FnMut(&str)) -> Result<Answer, Failure> {
        (0..REPORTS).for_each(|number| progress(&format!("{number} of {REPORTS} blocks are read")));
        self.0.lock().expect("unharmed").send(()).expect("heard");
        Ok(Done::already("here"))
    }
}

const REPORTS: u32 = 10_000;

#[test]
fn client_that_does_not_read_blocks_no_work() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("tank.sock");
    let server = Server::bind(&path).expect("bind");
    let (sender, done) = channel();
    let handler = Arc::new(Verbose(Mutex::new(sender)));
    server.serve(handler).expect("serve");
    let mut stream = UnixStream::connect(&path).expect("connect");
    let request = framed(r#"{"version":1,"request":"status"}"#);
    stream.write_all(&request).expect("send");
    let limit = Duration::from_secs(60);
    done.recv_timeout(limit).expect("the work completes unread");
    // The client later reads whole frames, and the response.
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("half-close");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("answer");
    let mut left = back.as_slice();
    let mut reports = 0;
    while let Some((length, rest)) = left.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        let frame = std::str::from_utf8(frame).expect("text");
        reports += u32::from(frame.starts_with(r#"{"progress""#));
        assert_eq!(
            frame.starts_with(r#"{"answer""#),
            rest.is_empty(),
            "{frame}"
        );
        left = rest;
    }
    assert!((1..REPORTS).contains(&reports), "{reports} reports");
}

/// Opens connections that hold a slot each, and send no more requests.
fn fill(path: &Path) -> Vec<Client> {
    let ask = |_| {
        let mut client = Client::connect(path).expect("connect");
        let ping = Request::Server(ServerRequest::Ping);
        assert!(client.call(ping, &mut |_| ()).is_ok());
        client
    };
    (0..CONNECTIONS_MAX).map(ask).collect()
}

fn assert_busy(outcome: Result<Answer, Failure>) {
    let failure = outcome.expect_err("no place");
    assert_eq!(failure.kind, FailureKind::Busy, "{failure:?}");
    assert!(failure.advice.is_some());
}

#[test]
fn connection_over_the_limit_gets_busy_for_each_request() {
    let (_directory, path, _server) = start();
    let held = fill(&path);
    let list = || Request::Volume(VolumeRequest::List(List::default()));
    let mut at_once = Client::connect(&path).expect("connect");
    assert_busy(at_once.call(list(), &mut |_| ()));
    // One that sends a request after its slot has timed out.
    let mut late = Client::connect(&path).expect("connect");
    let mut silent = UnixStream::connect(&path).expect("connect");
    let mut said = String::new();
    silent.read_to_string(&mut said).expect("the end");
    assert!(said.contains(r#""kind":"busy""#), "{said}");
    assert_busy(late.call(list(), &mut |_| ()));
    // One with a request that is longer than the socket's buffer.
    let long = format!(
        r#"{{"version":1,"request":{{"volume":"list"}}{}}}"#,
        " ".repeat(4 << 20)
    );
    assert!(raw(&path, &framed(&long)).contains(r#""kind":"busy""#));
    drop(held);
}

#[test]
fn agent_requests_bypass_the_connection_limit() {
    let (_directory, path, _server) = start();
    let mut held = fill(&path);
    let mut client = Client::connect(&path).expect("connect");
    let ping = || Request::Server(ServerRequest::Ping);
    assert_eq!(client.call(ping(), &mut |_| ()), Ok(Done::already("here")));
    let list = || Request::Volume(VolumeRequest::List(List::default()));
    assert_busy(client.call(list(), &mut |_| ()));
    // On the refused connection, as commands do.
    let export = || Request::Pool(PoolRequest::Export);
    let (close, destroy) = (
        Close { in_use: false }.into(),
        Destroy {
            in_use: false,
            preview: control::operations::Preview::default(),
        }
        .into(),
    );
    let ends = [close, destroy].map(Request::Pool);
    for urgent in [Request::Status, export()].into_iter().chain(ends) {
        let failure = client.call(urgent, &mut |_| ()).expect_err("as it answers");
        assert_eq!(failure.kind, FailureKind::NotFound);
    }
    // It gets the next slot that becomes free.
    held.pop();
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_refused = || {
        let mut client = Client::connect(&path).expect("connect");
        let failure = client.call(list(), &mut |_| ()).expect_err("as it answers");
        failure.kind == FailureKind::Busy
    };
    while is_refused() {
        assert!(Instant::now() < deadline, "the slot is free");
    }
}

/// Responds to a ping; all other requests block until the test releases them.
struct Stuck(Mutex<Sender<()>>, Mutex<Receiver<()>>);

impl Handler for Stuck {
    fn handle(&self, request: Request, _: &mut dyn FnMut(&str)) -> Result<Answer, Failure> {
        if request != Request::Server(ServerRequest::Ping) {
            self.0.lock().expect("unharmed").send(()).expect("heard");
            // Exits with the test.
            let _ = self.1.lock().expect("unharmed").recv();
        }
        Ok(Done::already("here"))
    }
}

#[test]
fn hung_exports_over_the_limit_do_not_block_pings() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("tank.sock");
    let server = Server::bind(&path).expect("bind");
    let ((begun, begins), (end, ends)) = (channel(), channel());
    let handler = Arc::new(Stuck(Mutex::new(begun), Mutex::new(ends)));
    server.serve(handler).expect("serve");
    let held = fill(&path);
    let export = || Request::Pool(PoolRequest::Export);
    let hang = |_| {
        let mut client = Client::connect(&path).expect("connect");
        std::thread::spawn(move || client.call(export(), &mut |_| ()))
    };
    let hanging: Vec<_> = (0..URGENT_MAX).map(hang).collect();
    let limit = Duration::from_secs(60);
    hanging.iter().for_each(|_| {
        begins.recv_timeout(limit).expect("each is performed");
    });
    let mut client = Client::connect(&path).expect("connect");
    assert_busy(client.call(export(), &mut |_| ()));
    let ping = Request::Server(ServerRequest::Ping);
    assert!(client.call(ping, &mut |_| ()).is_ok());
    drop((held, end));
    hanging.into_iter().for_each(|one| {
        let _ = one.join().expect("answered");
    });
}

/// A stalled server accepts no connection, and its queue is full.
#[test]
fn connection_beyond_the_waiting_limit_gets_busy() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("tank.sock");
    let listener = UnixListener::bind(&path).expect("bind");
    rustix::net::listen(&listener, 0).expect("a queue of one");
    let (sender, outcome) = channel();
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        let error = loop {
            match Client::connect(&path) {
                Ok(client) => waiting.push(client),
                Err(error) => break error,
            }
        };
        let _ = sender.send((waiting.len(), error));
    });
    let (waiting, error) = outcome
        .recv_timeout(Duration::from_secs(60))
        .expect("a bounded wait");
    assert!((1..10).contains(&waiting), "{waiting}");
    assert_eq!(error.cause.kind(), std::io::ErrorKind::WouldBlock);
    assert!(!error.is_absent(), "the pool has a server");
}
