//! Pools without legs that become pools with legs.

use crate::common::legs::{Head, Pair};

/// Returns the output of `record-legs` on `a`, and its exit code.
fn records(pair: &Pair) -> (i32, String) {
    let words = format!(
        "pool record-legs tank --search . --legs {}",
        pair.a.config()
    );
    let said = pair.a.machine.run(&words);
    (said.code, said.out + &said.err)
}

fn is_recorded(pair: &Pair) {
    let (code, said) = records(pair);
    assert_eq!(code, 0, "{said}");
}

/// A mirror on one head with data gets a leg on a second head, which then carries it alone. It cannot be opened without
/// its record.
#[test]
fn single_head_pool_with_legs_opens_only_by_record() {
    let (mut pair, mut server) = Pair::plain();
    let mut client = pair.a.client();
    pair.write(&mut client, 40);
    pair.a.machine.add_disk("spare", 128 << 20);
    pair.a.machine.ok("pool attach tank a spare");
    let (code, said) = records(&pair);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("is served here"), "{said}");
    drop(client);
    pair.a.machine.ok("pool export tank");
    assert_eq!(server.wait(), 0);
    let (code, said) = records(&pair);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("has a mirror"), "{said}");
    let spare = pair.a.machine.path("spare");
    pair.a
        .does(&format!("pool detach tank {}", spare.display()));
    // All members must store it from the beginning.
    pair.witness.kill();
    pair.b.leg_server.kill();
    let (code, said) = records(&pair);
    assert_eq!(code, 8, "{said}");
    for part in ["b does not respond", "w does not respond"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    pair.a.does("volume list --pool tank");
    pair.start_witness();
    pair.b.start_leg_server();
    is_recorded(&pair);
    for words in [
        "volume list --pool tank",
        "pool-server tank --no-iscsi --no-nbd",
    ] {
        let said = pair.a.fails(words);
        assert!(
            said.contains("has legs on several heads"),
            "{words}: {said}"
        );
    }
    // A second head that reaches the same disk, as it did when the pool had no legs.
    let shared = pair.a.machine.path("a");
    let words = format!(
        "pool-server tank --no-iscsi --no-nbd --search {}",
        shared.display()
    );
    let said = pair.b.machine.run(&words);
    assert!(
        said.err.contains("has legs on several heads"),
        "{}",
        said.err
    );
    server = pair.a.serve("");
    let mut client = pair.a.client();
    pair.check(&mut client);
    let (own, new) = (pair.a.leg("a"), pair.b.leg("b"));
    pair.a.machine.ok(&format!("pool attach tank {own} {new}"));
    pair.a.await_current("b", true);
    pair.write(&mut client, 20);
    drop(client);
    server.kill();
    let (code, said) = records(&pair);
    assert_eq!(code, 2, "it has two legs: {said}");
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.b.client());
    assert_eq!(server.stop(), 0);
}

/// Changes the configuration of both heads, has the disks put on record, which fails with that code and message, and
/// reverts the change.
fn is_refused_with(pair: &mut Pair, from: &str, to: &str, code: i32, parts: &[&str]) {
    pair.reconfigure(from, to);
    let said = records(pair);
    assert_eq!(said.0, code, "{to}: {}", said.1);
    for part in parts {
        assert!(said.1.contains(part), "{to}: {part}: {}", said.1);
    }
    pair.reconfigure(to, from);
}

/// Missing paths, on either head, and a wrong certificate.
#[test]
fn invalid_paths_and_certificate_are_refused_before_changes() {
    let (mut pair, server) = Pair::plain();
    assert_eq!(server.stop(), 0);
    let path = |head: &Head, name: &str| format!("\"{}\"", head.machine.path(name).display());
    let (own, own_typo) = (path(&pair.a, "a"), path(&pair.a, "typo"));
    let parts = ["legs.toml, line ", "is not on this head"];
    is_refused_with(&mut pair, &own, &own_typo, 2, &parts);
    let (other, other_typo) = (path(&pair.b, "b"), path(&pair.b, "typo"));
    let parts = ["nothing was changed", "typo cannot be opened there"];
    is_refused_with(&mut pair, &other, &other_typo, 8, &parts);
    let real = pair.witness_fingerprint();
    let shown = format!("the certificate there has the fingerprint {real}");
    let parts = ["w does not respond", shown.as_str()];
    is_refused_with(&mut pair, &real, &"0c".repeat(32), 8, &parts);
    is_recorded(&pair);
}

