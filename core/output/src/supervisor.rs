//! Notifications to the service manager, in datagrams of assignments (sd_notify(3)). No-op without a manager.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::retry_until::retry_until;

/// Sends notifications to the service manager, which may stall: nothing blocks on it, and it receives the newest status
/// when it resumes.
#[derive(Debug)]
pub struct Supervisor {
    socket: Option<Socket>,
    /// Interval of keep-alives, if the manager wants them.
    sign_interval: Option<Duration>,
    last_sign: Instant,
    status: String,
    owes_ready: bool,
    owes_status: bool,
}

/// Longest interval of keep-alives.
const KEEPALIVE_INTERVAL_MAX: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Reads the manager's settings from the environment.
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let (wait_us, pid) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
        let wait = watchdog_wait(wait_us.as_deref(), pid.as_deref(), std::process::id());
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let socket = Socket::new(&name);
            let unusable = |error: &io::Error| tracing::warn!(%error, "NOTIFY_SOCKET is not used");
            socket.inspect_err(unusable).ok()
        });
        Self::new(socket, wait)
    }

    fn new(socket: Option<Socket>, watchdog: Option<Duration>) -> Self {
        Self {
            socket,
            // Half of the manager's time-out leaves room for a slow host.
            sign_interval: watchdog.map(|wait| (wait / 2).min(KEEPALIVE_INTERVAL_MAX)),
            last_sign: Instant::now(),
            status: String::new(),
            owes_ready: false,
            owes_status: false,
        }
    }

    /// The server listens.
    pub fn ready(&mut self, status: &str) {
        self.owes_ready = true;
        self.set_status(status);
        self.write_line();
    }

    /// Sends a keep-alive if one is due, the status if it changed, and pending notifications. Must be called often.
    pub fn tick(&mut self, status: &str) {
        self.set_status(status);
        self.write_line();
    }

    /// The server is ready, and the caller will not call [`Self::tick`].
    pub fn ready_without_tick(self, status: &str, limit: Duration) {
        let text = format!("READY=1\n{}", assignment_of(status));
        self.retry_until("that it is ready", text, limit);
    }

    /// The server is stopping; it needs up to `wait` for that.
    pub fn stopping(self, status: &str, wait: Duration) {
        let extend_us = wait.as_micros();
        let status = assignment_of(status);
        let text = format!("STOPPING=1\n{status}EXTEND_TIMEOUT_USEC={extend_us}\n");
        self.retry_until("that it stops", text, wait);
    }

    fn retry_until(self, what: &str, text: String, limit: Duration) {
        if let Some(socket) = self.socket {
            retry_until(what, limit, move || socket.send(&text).is_ok());
        }
    }

    fn set_status(&mut self, status: &str) {
        if self.status != status {
            self.status = status.to_owned();
            self.owes_status = true;
        }
    }

    fn write_line(&mut self) {
        let Some(socket) = &self.socket else { return };
        let is_due = |interval| self.last_sign.elapsed() >= interval;
        let is_sign = self.sign_interval.is_some_and(is_due);
        let mut text = String::new();
        if self.owes_ready {
            text.push_str("READY=1\n");
        }
        if self.owes_status {
            text.push_str(&assignment_of(&self.status));
        }
        if is_sign {
            text.push_str("WATCHDOG=1\n");
        }
        if text.is_empty() {
            return;
        }
        match socket.send(&text) {
            Ok(()) => {
                (self.owes_ready, self.owes_status) = (false, false);
                if is_sign {
                    self.last_sign = Instant::now();
                }
            }
            Err(error) => tracing::debug!(%error, "the service manager was not reached"),
        }
    }
}

fn assignment_of(status: &str) -> String {
    format!("STATUS={}\n", status.replace('\n', " "))
}

/// Returns the manager's watchdog time-out, from the variables of sd_watchdog_enabled(3): a manager
/// need not name the process.
fn watchdog_wait(wait_us: Option<&str>, pid: Option<&str>, own_pid: u32) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(own_pid));
    let wait_us = wait_us?.parse().ok().filter(|wait_us| *wait_us > 0);
    wait_us.filter(|_| is_meant).map(Duration::from_micros)
}

/// The non-blocking socket to the manager.
#[derive(Debug)]
struct Socket {
    own: UnixDatagram,
    manager: SocketAddr,
}

impl Socket {
    /// Parses the value of `NOTIFY_SOCKET`: a path, or an abstract name after `@`.
    fn new(name: &OsStr) -> io::Result<Self> {
        let manager = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let own = UnixDatagram::unbound()?;
        own.set_nonblocking(true)?;
        Ok(Self { own, manager })
    }

