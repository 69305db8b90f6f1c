//! Encrypted volumes with the real server and stock clients: no volume is served without its key,
//! no data is lost until the key is loaded, and the volume is served as soon as it is.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::nbd::Nbd;
use crate::common::{CommandOutput, ServerProcess, TestHost, eventually};

const TARGET: &str = "iqn.2026-01.org.example:tank";
const BLOCK: u64 = 16 << 10;
const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const PASSPHRASE: &str = "correct horse battery";

/// Runs the command with `input` on its standard input.
fn with_input(machine: &TestHost, words: &str, input: &str) -> CommandOutput {
    let mut child = machine
        .command(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut pipe = child.stdin.take().expect("piped");
    // A command that refuses before it reads is detected by its exit code.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    let output = child.wait_with_output().expect("output");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A pool with `tank/v`, with its key in the file `key`; NBD export `v` and unit 0.
fn machine() -> TestHost {
    let machine = TestHost::with_disks(&["a", "b"]);
    std::fs::write(machine.path("key"), HEX).expect("key");
    machine.ok("pool create tank mirror a b");
    let key = machine.path("key");
    machine.ok(&format!(
        "volume create tank/v --size 32M --sparse --key-format hex --key-location file://{}",
        key.display()
    ));
    machine.ok("nbd export tank/v --name v");
    machine.ok(&format!("target create {TARGET} --pool tank"));
    machine.ok(&format!("target map {TARGET} tank/v"));
    machine
}

fn away(machine: &TestHost) {
    std::fs::rename(machine.path("key"), machine.path("away")).expect("moved");
}

fn back(machine: &TestHost) {
    std::fs::rename(machine.path("away"), machine.path("key")).expect("moved");
}

fn state(machine: &TestHost, name: &str) -> serde_json::Value {
    machine
        .ok(&format!("volume key status {name} --json"))
        .json()[0]
        .clone()
}

/// Returns unit 0's size as reported by the stock initiator.
fn capacity(machine: &TestHost) -> Result<String, String> {
    let portal = machine.portal("127.0.0.1");
    let output = Command::new("iscsi-readcapacity16")
        .arg(format!("iscsi://{portal}/{TARGET}/0"))
        .output()
        .expect("iscsi-readcapacity16 (package libiscsi-bin) is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(text + &String::from_utf8_lossy(&output.stderr)),
    }
}

fn connect(machine: &TestHost) -> Nbd {
    Nbd::connect(&machine.nbd_socket(), "v").expect("connected")
}

fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK as usize / 8)
}

fn write(client: &mut Nbd, numbers: std::ops::Range<u64>) {
    for number in numbers {
        client.write(number * BLOCK, &block(number)).expect("write");
        client.flush().expect("flush");
    }
}

fn holds(client: &mut Nbd, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let found = client.read(number * BLOCK, BLOCK as usize).expect("read");
        assert!(found == block(number), "block {number}");
    }
}

#[test]
fn missing_key_blocks_clients_without_data_loss() {
    let machine = machine();
    let server = machine.serve("");
    write(&mut connect(&machine), 0..64);
    server.kill();

    // The next owner has no key. The log of the killed one is pending.
    away(&machine);
    let server = machine.serve("");
    assert_eq!(state(&machine, "tank/v")["loaded"], false);
    let told = capacity(&machine).expect_err("nothing to show");
    assert!(
        told.contains("NOT READY") && told.contains("0x0401"),
        "{told}"
    );
    let no_export = Nbd::connect(&machine.nbd_socket(), "v");
    assert!(no_export.is_err(), "NBD has no status for a missing key");
    let status = machine.ok("status tank").out;
    assert!(status.contains("the key of tank/v is missing"), "{status}");
    let load = "`bulkhead volume key load tank/v` loads it";
    assert!(status.contains(load), "{status}");
    eventually("the event names the key's location", || {
        let events = machine.ok("pool events tank").out;
        events.contains("the key of tank/v is missing") && events.contains("No such file")
    });
    machine.refused("volume key load tank/v", 8, "No such file");
    machine.refused("snapshot create tank/v@now", 1, "key");
    machine.refused("volume resize tank/v --size 64M", 8, "key");
    let wrong = with_input(&machine, "volume key load tank/v --key-stdin", OTHER);
    assert_eq!(wrong.code, 10, "{}", wrong.err);

    back(&machine);
    let loaded = machine.run("volume key load tank/v");
    assert_eq!(loaded.code, 0, "{}", loaded.err);
    assert!(capacity(&machine).expect("served").contains("65535"));
    holds(&mut connect(&machine), 0..64);
    assert_eq!(server.stop(), 0);
}

#[test]
fn late_key_file_is_detected_automatically() {
    let machine = machine();
    away(&machine);
    let server = machine.serve("");
    assert!(capacity(&machine).is_err());
    back(&machine);
    eventually("the server retries", || capacity(&machine).is_ok());
    // A key that was unloaded on purpose is not loaded again automatically.
    machine.ok("snapshot create tank/v@locked");
    machine.ok("volume key unload tank/v");
    assert!(capacity(&machine).is_err());
    // Its properties are unknown without the key.
    for words in [
        "rollback tank/v@locked",
        "rescue tank/v --background",
        "resize tank/v --size 1G",
    ] {
        machine.refused(
            &format!("volume {words}"),
            8,
            "the key of tank/v is not loaded",
        );
    }
    machine.ok("volume key load tank");
    machine.ok("volume rollback tank/v@locked");
    assert!(capacity(&machine).is_ok());
    assert_eq!(server.stop(), 0);
}

