//! `bench network` between two network namespaces, with real servers of iperf3.

#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Output, Stdio};

use nix::sched::{CloneFlags, setns, unshare};

const SERVER: &str = "10.66.1.1";
const CLIENT: &str = "10.66.1.2";

/// A network namespace; it exists as long as this value, or a process in it.
struct Network(File);

impl Network {
    /// `None` where this host permits none.
    fn new() -> Option<Self> {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).ok()?;
            File::open("/proc/thread-self/ns/net").ok()
        });
        made.join().expect("no panic").map(Self)
    }

    /// Runs `work` in it; child processes are in it, too.
    fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).expect("it is ours");
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().expect("no panic"))
    }

    fn ip(&self, words: &str) {
        let output = self.enter(|| Command::new("ip").args(words.split(' ')).output());
        let output = output.expect("ip runs");
        assert!(output.status.success(), "ip {words}: {output:?}");
    }
}

/// A process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bench(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.args(["bench", "network"]).args(words.split(' '));
    command
}

/// Two namespaces with a cable; `None` with a reason where the test cannot run.
fn pair() -> Option<(Network, Network)> {
    if Command::new("iperf3").arg("--version").output().is_err() {
        eprintln!("skipped: iperf3 is not installed");
        return None;
    }
    let (Some(left), Some(right)) = (Network::new(), Network::new()) else {
        eprintln!("skipped: this host permits no network namespaces");
        return None;
    };
    let end = format!("/proc/{}/fd/{}", std::process::id(), right.0.as_raw_fd());
    left.ip(&format!(
        "link add cable type veth peer name cable netns {end}"
    ));
    for (network, address) in [(&left, SERVER), (&right, CLIENT)] {
        network.ip(&format!("address add {address}/24 dev cable"));
        network.ip("link set cable up");
        network.ip("link set lo up");
    }
    Some((left, right))
}

/// A server on the left, which listens.
fn serve(left: &Network, words: &str) -> Killed {
    let server = left.enter(|| {
        let mut command = bench(&format!("--serve {words}"));
        command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn()
    });
    let mut server = Killed(server.expect("it starts"));
    let stderr = server.0.stderr.take().expect("piped");
    let first = BufReader::new(stderr).lines().next();
    let first = first.expect("a line").expect("text");
    assert!(first.contains("listens on"), "{first}");
    server
}

fn output(network: &Network, words: &str) -> Output {
    network.enter(|| bench(words).output()).expect("it runs")
}

#[test]
fn throughput_is_measured_by_connections_in_both_directions() {
    let Some((left, right)) = pair() else { return };
    let _server = serve(&left, &format!("--bind {SERVER} --connections 2"));
    let folder = tempfile::tempdir().expect("a directory");
    let picture = folder.path().join("network.svg");
    let words = format!(
        "{SERVER} --connections 2 --seconds 2 --json --svg {}",
        picture.display()
    );
    let measured = output(&right, &words);
    assert!(measured.status.success(), "{measured:?}");
    let report: serde_json::Value = serde_json::from_slice(&measured.stdout).expect("JSON");
    assert_eq!(report["interface"], "cable");
    let rows = report["rows"].as_array().expect("rows");
    let connections: Vec<_> = rows.iter().map(|row| row["connections"].as_u64()).collect();
    assert_eq!(connections, [Some(1), Some(2)]);
    for row in rows {
        assert!(row["gb_per_s"].as_f64() > Some(0.001), "{row}");
        assert!(row["retransmits"].is_u64(), "{row}");
        assert!(row["cpu_percent"].as_f64() > Some(0.0), "{row}");
        assert!(row["peer_cpu_percent"].as_f64() > Some(0.0), "{row}");
        assert!(
            row["bound"].as_str().is_some_and(|bound| !bound.is_empty()),
            "{row}"
        );
    }
    let drawn = std::fs::read_to_string(&picture).expect("a picture");
    assert_eq!(drawn.matches("<circle").count(), 2, "{drawn}");

    let reverse = output(
        &right,
        &format!("{SERVER} --connections 1 --seconds 2 --reverse"),
    );
    assert!(reverse.status.success(), "{reverse:?}");
    let table = String::from_utf8_lossy(&reverse.stdout).into_owned();
    assert!(
        table.contains(&format!("TCP from {SERVER} over cable")),
        "{table}"
    );
    assert!(table.contains("BOUND BY"), "{table}");
}

#[test]
fn missing_server_and_used_port_are_refused_with_the_remedy() {
    let Some((left, right)) = pair() else { return };
    let refused = output(&right, &format!("{SERVER} --connections 1 --seconds 2"));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{text}");
    assert!(
        text.contains("measured nothing") && text.contains("bench network --serve"),
        "{text}"
    );
    let server = serve(&left, "--connections 1");
    let second = output(&left, "--serve --connections 1");
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success(), "{text}");
    assert!(
        text.contains("port 5201") && text.contains("--port"),
        "{text}"
    );
    // The kernel kills the servers of iperf3 with the process that started them.
    drop(server);
    drop(serve(&left, "--connections 1"));
}

#[test]
fn host_without_iperf3_is_refused_with_the_package() {
    let empty = tempfile::tempdir().expect("a directory");
    let mut command = bench("127.0.0.1 --connections 1 --seconds 2");
    let refused = command.env("PATH", empty.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{text}");
    assert!(
        text.contains("iperf3 is not installed") && text.contains("apt-get install iperf3"),
        "{text}"
    );
}
