//! Devices of a served pool fail: the server's messages, its automatic actions, and the data that
//! it preserves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::nbd::Nbd;
use crate::common::{TestHost, eventually};
use serde_json::Value;

/// Writes to export `v` until dropped, so that faults take effect.
struct Writer {
    ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<std::io::Result<()>>>,
}

impl Writer {
    fn start(machine: &TestHost) -> Self {
        let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Acquire) {
                client.write(0, &[7; 65_536])?;
                client.flush()?;
            }
            Ok(())
        });
        Self {
            ended,
            thread: Some(thread),
        }
    }

    /// Stops, and returns whether every write succeeded.
    fn end(mut self) -> std::io::Result<()> {
        self.ended.store(true, Ordering::Release);
        let thread = self.thread.take().expect("ended once");
        thread.join().expect("no panic")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// A pool of these devices, with volume `tank/v` as export `v`.
fn machine(disks: &[&str], layout: &str) -> TestHost {
    let machine = TestHost::with_disks(disks);
    machine.ok(&format!("pool create tank {layout}"));
    machine.ok("volume create tank/v --size 32M --sparse");
    machine.ok("nbd export tank/v --name v");
    machine
}

fn fail(faults: &Path, device: &Path) {
    let line = format!("{} read=eio write=eio flush=eio\n", device.display());
    std::fs::write(faults, line).expect("written");
}

fn pool(machine: &TestHost) -> Value {
    machine.ok("pool status tank --json").json()
}

/// Returns the state of a device, at any depth of the tree.
fn state_of(devices: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for device in devices.as_array().into_iter().flatten() {
        if device["name"] == path.to_str().expect("UTF-8") {
            found.push(device["state"].as_str().expect("a state").to_owned());
        }
        found.extend(state_of(&device["members"], path));
    }
    found
}

fn events(machine: &TestHost) -> Vec<Value> {
    let events = machine.ok("pool events tank --json").json();
    events.as_array().expect("a list").clone()
}

fn has(events: &[Value], kind: &str, part: &str) -> bool {
    let is_it = |event: &Value| {
        let message = event["message"].as_str().unwrap_or_default();
        event["kind"] == kind && message.contains(part)
    };
    events.iter().any(is_it)
}

#[test]
fn failed_leg_degrades_pool_and_is_reported_and_stored() {
    let machine = TestHost::with_exported_volume();
    let (faults, leg) = (machine.path("faults"), machine.path("b"));
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let writer = Writer::start(&machine);
    assert_eq!(pool(&machine)["health"], "ONLINE");
    fail(&faults, &leg);
    eventually("the pool is degraded", || {
        let pool = pool(&machine);
        pool["health"] == "DEGRADED" && pool["devices"][0]["state"] == "DEGRADED"
    });
    let said = format!("{} was ONLINE, is FAULTED", leg.display());
    eventually("it is logged", || machine.log().contains(&said));
    assert!(has(&events(&machine), "state", &said));
    std::fs::write(&faults, "").expect("written");
    eventually("the pool is whole again", || {
        machine.run("pool clear tank").code == 0 && pool(&machine)["health"] == "ONLINE"
    });
    writer.end().expect("no write failed");
    eventually("its return is reported", || {
        has(&events(&machine), "state", "is ONLINE")
    });
    eventually("a scrub is reported", || {
        // While the leg is filled, the test awaits that instead.
        machine.ok("pool scrub tank --wait");
        has(&events(&machine), "scan", "the scrub finished")
    });
    let told = events(&machine);
    assert_eq!(server.stop(), 0, "{}", machine.log());
    // Without a server, from the pool alone.
    let kept = events(&machine);
    assert_eq!(kept[..told.len()], told[..]);
    assert!(has(&kept[told.len()..], "exported", ""));
    let numbers: Vec<_> = kept.iter().map(|event| event["number"].as_u64()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    let server = machine.serve("");
    eventually("a server reads the earlier events", || {
        let events = events(&machine);
        has(&events, "state", &said) && events.len() > kept.len()
    });
    assert_eq!(server.stop(), 0);
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["kind"] == kind).count()
}

/// As `device_return.rs` has it.
const RETURNS_MAX: usize = 3;

#[test]
fn recovered_leg_is_readmitted_and_flapping_leg_is_not() {
    let machine = TestHost::with_exported_volume();
    let (faults, leg) = (machine.path("faults"), machine.path("b"));
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!(
        "--disk-timeout 1 --leg-faults {}",
        faults.display()
    ));
    let writer = Writer::start(&machine);
    let state = || state_of(&pool(&machine)["devices"], &leg);
    let ways = ["read=eio write=eio flush=eio", "hang", "gone", "write=eio"];
    for (round, how) in ways.iter().enumerate() {
        std::fs::write(&faults, format!("{} {how}\n", leg.display())).expect("written");
        eventually("the leg is given up", || state() != ["ONLINE"]);
        std::fs::write(&faults, "").expect("written");
        if round < RETURNS_MAX {
            eventually("the leg is brought back", || {
                state() == ["ONLINE"] && count(&events(&machine), "returned") == round + 1
            });
        }
    }
    eventually("the exclusion of the leg is reported", || {
        has(&events(&machine), "stays_out", "3 times within an hour")
    });
    assert_ne!(state(), ["ONLINE"]);
    machine.ok(&format!("pool clear tank {}", leg.display()));
    eventually("a person brings it back", || state() == ["ONLINE"]);
    writer.end().expect("no write failed");
    assert_eq!(count(&events(&machine), "returned"), RETURNS_MAX);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

/// Like a file in a file system that is full: it responds to queries, and its data can be read.
#[test]
fn leg_that_cannot_store_is_given_up_despite_responses() {
    let machine = TestHost::with_exported_volume();
    let (faults, leg) = (machine.path("faults"), machine.path("b"));
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let writer = Writer::start(&machine);
    let state = || state_of(&pool(&machine)["devices"], &leg);
    std::fs::write(&faults, format!("{} write=enospc\n", leg.display())).expect("written");
    eventually("it is given up", || {
        has(&events(&machine), "failed", "it is not used any more")
    });
    eventually("it stays out", || {
        has(&events(&machine), "stays_out", "3 times within an hour") && state() == ["FAULTED"]
    });
    let advice = pool(&machine)["advice"][0]["why"].clone();
    assert!(
        advice.as_str().is_some_and(|why| why.contains("FAULTED")),
        "{advice}"
    );
    std::fs::write(&faults, "").expect("written");
    machine.ok(&format!("pool clear tank {}", leg.display()));
    eventually("a person brings it back", || state() == ["ONLINE"]);
    writer.end().expect("no write failed");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn ineffective_clear_is_reported_while_cause_persists() {
    let machine = machine(&["a"], "a");
    let (faults, disk) = (machine.path("faults"), machine.path("a"));
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let writer = Writer::start(&machine);
    std::fs::write(&faults, format!("{} write=enospc\n", disk.display())).expect("written");
    eventually("the pool is suspended", || {
        pool(&machine)["suspended"] == true
    });
    for _ in 0..3 {
        let said = machine.run("pool clear tank");
        assert_eq!(said.code, 8, "{} {}", said.out, said.err);
        let why = ["suspended again", "/a: No space left on device"];
        assert!(
            why.iter().all(|part| said.err.contains(part)),
            "{}",
            said.err
        );
    }
    std::fs::write(&faults, "").expect("written");
    eventually("the fault is lifted", || {
        machine.log().contains("works again")
    });
    machine.ok("pool clear tank");
    assert_eq!(pool(&machine)["suspended"], false);
    writer.end().expect("the write waited");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn offline_device_is_not_readmitted() {
    let machine = machine(&["a", "b", "c"], "mirror a b c");
    let (faults, offline, leg) = (machine.path("faults"), machine.path("b"), machine.path("c"));
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let writer = Writer::start(&machine);
    machine.ok(&format!("pool offline tank {}", offline.display()));
    fail(&faults, &leg);
    let state = |of: &Path| state_of(&pool(&machine)["devices"], of);
    eventually("a leg is given up", || state(&leg) == ["FAULTED"]);
    std::fs::write(&faults, "").expect("written");
    eventually("that leg is brought back", || state(&leg) == ["ONLINE"]);
    assert_eq!(state(&offline), ["OFFLINE"]);
    writer.end().expect("no write failed");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn events_are_followed_line_by_line() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let mut follower = machine
        .command("pool events tank --follow --json")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let out = follower.stdout.take().expect("piped");
    let mut lines = BufReader::new(out).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("it does not end").expect("readable");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next()["kind"], "imported");
    machine.ok("pool scrub tank --wait");
    assert_eq!(next()["kind"], "scan");
    follower.kill().expect("alive until now");
    follower.wait().expect("a child of ours");
    assert_eq!(server.stop(), 0);
}

#[test]
fn spare_replaces_failed_leg_until_replacement() {
    let machine = machine(&["a", "b", "c", "s"], "mirror a b spare s");
    let (leg, spare) = (machine.path("b"), machine.path("s"));
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let writer = Writer::start(&machine);
    fail(&faults, &leg);
    eventually("the spare is in", || {
        state_of(&pool(&machine)["devices"], &spare) == ["ONLINE", "ONLINE"]
    });
    assert!(machine.log().contains("stands in for"), "{}", machine.log());
    assert!(has(&events(&machine), "spare", "stands in for"));
    machine.ok("pool replace tank b c");
    eventually("the spare is available again", || {
        let devices = &pool(&machine)["devices"];
        state_of(devices, &spare) == ["AVAIL"] && state_of(devices, &leg).is_empty()
    });
    eventually("the pool is whole again", || {
        pool(&machine)["health"] == "ONLINE"
    });
    writer.end().expect("no write failed");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

#[test]
fn read_blocks_while_all_devices_are_missing() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[9; 65_536]).expect("written");
    client.flush().expect("flushed");
    drop(client);
    assert_eq!(server.stop(), 0);
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    machine.remove_disks(&faults);
    let reader = std::thread::spawn(move || client.read(0, 65_536));
    eventually("the pool is suspended", || {
        assert!(
            !reader.is_finished(),
            "the read is blocked: {}",
            machine.log()
        );
        pool(&machine)["suspended"] == true
    });
    std::fs::write(&faults, "").expect("written");
    eventually("the pool resumes", || {
        machine.run("pool clear tank").code == 0 && pool(&machine)["suspended"] == false
    });
    let read = reader.join().expect("no panic").expect("no error");
    assert!(read == [9; 65_536]);
    assert_eq!(server.stop(), 0, "{}", machine.log());
}

/// The next start without them would leave clients without their portals.
#[test]
fn the_command_that_starts_a_killed_server_again_has_its_addresses_and_options() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("--txg-timeout 3");
    let portal = machine.portal("127.0.0.1");
    machine.ok("portal add tank --nbd 127.0.0.1:0");
    let listener = machine.nbd_listener("127.0.0.1");
    server.kill();
    let status = machine.ok("status tank --json").json();
    let command = status["pool"]["advice"][0]["command"].as_str();
    let command = command.expect("a command").to_owned();
    let socket = format!("unix:{}", machine.nbd_socket().display());
    for part in [portal.as_str(), &listener, &socket, "--txg-timeout 3"] {
        assert!(command.contains(part), "{part}: {command}");
    }
    assert!(!command.contains("--ready-fd"), "{command}");
    let words = command.strip_prefix("bulkhead ").expect("our binary");
    let mut again = machine.command(words);
    again.stdout(Stdio::null()).stderr(Stdio::null());
    let mut again = again.spawn().expect("started");
    eventually("it serves again", || {
        let status = machine.run("status tank --json");
        status.code == 0 && status.json()["server"].is_object()
    });
    assert_eq!(machine.portal("127.0.0.1"), portal);
    assert_eq!(machine.nbd_listener("127.0.0.1"), listener);
    again.kill().expect("alive until now");
    again.wait().expect("a child of ours");
}

