//! Snapshots of all datasets below a name: of one point in time, or none.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::TestHost;
use crate::common::nbd::Nbd;

const BLOCK: usize = 4096;
const VOLUMES: [&str; 3] = ["a", "b", "c"];

/// `tank/db` with the volumes `a`, `b`, `c`, and `tank/other` next to it.
fn machine() -> TestHost {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    for name in VOLUMES {
        machine.ok(&format!(
            "volume create tank/db/{name} --size 16M --sparse --parents"
        ));
    }
    machine.ok("volume create tank/other --size 16M --sparse");
    machine
}

/// The names of all snapshots.
fn snapshots(machine: &TestHost) -> Vec<String> {
    let list = machine.ok("snapshot list tank --json").json();
    let names = list.as_array().expect("a list").iter();
    names
        .map(|one| one["name"].as_str().expect("a name").to_owned())
        .collect()
}

fn connect(machine: &TestHost, name: &str) -> Nbd {
    Nbd::connect(&machine.nbd_socket(), name).expect("connected")
}

/// Writes 1, 2, 3, ... into the first, the second and the third volume, one after the other, until stopped.
fn count_up(mut volumes: [Nbd; 3], stop: &AtomicBool) {
    let mut number = 0_u64;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let block = number.to_le_bytes().repeat(BLOCK / 8);
        for volume in &mut volumes {
            volume.write(0, &block).expect("written");
        }
    }
}

#[test]
fn recursive_snapshot_under_load_is_atomic() {
    const SNAPSHOTS: usize = 4;
    let machine = machine();
    for name in VOLUMES {
        machine.ok(&format!("nbd export tank/db/{name} --name {name}"));
    }
    let _server = machine.serve("");
    let stop = AtomicBool::new(false);
    let volumes = VOLUMES.map(|name| connect(&machine, name));
    std::thread::scope(|scope| {
        scope.spawn(|| count_up(volumes, &stop));
        for moment in 0..SNAPSHOTS {
            let done = machine.ok(&format!(
                "snapshot create --recursive tank/db@m{moment} --json"
            ));
            let made = VOLUMES.map(|name| format!("tank/db/{name}@m{moment}"));
            let done = done.json();
            assert_eq!(done["made"], serde_json::json!(made), "{done}");
        }
        stop.store(true, Ordering::Release);
    });
    for moment in 0..SNAPSHOTS {
        let numbers = VOLUMES.map(|name| {
            let copy = format!("{name}{moment}");
            machine.ok(&format!(
                "snapshot clone tank/db/{name}@m{moment} tank/{copy}"
            ));
            machine.ok(&format!("nbd export tank/{copy} --name {copy}"));
            let block = connect(&machine, &copy).read(0, BLOCK).expect("read");
            u64::from_le_bytes(block[..8].try_into().expect("8 bytes"))
        });
        let [first, second, third] = numbers;
        // The second is written after the first is acknowledged, the third after the second, the first again after
        // that.
        let is_a_moment = first >= second && second >= third && first - third <= 1;
        assert!(is_a_moment, "{moment}: {numbers:?}");
    }
}

#[test]
fn refused_recursive_snapshot_creates_nothing() {
    let machine = machine();
    machine.ok("volume create tank/empty/x --size 16M --sparse --parents");
    machine.ok("volume destroy tank/empty/x --yes-destroy-data");
    machine.ok("snapshot create tank/db/b@taken");
    let before = snapshots(&machine);
    assert_eq!(before, ["tank/db/b@taken"]);
    // A name that is one character too long for a child, and not for this dataset.
    let long = format!("tank/db@{}", "n".repeat(246));
    let long = long.as_str();
    for (names, code, part) in [
        ("-r tank/db@taken", 4, "tank/db/b@taken"),
        ("-r tank@taken", 4, "tank/db/b@taken"),
        (long, 2, "no volume"),
        (&format!("-r {long}"), 2, "255"),
        ("tank/db@noon", 2, "--recursive"),
        ("tank@noon", 2, "--recursive"),
        ("tank/other@noon tank@noon", 2, "--recursive"),
        ("-r tank/none@noon", 3, "tank/none"),
        (
            "-r tank/db@x tank/db/a@y",
            2,
            "a transaction group can hold one snapshot",
        ),
        ("-r tank", 2, "POOL/NAME@SNAPSHOT"),
    ] {
        machine.refused(&format!("snapshot create {names}"), code, part);
        assert_eq!(snapshots(&machine), before, "{names}");
    }
    // A dataset without children is a file system without files.
    machine.ok("snapshot create -r tank/empty@noon");
    // A tree and a dataset in it, by the same name, are the tree.
    let said = machine.ok("snapshot create -r tank/db@noon tank/db/a@noon tank/other@noon");
    assert!(
        said.out.contains(
            "created 4 snapshot(s) at the same time: tank/db/a@noon, tank/db/b@noon, tank/db/c@noon, tank/other@noon"
        ),
        "{}",
        said.out
    );
    let done = machine.ok("snapshot create tank/other@one --json").json();
    assert_eq!(done["made"], serde_json::json!(["tank/other@one"]));
}

