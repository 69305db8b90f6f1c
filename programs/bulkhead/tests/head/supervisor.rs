//! The server's notifications to its supervisor, by systemd's own protocol: datagrams of assignments, one a line
//! (sd_notify(3)). A supervisor, a log or a parent that does not read blocks nothing.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Stdio;
use std::time::Duration;

use crate::common::nbd::Nbd;
use crate::common::{SERVER_WAIT, ServerProcess, TestHost, eventually};
use rustix::fs::OFlags;

/// The supervisor's watchdog time-out, in microseconds.
const WATCHDOG_US: u64 = 10_000_000;

/// The supervisor's end.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn serve(machine: &TestHost) -> (Self, ServerProcess) {
        let path = machine.path("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(SERVER_WAIT)).expect("a limit");
        let server = machine.serve_with("", |command| {
            command
                .env("NOTIFY_SOCKET", path)
                .env("WATCHDOG_USEC", WATCHDOG_US.to_string());
        });
        (Self(socket), server)
    }

    /// Fills the kernel's queue, and reads nothing.
    fn freeze_supervisor(&self, machine: &TestHost) {
        let stranger = UnixDatagram::unbound().expect("a socket");
        stranger.set_nonblocking(true).expect("a flag");
        let path = machine.path("notify");
        eventually("the queue is full", || {
            stranger.send_to(b"X_STRANGER=1", &path).is_err()
        });
    }

    /// Returns the next datagram. A stop of this process cuts a bounded wait short.
    fn receive(&self, datagram: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.0.recv(datagram) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                received => return received,
            }
        }
    }

    /// The assignments of the next datagram.
    fn receive_all(&self) -> Vec<String> {
        let mut datagram = [0; 4096];
        let count = self.receive(&mut datagram);
        let count = count.expect("the server sends a notification");
        let text = std::str::from_utf8(&datagram[..count]).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the next datagram with this assignment.
    fn await_notification(&self, assignment: &str) -> Vec<String> {
        loop {
            let heard = self.receive_all();
            if heard.iter().any(|one| one == assignment) {
                return heard;
            }
        }
    }
}

fn starts(heard: &[String], with: &str) -> bool {
    heard.iter().any(|one| one.starts_with(with))
}

#[test]
fn supervisor_is_notified_of_readiness_watchdog_and_stop() {
    let machine = TestHost::with_exported_volume();
    let (supervisor, server) = Supervisor::serve(&machine);
    let first = supervisor.receive_all();
    assert_eq!(first[0], "READY=1", "{first:?}");
    assert!(starts(&first, "STATUS="), "{first:?}");
    assert!(Nbd::connect(&machine.nbd_socket(), "v").is_ok());
    for _ in 0..3 {
        supervisor.await_notification("WATCHDOG=1");
    }
    assert_eq!(server.stop(), 0, "{}", machine.log());
    let last = supervisor.await_notification("STOPPING=1");
    assert!(starts(&last, "EXTEND_TIMEOUT_USEC="), "{last:?}");
}

/// The kernel still holds datagrams from before the freeze; after those there are none.
#[test]
fn frozen_server_sends_no_watchdog() {
    let machine = TestHost::with_exported_volume();
    let (supervisor, server) = Supervisor::serve(&machine);
    supervisor.await_notification("WATCHDOG=1");
    let pid = nix::unistd::Pid::from_raw(server.child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("stopped");
    let silence = Duration::from_secs(3);
    supervisor
        .0
        .set_read_timeout(Some(silence))
        .expect("a limit");
    let mut datagram = [0; 4096];
    while supervisor.receive(&mut datagram).is_ok() {}
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("continued");
    supervisor
        .0
        .set_read_timeout(Some(SERVER_WAIT))
        .expect("a limit");
    supervisor.await_notification("WATCHDOG=1");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn hung_supervisor_does_not_block_stop() {
    let machine = TestHost::with_exported_volume();
    let (supervisor, server) = Supervisor::serve(&machine);
    supervisor.await_notification("READY=1");
    supervisor.freeze_supervisor(&machine);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

/// A full pipe or socket that blocks a writer, with its reader.
fn full(to: OwnedFd, from: OwnedFd) -> (Stdio, OwnedFd) {
    let flags = rustix::fs::fcntl_getfl(&to).expect("flags");
    rustix::fs::fcntl_setfl(&to, flags | OFlags::NONBLOCK).expect("set");
    while rustix::io::write(&to, b"nobody reads this\n").is_ok() {}
    while rustix::io::write(&to, b".").is_ok() {}
    rustix::fs::fcntl_setfl(&to, flags).expect("set");
    (Stdio::from(to), from)
}

fn full_pipe() -> (Stdio, OwnedFd) {
    let (from, to) = rustix::pipe::pipe().expect("a pipe");
    full(to, from)
}

/// Connected like the journal of systemd.
fn full_socket() -> (Stdio, OwnedFd) {
    let (from, to) = UnixStream::pair().expect("a pair");
    full(to.into(), from.into())
}

fn serves_and_stops_with_log(log: fn() -> (Stdio, OwnedFd)) {
    let machine = TestHost::with_exported_volume();
    let (stderr, _unread) = log();
    let server = machine.serve_with("", |command| {
        command.stderr(stderr).env("RUST_LOG", "trace");
    });
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("served");
    client.write(0, &[7; 4096]).expect("written");
    assert_eq!(machine.run("pool status tank").code, 0);
    assert_eq!(server.stop(), 0);
}

#[test]
fn unread_log_pipe_does_not_block_server() {
    serves_and_stops_with_log(full_pipe);
}

#[test]
fn hung_journal_does_not_block_server() {
    serves_and_stops_with_log(full_socket);
}

#[test]
fn parent_that_does_not_read_does_not_block_server() {
    let machine = TestHost::with_exported_volume();
    let (stdout, _unread) = full_pipe();
    let nbd = machine.nbd_socket();
    let words = format!(
        "pool-server tank --iscsi 127.0.0.1:0 --nbd unix:{} --ready-fd 1",
        nbd.display()
    );
    let mut command = machine.command(&words);
    let command = command.stdout(stdout).stderr(Stdio::null());
    let child = command.spawn().expect("the server starts");
    let server = ServerProcess { child };
    eventually("clients are served", || Nbd::connect(&nbd, "v").is_ok());
    assert_eq!(server.stop(), 0);
}

#[test]
fn head_with_unread_output_becomes_ready() {
    let machine = TestHost::with_disks(&[]);
    let path = machine.path("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(SERVER_WAIT)).expect("a limit");
    let ((stdout, _out), (stderr, _err)) = (full_pipe(), full_pipe());
    let words = "head --listen 127.0.0.1:0 --name here --head-dir head --file appliance.toml";
    let mut command = machine.command(words);
    command
        .stdout(stdout)
        .stderr(stderr)
        .env("NOTIFY_SOCKET", path);
    let child = command.spawn().expect("the head starts");
    let _head = ServerProcess { child };
    let supervisor = Supervisor(socket);
    let first = supervisor.receive_all();
    assert_eq!(first[0], "READY=1", "{first:?}");
}
