//! Devices that an administrator gave up by `pool confirm`, and that return with a newer state.

use std::time::Duration;

use serde_json::Value;

use crate::common::nbd::Nbd;
use crate::common::{ServerProcess, TestHost, eventually};

/// Every block of the volume that the tests use.
const BYTES: usize = 4 << 20;

fn write(machine: &TestHost, mark: u8) {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &vec![mark; BYTES]).expect("written");
    client.flush().expect("flushed");
}

fn read(machine: &TestHost) -> u8 {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let bytes = client.read(0, BYTES).expect("read");
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "mixed contents");
    bytes[0]
}

fn status(machine: &TestHost) -> Value {
    machine.ok("pool status tank --json").json()
}

fn advice(machine: &TestHost) -> String {
    status(machine)["advice"].to_string()
}

fn hide(machine: &TestHost, disk: &str) {
    std::fs::create_dir_all(machine.path("away")).expect("made");
    let away = machine.path(&format!("away/{disk}"));
    std::fs::rename(machine.path(disk), away).expect("hidden");
}

fn show(machine: &TestHost, disk: &str) {
    let away = machine.path(&format!("away/{disk}"));
    std::fs::rename(away, machine.path(disk)).expect("returned");
}

/// The disk `b` has 2, many transaction groups later than the disk `a`, which has 3, written after `b` was given up. Each
/// was in use without the other. The server runs on `a`.
fn newer_side_is_given_up(machine: &TestHost) -> ServerProcess {
    let server = machine.serve("");
    write(machine, 1);
    machine.ok(&format!(
        "pool offline tank {}",
        machine.path("a").display()
    ));
    write(machine, 2);
    for number in 0..20 {
        machine.ok(&format!("snapshot create tank/v@old{number}"));
    }
    assert_eq!(server.stop(), 0);
    hide(machine, "b");
    machine.ok("pool confirm tank --missing-devices-are-not-newer");
    let server = machine.serve("");
    assert_eq!(read(machine), 1);
    write(machine, 3);
    machine.ok("snapshot create tank/v@three");
    server
}

/// Both sides have 3, and no block is wrong.
fn assert_whole_on_both(machine: &TestHost, server: ServerProcess) {
    eventually("all data is copied", || {
        status(machine)["health"] == "ONLINE"
    });
    let scrubbed = machine.ok("pool scrub tank --wait").out;
    assert!(!scrubbed.contains("cannot be repaired"), "{scrubbed}");
    machine.ok(&format!("pool detach tank {}", machine.path("a").display()));
    assert_eq!(read(machine), 3);
    assert_eq!(server.stop(), 0);
    let server = machine.serve("");
    assert_eq!(read(machine), 3);
    let snapshots = machine.ok("snapshot list tank/v --json").out;
    assert!(
        snapshots.contains("three") && !snapshots.contains("old19"),
        "{snapshots}"
    );
    assert_eq!(server.stop(), 0);
}

#[test]
fn disk_given_up_that_returns_before_the_start_is_left_out_and_overwritten_on_request() {
    let machine = TestHost::with_exported_volume();
    let server = newer_side_is_given_up(&machine);
    assert_eq!(server.stop(), 0);
    show(&machine, "b");
    let listed = machine.ok("pool status tank").out;
    assert!(listed.contains("gave up its data"), "{listed}");
    let server = machine.serve("");
    assert_eq!(read(&machine), 3);
    let command = format!("bulkhead pool online tank {}", machine.path("b").display());
    assert!(advice(&machine).contains(&command), "{}", advice(&machine));
    // Automatic returns do not overwrite it either.
    std::thread::sleep(Duration::from_secs(4));
    assert_ne!(status(&machine)["health"], "ONLINE");
    machine.ok(command.trim_start_matches("bulkhead "));
    assert_whole_on_both(&machine, server);
}

