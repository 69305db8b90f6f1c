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

/// The paths of the pool's devices by its status without a server, or by its server.
fn devices(machine: &TestHost, words: &str) -> Vec<String> {
    let status = machine
        .ok(&format!("pool status tank --json {words}"))
        .json();
    let members = status["devices"][0]["members"]
        .as_array()
        .expect("a mirror");
    let name = |one: &serde_json::Value| one["name"].as_str().expect("a name").to_owned();
    members.iter().map(name).collect()
}

/// The disks `a` and `b` in `directory`.
fn both_in(machine: &TestHost, directory: &str) -> [String; 2] {
    ["a", "b"].map(|name| {
        let path = machine.path(directory).join(name);
        path.display().to_string()
    })
}

/// A pool on `own/a` and `own/b`, of which a server was killed. The copies of `disks` in `bak` are without its write.
fn killed_server_with_older_copies(disks: &[&str]) -> TestHost {
    let machine = TestHost::with_disks(&[]);
    for directory in ["own", "bak"] {
        std::fs::create_dir(machine.path(directory)).expect("made");
    }
    for disk in ["own/a", "own/b"] {
        machine.add_disk(disk, 128 << 20);
    }
    machine.ok("pool create tank mirror own/a own/b");
    machine.ok("volume create tank/v --size 32M --sparse");
    for disk in disks {
        copy(&machine, &format!("own/{disk}"), &format!("bak/{disk}"));
    }
    machine.ok("nbd export tank/v --name v");
    let server = machine.serve("");
    write(&machine, 7);
    server.kill();
    machine
}

#[test]
fn copies_in_a_search_place_never_replace_the_disks_of_a_killed_server() {
    for disks in [&["a", "b"][..], &["a"]] {
        let machine = killed_server_with_older_copies(disks);
        let own = both_in(&machine, "own");
        let server = machine.serve("--search bak");
        assert_eq!(read(&machine), 7, "{disks:?}");
        assert_eq!(devices(&machine, ""), own, "{disks:?}");
        let log = machine.log();
        for disk in disks {
            let copy = format!("bak/{disk}");
            let lines = log.lines().filter(|line| line.contains("is left out"));
            assert_eq!(
                lines.filter(|line| line.contains(&copy)).count(),
                1,
                "{log}"
            );
        }
        assert_eq!(server.stop(), 0);
        assert_eq!(devices(&machine, ""), own, "{disks:?}");
        let server = machine.serve("");
        assert_eq!(read(&machine), 7, "{disks:?}");
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn read_only_command_with_copies_in_a_search_place_uses_the_disks_and_stores_nothing() {
    for disks in [&["a", "b"][..], &["a"]] {
        let machine = killed_server_with_older_copies(disks);
        let own = both_in(&machine, "own");
        let state = || std::fs::read_to_string(machine.path("state/tank.json")).expect("state");
        let before = state();
        assert_eq!(devices(&machine, "--search bak"), own, "{disks:?}");
        for words in ["volume list tank", "status", "pool list", "nbd list"] {
            machine.ok(&format!("{words} --search bak"));
            let looked = machine
                .command(words)
                .env("BULKHEAD_SEARCH", "bak")
                .output();
            assert!(looked.expect("it runs").status.success(), "{words}");
        }
        let listed = machine.ok("pool list --search bak").out;
        assert!(
            listed.contains("own/a") && listed.contains("left out"),
            "{listed}"
        );
        assert_eq!(state(), before);
        // The state is lost, and the labels name the disks.
        assert_eq!(devices(&machine, "--search bak --state-dir none"), own);
        machine.ok("pool set tank comment=changed --search bak");
        assert_eq!(devices(&machine, ""), own, "{disks:?}");
        let server = machine.serve("--search bak");
        assert_eq!(read(&machine), 7);
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn older_copies_of_missing_disks_are_refused_until_named() {
    let machine = killed_server_with_older_copies(&["a", "b"]);
    rename(&machine, "own", "away");
    let words = [
        "pool status tank",
        "pool-server tank",
        "volume list tank",
        "pool import tank",
    ];
    let refused = |words: &str, part: &str| {
        machine.refused(&format!("{words} --search bak"), 6, part);
    };
    for words in words {
        refused(words, "might be an older copy");
    }
    // A killed server exported nothing, so that moved disks and copies look alike.
    machine.refused(
        "pool status tank --search away",
        6,
        "pool import tank --device",
    );
    let [a, b] = both_in(&machine, "away");
    machine.ok(&format!("pool import tank --device {a} --device {b}"));
    assert_eq!(devices(&machine, ""), [a, b]);
    // The group at the export is stored, so that moved disks are found in any directory.
    rename(&machine, "away", "moved");
    refused(
        "pool status tank",
        "this host exported the pool at transaction group",
    );
    assert_eq!(
        devices(&machine, "--search moved"),
        both_in(&machine, "moved")
    );
    machine.refused("pool status tank", 3, "it was last on");
    machine.ok("pool import tank --search moved");
    let server = machine.serve("");
    assert_eq!(read(&machine), 7);
    assert_eq!(server.stop(), 0);
    assert_eq!(
        devices(&machine, "--search bak"),
        both_in(&machine, "moved")
    );
    // The copies are the administrator's choice.
    rename(&machine, "moved", "away");
    let [a, b] = both_in(&machine, "bak");
    machine.ok(&format!("pool import tank --device {a} --device {b}"));
    assert_eq!(devices(&machine, ""), [a, b]);
}

#[test]
fn pool_without_a_stored_state_opens_only_at_the_paths_of_its_labels() {
    let machine = killed_server_with_older_copies(&["a", "b"]);
    let path = machine.path("state/tank.json");
    let text = std::fs::read_to_string(&path).expect("state");
    let mut state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        state
            .as_object_mut()
            .expect("an object")
            .remove("last")
            .is_some()
    );
    std::fs::write(&path, state.to_string()).expect("written");
    rename(&machine, "own", "away");
    machine.refused("pool status tank --search bak", 6, "might be an older copy");
    rename(&machine, "away", "own");
    assert_eq!(devices(&machine, "--search bak"), both_in(&machine, "own"));
}