    fn send(&self, text: &str) -> io::Result<()> {
        self.own
            .send_to_addr(text.as_bytes(), &self.manager)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(30);

    /// A manager that does not read unless the test requests it.
    struct Manager {
        socket: UnixDatagram,
        _folder: tempfile::TempDir,
        path: std::path::PathBuf,
    }

    impl Manager {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("notify");
            let socket = UnixDatagram::bind(&path).expect("a socket");
            socket.set_read_timeout(Some(WAIT)).expect("a limit");
            Self {
                socket,
                _folder: folder,
                path,
            }
        }

        fn supervisor(&self, watchdog: Option<Duration>) -> Supervisor {
            let socket = Socket::new(self.path.as_os_str()).expect("a way");
            Supervisor::new(Some(socket), watchdog)
        }

        /// Fills the kernel's queue, and returns the number of datagrams in it.
        fn fill(&self) -> usize {
            let stranger = Socket::new(self.path.as_os_str()).expect("a way");
            let mut count = 0;
            while stranger.send("X_STRANGER=1\n").is_ok() {
                count += 1;
            }
            count
        }

        fn receive(&self) -> String {
            let mut datagram = [0; 4096];
            let count = self.socket.recv(&mut datagram).expect("something is said");
            String::from_utf8_lossy(&datagram[..count]).into_owned()
        }

        fn skip(&self, count: usize) {
            (0..count).for_each(|_| assert_eq!(self.receive(), "X_STRANGER=1\n"));
        }
    }

    #[test]
    fn stalled_manager_receives_the_latest_status() {
        let manager = Manager::new();
        let mut supervisor = manager.supervisor(None);
        let filled = manager.fill();
        supervisor.ready("serving");
        for number in 0..1000 {
            supervisor.tick(&format!("step {number}"));
        }
        manager.skip(filled);
        supervisor.tick("step 999");
        assert_eq!(manager.receive(), "READY=1\nSTATUS=step 999\n");
        supervisor.tick("step 1000");
        assert_eq!(manager.receive(), "STATUS=step 1000\n");
    }

    #[test]
    fn stopping_is_resent_until_delivered() {
        let manager = Manager::new();
        let filled = manager.fill();
        manager.supervisor(None).stopping("draining", WAIT);
        manager.skip(filled);
        let expected = "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=30000000\n";
        assert_eq!(manager.receive(), expected);
    }

    #[test]
    fn restarted_manager_receives_ready_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = Socket::new(path.as_os_str()).expect("a way");
        Supervisor::new(Some(socket), None).ready_without_tick("serving", WAIT);
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_read_timeout(Some(WAIT)).expect("a limit");
        let mut datagram = [0; 4096];
        let count = manager.recv(&mut datagram).expect("something is said");
        assert_eq!(&datagram[..count], b"READY=1\nSTATUS=serving\n");
    }

    #[test]
    fn undelivered_watchdog_ping_is_sent_when_possible() {
        let manager = Manager::new();
        let mut supervisor = manager.supervisor(Some(Duration::from_micros(2)));
        supervisor.ready("serving");
        assert!(manager.receive().starts_with("READY=1\nSTATUS=serving\n"));
        let filled = manager.fill();
        supervisor.tick("serving");
        manager.skip(filled);
        supervisor.tick("serving");
        assert_eq!(manager.receive(), "WATCHDOG=1\n");
    }

    #[test]
    fn abstract_socket_name_is_supported() {
        let name = format!("bulkhead-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("a socket");
        let socket = Socket::new(OsStr::new(&format!("@{name}"))).expect("a way");
        Supervisor::new(Some(socket), None).ready("here");
        let mut datagram = [0; 4096];
        let count = manager.recv(&mut datagram).expect("something is said");
        assert_eq!(&datagram[..count], b"READY=1\nSTATUS=here\n");
    }

    #[test]
    fn watchdog_pings_only_for_the_matching_pid() {
        let wait = Some(Duration::from_secs(3));
        for (wait_us, pid, expected) in [
            (Some("3000000"), Some("7"), wait),
            (Some("3000000"), None, wait),
            (Some("3000000"), Some("8"), None),
            (Some("3000000"), Some("x"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
            (None, Some("7"), None),
        ] {
            assert_eq!(
                watchdog_wait(wait_us, pid, 7),
                expected,
                "{wait_us:?} {pid:?}"
            );
        }
    }
}
