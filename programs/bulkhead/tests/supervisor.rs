//! What the server tells its supervisor, by systemd's own protocol: datagrams of assignments, one
//! a line (sd_notify(3)).

mod common;

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use common::nbd::Nbd;
use common::{Machine, SERVER_WAIT, ServerProcess};

/// What the supervisor waits for signs of life, in microseconds.
const WATCHDOG_US: u64 = 10_000_000;

/// The supervisor's end.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn serve(machine: &Machine) -> (Self, ServerProcess) {
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

    /// The next datagram. A stop of this process ends a wait with a limit early.
    fn receive(&self, datagram: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.0.recv(datagram) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                received => return received,
            }
        }
    }

    /// The assignments of the next datagram.
    fn hear(&self) -> Vec<String> {
        let mut datagram = [0; 4096];
        let count = self.receive(&mut datagram);
        let count = count.expect("the server says something");
        let text = std::str::from_utf8(&datagram[..count]).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    /// The next datagram that has this assignment.
    fn hear_of(&self, assignment: &str) -> Vec<String> {
        loop {
            let heard = self.hear();
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
fn the_supervisor_hears_of_readiness_life_and_the_end() {
    let machine = Machine::with_exported_volume();
    let (supervisor, server) = Supervisor::serve(&machine);
    let first = supervisor.hear();
    assert_eq!(first[0], "READY=1", "{first:?}");
    assert!(starts(&first, "STATUS="), "{first:?}");
    assert!(Nbd::connect(&machine.nbd_socket(), "v").is_ok());
    for _ in 0..3 {
        supervisor.hear_of("WATCHDOG=1");
    }
    assert_eq!(server.stop(), 0, "{}", machine.log());
    let last = supervisor.hear_of("STOPPING=1");
    assert!(starts(&last, "EXTEND_TIMEOUT_USEC="), "{last:?}");
}

/// The kernel holds a frozen process's datagrams of before; after those there are none.
#[test]
fn a_frozen_server_gives_no_sign_of_life() {
    let machine = Machine::with_exported_volume();
    let (supervisor, server) = Supervisor::serve(&machine);
    supervisor.hear_of("WATCHDOG=1");
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
    supervisor.hear_of("WATCHDOG=1");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}