#[test]
fn recursive_snapshot_covers_locked_but_not_foreign_datasets() {
    let machine = machine();
    std::fs::write(machine.path("key"), [7; 32]).expect("a key");
    let location = format!("file://{}", machine.path("key").display());
    machine.ok(&format!(
        "volume create tank/db/locked --size 16M --sparse --key-format raw --key-location {location}"
    ));
    machine.ok("volume key unload tank/db/locked");
    let server = machine.serve("");
    machine.ok("snapshot create tank/other@old");
    machine.ok("volume rescue tank/other@old --writable --background");
    let volumes = machine.ok("volume list tank").out;
    assert!(volumes.contains(".rescue-"), "{volumes}");
    let done = machine.ok("snapshot create -r tank@noon --json").json();
    let message = done["message"].as_str().expect("words");
    assert!(message.contains("left out 1 that"), "{message}");
    let made: Vec<String> = ["db/a", "db/b", "db/c", "db/locked", "other"]
        .iter()
        .map(|name| format!("tank/{name}@noon"))
        .collect();
    assert_eq!(done["made"], serde_json::json!(made), "{done}");
    machine.ok("volume rescue tank/other --end");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn snapshots_are_listed_by_creation_and_destroyed_by_pattern_and_range() {
    let machine = machine();
    let _server = machine.serve("");
    for tag in ["s10", "s2", "s1", "late"] {
        machine.ok(&format!("snapshot create --recursive tank/db@{tag}"));
    }
    let listed = |words: &str| -> Vec<String> {
        let list = machine.ok(&format!("snapshot list {words} --json")).json();
        let names = list.as_array().expect("a list").iter();
        names
            .map(|one| one["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let of_a = |tags: &[&str]| -> Vec<String> {
        tags.iter().map(|tag| format!("tank/db/a@{tag}")).collect()
    };
    assert_eq!(listed("tank/db/a"), of_a(&["s10", "s2", "s1", "late"]));
    assert_eq!(
        listed("tank/db"),
        Vec::<String>::new(),
        "it has no contents"
    );
    assert_eq!(listed("tank/db --recursive").len(), 12);
    assert_eq!(listed("tank/db/a@s*"), of_a(&["s10", "s2", "s1"]));
    assert_eq!(listed("tank/db/a@s?"), of_a(&["s2", "s1"]));
    assert_eq!(listed("tank/db/a@s2%"), of_a(&["s2", "s1", "late"]));
    assert_eq!(listed("tank/db/a --older-than 1d"), Vec::<String>::new());
    let table = machine.ok("snapshot list tank/db/a").out;
    assert!(table.contains("CREATED") && table.contains(" s"), "{table}");
    machine.refused("snapshot list tank/db/a@none%", 3, "does not exist");
    machine.refused("snapshot list tank/db/a@a%b%c", 2, "FIRST%LAST");
    let shown = machine
        .ok("snapshot destroy tank/db/a@s10%s2 --dry-run")
        .out;
    assert!(
        shown.contains("2 snapshots") && shown.contains("tank/db/a@s10"),
        "{shown}"
    );
    machine.refused("snapshot destroy tank/db@s* -r", 6, "9 snapshots");
    let none = machine
        .ok("snapshot destroy tank/db/a@x* --yes-destroy-data")
        .out;
    assert!(none.contains("no such snapshots"), "{none}");
    machine.ok("snapshot destroy tank/db@s* -r --older-than 1d --yes-destroy-data");
    assert_eq!(listed("tank/db -r").len(), 12);
    machine.ok("snapshot destroy tank/db/a@%s2 --yes-destroy-data");
    assert_eq!(listed("tank/db/a"), of_a(&["s1", "late"]));
    machine.ok("snapshot clone tank/db/b@s1 tank/clone");
    machine.refused(
        "snapshot destroy tank/db@s* -r --yes-destroy-data",
        5,
        "clone",
    );
    assert_eq!(listed("tank/db -r").len(), 10, "none is destroyed");
    machine.ok("volume destroy tank/clone --yes-destroy-data");
    machine.ok("snapshot destroy tank/db@s* -r --yes-destroy-data");
    let left = listed("tank/db --recursive");
    assert_eq!(left, VOLUMES.map(|name| format!("tank/db/{name}@late")));
}
