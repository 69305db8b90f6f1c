//! Snapshots on a schedule, taken by a server with a client on the volumes, with kills in between.

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};
use serde_json::Value;

fn snapshots(machine: &TestHost, of: &str) -> Vec<String> {
    let list = machine.ok(&format!("snapshot list {of} --json")).json();
    let list = list.as_array().expect("a list").clone();
    let name = |one: &Value| one["name"].as_str().expect("a name").to_owned();
    list.iter().map(name).collect()
}

/// Returns those of a schedule, oldest first: their names sort by time.
fn scheduled(machine: &TestHost, of: &str) -> Vec<String> {
    let mut found = snapshots(machine, of);
    found.retain(|name| name.contains("@auto-"));
    found.sort();
    found
}

fn has_event(machine: &TestHost, part: &str) -> bool {
    let events = machine.ok("pool events tank --json").json();
    let events = events.as_array().expect("a list").clone();
    let says = |event: &Value| event["message"].as_str().is_some_and(|m| m.contains(part));
    events.iter().any(says)
}

/// Sets a schedule; its rule contains blanks.
fn set(machine: &TestHost, of: &str, rule: &str) {
    let mut command = machine.command("snapshot schedule set");
    let output = command
        .arg(of)
        .arg(rule)
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{of} {rule}: {text}");
}

#[test]
fn scheduled_snapshots_are_pruned_and_continue_after_kill() {
    let machine = TestHost::with_exported_volume();
    machine.ok("volume create tank/db/log --size 16M --sparse --parents");
    machine.ok("volume create tank/scratch --size 16M --sparse");
    machine.ok("snapshot create tank/v@auto-20200101T000000Z-5s");
    machine.ok("snapshot schedule set tank/scratch --none");
    set(&machine, "tank", "every 5s keep 2");
    machine.ok("snapshot schedule set tank/scratch --none");
    let listed = machine.ok("snapshot schedule list tank --json").json();
    assert_eq!(listed[0]["of"], "tank");
    assert_eq!(listed[0]["rules"][0]["rule"], "every 5s keep 2");
    assert_eq!(
        listed[0]["volumes"],
        serde_json::json!(["tank/db/log", "tank/v"])
    );
    assert!(
        listed[0]["rules"][0]["next"]
            .as_u64()
            .is_some_and(|next| next > 0)
    );

    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 65_536]).expect("written");
    client.flush().expect("flushed");
    // The newest of one volume; the other volume has it, too, until both are removed.
    let mut first = String::new();
    eventually(
        "both volumes have one of the same time, and it is cloned",
        || {
            let Some(newest) = scheduled(&machine, "tank/db/log").pop() else {
                return false;
            };
            let moment = newest.split_once('@').expect("a snapshot").1.to_owned();
            let cloned = machine.run(&format!("snapshot clone tank/v@{moment} tank/kept"));
            first = newest;
            cloned.code == 0
        },
    );
    let moment = first.split_once('@').expect("a snapshot").1.to_owned();
    machine.ok("snapshot schedule set tank/kept --none");
    server.kill();

    let server = machine.serve("");
    eventually("the first are removed", || {
        !scheduled(&machine, "tank/db/log").contains(&first)
    });
    let kept = scheduled(&machine, "tank/db/log");
    assert!(kept.len() <= 3, "{kept:?}");
    eventually("the retention for a clone is reported", || {
        has_event(
            &machine,
            &format!("tank/v@{moment} is kept beyond its schedule: it has clones"),
        )
    });
    let own = snapshots(&machine, "tank/v");
    assert!(
        own.contains(&"tank/v@auto-20200101T000000Z-5s".to_owned()),
        "manual snapshots are retained: {own:?}"
    );
    assert!(scheduled(&machine, "tank/scratch").is_empty());
    // The contents at the time of the clone.
    let mut read = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert!(
        read.read(0, 4096)
            .expect("read")
            .iter()
            .all(|byte| *byte == 1)
    );

    machine.ok("snapshot schedule remove tank");
    let rest = scheduled(&machine, "tank/v");
    assert!(!rest.is_empty(), "they stay");
    assert_eq!(server.stop(), 0);
    machine.ok("snapshot schedule list tank");
}

#[test]
fn rules_that_are_due_at_the_same_time_each_get_their_snapshot() {
    let machine = TestHost::with_exported_volume();
    machine.ok("volume create tank/other --size 16M --sparse");
    let mut command = machine.command("snapshot schedule set tank");
    let output = command.args(["every 5s keep 4", "every 10s keep 4"]);
    assert!(output.output().expect("runs").status.success());
    let server = machine.serve("");
    // Every tenth second both rules are due.
    eventually("both volumes have both of one time", || {
        let has_both = |of: &str| {
            let all = scheduled(&machine, of);
            let tens = all.iter().filter_map(|name| name.strip_suffix("-10s"));
            let fives: Vec<String> = tens.map(|moment| format!("{moment}-5s")).collect();
            fives.iter().any(|name| all.contains(name))
        };
        has_both("tank/v") && has_both("tank/other")
    });
    machine.refused(
        "snapshot create tank/v@a tank/v@b",
        2,
        "can hold one snapshot of a volume",
    );
    assert_eq!(server.stop(), 0, "it is the one that was started");
}

#[test]
fn an_unchanged_volume_gets_no_snapshot_and_a_changed_one_does() {
    let machine = TestHost::with_exported_volume();
    machine.ok("volume create tank/still --size 16M --sparse");
    machine.ok("snapshot create tank/still@once tank/v@once");
    let mut command = machine.command("snapshot schedule set tank --skip-unchanged");
    let output = command.arg("every 5s keep 3").output().expect("runs");
    assert!(output.status.success());
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 65_536]).expect("written");
    client.flush().expect("flushed");
    eventually("the changed volume has a snapshot", || {
        !scheduled(&machine, "tank/v").is_empty()
    });
    assert!(scheduled(&machine, "tank/still").is_empty());
    assert_eq!(server.stop(), 0);
}

#[test]
fn invalid_schedules_are_refused_with_advice() {
    let machine = TestHost::with_exported_volume();
    machine.refused("snapshot schedule set tank", 2, "needs a rule");
    machine.refused(
        "snapshot schedule set tank --daily 3 --at 25:00",
        2,
        "at 03:00",
    );
    machine.refused(
        "snapshot schedule set tank/none --daily 3",
        3,
        "no such dataset",
    );
    machine.ok("snapshot schedule set tank/v --daily 3");
    let again = machine
        .ok("snapshot schedule set tank/v --daily 3 --json")
        .json();
    assert_eq!(again["changed"], false);
    machine.refused("volume set tank/v bulkhead:schedule=x", 2, "Bulkhead's own");
    machine.ok("snapshot schedule remove tank/v");
    let again = machine.ok("snapshot schedule remove tank/v --json").json();
    assert_eq!(again["changed"], false);
}
