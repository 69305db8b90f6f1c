//! Legs that return to a pool on two heads: pools of many groups after a crash, and disks with older contents than
//! before.

use crate::common::legs::{Head, Pair};

/// More groups than ZFS writes the uberblock of a transaction group to.
const GROUPS: usize = 5;

/// Reads all blocks on both legs, and checks the number of errors found.
fn scrub(head: &Head) {
    head.machine.ok("pool scrub tank --wait");
    let status = head.machine.ok("pool status tank --json").json();
    let errors = status["scan"]["errors"].as_u64();
    assert_eq!(errors, Some(0), "{status}");
    for group in status["devices"].as_array().expect("groups") {
        for leg in group["members"].as_array().expect("legs") {
            let found = [&leg["repaired"], &leg["checksum_errors"]];
            assert!(found.iter().all(|count| **count == 0), "{status}");
        }
    }
}

/// With many groups the uberblocks of successive transaction groups are on different devices, and
/// differ in age when the server is killed.
#[test]
fn five_group_pool_reopens_after_crashes_and_readmits_legs() {
    let (mut pair, mut server) = Pair::with_groups(GROUPS, true);
    for _ in 0..3 {
        let mut client = pair.a.client();
        pair.write(&mut client, 4);
        pair.write_group(&pair.a);
        pair.write(&mut client, 4);
        drop(client);
        server.kill();
        server = pair.a.serve("");
        pair.check(&mut pair.a.client());
        assert!(pair.a.is_current("b"));
    }
    // The last uberblocks are on three groups of the five.
    let mut client = pair.a.client();
    pair.b.leg_server.kill();
    pair.write(&mut client, 8);
    pair.write_group(&pair.a);
    assert!(!pair.a.is_current("b"));
    pair.b.start_leg_server();
    pair.a.await_all_current();
    pair.write(&mut client, 8);
    drop(client);
    let server = pair.take_over_on_b(server);
    assert_eq!(server.stop(), 0);
}

/// An older image of the disk of a stale leg is restored: the lost part is resynchronized, too.
#[test]
fn an_older_image_of_a_stale_leg_is_copied_in_full() {
    let (mut pair, server) = Pair::new(true);
    let (disk, image) = (pair.b.machine.path("b"), pair.b.machine.path("image"));
    std::fs::copy(&disk, &image).expect("copied");
    let mut client = pair.a.client();
    pair.write(&mut client, 40);
    pair.write_group(&pair.a);
    pair.b.leg_server.kill();
    pair.write(&mut client, 20);
    assert!(!pair.a.is_current("b"));
    std::fs::rename(&image, &disk).expect("put back");
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    let said = "older than it was when it became stale";
    assert!(
        pair.a.machine.log().contains(said),
        "{}",
        pair.a.machine.log()
    );
    scrub(&pair.a);
    pair.write(&mut client, 10);
    drop(client);
    let server = pair.take_over_on_b(server);
    scrub(&pair.b);
    assert_eq!(server.stop(), 0);
}

/// The record counts copies by the groups of the file, and the library uses the disks as in their labels.
#[test]
fn swapped_disk_numbers_block_pool_start() {
    let (mut pair, server) = Pair::with_groups(2, true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    assert_eq!(server.stop(), 0);
    pair.cross_disks_of_b();
    // With both legs of each group, and with those of the head with swapped disks alone.
    let said = pair.a.refused("");
    assert!(said.contains("is another disk of pool tank"), "{said}");
    pair.a.leg_server.kill();
    let said = pair.b.refused("--previous-owner-is-stopped");
    assert!(said.contains("is another disk of pool tank"), "{said}");
    pair.a.start_leg_server();
    pair.cross_disks_of_b();
    let server = pair.a.serve("");
    pair.a.await_all_current();
    pair.check(&mut pair.a.client());
    scrub(&pair.a);
    assert_eq!(server.stop(), 0);
}
