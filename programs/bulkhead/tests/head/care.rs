//! The maintenance of a served pool: scrubs that repair, damage that cannot be repaired, disks that
//! are replaced while the server is killed, and quotas.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::nbd::Nbd;
use crate::common::tools::{installed, try_run};
use crate::common::{TestHost, contains, eventually};
use serde_json::Value;

/// Returns incompressible bytes, different for each seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| byte()).collect()
}

/// Overwrites every occurrence of these bytes on a disk; returns their number.
fn spoil(disk: &Path, bytes: &[u8]) -> usize {
    let mut file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(disk)
        .expect("a disk");
    let mut all = Vec::new();
    file.read_to_end(&mut all).expect("readable");
    // Blocks start at multiples of the smallest one.
    let places = (0..all.len() - bytes.len()).step_by(512);
    let places = places.filter(|&at| all[at..at + 64] == bytes[..64]);
    let mut count = 0;
    for at in places {
        file.seek(SeekFrom::Start(at as u64)).expect("in the file");
        file.write_all(&[0x55; 64]).expect("written");
        count += 1;
    }
    count
}

fn status(machine: &TestHost) -> Value {
    machine.ok("pool status tank --json").json()
}

fn next(machine: &TestHost) -> String {
    let first = status(machine)["advice"][0].clone();
    let part = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
    match first.is_null() {
        true => String::new(),
        false => format!("{}: {}", part("what"), part("command")),
    }
}

fn write(machine: &TestHost, offset: u64, bytes: &[u8]) {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(offset, bytes).expect("written");
    client.flush().expect("flushed");
}

#[test]
fn scrub_repairs_and_reports_location_and_advice() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let block = noise(1, 16_384);
    write(&machine, 0, &block);
    assert_eq!(server.stop(), 0);
    assert!(
        spoil(&machine.path("b"), &block) > 0,
        "the block is on the disk"
    );
    let server = machine.serve("");
    machine.ok("pool scrub tank --schedule weekly");
    assert_eq!(next(&machine), "");
    machine.ok("pool scrub tank --wait");
    let found = status(&machine);
    let legs = found["devices"][0]["members"]
        .as_array()
        .expect("two")
        .clone();
    assert_eq!(legs[0]["repaired"], 0, "{found}");
    assert!(
        legs[1]["repaired"]
            .as_u64()
            .is_some_and(|bytes| bytes >= 16_384),
        "{found}"
    );
    assert!(
        legs[1]["checksum_errors"]
            .as_u64()
            .is_some_and(|count| count > 0),
        "{found}"
    );
    assert_eq!(found["scan"]["errors"], 0, "{found}");
    assert_eq!(found["scrub_schedule"]["when"], "weekly on sunday at 00:00");
    assert!(
        next(&machine).contains("bulkhead pool clear tank"),
        "{found}"
    );
    let text = machine.ok("pool status tank").out;
    assert!(
        text.contains(&format!("repaired on {}", machine.path("b").display())),
        "{text}"
    );
    eventually("the event names the range", || {
        machine.ok("pool events tank").out.contains("repaired on ")
    });
    machine.ok("pool clear tank");
    assert_eq!(next(&machine), "");
    let resumed = machine.ok("pool scrub tank --resume --wait --json").json();
    assert_eq!(resumed["changed"], false);
    assert_eq!(server.stop(), 0);
}