#[test]
fn disk_given_up_that_returns_to_a_served_pool_is_overwritten_on_request_only() {
    let machine = TestHost::with_exported_volume();
    let server = newer_side_is_given_up(&machine);
    show(&machine, "b");
    let place = machine.path("b");
    let clear = format!("pool clear tank {}", place.display());
    let said = machine.run(&clear);
    assert_ne!(said.code, 0, "{}", said.out);
    assert!(said.err.contains("pool online tank"), "{}", said.err);
    machine.ok("pool clear tank");
    std::thread::sleep(Duration::from_secs(4));
    assert_ne!(status(&machine)["health"], "ONLINE");
    machine.ok(&format!("pool online tank {}", place.display()));
    assert_whole_on_both(&machine, server);
}

#[test]
fn disks_that_were_given_up_for_each_other_are_an_administrators_choice() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    write(&machine, 2);
    server.kill();
    hide(&machine, "b");
    machine.ok("pool confirm tank --missing-devices-are-not-newer");
    let server = machine.serve("");
    write(&machine, 3);
    machine.ok("snapshot create tank/v@three");
    assert_eq!(server.stop(), 0);
    hide(&machine, "a");
    show(&machine, "b");
    // Like another head, which does not know what this one did.
    let there = "--search . --state-dir there";
    machine.ok(&format!(
        "pool confirm tank {there} --missing-devices-are-not-newer"
    ));
    let server = machine.serve(there);
    assert_eq!(read(&machine), 2);
    write(&machine, 4);
    assert_eq!(server.stop(), 0);
    show(&machine, "a");
    machine.refused(
        &format!("volume list tank {there}"),
        6,
        "one without the other",
    );
    let chosen = machine.path("a");
    machine.ok(&format!(
        "pool import tank {there} --device {}",
        chosen.display()
    ));
    let server = machine.serve(there);
    assert_eq!(read(&machine), 3);
    machine.ok(&format!("pool online tank {}", machine.path("b").display()));
    eventually("all data is copied", || {
        status(&machine)["health"] == "ONLINE"
    });
    let scrubbed = machine.ok("pool scrub tank --wait").out;
    assert!(!scrubbed.contains("cannot be repaired"), "{scrubbed}");
    machine.ok(&format!("pool detach tank {}", chosen.display()));
    assert_eq!(read(&machine), 3);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_disk_that_missed_writes_and_was_given_up_returns_as_usual() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    write(&machine, 1);
    server.kill();
    hide(&machine, "b");
    machine.ok("pool confirm tank --missing-devices-are-not-newer");
    let server = machine.serve("");
    write(&machine, 3);
    machine.ok("snapshot create tank/v@three");
    show(&machine, "b");
    machine.ok(&format!("pool online tank {}", machine.path("b").display()));
    assert_whole_on_both(&machine, server);
}

#[test]
fn pool_without_its_only_log_device_is_opened_after_a_confirmation() {
    let machine = TestHost::with_disks(&["a", "b", "c"]);
    machine.ok("pool create tank mirror a b log c");
    machine.ok("volume create tank/v --size 32M --sparse");
    machine.ok("nbd export tank/v --name v");
    let server = machine.serve("");
    write(&machine, 5);
    machine.ok("snapshot create tank/v@five");
    assert_eq!(server.stop(), 0);
    let nothing = machine.ok("pool confirm tank --missing-logs-are-lost").out;
    assert!(
        nothing.contains("no log device of pool tank is missing"),
        "{nothing}"
    );
    hide(&machine, "c");
    machine.refused("volume list tank", 6, "--missing-logs-are-lost");
    let said = machine.ok("pool confirm tank --missing-logs-are-lost").out;
    assert!(said.contains("without log devices"), "{said}");
    let server = machine.serve("");
    assert_eq!(read(&machine), 5);
    write(&machine, 6);
    machine.ok(&format!("pool remove tank {}", machine.path("c").display()));
    assert_eq!(status(&machine)["health"], "ONLINE");
    assert_eq!(server.stop(), 0);
    let server = machine.serve("");
    assert_eq!(read(&machine), 6);
    assert_eq!(server.stop(), 0);
}
