//! A simulated host for each test: a directory with disks, run and state directories, and the real
//! binary.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod heads;
pub mod legs;
pub mod nbd;
#[path = "../../../../protocols/nbd/tests/support/tools.rs"]
pub mod tools;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time for a server to start or to exit.
pub const SERVER_WAIT: Duration = Duration::from_secs(60);

/// A directory that simulates a host.
pub struct TestHost {
    pub directory: tempfile::TempDir,
}

/// The output of a command.
pub struct CommandOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// Returns the output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| {
            panic!("not JSON ({error}): {} {}", self.out, self.err);
        })
    }
}

impl TestHost {
    /// Creates a host with disks of 128 MiB of these names.
    pub fn with_disks(names: &[&str]) -> Self {
        let machine = Self {
            directory: tempfile::tempdir().expect("a directory"),
        };
        for name in names {
            machine.add_disk(name, 128 << 20);
        }
        machine
    }

    pub fn add_disk(&self, name: &str, bytes: u64) {
        let file = std::fs::File::create(self.path(name)).expect("a file");
        file.set_len(bytes).expect("a sparse file");
    }

    /// On return, the server that obeys `faults` has no device of the pool any more.
    pub fn remove_disks(&self, faults: &Path) {
        let gone = |disk: &str| format!("{} gone\n", self.path(disk).display());
        std::fs::write(faults, gone("a") + &gone("b")).expect("written");
        eventually("both are gone", || {
            self.log().matches("fails on command").count() == 2
        });
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the command, with all paths private to the simulated host.
    pub fn command(&self, words: &str) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_bulkhead"), words)
    }