#[test]
fn key_change_under_load_invalidates_old_key() {
    let machine = machine();
    let server = machine.serve("");
    let ended = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = connect(&machine);
            let mut count = 0;
            while !ended.load(Ordering::Relaxed) || count < 100 {
                write(&mut client, count % 512..count % 512 + 1);
                count += 1;
            }
            count
        });
        let words = "volume key change tank/v --key-stdin --key-iterations 100000";
        let changed = with_input(&machine, words, PASSPHRASE);
        assert_eq!(changed.code, 0, "{}", changed.err);
        ended.store(true, Ordering::Relaxed);
        writer.join().expect("no write failed")
    });
    machine.refused("volume key unload tank/v", 5, "in use");
    server.kill();

    let server = machine.serve("");
    assert_eq!(state(&machine, "tank/v")["locations"][0], "prompt");
    let old = with_input(&machine, "volume key load tank/v --key-stdin", HEX);
    assert_eq!(old.code, 10, "{}", old.err);
    let new = with_input(&machine, "volume key load tank/v --key-stdin", PASSPHRASE);
    assert_eq!(new.code, 0, "{}", new.err);
    holds(&mut connect(&machine), 0..written.min(512));
    let log = machine.log();
    for secret in [PASSPHRASE, HEX, OTHER] {
        assert!(!log.contains(secret), "a key was logged");
    }
    assert_eq!(server.stop(), 0);
}

/// Serves with key commands of the simulated host.
fn serve_with_key_commands(machine: &TestHost) -> ServerProcess {
    machine.serve_with("", |command| {
        command.env("BULKHEAD_KEY_PROGRAMS", machine.path("programs"));
    })
}

fn program(machine: &TestHost, name: &str, script: &str) {
    let folder = machine.path("programs");
    std::fs::create_dir_all(&folder).expect("folder");
    crate::common::program(&folder.join(name), script);
}

#[test]
fn key_command_unlocks_whole_group_of_volumes() {
    let machine = machine();
    program(&machine, "vault", "[ \"$1\" = group ] && cat \"$0.answer\"");
    let answer = machine.path("programs").join("vault.answer");
    std::fs::write(&answer, PASSPHRASE).expect("answer");
    let server = serve_with_key_commands(&machine);
    let create = "volume key create tank/g --key-format passphrase --key-iterations 100000 \
                  --key-location";
    let mut command = machine.command(create);
    let made = command.arg("command:vault group").output().expect("runs");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    machine.ok("volume create tank/g/one --size 16M --sparse");
    machine.ok("volume create tank/g/two --size 16M --sparse");
    assert_eq!(state(&machine, "tank/g/two")["shared_with"], "tank/g");
    server.kill();

    let server = serve_with_key_commands(&machine);
    eventually("the key program runs", || {
        state(&machine, "tank/g/one")["loaded"] == true
    });
    server.kill();
    program(&machine, "vault", "echo it is sealed >&2; exit 1");
    let server = serve_with_key_commands(&machine);
    eventually("the key program's error is reported", || {
        machine.ok("pool events tank").out.contains("it is sealed")
    });
    assert_eq!(state(&machine, "tank/g/one")["loaded"], false);
    // This key does not delay the other one.
    assert_eq!(state(&machine, "tank/v")["loaded"], true);
    assert_eq!(server.stop(), 0);
}

/// Kills the server while it does `words`, at times that move from the beginning to the end.
#[test]
fn killed_key_change_leaves_old_or_new_key() {
    let machine = machine();
    let mut present = HEX;
    for round in 0..8_u64 {
        std::fs::write(machine.path("key"), present).expect("key");
        let server = machine.serve("");
        let next = if present == HEX { OTHER } else { HEX };
        std::fs::write(machine.path("key"), next).expect("key");
        let words = format!(
            "volume key change tank/v --key-format hex --key-location file://{}",
            machine.path("key").display()
        );
        let mut change = machine
            .command(&words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        // No synchronisation: the kill may hit any step.
        std::thread::sleep(std::time::Duration::from_millis(round * 7));
        server.kill();
        let finished = change.wait().expect("ended").success();
        let server = machine.serve("");
        let is_new = state(&machine, "tank/v")["loaded"] == true;
        if is_new {
            present = next;
        } else {
            assert!(!finished, "round {round}: it was done, and is undone");
            let old = with_input(&machine, "volume key load tank/v --key-stdin", present);
            assert_eq!(old.code, 0, "round {round}: {}", old.err);
        }
        drop(connect(&machine));
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn engine_passes_known_vectors_and_is_compared_with_openssl() {
    let machine = TestHost::with_disks(&[]);
    let measured = machine.ok("bench crypto --seconds 0.05 --json").json();
    assert!(measured["known_answers"].as_u64().expect("a number") >= 18);
    let rows = measured["rows"].as_array().expect("rows");
    let gcm = rows
        .iter()
        .find(|row| row["cipher"] == "aes-256-gcm")
        .expect("GCM");
    for who in ["engine_mb_per_s", "openzfs_mb_per_s", "openssl_mb_per_s"] {
        assert!(gcm[who].as_f64().expect(who) > 0.0, "{gcm}");
    }
    let cbc = rows
        .iter()
        .find(|row| row["cipher"] == "aes-256-cbc")
        .expect("CBC");
    assert!(
        cbc["engine_mb_per_s"].is_null(),
        "the engine has no CBC: {cbc}"
    );
}
