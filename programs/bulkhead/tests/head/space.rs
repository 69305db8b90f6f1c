//! Lack of space: reports to clients, administrators and monitoring before a pool is full, when it is, and when there
//! is room again.

use crate::common::heads::noise;
use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn status(machine: &TestHost) -> Value {
    machine.ok("pool status tank --json").json()
}

fn kinds(machine: &TestHost) -> Vec<String> {
    let events = machine.ok("pool events tank --json").json();
    let events = events.as_array().expect("a list").iter();
    events
        .map(|event| event["kind"].as_str().expect("a kind").to_owned())
        .collect()
}

/// Writes to export `v` until a write is refused; returns the error, and the number of written
/// bytes.
fn write_until_refused(machine: &TestHost) -> (std::io::Error, u64) {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    for written in 0..client.size / MIB {
        let data = noise(written + 1, MIB as usize);
        let outcome = client
            .write(written * MIB, &data)
            .and_then(|()| client.flush());
        if let Err(error) = outcome {
            return (error, written * MIB);
        }
    }
    panic!("the pool has room for more than its devices have");
}

#[test]
fn space_warnings_cover_nearly_full_full_and_recovered() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    machine.ok("volume create tank/v --size 120M --sparse");
    machine.ok("volume create tank/kept --size 8M");
    machine.ok("nbd export tank/v --name v");
    let server = machine.serve("");
    eventually("the space is looked at", || {
        status(&machine)["space"].is_object()
    });
    let before = status(&machine)["space"].clone();
    let number = |view: &Value, name: &str| view[name].as_u64().expect("a number");
    // The pool's own overhead is not usable by volumes.
    assert!(number(&before, "usable") < 80 * MIB, "{before}");
    assert!(number(&before, "reserved") >= 8 * MIB, "{before}");
    assert_eq!(number(&before, "promised"), 128 * MIB, "{before}");
    assert!(number(&before, "overcommitted") > 40 * MIB, "{before}");
    assert_eq!(status(&machine)["advice"], serde_json::json!([]));

    let (refused, written) = write_until_refused(&machine);
    assert!(refused.to_string().contains("28"), "ENOSPC: {refused}");
    assert!(written > 20 * MIB, "{written}");
    eventually("it is told", || {
        let kinds = kinds(&machine);
        kinds.contains(&"space".to_owned()) && kinds.contains(&"no_space".to_owned())
    });
    let full = status(&machine);
    let space = &full["space"];
    assert!(number(space, "full_percent") >= 95, "{space}");
    assert!(number(space, "available") < 8 * MIB, "{space}");
    assert_eq!(
        (&space["refuses"], &space["refused_writes"]),
        (&Value::Bool(true), &Value::from(1))
    );
    assert_eq!(full["advice"][0]["severity"], "error", "{full}");
    assert_eq!(full["advice"][0]["command"], "bulkhead volume space tank");
    let text = machine.ok("status tank").out;
    assert!(
        text.contains("% full")
            && text.contains("next:     destroy unneeded snapshots")
            && !text.contains("quota"),
        "{text}"
    );
    assert!(machine.ok("pool list").out.contains(" %"));
    assert!(
        machine
            .log()
            .contains("writes of clients to tank/v are refused")
    );

    machine.ok("volume destroy tank/v --exported --yes-destroy-data");
    eventually("there is room again", || {
        status(&machine)["space"]["full_percent"].as_u64() < Some(50)
    });
    eventually("the advice is gone", || {
        status(&machine)["advice"] == serde_json::json!([])
    });
    assert_eq!(server.stop(), 0);
}

#[test]
fn unserved_pool_reports_its_space() {
    let machine = TestHost::with_exported_volume();
    let space = status(&machine)["space"].clone();
    assert_eq!(space["promised"], 32 * MIB, "{space}");
    assert_eq!(space["refuses"], false, "{space}");
}

/// Acknowledged durable writes are in the log, and a start that finds the pool full must still replay them.
#[test]
fn reserved_volume_accepts_writes_in_full_pool() {
    // 24 times a block, by the library's estimate, exceeds the rest of the reservation when all is written.
    const BLOCK: u64 = 128 << 10;
    const KEPT: u64 = 24 * MIB;
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    machine.ok("volume create tank/kept --size 24M --block-size 128K --compression off");
    machine.ok("volume create tank/v --size 120M --sparse");
    machine.ok("nbd export tank/v --name v");
    machine.ok("nbd export tank/kept --name kept");
    let server = machine.serve("");
    let (refused, _) = write_until_refused(&machine);
    assert!(refused.to_string().contains("28"), "ENOSPC: {refused}");
    let mut client = Nbd::connect(&machine.nbd_socket(), "kept").expect("connected");
    let contents = |round: u64, at: u64| noise((round << 32) + at + 1, BLOCK as usize);
    for round in 0..3 {
        for at in (0..KEPT).step_by(BLOCK as usize) {
            client.write(at, &contents(round, at)).expect("it is kept");
            if round == 2 {
                client.flush().expect("durable");
            }
        }
    }
    server.kill();
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "kept").expect("connected");
    for at in (0..KEPT).step_by(BLOCK as usize) {
        let found = client.read(at, BLOCK as usize).expect("readable");
        assert!(found == contents(2, at), "byte {at}");
    }
    assert_eq!(server.stop(), 0, "{}", machine.log());
}
