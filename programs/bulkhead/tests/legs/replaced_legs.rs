//! Disks of legs that are replaced by new ones while the pool is served.

use crate::common::legs::Pair;
use crate::common::{ServerProcess, eventually};
use serde_json::Value;

/// The size of the heads' initial disks.
const DISK_BYTES: u64 = 128 << 20;

/// The leg of head `name`, as head `a` shows it.
fn leg_of(pair: &Pair, name: &str) -> Value {
    let legs = pair.a.legs();
    let found = legs.into_iter().find(|leg| leg["head"] == name);
    found.expect("a leg of that head")
}

/// Reads all blocks on both legs.
fn scrub(head: &crate::common::legs::Head) {
    head.machine.ok("pool scrub tank --wait");
    let status = head.machine.ok("pool status tank --json").json();
    assert_eq!(status["scan"]["errors"], 0, "{status}");
    assert_eq!(status["scan"]["repaired"], 0, "{status}");
}

/// The head that serves is lost, and the other one takes over.
fn assert_other_head_has_all(pair: &mut Pair, server: ServerProcess) {
    let server = pair.take_over_on_b(server);
    scrub(&pair.b);
    assert_eq!(server.stop(), 0);
}

/// The other head's disk fails permanently. A new one replaces it, is resynchronized, and carries the pool alone. The
/// old one is not accepted again.
#[test]
fn dead_disk_of_other_head_is_replaced() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    pair.write(&mut client, 20);
    let (old, new) = (pair.b.leg("b"), pair.b.leg("new"));
    pair.b.machine.add_disk("new", DISK_BYTES);
    let words = format!("pool replace tank {old} {new}");
    pair.a.machine.refused(&words, 2, "legs.toml names");
    pair.exchange("b", "b", "new");
    let said = pair.a.machine.ok(&words).out;
    assert!(said.contains("replaces"), "{said}");
    eventually("it is current", || {
        let leg = leg_of(&pair, "b");
        leg["state"] == "current" && leg["name"] == new.as_str()
    });
    pair.write(&mut client, 10);
    scrub(&pair.a);
    // The old disk is put at the path of the new one.
    pair.b.leg_server.kill();
    pair.write(&mut client, 4);
    let path = |disk| pair.b.machine.path(disk);
    std::fs::copy(path("b"), path("new")).expect("copied");
    pair.b.start_leg_server();
    eventually("it is current again", || {
        leg_of(&pair, "b")["state"] == "current"
    });
    let log = pair.a.machine.log();
    assert!(
        log.contains("older than it was when it became stale"),
        "{log}"
    );
    scrub(&pair.a);
    drop(client);
    assert_other_head_has_all(&mut pair, server);
}

/// While the pool is closed a new disk replaces the other head's, and the configuration is
/// unchanged.
#[test]
fn blank_disk_for_current_leg_does_not_block_pool_start() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    assert_eq!(server.stop(), 0);
    pair.b.leg_server.kill();
    std::fs::remove_file(pair.b.machine.path("b")).expect("removed");
    pair.b.machine.add_disk("b", DISK_BYTES);
    pair.b.start_leg_server();
    let server = pair.a.serve("");
    let mut client = pair.a.client();
    pair.check(&mut client);
    pair.write(&mut client, 4);
    pair.a.await_current("b", false);
    // It is not resynchronized before an administrator requests it.
    let advice = format!("`bulkhead pool replace tank {}`", pair.b.leg("b"));
    eventually("the advice is reported", || {
        let status = pair.a.machine.ok("pool status tank --json").json();
        let told = status["advice"].to_string();
        told.contains("it is another device, or has lost its label") && told.contains(&advice)
    });
    pair.a
        .machine
        .ok(advice.trim_matches('`').trim_start_matches("bulkhead "));
    pair.a.await_all_current();
    drop(client);
    assert_other_head_has_all(&mut pair, server);
}

/// The other head's disk is plugged in again, or a copy of it is: the leg-server reopens it, and is not restarted.
#[test]
fn replugged_disk_of_other_head_is_resilvered() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    let (path, old) = (pair.b.machine.path("b"), pair.b.machine.path("old"));
    std::fs::rename(&path, &old).expect("renamed");
    std::fs::copy(&old, &path).expect("copied");
    pair.write(&mut client, 20);
    pair.b.leg_server.freeze();
    pair.a.await_current("b", false);
    pair.write(&mut client, 4);
    pair.b.leg_server.signal("-CONT");
    pair.a.await_current("b", true);
    pair.write(&mut client, 4);
    scrub(&pair.a);
    drop(client);
    assert_other_head_has_all(&mut pair, server);
    std::fs::remove_file(old).expect("nobody has it");
}

