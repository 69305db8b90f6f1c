//! The I/O counters of a pool's devices, as `pool iostat` shows them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A mirror of `a` and `b` with the volume `tank/v`, which is the NBD export `v`.
fn machine() -> TestHost {
    let machine = TestHost::with_disks(&[]);
    machine.add_disk("a", 512 * MIB);
    machine.add_disk("b", 512 * MIB);
    machine.ok("pool create tank mirror a b");
    machine.ok("volume create tank/v --size 80M --sparse");
    machine.ok("nbd export tank/v --name v");
    machine
}

fn counters(machine: &TestHost) -> Value {
    machine.ok("pool iostat tank --json").json()
}

/// Bytes written to the pool, to the mirror, and to both legs.
fn written(load: &Value) -> [u64; 4] {
    let whole = &load["whole"];
    let mirror = &whole["members"][0];
    let legs = [&mirror["members"][0], &mirror["members"][1]];
    [whole, mirror, legs[0], legs[1]].map(|one| one["written_bytes"].as_u64().expect("a number"))
}

/// Nothing that could be compressed.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    let words = words.take(MIB as usize / 8);
    words.flat_map(u64::to_le_bytes).collect()
}

#[test]
fn mirror_writes_are_counted_on_both_legs() {
    const WRITTEN_MIB: u64 = 64;
    let machine = machine();
    let _server = machine.serve("");
    let before = counters(&machine);
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    for number in 0..WRITTEN_MIB {
        client
            .write(number * MIB, &noise(number + 1))
            .expect("written");
    }
    client.flush().expect("flushed");
    let old = written(&before);
    eventually("both legs have it", || {
        let new = written(&counters(&machine));
        let added = [2, 3].map(|place| new[place] - old[place]);
        added.iter().all(|bytes| *bytes >= WRITTEN_MIB * MIB)
    });
    let after = counters(&machine);
    let [pool, mirror, first, second] = written(&after);
    assert_eq!((pool, mirror), (first + second, first + second), "{after}");
    assert_eq!(before["pid"], after["pid"]);
    assert!(before["counted_ns"].as_u64() < after["counted_ns"].as_u64());
    let leg = &after["whole"]["members"][0]["members"][0];
    assert!(
        leg["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("/a")),
        "{leg}"
    );
    let waits = leg["write_waits"].as_array().expect("a list");
    let waited: u64 = waits.iter().filter_map(Value::as_u64).sum();
    assert!(
        waited > 0 && waited <= leg["writes"].as_u64().expect("a number"),
        "{leg}"
    );
    assert!(after["whole"]["allocated"].as_u64() >= Some(WRITTEN_MIB * MIB));
    // The API has the same values, and its status does not contain them.
    let status = machine.ok("pool status tank --json").json();
    assert!(status["load"].is_null(), "{status}");
}

#[test]
fn iostat_prints_requested_number_of_samples() {
    let machine = machine();
    // The I/O of the command itself is not that of the pool.
    for words in [
        "pool iostat tank",
        "pool iostat",
        "pool iostat tank --count 2",
    ] {
        machine.refused(words, 7, "pool tank is not served");
        machine.refused(words, 7, "`bulkhead pool-server tank`");
    }
    let server = machine.serve("");
    let began = Instant::now();
    let said = machine.ok("pool iostat --count 3").out;
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "a second is the default"
    );
    assert_eq!(
        said.matches("tank: since it was opened").count(),
        1,
        "{said}"
    );
    assert_eq!(said.matches("tank: the last ").count(), 2, "{said}");
    for row in ["tank", "  mirror-0", "    a", "    b"] {
        let is_it = |line: &&str| line.starts_with(&format!("{row} "));
        assert_eq!(said.lines().filter(is_it).count(), 3, "{row:?}: {said}");
    }
    for (words, part) in [
        ("--count 0", "0 is not in 1..=1000000"),
        ("--interval 0", "0 is not in 1..=3600"),
        ("--interval 1.5", "invalid digit"),
        ("--interval 4000", "1..=3600"),
        ("--count few", "invalid digit"),
    ] {
        machine.refused(&format!("pool iostat tank {words}"), 2, part);
    }
    machine.refused("pool iostat none", 3, "none");
    assert_eq!(server.stop(), 0);
}

/// Runs the command, and returns its output lines.
fn watch(machine: &TestHost, words: &str) -> (Child, std::io::Lines<BufReader<ChildStdout>>) {
    let mut child = machine
        .command(words)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    (child, lines)
}

fn wait_for(part: &str, lines: &mut std::io::Lines<BufReader<ChildStdout>>) {
    let found = lines.any(|line| line.expect("readable").contains(part));
    assert!(found, "it ended without {part:?}");
}

#[test]
fn iostat_ends_on_interrupt_and_resets_on_new_server() {
    let machine = machine();
    let server = machine.serve("");
    let (mut child, mut lines) = watch(&machine, "pool iostat tank --interval 1");
    wait_for("since it was opened", &mut lines);
    wait_for("the last", &mut lines);
    server.kill();
    let server = machine.serve("");
    wait_for("the counters were reset", &mut lines);
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(child.wait().expect("a child of ours").code(), Some(0));
    assert_eq!(server.stop(), 0);
}

#[test]
fn suspended_pool_is_included_in_iostat() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let _server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let before = written(&counters(&machine));
    machine.remove_disks(&faults);
    let writer =
        std::thread::spawn(move || client.write(0, &[1; 65_536]).and_then(|()| client.flush()));
    eventually("the pool is suspended", || {
        counters(&machine)["suspended"] == true
    });
    let began = Instant::now();
    let after = written(&counters(&machine));
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert!(before.iter().zip(after).all(|(old, new)| *old <= new));
    let shown = machine.ok("pool iostat tank").out;
    assert!(shown.contains("suspended, all I/O waits"), "{shown}");
    std::fs::write(&faults, "").expect("written");
    eventually("it goes on", || machine.run("pool clear tank").code == 0);
    writer.join().expect("no panic").expect("written");
    assert_eq!(counters(&machine)["suspended"], false);
}

#[test]
fn iostat_without_name_shows_all_served_pools() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank a");
    machine.ok("pool create attic b");
    let _server = machine.serve("");
    let shown = machine.ok("pool iostat --json").json();
    let names: Vec<&str> = shown
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|load| load["whole"]["name"].as_str())
        .collect();
    assert_eq!(names, ["tank"]);
    let text = machine.ok("pool iostat");
    assert!(text.out.contains("tank: since"), "{}", text.out);
    assert!(!text.out.contains("attic"), "{}", text.out);
    assert!(
        text.err.contains("pool attic is not served"),
        "{}",
        text.err
    );
}
