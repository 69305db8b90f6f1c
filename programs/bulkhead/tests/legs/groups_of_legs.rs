//! Additions of groups of legs that other heads, or later servers, complete or refuse.

use crate::common::eventually;
use crate::common::legs::{Head, Pair};

use super::shapes_of_legs::{add, write_on};

/// Writes and flushes to a disk while it is prepared for its group. The next write is one of the library, which adds it.
const PREPARATION_STEPS: u64 = 11;

fn status(head: &Head) -> String {
    let said = head.machine.ok("pool status tank").out;
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As the owner it would exclude all legs of the group, and no head could open the pool any more.
#[test]
fn head_with_earlier_file_refuses_a_pool_with_an_added_group() {
    let (mut pair, _, server) = Pair::of_shapes(&[("ab", 1)]);
    let earlier = std::fs::read_to_string(pair.b.config()).expect("written");
    let legs = pair.name_group(("ab", 1), 11);
    pair.a.await_all_current();
    pair.a.machine.ok(&add(&legs));
    pair.a.await_whole();
    let mut client = pair.a.client();
    write_on(&mut pair, &mut client);
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    let named = std::fs::read_to_string(pair.b.config()).expect("written");
    pair.b.reconfigure(|_| earlier);
    let before = pair.b.memory();
    let said = pair.b.refused("--previous-owner-is-stopped");
    for part in [
        "legs.toml of this head does not name disk 11, disk 12",
        "Write the file of head a here",
        "restart bulkhead-leg-server",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(pair.b.memory(), before, "nothing is promised or recorded");
    pair.b.reconfigure(|_| named);
    let server = pair.b.serve("--previous-owner-is-stopped");
    let mut client = pair.b.client();
    pair.check(&mut client);
    assert!(status(&pair.b).contains("mirror-1"), "{}", status(&pair.b));
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// The head dies after the record by which the group joins, before the pool has the group. The other head serves the
/// pool without it, until all of its legs are current.
#[test]
fn group_on_record_joins_the_pool_without_a_command_when_its_legs_are_back() {
    let (mut pair, _, mut server) = Pair::of_shapes(&[("ab", 1)]);
    let legs = pair.name_group(("ab", 1), 11);
    let mut client = pair.a.client();
    // A leg whose leg-server was restarted is current again, or stale on record.
    write_on(&mut pair, &mut client);
    pair.a.await_all_current();
    drop(client);
    let steps = format!("kill-after={PREPARATION_STEPS}");
    pair.a.set_faults(&[(11, &steps)]);
    eventually("the fault is set", || {
        pair.a.machine.log().contains("device fails on command")
    });
    let mut command = pair.a.begin(&add(&legs));
    server.wait();
    let _ = command.wait();
    let record = pair.a.memory().accepted.expect("a record");
    for disk in [11, 12] {
        let disk = leg_record::DiskId(disk);
        assert!(record.current.contains_key(&disk), "{disk:?}: {record:?}");
    }
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    let mut client = pair.b.client();
    pair.check(&mut client);
    write_on(&mut pair, &mut client);
    let said = status(&pair.b);
    for part in ["is no part of the pool yet", &add(&legs)] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("mirror-1"), "{said}");
    pair.a.start_leg_server();
    pair.b.await_whole();
    eventually("the group is part of the pool", || {
        let said = status(&pair.b);
        said.contains("mirror-1") && !said.contains("is no part of the pool yet")
    });
    let said = pair.b.machine.ok(&add(&legs)).out;
    assert!(said.contains("is part of the pool"), "{said}");
    write_on(&mut pair, &mut client);
    pair.b.machine.ok("pool scrub tank --wait");
    pair.check(&mut client);
    drop(client);
    server.kill();
    pair.b.leg_server.kill();
    let server = pair.a.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.a.client());
    assert!(status(&pair.a).contains("mirror-1"), "{}", status(&pair.a));
    assert_eq!(server.stop(), 0);
}

/// The pool is lost with the single disk, and the group cannot be removed.
#[test]
fn group_of_one_leg_joins_a_pool_of_mirrors_with_confirmation_only() {
    let (mut pair, _, server) = Pair::of_shapes(&[("ab", 1)]);
    let legs = pair.name_group(("a", 1), 11);
    pair.a.await_all_current();
    let words = format!("pool add tank {}", legs[0]);
    pair.a.machine.refused(&words, 6, "--mismatched");
    let record = pair.a.memory().accepted.expect("a record");
    assert!(!record.names(leg_record::DiskId(11)), "{record:?}");
    pair.a.machine.ok(&format!("{words} --mismatched"));
    let said = pair.a.machine.ok(&words).out;
    assert!(said.contains("is part of the pool"), "{said}");
    assert_eq!(server.stop(), 0);
}
