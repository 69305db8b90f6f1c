//! Verbs that remove a target or its unit while a stock initiator has a session: refused, with the initiator's name,
//! unless the flag permits to close the session.

use std::process::{Child, Command, Stdio};

use crate::common::tools::installed;
use crate::common::{TestHost, eventually};

const TARGET: &str = "iqn.2026-01.org.example:tank";
/// Exit code for an object in use.
const BUSY: i32 = 5;
/// Reads until it is killed, over one session.
const CLIENT: &str = "iscsi-perf";

/// An initiator with a session; killed when dropped.
struct Initiator(Child);

impl Initiator {
    fn log_in(machine: &TestHost) -> Self {
        let url = format!("iscsi://{}/{TARGET}/0", machine.portal("127.0.0.1:"));
        let mut command = Command::new(CLIENT);
        command.arg(url).stdin(Stdio::null());
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let initiator = Self(quiet.spawn().expect("it starts"));
        eventually("it has logged in", || has_session(machine));
        initiator
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has_session(machine: &TestHost) -> bool {
    let status = machine.ok("status tank --json").json();
    let targets = status["targets"].as_array().expect("a list");
    let sessions = |target: &serde_json::Value| target["sessions"].as_array().map_or(0, Vec::len);
    targets.iter().map(sessions).sum::<usize>() > 0
}

fn machine() -> TestHost {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 32M --sparse");
    machine.ok(&format!("target create {TARGET}"));
    machine.ok(&format!("target map {TARGET} tank/v"));
    machine
}

#[test]
fn target_with_session_is_not_removed_without_flag() {
    if !installed(CLIENT) {
        return;
    }
    let machine = machine();
    let server = machine.serve("");
    let client = Initiator::log_in(&machine);
    let (destroy, unmap) = (
        format!("target destroy {TARGET}"),
        format!("target unmap {TARGET} tank/v"),
    );
    for verb in [&destroy, &unmap] {
        for part in ["is in use by initiator iqn.", "from 127.0.0.1:", "--in-use"] {
            machine.refused(verb, BUSY, part);
        }
    }
    assert!(has_session(&machine), "nothing was ended");
    let maps = |machine: &TestHost| {
        machine
            .ok("status tank --json")
            .out
            .matches("\"lun\"")
            .count()
    };
    assert_eq!(maps(&machine), 1, "nothing was unmapped");
    machine.ok(&format!("{unmap} --in-use"));
    assert_eq!(maps(&machine), 0);
    machine.ok(&format!("{destroy} --in-use"));
    assert!(!has_session(&machine), "it was ended");
    drop(client);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn target_without_session_is_removed_without_flag() {
    if !installed(CLIENT) {
        return;
    }
    let machine = machine();
    let server = machine.serve("");
    drop(Initiator::log_in(&machine));
    machine.ok(&format!("target unmap {TARGET} tank/v"));
    machine.ok(&format!("target destroy {TARGET}"));
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn a_pool_with_a_session_is_not_exported_or_destroyed_without_the_flag() {
    if !installed(CLIENT) {
        return;
    }
    let machine = machine();
    for (verb, again) in [
        ("pool export tank", "pool export tank --in-use"),
        (
            "pool destroy tank --yes-destroy-all-data",
            "pool destroy tank --yes-destroy-all-data --in-use",
        ),
    ] {
        let mut server = machine.serve("");
        let client = Initiator::log_in(&machine);
        for part in [
            "tank is in use by initiator iqn.",
            "from 127.0.0.1:",
            "--in-use",
        ] {
            machine.refused(verb, BUSY, part);
        }
        assert!(has_session(&machine), "nothing was ended");
        machine.ok(again);
        assert_eq!(server.wait(), 0, "{}", machine.log());
        drop(client);
    }
}

/// An agent of any version sends only `export`: the cluster has decided.
#[test]
fn export_by_agent_ignores_connected_clients() {
    use std::io::{Read, Write};
    if !installed(CLIENT) {
        return;
    }
    let machine = machine();
    let mut server = machine.serve("");
    let client = Initiator::log_in(&machine);
    let question = br#"{"version":1,"request":{"pool":"export"}}"#;
    let mut socket =
        std::os::unix::net::UnixStream::connect(machine.path("run/tank.sock")).expect("a server");
    let length = u32::try_from(question.len()).expect("short");
    socket.write_all(&length.to_be_bytes()).expect("asked");
    socket.write_all(question).expect("asked");
    let mut said = String::new();
    let _ = socket.take(4096).read_to_string(&mut said);
    assert_eq!(server.wait(), 0, "{said} {}", machine.log());
    drop(client);
}