#[test]
fn paused_scrub_survives_kill_and_resumes_on_request() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let options = format!("--leg-faults {}", faults.display());
    let server = machine.serve(&options);
    write(&machine, 0, &noise(5, 8 << 20));
    let slow = |disk: &str| format!("{} delay=100\n", machine.path(disk).display());
    std::fs::write(&faults, slow("a") + &slow("b")).expect("written");
    eventually("a scrub is caught while it runs", || {
        machine.ok("pool scrub tank");
        machine.ok("pool scrub tank --pause");
        status(&machine)["scan"]["state"] == "paused"
    });
    // A pause is stored in the pool with its transaction group.
    eventually("the event is recorded", || {
        machine
            .ok("pool events tank")
            .out
            .contains("the scrub is paused")
    });
    server.kill();
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&options);
    assert_eq!(status(&machine)["scan"]["state"], "paused");
    assert!(next(&machine).contains("--resume"));
    machine.ok("pool scrub tank --resume --wait");
    let found = status(&machine);
    assert_eq!(found["scan"]["state"], "finished", "{found}");
    assert_eq!(next(&machine), "");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_bound_on_copies_holds_after_a_kill_and_is_changed_while_the_pool_is_served() {
    const MIB: u64 = 1 << 20;
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    write(&machine, 0, &noise(6, 16 * MIB as usize));
    for bad in ["0", "-1", "512K", "2T", "fast", "50MB/s"] {
        machine.refused(
            &format!("pool copy-rate tank -- {bad}"),
            2,
            "not a rate of copies",
        );
    }
    assert!(status(&machine)["copy_rate_max"].is_null());
    machine.ok("pool copy-rate tank 1M");
    let again = machine.ok("pool copy-rate tank 1024K --json").json();
    assert_eq!(again["changed"], false);
    server.kill();
    let server = machine.serve("");
    assert_eq!(status(&machine)["copy_rate_max"], MIB.to_string());
    let text = machine.ok("pool status tank").out;
    assert!(text.contains("copies:   at most 1M a second"), "{text}");
    let begun = Instant::now();
    machine.ok("pool scrub tank");
    let mut done = 0;
    eventually("four seconds' worth is read", || {
        let scan = &status(&machine)["scan"];
        done = scan["examined"].as_u64().unwrap_or_default();
        done >= 4 * MIB
    });
    let least = Duration::from_millis((done - 3 * MIB) * 1000 / MIB);
    assert!(begun.elapsed() >= least, "{done} in {:?}", begun.elapsed());
    machine.ok("pool copy-rate tank unlimited");
    assert!(status(&machine)["copy_rate_max"].is_null());
    eventually("the rest is read at once", || {
        status(&machine)["scan"]["state"] == "finished"
    });
    let shown = machine.ok("pool copy-rate tank").out;
    assert!(shown.contains("as fast as its clients allow"), "{shown}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn scheduled_scrub_starts_and_survives_restart() {
    let machine = TestHost::with_exported_volume();
    let mut command = machine.command("pool scrub tank --schedule");
    let output = command.arg("every 5s").output().expect("runs");
    assert!(output.status.success());
    let begun = || {
        let text = machine.ok("pool events tank").out;
        text.matches("the scheduled scrub (every 5s) begins")
            .count()
    };
    let server = machine.serve("");
    eventually("a scrub began", || begun() > 0);
    eventually("it ended", || {
        status(&machine)["scan"]["state"] == "finished"
    });
    server.kill();
    let before = begun();
    let server = machine.serve("");
    eventually("another server resumes", || begun() > before);
    machine.ok("pool scrub tank --schedule none");
    assert!(status(&machine)["scrub_schedule"].is_null());
    assert_eq!(server.stop(), 0);
}

#[test]
fn damage_names_the_volume_the_bytes_and_a_whole_snapshot_and_is_healed_by_writing() {
    let machine = TestHost::with_disks(&["a"]);
    machine.ok("pool create tank a");
    machine.ok("volume create tank/v --size 32M --sparse");
    machine.ok("nbd export tank/v --name v");
    let server = machine.serve("");
    let (kept, lost) = (noise(2, 16_384), noise(3, 16_384));
    write(&machine, 0, &kept);
    machine.ok("snapshot create tank/v@whole");
    write(&machine, 1 << 20, &lost);
    assert_eq!(server.stop(), 0);
    assert!(
        spoil(&machine.path("a"), &lost) > 0,
        "the block is on the disk"
    );
    let server = machine.serve("");
    let said = machine.run("pool scrub tank --wait");
    assert_eq!(said.code, 1, "{} {}", said.out, said.err);
    let found = status(&machine);
    let damage = &found["damaged"][0];
    assert_eq!(damage["dataset"], "tank/v", "{found}");
    assert_eq!(damage["offset"], 1 << 20, "{found}");
    assert_eq!(damage["length"], 16_384, "{found}");
    assert_eq!(damage["snapshot"], "tank/v@whole", "{found}");
    assert!(
        next(&machine).contains("snapshot clone tank/v@whole"),
        "{found}"
    );
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert!(
        client.read(1 << 20, 4096).is_err(),
        "no wrong data is served"
    );
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert!(client.read(0, 16_384).expect("the rest is served") == kept);
    drop(client);
    server.kill();
    let server = machine.serve("");
    eventually("it is known after a kill", || {
        status(&machine)["damaged"][0]["offset"] == 1 << 20
    });
    write(&machine, 1 << 20, &lost);
    eventually("two scrubs later it is forgotten", || {
        machine.run("pool scrub tank --wait");
        status(&machine)["damaged"].is_null()
    });
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_disk_is_replaced_by_one_command_even_if_the_server_is_killed() {
    let machine = TestHost::with_exported_volume();
    machine.add_disk("c", 128 << 20);
    let (faults, bad, new) = (machine.path("faults"), machine.path("b"), machine.path("c"));
    std::fs::write(&faults, "").expect("written");
    let options = format!("--leg-faults {}", faults.display());
    let server = machine.serve(&options);
    let data = noise(4, 8 << 20);
    write(&machine, 0, &data);
    let plan = machine.ok("pool replace-disk tank --json").json();
    assert_eq!(plan["failing"], serde_json::json!([]));
    let line = format!("{} read=eio write=eio flush=eio\n", bad.display());
    std::fs::write(&faults, line).expect("written");
    eventually("the leg is given up", || {
        write(&machine, 0, &data[..65_536]);
        let plan = machine.ok("pool replace-disk tank --json").json();
        plan["failing"][0]["state"] == "FAULTED"
    });
    assert!(next(&machine).contains("replace-disk tank"));
    let words = format!("pool replace-disk tank --with {}", new.display());
    let plan = machine.ok(&format!("{words} --json")).json();
    assert_eq!(plan["old"], bad.to_str().expect("UTF-8"));
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(3));
    assert!(machine.ok(&words).out.contains("--yes"));

    let mut command = machine.command(&format!("{words} --yes"));
    let mut command = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut told = BufReader::new(command.stderr.take().expect("piped"));
    let mut line = String::new();
    told.read_line(&mut line).expect("readable");
    assert!(line.contains("replaces"), "{line}");
    server.kill();
    let server = machine.serve(&options);
    let output = command.wait_with_output().expect("a child of ours");
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("readable");
    // Whether the server was killed before or after the new leg was attached.
    machine.ok(&format!("{words} {} --yes", ""));
    assert!(output.status.success(), "{line}{rest} {}", machine.log());
    eventually("the new leg is in, the bad one is out, all is well", || {
        let found = status(&machine);
        let legs = found["devices"][0]["members"].to_string();
        let (in_it, out) = (new.to_str().expect("UTF-8"), bad.to_str().expect("UTF-8"));
        found["health"] == "ONLINE" && legs.contains(in_it) && !legs.contains(&format!("\"{out}\""))
    });
    assert_eq!(next(&machine), "");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert!(client.read(0, data.len()).expect("read") == data);
    assert_eq!(server.stop(), 0);
}

#[test]
fn replacement_by_a_removed_disk_does_not_block() {
    let machine = TestHost::with_exported_volume();
    machine.add_disk("c", 128 << 20);
    let (faults, old, new) = (machine.path("faults"), machine.path("b"), machine.path("c"));
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let data = noise(4, 24 << 20);
    write(&machine, 0, &data);
    // Slow enough to be removed while it is filled.
    std::fs::write(&faults, format!("{} delay=250\n", new.display())).expect("written");
    let words = format!(
        "pool replace-disk tank {} --with {} --yes",
        old.display(),
        new.display()
    );
    let waiting = machine
        .command(&words)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    eventually("the new disk is being filled", || {
        status(&machine)["devices"]
            .to_string()
            .contains("replacing")
    });
    machine.ok(&format!("pool offline tank {}", new.display()));
    let output = waiting.wait_with_output().expect("a child of ours");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{told}");
    assert!(
        told.contains("is stalled") && told.contains("pool online tank"),
        "{told}"
    );
    std::fs::write(&faults, "").expect("written");
    // Earlier requests are slow, and a flush behind them can be late.
    eventually("it is fast again", || machine.log().contains("works again"));
    machine.ok(&format!("pool online tank {}", new.display()));
    machine.ok(&words);
    let members = status(&machine)["devices"].to_string();
    assert!(members.contains(new.to_str().expect("UTF-8")), "{members}");
    assert!(
        !members.contains(&format!("\"{}\"", old.display())),
        "{members}"
    );
    assert_eq!(server.stop(), 0);
}

#[test]
fn detached_device_is_no_longer_searched_for() {
    let machine = TestHost::with_exported_volume();
    let hints = machine.path("state/tank.json");
    let server = machine.serve("");
    let bad = machine.path("b");
    assert!(contains(&hints, bad.to_str().expect("UTF-8")));
    machine.ok(&format!("pool detach tank {}", bad.display()));
    assert!(!contains(&hints, &format!("\"{}\"", bad.display())));
    assert_eq!(server.stop(), 0);
}

#[test]
fn volume_tree_quota_is_enforced_with_correct_client_error() {
    let machine = TestHost::with_exported_volume();
    machine.ok("volume create tank/db/x --size 32M --sparse --parents");
    machine.ok("nbd export tank/db/x --name x");
    machine.ok("volume set tank/db quota=8M");
    let target = "iqn.2026-01.org.example:tank";
    machine.ok(&format!("target create {target}"));
    machine.ok(&format!("target map {target} tank/db/x --lun 0"));
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "x").expect("connected");
    let mut wrote = 0;
    let refused = loop {
        let block = noise(wrote + 9, 1 << 20);
        let written = client
            .write(wrote << 20, &block)
            .and_then(|()| client.flush());
        match written {
            Err(error) => break error,
            Ok(()) => wrote += 1,
        }
        assert!(wrote < 32, "the quota holds");
    };
    assert!(wrote >= 2, "{wrote}");
    assert!(refused.to_string().contains("28"), "ENOSPC: {refused}");
    if installed("qemu-io") {
        let url = format!("iscsi://{}/{target}/0", machine.portal("127.0.0.1"));
        let arguments = ["-f", "raw", "-c", "write -P 7 16M 8M", "-c", "flush", &url];
        let output = try_run("qemu-io", &arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("No space left on device"), "{text}");
    }
    let spaces = machine.ok("volume space tank --json").json();
    let find = |name: &str| {
        let all = spaces.as_array().expect("a list");
        all.iter()
            .find(|one| one["name"] == name)
            .cloned()
            .expect("in the list")
    };
    assert_eq!(find("tank/db")["quota"], 8 << 20);
    let (tree, volume) = (find("tank/db"), find("tank/db/x"));
    let number = |view: &Value, name: &str| view[name].as_u64().expect("a number");
    assert!(number(&tree, "by_children") >= number(&volume, "used"));
    assert!(number(&tree, "used") <= 9 << 20, "{tree}");
    let parts = ["by_data", "by_snapshots", "by_children", "by_reservation"];
    let sum: u64 = parts.iter().map(|part| number(&volume, part)).sum();
    assert_eq!(sum, number(&volume, "used"), "{volume}");
    let shown = machine.ok("volume show tank/db/x --json").json();
    assert!(
        number(&shown["space"], "logical_used") >= 1 << 20,
        "{shown}"
    );
    assert!(machine.ok("volume space tank").out.contains("SNAPSHOTS"));
    machine.ok("volume set tank/db quota=none");
    let mut client = Nbd::connect(&machine.nbd_socket(), "x").expect("connected");
    let room = client
        .write(20 << 20, &noise(77, 1 << 20))
        .and_then(|()| client.flush());
    room.expect("there is room again");
    assert_eq!(server.stop(), 0);
}

