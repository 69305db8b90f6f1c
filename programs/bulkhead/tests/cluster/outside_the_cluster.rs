//! Commands on a head that does not serve a pool: they open no pool that the cluster may start concurrently, and
//! read-only commands write nothing.

use std::process::Command;

use crate::common::TestHost;

const NEEDS_CONFIRMATION: i32 = 6;

fn bytes(machine: &TestHost) -> [Vec<u8>; 2] {
    ["a", "b"].map(|disk| std::fs::read(machine.path(disk)).expect("readable"))
}

#[test]
fn read_only_command_without_server_changes_no_byte_on_disk() {
    let machine = TestHost::with_exported_volume();
    let before = bytes(&machine);
    for look in [
        "status tank",
        "pool status tank",
        "pool events tank",
        "pool get tank",
        "pool list",
        "volume list tank",
        "volume show tank/v",
        "volume get tank/v",
        "snapshot list tank",
        "target list",
        "nbd list tank",
    ] {
        machine.ok(look);
        assert!(bytes(&machine) == before, "{look} wrote to the disks");
    }
    machine.ok("pool set tank comment=changed");
    assert!(bytes(&machine) != before);
}

/// Returns the command on a head with the pool in its appliance file, where Pacemaker reports `resource` for it.
fn on_a_head(machine: &TestHost, words: &str, resource: &str) -> Command {
    machine.describe("127.0.0.1", &["a", "b"].map(|disk| machine.path(disk)));
    let mut command = machine.command(words);
    command
        .env("PATH", machine.stand_in("cibadmin", resource))
        .env("BULKHEAD_APPLIANCE", machine.path("appliance.toml"));
    command
}

#[test]
fn command_opens_cluster_pool_only_while_stopped() {
    const STARTED: &str = r#"<primitive id="pool-tank" class="ocf" type="pool"/>"#;
    const STOPPED: &str = r#"<primitive id="pool-tank" class="ocf" type="pool"><meta_attributes id="m"><nvpair id="n" name="target-role" value="Stopped"/></meta_attributes></primitive>"#;
    let machine = TestHost::with_exported_volume();
    let before = bytes(&machine);
    // A list is requested from the head that serves the pool, and no cluster responds here.
    let unknown = "the head that serves pool tank is unknown";
    for (words, resource, refusal) in [
        ("volume list tank", STARTED, Some(unknown)),
        (
            "volume list tank --maintenance",
            STARTED,
            Some("--maintenance"),
        ),
        ("pool import tank", STARTED, Some("--maintenance")),
        (
            "pool set tank comment=changed",
            STOPPED,
            Some("--maintenance"),
        ),
        ("pool set tank comment=changed --maintenance", STOPPED, None),
    ] {
        let output = on_a_head(&machine, words, resource).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = refusal.map_or(0, |_| NEEDS_CONFIRMATION);
        assert_eq!(output.status.code(), Some(expected), "{words}: {said}");
        if let Some(refusal) = refusal {
            assert!(said.contains(refusal), "{words}: {said}");
            assert!(bytes(&machine) == before, "{words} wrote to the disks");
        }
    }
    assert!(bytes(&machine) != before);
}

/// An administrator has edited the file, or starts the server by hand: the cluster still has the pool.
#[test]
fn cluster_pool_stays_protected_without_its_lines_in_the_file_and_from_a_server_by_hand() {
    const STARTED: &str = r#"<primitive id="pool-tank" class="ocf" type="pool"/>"#;
    let machine = TestHost::with_exported_volume();
    let before = bytes(&machine);
    let import = "pool import tank --previous-owner-is-stopped";
    for (words, has_lines) in [
        (import, false),
        ("pool destroy tank --yes-destroy-all-data", false),
        ("pool-server tank --no-nbd --no-iscsi", false),
        ("pool-server tank --no-nbd --no-iscsi", true),
    ] {
        let mut command = on_a_head(&machine, words, STARTED);
        let file = machine.path("appliance.toml");
        if !has_lines {
            let text = std::fs::read_to_string(&file).expect("readable");
            let pools = text.find("[pools").expect("a pool");
            std::fs::write(&file, &text[..pools]).expect("written");
        }
        let output = command.output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(NEEDS_CONFIRMATION),
            "{words}: {said}"
        );
        assert!(bytes(&machine) == before, "{words} wrote to the disks");
    }
}
