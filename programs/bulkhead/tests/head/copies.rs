//! Copies of a pool's disks next to the originals: which ones a server opens or refuses, its messages, and how a copy
//! becomes a pool of its own.

use std::process::Command;

use crate::common::TestHost;
use crate::common::nbd::Nbd;
use crate::common::tools::run;

fn copy(machine: &TestHost, from: &str, to: &str) {
    let mut cp = Command::new("cp");
    cp.arg("--sparse=always")
        .args([from, to].map(|name| machine.path(name)));
    assert!(cp.status().expect("cp").success());
}

fn rename(machine: &TestHost, from: &str, to: &str) {
    std::fs::rename(machine.path(from), machine.path(to)).expect("renamed");
}

/// Searches all files of the simulated host.
fn everywhere(machine: &TestHost) -> String {
    format!("--search {}", machine.directory.path().display())
}

/// Writes and flushes.
fn write(machine: &TestHost, number: u8) {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[number; 4096]).expect("written");
    client.flush().expect("flushed");
}

fn read(machine: &TestHost) -> u8 {
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.read(0, 4096).expect("read")[0]
}

#[test]
fn older_disk_copy_is_skipped_with_warning() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve(&everywhere(&machine));
    write(&machine, 1);
    copy(&machine, "a", "0.copy");
    write(&machine, 2);
    server.kill();
    let server = machine.serve(&everywhere(&machine));
    assert_eq!(read(&machine), 2);
    let log = machine.log();
    assert!(
        log.contains("a copy of a device of the pool is left out") && log.contains("0.copy"),
        "{log}"
    );
    let copy = machine.path("0.copy").display().to_string();
    let status = machine.ok("pool status tank --json").json();
    assert_eq!(status["left_out"][0]["device"], copy.as_str());
    let advice = status["advice"].to_string();
    assert!(advice.contains("pool reidentify tank NAME"), "{advice}");
    for words in ["pool status tank", "status"] {
        let said = machine.ok(words).out;
        assert!(said.contains(&copy), "{words}: {said}");
    }
    assert!(machine.ok("pool list").out.contains(&copy));
    assert_eq!(server.stop(), 0);
    let listed = machine.ok(&format!("pool list {}", everywhere(&machine)));
    assert!(listed.out.contains("copies, left out"), "{}", listed.out);
    std::fs::remove_file(&copy).expect("removed");
    let server = machine.serve("");
    let status = machine.ok("pool status tank --json").json();
    assert!(status["left_out"].is_null(), "{status}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn ambiguous_disk_copies_are_refused_until_one_is_named() {
    let machine = TestHost::with_exported_volume();
    let server = machine.serve("");
    write(&machine, 1);
    server.kill();
    copy(&machine, "a", "0.copy");
    rename(&machine, "a", "z.original");
    let search = everywhere(&machine);
    for words in ["pool status tank", "pool import tank", "pool-server tank"] {
        let words = format!("{words} {search}");
        machine.refused(&words, 6, "identify themselves as the same device");
    }
    let said = machine
        .run(&format!("pool import tank --json {search}"))
        .json();
    let advice = said["failure"]["advice"].to_string();
    for part in [
        "pool import tank --device",
        "pool reidentify tank NAME --device",
    ] {
        assert!(advice.contains(part), "{advice}");
    }
    let named = machine.path("z.original").display().to_string();
    machine.ok(&format!("pool import tank --device {named} {search}"));
    let server = machine.serve(&search);
    assert_eq!(read(&machine), 1);
    assert_eq!(server.stop(), 0);
}

#[test]
fn disk_copy_becomes_separate_pool_next_to_original() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    machine.ok("volume create tank/v --size 32M --sparse");
    machine.ok("nbd export tank/v --name v");
    let server = machine.serve("");
    write(&machine, 1);
    copy(&machine, "a", "copy");
    write(&machine, 2);
    let device = machine.path("copy").display().to_string();
    let reidentify = format!("pool reidentify tank other --device {device}");
    machine.ok(&reidentify);
    let own = machine.ok("volume list tank --json").json();
    let others = machine.ok("volume list other --json").json();
    assert_ne!(own[0]["identity"], others[0]["identity"]);
    let status = |pool: &str| machine.ok(&format!("pool status {pool} --json")).json();
    assert_ne!(status("tank")["guid"], status("other")["guid"]);
    assert_eq!(status("other")["health"], "ONLINE");
    assert_eq!(status("other")["devices"][0]["name"], device.as_str());
    // A command that was killed is repeated.
    machine.ok(&reidentify);
    server.kill();
    let server = machine.serve(&everywhere(&machine));
    assert_eq!(read(&machine), 2);
    assert!(!machine.log().contains("left out"), "{}", machine.log());
    assert_eq!(server.stop(), 0);
    assert_eq!(status("tank")["health"], "ONLINE");
}

/// The library would only report that it is busy, with and without the flag.
#[test]
fn copy_of_used_disk_is_added_only_after_erasure() {
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    let server = machine.serve("");
    copy(&machine, "a", "copy");
    let [a, new] = ["a", "copy"].map(|name| machine.path(name).display().to_string());
    let commands = [
        format!("pool attach tank {a} {new}"),
        format!("pool replace tank {a} {new}"),
        format!("pool add tank {new} --mismatched"),
    ];
    for command in &commands {
        for flag in ["", "--overwrite-old-labels"] {
            let said = machine.run(&format!("{command} {flag}"));
            assert_ne!(said.code, 0, "{command} {flag}");
            for part in ["a copy of that disk", a.as_str(), "wipefs -a"] {
                assert!(said.err.contains(part), "{command} {flag}: {}", said.err);
            }
        }
    }
    run("wipefs", &["-a", &new]);
    machine.ok(&format!("pool attach tank {a} {new}"));
    assert_eq!(server.stop(), 0);
}