#[test]
fn event_follow_survives_server_kill_and_keeps_suspension() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let options = format!("--leg-faults {}", faults.display());
    let server = machine.serve(&options);
    let mut follower = machine
        .command("pool events tank --follow --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let mut next_kind = || -> String {
        let line = lines.next().expect("it does not end").expect("readable");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        event["kind"].as_str().expect("a kind").to_owned()
    };
    assert_eq!(next_kind(), "imported");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    // An earlier write would reach the disks in time.
    machine.remove_disks(&faults);
    let writer =
        std::thread::spawn(move || client.write(0, &[1; 65_536]).and_then(|()| client.flush()));
    eventually("the pool is suspended", || {
        status(&machine)["suspended"] == true
    });
    while next_kind() != "suspended" {}
    server.kill();
    assert!(
        writer.join().expect("no panic").is_err(),
        "the connection ended"
    );
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&options);
    while next_kind() != "imported" {}
    eventually("the pending writes are on disk", || {
        let events = machine.ok("pool events tank --json").json();
        let events = events.as_array().expect("a list").clone();
        events
            .iter()
            .filter(|event| event["kind"] == "suspended")
            .count()
            == 1
            && !machine.path("state/tank.events").exists()
    });
    follower.kill().expect("it still follows");
    follower.wait().expect("a child of ours");
    assert_eq!(server.stop(), 0);
    let kept = machine.ok("pool events tank --json").out;
    assert_eq!(kept.matches("\"suspended\"").count(), 1, "{kept}");
}

/// The new disk is at the path of the old one, like in a disk bay.
#[test]
fn disk_is_replaced_at_same_path() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let data = noise(5, 4 << 20);
    write(&machine, 0, &data);
    server.kill();
    let place = machine.path("b");
    std::fs::remove_file(&place).expect("pulled");
    machine.add_disk("b", 128 << 20);
    // It was removed while no server could see it fail.
    machine.ok("pool confirm tank --missing-devices-are-not-newer");
    let server = machine.serve("");
    assert!(next(&machine).contains("replace-disk tank"));
    let words = format!("pool replace-disk tank --with {} --yes", place.display());
    machine.ok(&words);
    let found = status(&machine);
    assert_eq!(found["health"], "ONLINE");
    let legs = found["devices"][0]["members"].as_array().map(Vec::len);
    assert_eq!(legs, Some(2), "{found}");
    assert_eq!(next(&machine), "");
    assert!(machine.ok(&words).out.contains("no device"));
    // The other disk is removed, and the new one is complete.
    machine.ok(&format!("pool detach tank {}", machine.path("a").display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert!(client.read(0, data.len()).expect("read") == data);
    assert_eq!(server.stop(), 0);
}