/// Its socket must not be taken for that of a killed server.
#[test]
fn exported_pool_without_disks_is_in_no_list() {
    let machine = TestHost::with_exported_volume();
    let faults = machine.path("faults");
    std::fs::write(&faults, "").expect("written");
    let mut server = machine.serve(&format!("--leg-faults {}", faults.display()));
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    machine.remove_disks(&faults);
    let writer =
        std::thread::spawn(move || client.write(0, &[9; 65_536]).and_then(|()| client.flush()));
    eventually("the pool is suspended", || {
        pool(&machine)["suspended"] == true
    });
    machine.refused("pool export tank --in-use", 8, "could not export the pool");
    assert_eq!(server.wait(), 8, "{}", machine.log());
    let _ = writer.join();
    for disk in ["a", "b"] {
        std::fs::rename(machine.path(disk), machine.path(&format!("{disk}-gone"))).expect("moved");
    }
    let list = machine.ok("pool list --json").json();
    assert_eq!(list.as_array().map(Vec::len), Some(0), "{list}");
    let status = machine.run("status --json");
    assert!(!status.out.contains("was killed"), "{}", status.out);
    assert!(!status.err.contains("was killed"), "{}", status.err);
}

#[test]
fn refused_destroy_keeps_volume_exported() {
    let machine = TestHost::with_exported_volume();
    machine.ok("snapshot create tank/v@s");
    machine.ok("snapshot clone tank/v@s tank/clone");
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    machine.refused(
        "volume destroy tank/v --yes-destroy-data --recursive --exported",
        5,
        "tank/clone is a clone of tank/v@s",
    );
    client.write(0, &[1; 4096]).expect("still served");
    drop(client);
    machine.ok("volume destroy tank/clone --yes-destroy-data");
    machine.ok("volume destroy tank/v --yes-destroy-data --recursive --exported");
    assert_eq!(server.stop(), 0, "{}", machine.log());
}
