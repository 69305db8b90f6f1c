//! Encrypted volumes are sent raw to a pool without their key: in full, incrementally, interrupted
//! and resumed, under kills; and are rolled back to snapshots while they are in use.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::eventually;
use crate::common::heads::{Head, MIB, noise};
use crate::common::nbd::Nbd;
use crate::common::tools::installed;

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Size of the written volume, in bytes.
const WRITTEN: usize = 12 * MIB;

/// A head with the encrypted volume `tank/e`, exported as `e`.
fn head_with_a_secret() -> Head {
    let head = Head::new();
    let machine = &head.machine;
    std::fs::write(machine.path("key"), HEX).expect("key");
    machine.ok(&format!(
        "volume create tank/e --size 24M --sparse --key-format hex --key-location file://{}",
        machine.path("key").display()
    ));
    machine.ok("nbd export tank/e --name e");
    head
}

fn client(head: &Head, export: &str) -> Nbd {
    Nbd::connect(&head.machine.nbd_socket(), export).expect("connected")
}

fn write(head: &Head, offset: usize, data: &[u8]) {
    let mut client = client(head, "e");
    for (number, piece) in data.chunks(MIB).enumerate() {
        let at = (offset + number * MIB) as u64;
        client.write(at, piece).expect("written");
    }
    client.flush().expect("flushed");
}

fn read(head: &Head, export: &str, length: usize) -> Vec<u8> {
    let mut client = client(head, export);
    let pieces = (0..length / MIB).map(|number| (number * MIB) as u64);
    let read = |at| client.read(at, MIB).expect("read");
    pieces.map(read).collect::<Vec<_>>().concat()
}

/// Feeds a receive a part of a stream, and kills the receiving server before the rest arrives.
fn cut(head: Head, words: &str, part: &[u8]) -> Head {
    let mut receive = head.start_receive(words);
    let mut input = receive.stdin.take().expect("piped");
    input.write_all(part).expect("taken");
    input.flush().expect("flushed");
    let head = head.killed_and_restarted();
    drop(input);
    let _ = receive.wait();
    head
}

fn volumes(head: &Head) -> Vec<String> {
    let list = head.machine.ok("volume list tank --json").json();
    let list = list.as_array().expect("a list").iter();
    list.map(|one| one["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Checks a stream with stock tools, where they are installed.
fn judged(head: &Head, stream: &[u8]) {
    if !installed("zstream") {
        return;
    }
    let file = head.machine.path("stream");
    std::fs::write(&file, stream).expect("written");
    let dump = Command::new("zstream").arg("dump").arg(&file).output();
    let dump = dump.expect("zstream runs");
    let text = String::from_utf8_lossy(&dump.stdout);
    assert!(dump.status.success() && text.contains("END"), "{text}");
    assert!(
        !stream.windows(64).any(|part| part == &noise(1, 64)[..]),
        "nothing of it is readable"
    );
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn raw_streams_of_an_encrypted_volume_reach_a_pool_without_the_key() {
    let near = head_with_a_secret();
    let first = noise(1, WRITTEN);
    write(&near, 0, &first);
    near.machine.ok("snapshot create tank/e@one");
    let later = noise(2, 2 * MIB);
    write(&near, MIB, &later);
    near.machine.ok("snapshot create tank/e@two");
    let whole = near.stream("snapshot send tank/e@one --raw");
    let changes = near.stream("snapshot send tank/e@two --from @one --raw");
    judged(&near, &whole);

    // A receive that is not resumable leaves no trace, even if a start finds it.
    let far = Head::new();
    let far = cut(far, "snapshot receive tank/c", &whole[..whole.len() / 2]);
    assert_eq!(volumes(&far), ["tank/v"]);
    assert!(far.token("tank/c").is_empty());

    // A resumable receive continues.
    let words = "snapshot receive tank/c --resumable";
    let far = cut(far, words, &whole[..whole.len() / 2]);
    let rest = match far.token("tank/c") {
        token if token.is_empty() => whole.clone(),
        token => near.stream(&format!("snapshot send --resume {token}")),
    };
    far.received(words, &rest);

    // Changes arrive completely or not at all.
    let far = cut(
        far,
        "snapshot receive tank/c",
        &changes[..changes.len() / 2],
    );
    assert!(!far.machine.ok("snapshot list tank/c").out.contains("@two"));
    far.received("snapshot receive tank/c", &changes);
    let key = far.machine.ok("volume key status tank/c --json").json();
    assert_eq!(key[0]["loaded"], false, "{key}");
    assert_eq!(key[0]["format"], "hex", "{key}");
    let refused = far.machine.run("snapshot send tank/c@two");
    assert_ne!(refused.code, 0, "readable, without a key");

    // With the key it is readable as before, and still after a kill.
    std::fs::write(far.machine.path("key"), HEX).expect("key");
    let load = format!(
        "volume key load tank/c --key-location file://{}",
        far.machine.path("key").display()
    );
    far.machine.ok(&load);
    far.machine.ok("nbd export tank/c --name c");
    let mut expected = first;
    expected[MIB..3 * MIB].copy_from_slice(&later);
    assert!(read(&far, "c", WRITTEN) == expected);
    let far = far.killed_and_restarted();
    far.machine.ok(&load);
    eventually("it is served again", || {
        Nbd::connect(&far.machine.nbd_socket(), "c").is_ok()
    });
    assert!(read(&far, "c", WRITTEN) == expected);
    assert_eq!(near.server.stop(), 0);
    assert_eq!(far.server.stop(), 0);
    sound(&far.machine);
}

/// Checks the pool with the engine's own checker, where it is installed.
fn sound(machine: &crate::common::TestHost) {
    if !installed("zdb") {
        return;
    }
    let checked = Command::new("zdb")
        .args(["-e", "-bcc", "-p"])
        .arg(machine.directory.path())
        .arg("tank")
        .stderr(Stdio::null())
        .output()
        .expect("zdb runs");
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("No leaks"), "{text}");
}

#[test]
fn encrypted_volume_in_use_is_rolled_back() {
    let head = head_with_a_secret();
    let old = noise(3, 4 * MIB);
    write(&head, 0, &old);
    head.machine.ok("snapshot create tank/e@old");
    write(&head, 0, &noise(4, 4 * MIB));
    let mut attached = client(&head, "e");
    let done = head.machine.ok("volume rollback tank/e@old --json").json();
    assert!(done["pause_ms"].is_u64(), "{done}");
    assert!(attached.read(0, MIB).expect("still attached") == old[..MIB]);
    attached.write(0, &noise(5, MIB)).expect("written");
    attached.flush().expect("flushed");
    // The input of `appliance check` from the other heads.
    let facts = head.machine.ok("appliance facts").out;
    let file = format!("key_file\ttank\t{}\n", head.machine.path("key").display());
    assert!(facts.contains(&file), "{facts}");
    let head = head.killed_and_restarted();
    let found = read(&head, "e", 4 * MIB);
    assert!(found[..MIB] == noise(5, MIB)[..], "flushed since");
    assert!(found[MIB..] == old[MIB..], "the snapshot's contents");
    assert_eq!(head.server.stop(), 0);
    sound(&head.machine);
}