    /// The same for one of our binaries.
    pub fn command_of(&self, program: &str, words: &str) -> Command {
        let mut command = Command::new(program);
        command
            .args(words.split_whitespace())
            .env("BULKHEAD_RUN_DIR", self.path("run"))
            .env("BULKHEAD_STATE_DIR", self.path("state"))
            .env("BULKHEAD_CLUSTER_KEY", self.path("authkey"))
            .env_remove("BULKHEAD_SEARCH")
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, words: &str) -> CommandOutput {
        let output = self.command(words).output().expect("the program runs");
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs the command, which must succeed.
    pub fn ok(&self, words: &str) -> CommandOutput {
        let said = self.run(words);
        assert_eq!(said.code, 0, "{words}: {} {}", said.out, said.err);
        said
    }

    /// Runs the command, which must fail with `code` and a message that contains `part`.
    pub fn refused(&self, words: &str, code: i32, part: &str) {
        let said = self.run(words);
        assert_eq!(said.code, code, "{words}: {} {}", said.out, said.err);
        assert!(said.err.contains(part), "{words}: {}", said.err);
    }

    /// Creates pool `tank`, a mirror of disks `a` and `b`, with volume `tank/v` of 32 MiB that is
    /// the NBD export `v`.
    pub fn with_exported_volume() -> Self {
        let machine = Self::with_disks(&["a", "b"]);
        machine.ok("pool create tank mirror a b");
        machine.ok("volume create tank/v --size 32M --sparse");
        machine.ok("nbd export tank/v --name v");
        machine
    }

    /// Writes an appliance file in which this host serves `tank` at `address` from `disks`.
    pub fn describe(&self, address: &str, disks: &[PathBuf]) {
        let text = format!(
            "format = 1\nname = \"test\"\n\
             [networks.lo]\nsubnets = [\"127.0.0.0/8\"]\nheartbeat = 0\n\
             [heads.left]\nnumber = 1\n\
             links = {{ lo = {{ interface = \"lo\", addresses = [\"127.0.0.1\"] }} }}\n\
             [pools.tank]\nhome = \"left\"\narc = \"128M\"\ndisks = {disks:?}\n\
             addresses = [{{ network = \"lo\", address = \"{address}\" }}]\n"
        );
        std::fs::write(self.path("appliance.toml"), text).expect("written");
    }

    /// Returns a `PATH` in which a stub that prints this replaces another command.
    pub fn stand_in(&self, name: &str, says: &str) -> String {
        let folder = self.path("bin");
        std::fs::create_dir_all(&folder).expect("a folder");
        program(&folder.join(name), &format!("cat <<'END'\n{says}\nEND"));
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", folder.display())
    }

    /// Starts the server of `tank`, and returns when it listens.
    pub fn serve(&self, options: &str) -> ServerProcess {
        self.serve_with(options, |_| ())
    }

    /// The same, with changes to the command before it starts.
    pub fn serve_with(&self, options: &str, change: impl FnOnce(&mut Command)) -> ServerProcess {
        self.serve_pool("tank", "nbd.sock", options, change)
    }

    /// The server of `pool`, with its NBD socket in the file `nbd`.
    pub fn serve_pool(
        &self,
        pool: &str,
        nbd: &str,
        options: &str,
        change: impl FnOnce(&mut Command),
    ) -> ServerProcess {
        let nbd = self.path(nbd);
        let words = format!(
            "pool-server {pool} --iscsi 127.0.0.1:0 --nbd unix:{} --ready-fd 1 {options}",
            nbd.display()
        );
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log");
        let mut command = self.command(&words);
        command.stdout(Stdio::piped()).stderr(log);
        change(&mut command);
        let mut child = command.spawn().expect("the server starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("readable");
        let server = ServerProcess { child };
        assert_eq!(line, "READY\n", "{}", self.log());
        server
    }

    /// Returns the log of the servers so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Returns the iSCSI portals of the server (`ADDRESS:PORT`) with addresses that start like
    /// this.
    pub fn portal(&self, address: &str) -> String {
        let portal = self.listener("iscsi_portals", address);
        let (portal, _group) = portal.split_once(',').expect("a group");
        portal.to_owned()
    }

    /// Returns the NBD listener of the server over TCP, with an address that starts like this.
    pub fn nbd_listener(&self, address: &str) -> String {
        self.listener("nbd_listeners", address)
    }

    fn listener(&self, kind: &str, address: &str) -> String {
        let status = self.ok("status tank --json").json();
        let all = status["server"][kind].as_array().expect("a list").clone();
        let mut all = all.iter().filter_map(|one| one.as_str());
        let found = all.find(|one| one.starts_with(address));
        found
            .unwrap_or_else(|| panic!("{kind} on {address}: {status}"))
            .to_owned()
    }

    /// The NBD socket of the server.
    pub fn nbd_socket(&self) -> PathBuf {
        self.path("nbd.sock")
    }
}

/// A running server; killed when dropped.
pub struct ServerProcess {
    pub child: Child,
}

impl ServerProcess {
    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().expect("alive until now");
        self.child.wait().expect("a child of ours");
    }

    /// SIGTERM, then the exit code.
    pub fn stop(mut self) -> i32 {
        self.signal("-TERM");
        self.wait()
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub fn freeze(&self) {
        freeze(self.child.id());
    }

    /// Returns the exit code when the server exits by itself.
    pub fn wait(&mut self) -> i32 {
        let deadline = Instant::now() + SERVER_WAIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "the server did not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for TestHost {
    /// The servers' log before a failure explains it.
    #[allow(
        clippy::print_stderr,
        reason = "shown by the test runner with a failure"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the servers\n{}--- end of the log", self.log());
        }
    }
}

/// Creates an executable shell script.
pub fn program(path: &Path, script: &str) {
    executable(path, &format!("#!/bin/sh\n{script}\n"));
}

pub fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("permitted");
}

/// Sends a signal to a process.
pub fn signal(pid: impl std::fmt::Display, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Stops a process, and returns when it has stopped. The signal is delivered to each thread when that runs next: until
/// then it can still respond.
pub fn freeze(pid: impl std::fmt::Display) {
    signal(&pid, "-STOP");
    let is_stalled = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = thread.and_then(|thread| std::fs::read_to_string(thread.path().join("stat")));
        let state = stat.as_ref().map(|stat| stat.rsplit_once(") "));
        matches!(state, Ok(Some((_, rest))) if rest.starts_with('T'))
    };
    eventually("each thread is stopped", || {
        let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        threads.all(is_stalled)
    });
}

/// Polls `wanted` until it returns true; fails after a time-out.
pub fn eventually(what: &str, mut wanted: impl FnMut() -> bool) {
    let deadline = Instant::now() + SERVER_WAIT;
    while !wanted() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the file at `path` contains `text`.
pub fn contains(path: &Path, text: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|found| found.contains(text))
}