/// No process may lend or record the pool concurrently, and a number is not reused for another
/// record.
#[test]
fn record_in_use_is_not_discarded_and_number_not_reused() {
    let (mut pair, server) = Pair::plain();
    assert_eq!(server.stop(), 0);
    is_recorded(&pair);
    let words = format!(
        "pool confirm tank --forget-legs --search . --legs {}",
        pair.a.config()
    );
    pair.a
        .machine
        .refused(&words, 5, "the leg-server of this head runs");
    pair.a.leg_server.kill();
    pair.a
        .machine
        .refused(&words, 5, "the leg-server of b runs");
    pair.b.leg_server.kill();
    pair.a.machine.ok(&words);
    let server = pair.a.machine.serve("--search .");
    assert_eq!(server.stop(), 0);
    pair.a.start_leg_server();
    pair.b.start_leg_server();
    let (code, said) = records(&pair);
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("write another `guid` for pool tank"),
        "{said}"
    );
    pair.reconfigure("guid = 77", "guid = 78");
    is_recorded(&pair);
}

/// The command was interrupted when the labels named the record and no member had it, or all but one had it. It is
/// repeated.
#[test]
fn incomplete_record_creation_is_resumed() {
    let (mut pair, server) = Pair::plain();
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    assert_eq!(server.stop(), 0);
    is_recorded(&pair);
    pair.forget(&["a", "b", "w"]);
    let said = pair.a.fails("volume list --pool tank");
    assert!(said.contains("has legs on several heads"), "{said}");
    let said = pair.a.refused("");
    assert!(said.contains("no member has the record"), "{said}");
    is_recorded(&pair);
    for name in ["w", "b"] {
        pair.forget(&[name]);
        is_recorded(&pair);
    }
    is_recorded(&pair);
    pair.await_witness_updated();
    // One member did not get it, and the rest continued without that member.
    pair.forget(&["w"]);
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
    is_recorded(&pair);
    pair.await_witness_updated();
    let (code, said) = records(&pair);
    assert_eq!(code, 4, "{said}");
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// The command is killed repeatedly, each time a little later.
#[test]
fn killed_record_command_can_be_repeated() {
    let (mut pair, server) = Pair::plain();
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    assert_eq!(server.stop(), 0);
    let words = format!(
        "pool record-legs tank --search . --legs {}",
        pair.a.config()
    );
    for tenth in 1..=30 {
        let mut child = pair.a.machine.command(&words).spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_millis(100 * tenth));
        if child.try_wait().expect("a child of ours").is_some() {
            break;
        }
        child.kill().expect("it runs");
        child.wait().expect("a child of ours");
    }
    let (code, said) = records(&pair);
    assert!(code == 0 || code == 4, "{said}");
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// Members change by another record: the pool continues without its record on one head, and gets one with the new
/// members.
#[test]
fn new_record_adds_witness_to_two_heads() {
    let (mut pair, server) = Pair::new(false);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    assert_eq!(server.stop(), 0);
    pair.a.leg_server.kill();
    pair.b.leg_server.kill();
    pair.a
        .does("pool confirm tank --forget-legs --missing-devices-are-not-newer");
    let server = pair.a.machine.serve("--search .");
    let status = pair.a.machine.ok("pool status tank --json").json();
    let legs = status["devices"][0]["members"]
        .as_array()
        .expect("a mirror");
    let gone = legs.iter().find(|leg| leg["state"] != "ONLINE");
    let gone = gone.expect("it is not here")["name"]
        .as_str()
        .expect("a name");
    pair.a.machine.ok(&format!("pool detach tank {gone}"));
    pair.add_witness("78");
    assert_eq!(server.stop(), 0);
    is_recorded(&pair);
    let server = pair.a.serve("");
    let (own, new) = (pair.a.leg("a"), pair.b.leg("b"));
    let words = format!("pool attach tank {own} {new}");
    pair.a.machine.refused(&words, 6, "carries");
    pair.a
        .machine
        .ok(&format!("{words} --overwrite-old-labels"));
    pair.a.await_current("b", true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    // Without the other head, and without a confirmation: the witness is enough.
    pair.b.leg_server.kill();
    assert_eq!(server.stop(), 0);
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}
