//! Reads of a pool with a leg on each of two heads: they stay at home, or use the leg with the shortest queue.

use crate::common::legs::{BLOCK, Head, Pair, contents};
use crate::common::nbd::Nbd;
use crate::common::{ServerProcess, eventually};
use serde_json::Value;

const BLOCKS: u64 = 256;
const DEPTH: usize = 32;
/// Of the head's own disk, so that it has a queue: longer than a busy host needs to send some requests.
const DELAY_MS: u64 = 15;
/// A busy host can leave out the other leg for a while.
const TRIES_MAX: usize = 5;
const MODE: &str = "pool read-balancing tank";

/// Serves the pool on head `a`, with a slow disk.
fn serve(pair: &Pair) -> ServerProcess {
    let faults = pair.a.machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let server = pair.a.serve(&format!("--leg-faults {}", faults.display()));
    pair.a.await_all_current();
    // The library opens it by this name.
    let disk = pair.a.machine.path("run/legs/tank/11");
    let lines = pair.a.machine.log().matches("fails on command").count();
    std::fs::write(&faults, format!("{} delay={DELAY_MS}\n", disk.display())).expect("written");
    eventually("the disk is slow", || {
        pair.a.machine.log().matches("fails on command").count() > lines
    });
    server
}

/// Reads of each disk, by its number, and when they were counted.
fn counters(head: &Head) -> ([u64; 2], u64) {
    fn reads_of(device: &Value, disk: &str) -> u64 {
        let members = device["members"].as_array().into_iter().flatten();
        let below: u64 = members.map(|member| reads_of(member, disk)).sum();
        let name = device["name"].as_str().unwrap_or_default();
        match name.rsplit('/').next() == Some(disk) {
            true => below + device["reads"].as_u64().expect("a number"),
            false => below,
        }
    }
    let load = head.machine.ok("pool iostat tank --json").json();
    let reads = ["11", "22"].map(|disk| reads_of(&load["whole"], disk));
    (reads, load["counted_ns"].as_u64().expect("a number"))
}

/// The same, counted after this call.
fn reads(head: &Head) -> [u64; 2] {
    let (mut reads, mut counted) = counters(head);
    for _ in 0..2 {
        let before = counted;
        eventually("they are counted again", || {
            (reads, counted) = counters(head);
            counted > before
        });
    }
    reads
}

/// Reads all blocks in an order without adjacent ones, 32 at a time. Returns the reads of the own leg and of the other.
fn read_all(head: &Head, client: &mut Nbd) -> [u64; 2] {
    let before = reads(head);
    let order: Vec<u64> = (0..BLOCKS).map(|number| number * 97 % BLOCKS).collect();
    for blocks in order.chunks(DEPTH) {
        let offsets: Vec<u64> = blocks.iter().map(|block| block * BLOCK as u64).collect();
        let found = client.read_at_once(&offsets, BLOCK).expect("read");
        for (block, found) in blocks.iter().zip(found) {
            assert!(found == contents(*block), "block {block}");
        }
    }
    let after = reads(head);
    [0, 1].map(|leg| after[leg] - before[leg])
}

/// Reads all blocks, of which both legs have a part.
fn read_balanced(head: &Head, client: &mut Nbd) {
    let mut seen = Vec::new();
    for _ in 0..TRIES_MAX {
        head.await_all_current();
        let [home, away] = read_all(head, client);
        if home > 0 && away > 0 {
            return;
        }
        seen.push((home, away));
    }
    panic!("reads of the own leg, and of the other: {seen:?}");
}

fn mode_of(head: &Head) -> Value {
    head.machine.ok("pool status tank --json").json()["read_balancing"].clone()
}

#[test]
fn reads_leave_the_head_only_while_they_are_balanced() {
    let (mut pair, server) = Pair::new(true);
    // Contents are read from the disks each time, and no block is as small as its pointer.
    for property in ["primarycache=metadata", "compression=off"] {
        pair.a.machine.ok(&format!("volume set tank/v {property}"));
    }
    let mut client = pair.a.client();
    pair.write(&mut client, BLOCKS);
    drop(client);
    assert_eq!(server.stop(), 0);

    let server = serve(&pair);
    let mut client = pair.a.client();
    let [home, away] = read_all(&pair.a, &mut client);
    assert!(home > 0, "they were cached");
    assert_eq!(away, 0, "{home} at home");
    assert!(mode_of(&pair.a).is_null());
    for bad in ["local", "round-robin"] {
        let words = format!("{MODE} {bad}");
        pair.a
            .machine
            .refused(&words, 2, "not a distribution of reads");
    }

    let said = pair.a.machine.ok(&format!("{MODE} least-pending")).out;
    assert!(
        said.contains("shortest queue") && !said.contains("no leg"),
        "{said}"
    );
    read_balanced(&pair.a, &mut client);
    let again = pair.a.machine.ok(&format!("{MODE} least-pending --json"));
    assert_eq!(again.json()["changed"], false);
    let text = pair.a.machine.ok("pool status tank").out;
    assert!(text.contains("reads:    least-pending"), "{text}");

    // The other head hangs with reads that are pending there.
    pair.b.leg_server.freeze();
    let [home, _] = read_all(&pair.a, &mut client);
    assert!(home > 0, "they were cached");
    pair.a.await_current("b", false);
    pair.b.leg_server.signal("-CONT");
    pair.a.await_current("b", true);
    drop(client);
    server.kill();

    let server = serve(&pair);
    let mut client = pair.a.client();
    assert_eq!(mode_of(&pair.a), "least-pending");
    read_balanced(&pair.a, &mut client);
    pair.a.machine.ok(&format!("{MODE} prefer-local"));
    let [home, away] = read_all(&pair.a, &mut client);
    assert!(home > 0, "they were cached");
    assert_eq!(away, 0, "{home} at home");
    pair.a.machine.ok(&format!("{MODE} least-pending"));
    drop(client);

    let server = pair.take_over_on_b(server);
    assert_eq!(mode_of(&pair.b), "least-pending");
    pair.b.machine.ok(&format!("{MODE} prefer-local"));
    assert!(mode_of(&pair.b).is_null());
    assert_eq!(server.stop(), 0);
}
