//! Commands on a head that does not serve a pool: they open none that the cluster may start at the same moment, and
//! those that only look write nothing.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::Machine;

const NEEDS_CONFIRMATION: i32 = 6;

fn bytes(machine: &Machine) -> [Vec<u8>; 2] {
    ["a", "b"].map(|disk| std::fs::read(machine.path(disk)).expect("readable"))
}

#[test]
fn a_look_at_a_pool_without_a_server_changes_no_byte_on_its_disks() {
    let machine = Machine::with_exported_volume();
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

/// The command on a head whose appliance file has the pool, and whose Pacemaker says `resource` of it.
fn on_a_head(machine: &Machine, words: &str, resource: &str) -> Command {
    let disks = ["a", "b"].map(|disk| machine.path(disk));
    let text = format!(
        "format = 1\nname = \"test\"\n\
         [networks.lo]\nsubnets = [\"127.0.0.0/8\"]\nheartbeat = 0\n\
         [heads.left]\nnumber = 1\n\
         links = {{ lo = {{ interface = \"lo\", addresses = [\"127.0.0.1\"] }} }}\n\
         [pools.tank]\nhome = \"left\"\narc = \"128M\"\ndisks = {disks:?}\n\
         addresses = [{{ network = \"lo\", address = \"127.0.0.1\" }}]\n"
    );
    std::fs::write(machine.path("appliance.toml"), text).expect("written");
    let tools = machine.path("tools");
    std::fs::create_dir_all(&tools).expect("a folder");
    let tool = tools.join("cibadmin");
    std::fs::write(&tool, format!("#!/bin/sh\necho '{resource}'\n")).expect("written");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let mut command = machine.command(words);
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("BULKHEAD_APPLIANCE", machine.path("appliance.toml"));
    command
}

#[test]
fn a_pool_that_the_cluster_manages_is_opened_by_a_command_only_while_it_stays_stopped() {
    const STARTED: &str = r#"<primitive id="pool-tank" class="ocf" type="pool"/>"#;
    const STOPPED: &str = r#"<primitive id="pool-tank" class="ocf" type="pool"><meta_attributes id="m"><nvpair id="n" name="target-role" value="Stopped"/></meta_attributes></primitive>"#;
    let machine = Machine::with_exported_volume();
    let before = bytes(&machine);
    for (words, resource, is_done) in [
        ("volume list tank", STARTED, false),
        ("volume list tank --maintenance", STARTED, false),
        ("pool import tank", STARTED, false),
        ("pool set tank comment=changed", STOPPED, false),
        ("pool set tank comment=changed --maintenance", STOPPED, true),
    ] {
        let output = on_a_head(&machine, words, resource).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = if is_done { 0 } else { NEEDS_CONFIRMATION };
        assert_eq!(output.status.code(), Some(expected), "{words}: {said}");
        if !is_done {
            assert!(said.contains("--maintenance"), "{words}: {said}");
            assert!(bytes(&machine) == before, "{words} wrote to the disks");
        }
    }
    assert!(bytes(&machine) != before);
}