/// A disk of the head that serves is replaced while it is in use.
#[test]
fn current_disk_of_serving_head_is_replaced() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    let (old, new) = (pair.a.leg("a"), pair.a.leg("new"));
    pair.a.machine.add_disk("new", DISK_BYTES);
    pair.exchange("a", "a", "new");
    eventually("it has been away, and is back", || {
        pair.write(&mut client, 1);
        leg_of(&pair, "b")["state"] == "current"
    });
    pair.a.machine.ok(&format!("pool replace tank {old} {new}"));
    eventually("it is current", || {
        pair.write(&mut client, 1);
        let leg = leg_of(&pair, "a");
        leg["state"] == "current" && leg["name"] == new.as_str()
    });
    scrub(&pair.a);
    // It carries the pool alone.
    pair.b.leg_server.kill();
    pair.write(&mut client, 4);
    drop(client);
    assert_eq!(server.stop(), 0);
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// Once it is on record, the next owner resumes it: here, and on the head with the disk.
#[test]
fn replacement_is_resumed_by_next_owner() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 40);
    pair.b.leg_server.kill();
    pair.write(&mut client, 1);
    pair.b.machine.add_disk("new", DISK_BYTES);
    pair.exchange("b", "b", "new");
    let words = format!(
        "pool replace tank {} {}",
        pair.b.leg("b"),
        pair.b.leg("new")
    );
    pair.a.machine.ok(&words);
    server.kill();
    drop(client);
    let server = pair.a.serve("");
    pair.a.await_current("b", true);
    pair.check(&mut pair.a.client());
    // A further replacement: this time the head with that disk serves.
    let mut client = pair.a.client();
    pair.a.leg_server.kill();
    pair.write(&mut client, 1);
    pair.a.start_leg_server();
    drop(client);
    server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    pair.b.await_current("a", true);
    pair.b.machine.add_disk("newer", DISK_BYTES);
    pair.exchange("b", "new", "newer");
    let words = format!(
        "pool replace tank {} {}",
        pair.b.leg("new"),
        pair.b.leg("newer")
    );
    // The other head's leg-server has just restarted: as long as its leg is away, this one is needed.
    eventually("the other leg is back", || {
        let said = pair.b.machine.run(&words);
        let is_done = said.code == 0;
        assert!(is_done || said.err.contains("is needed"), "{}", said.err);
        is_done
    });
    server.kill();
    let server = pair.b.serve("");
    pair.b.await_current("b", true);
    pair.check(&mut pair.b.client());
    scrub(&pair.b);
    assert_eq!(server.stop(), 0);
}

/// A disk that cannot replace a leg is refused, without any change.
#[test]
fn replacement_disk_too_small_or_not_empty_is_refused() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 4);
    pair.b.leg_server.kill();
    pair.write(&mut client, 4);
    // The last current one.
    let own = pair.a.leg("a");
    let said = pair.a.machine.run(&format!("pool replace tank {own}"));
    assert!(said.err.contains("is needed"), "{}", said.err);
    pair.b.machine.add_disk("new", DISK_BYTES / 2);
    pair.exchange("b", "b", "new");
    let words = format!(
        "pool replace tank {} {}",
        pair.b.leg("b"),
        pair.b.leg("new")
    );
    let refused = |pair: &Pair, part: &str| {
        let said = pair.a.machine.run(&words);
        assert_ne!(said.code, 0, "{}", said.out);
        assert!(said.err.contains(part), "{part}: {}", said.err);
        assert_ne!(leg_of(pair, "b")["state"], "current");
    };
    refused(&pair, "take a larger disk");
    let disk = std::fs::File::options()
        .write(true)
        .open(pair.b.machine.path("new"));
    let disk = disk.expect("there");
    disk.set_len(DISK_BYTES).expect("longer");
    std::os::unix::fs::FileExt::write_all_at(&disk, b"XFSB", 0).expect("written");
    refused(&pair, "--overwrite-old-labels");
    pair.a
        .machine
        .ok(&format!("{words} --overwrite-old-labels"));
    pair.a.await_current("b", true);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// A change of the pool's devices that bypasses its record is refused, and the other head can still serve it.
#[test]
fn device_changes_bypassing_the_record_are_refused() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 4);
    let status = pair.a.machine.ok("pool status tank --json").json();
    let devices = status["devices"][0]["members"].as_array();
    let names = devices.expect("a mirror").iter();
    let names: Vec<&str> = names
        .map(|device| device["name"].as_str().expect("a name"))
        .collect();
    pair.a.machine.add_disk("more", DISK_BYTES);
    let more = pair.a.machine.path("more");
    let more = more.display();
    for words in [
        format!("pool detach tank {}", names[1]),
        format!("pool offline tank {}", names[1]),
        format!("pool offline tank {}", names[0]),
        format!("pool remove tank {}", names[1]),
        format!("pool add tank {more} --mismatched"),
        format!("pool add tank log {more}"),
        format!("pool add tank spare {more}"),
        format!("pool replace-disk tank {} --with {more} --yes", names[1]),
        format!("pool attach tank {} {more}", names[0]),
    ] {
        let said = pair.a.machine.run(&words);
        assert_ne!(said.code, 0, "{words}: {}", said.out);
        assert!(said.err.contains("leg"), "{words}: {}", said.err);
    }
    pair.a.machine.ok(&format!("pool add tank cache {more}"));
    pair.a.machine.ok(&format!("pool remove tank {more}"));
    pair.a.await_current("b", true);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}
