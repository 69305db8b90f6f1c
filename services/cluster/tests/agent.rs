//! The pool agent as Pacemaker runs it, as a process, with a stand-in for the server.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Limit of an operation in these tests, in milliseconds.
const TIMEOUT_MS: &str = "60000";
/// Limit of an operation that times out.
const SHORT: (&str, &str) = ("OCF_RESKEY_CRM_meta_timeout", "6000");
/// Time limit for a process of the test, on a busy host.
const TIME_LIMIT: Duration = Duration::from_secs(60);

struct Bench {
    folder: tempfile::TempDir,
}

/// The agent, which cargo builds next to the tests.
fn agent_path() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a binary");
    let target = test
        .parent()
        .and_then(Path::parent)
        .expect("target/debug/deps");
    let agent = target.join("examples/stand_in_agent");
    assert!(
        agent.exists(),
        "`cargo test -p cluster --examples` builds the agent"
    );
    agent
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder }
    }

    fn agent(&self, action: &str, more: &[(&str, &str)]) -> Output {
        Command::new(agent_path())
            .arg(action)
            .env("STAND_IN_DIR", self.folder.path())
            .env("OCF_RESKEY_pool", "tank")
            .env("OCF_RESKEY_CRM_meta_timeout", TIMEOUT_MS)
            .envs(more.iter().copied())
            .output()
            .expect("the agent runs")
    }

    fn code(&self, action: &str, more: &[(&str, &str)]) -> i32 {
        let output = self.agent(action, more);
        output.status.code().unwrap_or(-1)
    }

    fn server_pid(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("pid"));
        text.expect("the server wrote it").trim().to_owned()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.server_pid()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    /// Suspends the server, and returns when it is suspended: the signal alone may still be pending.
    fn freeze(&self) {
        self.signal("-STOP");
        let stat = format!("/proc/{}/stat", self.server_pid());
        let deadline = Instant::now() + TIME_LIMIT;
        while !std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T ")) {
            assert!(Instant::now() < deadline, "the server does not stop");
            std::thread::yield_now();
        }
    }

    fn has_process(&self) -> bool {
        lives(&self.server_pid())
    }
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // A container without a real init may not reap the orphan.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

impl Drop for Bench {
    fn drop(&mut self) {
        // By the agent itself; harmless if no server runs.
        if !std::thread::panicking() {
            self.agent("stop", &[]);
        }
    }
}

#[test]
fn start_monitor_and_stop_succeed_in_sequence() {
    let bench = Bench::new();
    assert_eq!(bench.code("monitor", &[]), 7);
    assert_eq!(bench.code("start", &[]), 0);
    assert_eq!(bench.code("monitor", &[]), 0);
    let pid = bench.server_pid();
    assert_eq!(bench.code("start", &[]), 0, "a second start is harmless");
    assert_eq!(bench.server_pid(), pid);
    assert_eq!(bench.code("stop", &[]), 0);
    assert_eq!(bench.code("monitor", &[]), 7);
    assert_eq!(bench.code("stop", &[]), 0, "a second stop is harmless");
}

/// The kernel may take long to free the memory of a process.
#[test]
fn lingering_server_after_release_is_killed_before_start() {
    let bench = Bench::new();
    assert_eq!(bench.code("start", &[("STAND_IN_MODE", "lingers")]), 0);
    let pid = bench.server_pid();
    assert_eq!(bench.code("stop", &[]), 0);
    assert!(bench.has_process(), "it lingers");
    assert_eq!(bench.code("monitor", &[]), 7);
    assert_eq!(bench.code("stop", &[]), 0, "a second stop is harmless");
    assert_eq!(bench.code("start", &[]), 0);
    assert_ne!(bench.server_pid(), pid);
    assert!(!lives(&pid));
    assert_eq!(bench.code("monitor", &[]), 0);
}

#[test]
fn a_killed_server_is_not_running_and_can_be_started_again() {
    let bench = Bench::new();
    assert_eq!(bench.code("start", &[]), 0);
    bench.signal("-KILL");
    let deadline = Instant::now() + TIME_LIMIT;
    while bench.has_process() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(bench.code("monitor", &[]), 7);
    assert_eq!(bench.code("start", &[]), 0);
    assert_eq!(bench.code("monitor", &[]), 0);
}

#[test]
fn a_frozen_server_fails_the_monitor_and_is_killed_by_stop() {
    let bench = Bench::new();
    assert_eq!(bench.code("start", &[]), 0);
    bench.freeze();
    let started = Instant::now();
    assert_eq!(bench.code("monitor", &[]), 1);
    assert!(
        started.elapsed() < TIME_LIMIT / 2,
        "a monitor does not block on a server"
    );
    assert_eq!(bench.code("stop", &[]), 0);
    assert!(!bench.has_process());
}

#[test]
fn server_ignoring_stop_is_killed_within_time_out() {
    let bench = Bench::new();
    assert_eq!(bench.code("start", &[("STAND_IN_MODE", "stubborn")]), 0);
    let started = Instant::now();
    assert_eq!(bench.code("stop", &[SHORT]), 0);
    assert!(started.elapsed() < TIME_LIMIT / 2);
    assert!(!bench.has_process());
}

#[test]
fn slow_or_dead_server_fails_start_and_leaves_no_process() {
    for mode in ["late", "dies"] {
        let bench = Bench::new();
        let output = bench.agent("start", &[("STAND_IN_MODE", mode), SHORT]);
        assert_eq!(output.status.code(), Some(1), "{mode}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.starts_with("ocf-exit-reason:the server"),
            "{mode}: {said}"
        );
        assert!(!bench.has_process(), "{mode}");
    }
}

#[test]
fn interrupted_start_continues_and_can_be_stopped() {
    let bench = Bench::new();
    let mut start = Command::new(agent_path())
        .arg("start")
        .env("STAND_IN_DIR", bench.folder.path())
        .env("STAND_IN_MODE", "late")
        .env("OCF_RESKEY_pool", "tank")
        .spawn()
        .expect("the agent runs");
    let note = bench.folder.path().join("tank.agent.json");
    let deadline = Instant::now() + TIME_LIMIT;
    while !(note.exists() && bench.folder.path().join("pid").exists()) {
        assert!(Instant::now() < deadline, "the server was not started");
        std::thread::yield_now();
    }
    start.kill().expect("alive until now");
    start.wait().expect("a child of ours");
    let monitor = bench.agent("monitor", &[]);
    assert_eq!(monitor.status.code(), Some(1));
    let said = String::from_utf8_lossy(&monitor.stderr).into_owned();
    assert!(said.contains("still starting"), "{said}");
    assert_eq!(bench.code("stop", &[]), 0);
    assert!(!bench.has_process());
}

#[test]
fn a_pool_of_another_head_is_started_after_a_fence_only() {
    let bench = Bench::new();
    let of_left = ("STAND_IN_LABEL", "left");
    for peer in ["member", "lost"] {
        let output = bench.agent("start", &[of_left, ("STAND_IN_PEER", peer)]);
        assert_eq!(output.status.code(), Some(1), "{peer}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("left"));
        assert!(!bench.folder.path().join("pid").exists(), "{peer}");
    }
    assert_eq!(
        bench.code("start", &[of_left, ("STAND_IN_PEER", "fenced")]),
        0
    );
}

#[test]
fn process_with_reused_pid_is_not_killed() {
    let bench = Bench::new();
    let note = format!("{{\"pid\":{},\"started_ticks\":1}}", std::process::id());
    std::fs::write(bench.folder.path().join("tank.agent.json"), note).expect("writable");
    assert_eq!(bench.code("monitor", &[]), 7);
    assert_eq!(bench.code("stop", &[]), 0);
}

#[test]
fn invalid_parameters_and_unknown_actions_are_distinguished() {
    let bench = Bench::new();
    assert_eq!(bench.code("start", &[("OCF_RESKEY_pool", "no/pool")]), 6);
    assert_eq!(bench.code("promote", &[]), 3);
    assert_eq!(bench.code("validate-all", &[]), 0);
    assert_eq!(
        bench.code("validate-all", &[("STAND_IN_DIR", "/nonexistent")]),
        2
    );
    let meta = bench.agent("meta-data", &[("OCF_RESKEY_pool", "")]);
    assert!(meta.status.success());
    let meta = String::from_utf8_lossy(&meta.stdout).into_owned();
    assert!(meta.contains("<resource-agent name=\"pool\""), "{meta}");
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn ocf_tester_passes() {
    let tester = Path::new("/usr/sbin/ocf-tester");
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    let judges = [tester, Path::new("/usr/bin/xmllint")];
    if !judges.iter().all(|judge| judge.exists()) || !is_root {
        eprintln!("skipped: ocf-tester or xmllint is not installed, or this is not root");
        return;
    }
    let bench = Bench::new();
    let output = Command::new(tester)
        .args(["-n", "test-pool", "-o", "pool=tank"])
        .arg(agent_path())
        .env("STAND_IN_DIR", bench.folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
