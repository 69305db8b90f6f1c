//! A witness is added to a pool with legs and removed again while a client writes, with real processes, some of which
//! are killed. The record defines the members, not the configuration.

use std::time::{Duration, Instant};

use crate::common::legs::{Head, Pair};
use crate::common::{ServerProcess, eventually};
use leg_record::Membership;
use serde_json::Value;

/// Longest time that a client may be blocked when a leg is lost. The promise is 3 s; a busy host gets more.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Number of rounds with kills.
const ROUNDS_MAX: u64 = 6;
/// The volume has room for the writes of all rounds, however fast the disks are.
const BETWEEN_WRITES: Duration = Duration::from_millis(5);
const ADD: &str = "pool set-witness tank w";
const REMOVE: &str = "pool set-witness tank --none";

/// Returns whether the record that the member of a head accepted names a witness; none if it names
/// no members.
fn has_witness(head: &Head) -> Option<bool> {
    let record = head.memory().accepted.expect("a record");
    let members = record.members?;
    Some(matches!(members, Membership::TwoHeadsAndWitness { .. }))
}

/// Returns the names of the members, and of further ones in the configuration, as the status shows them.
fn members(head: &Head) -> (Vec<String>, Vec<String>) {
    let status: Value =
        serde_json::from_str(&head.machine.ok("pool status tank --json").out).expect("JSON");
    let texts = |value: &Value, key: Option<&str>| {
        let all = value.as_array().into_iter().flatten();
        let texts = all.filter_map(|one| key.map_or(one, |key| &one[key]).as_str());
        texts.map(str::to_owned).collect()
    };
    let legs = &status["legs"];
    (
        texts(&legs["members"], Some("name")),
        texts(&legs["not_on_record"], None),
    )
}

/// Adds the witness to the heads' configurations, with all legs current.
fn name_witness(pair: &mut Pair) {
    pair.name_witness();
    let mut client = pair.a.client();
    // Any state lost in between is noticed.
    pair.write(&mut client, 1);
    pair.a.await_all_current();
}

#[test]
fn added_witness_votes_and_removed_witness_does_not() {
    let (mut pair, server) = Pair::new(false);
    assert_eq!(
        has_witness(&pair.a),
        Some(false),
        "a new pool names its members"
    );
    let unnamed = pair.a.fails(ADD);
    assert!(unnamed.contains("names no witness w"), "{unnamed}");
    name_witness(&mut pair);
    let unread = pair.a.does("pool status tank");
    assert!(
        unread.contains("bulkhead pool set-witness tank WITNESS"),
        "{unread}"
    );
    pair.write_during(ADD);
    for head in [&pair.a, &pair.b] {
        assert_eq!(has_witness(head), Some(true), "{}", head.name);
    }
    pair.await_witness_updated();
    assert_eq!(
        members(&pair.a),
        (vec!["a".into(), "b".into(), "w".into()], vec![])
    );
    assert!(pair.a.does(ADD).contains("w stores"), "it is so already");
    // The other head is lost. No fence is needed.
    let mut client = pair.a.client();
    pair.b.leg_server.kill();
    let begun = Instant::now();
    pair.write(&mut client, 10);
    assert!(begun.elapsed() < PAUSE_MAX, "{:?}", begun.elapsed());
    assert!(!pair.a.is_current("b"));
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    drop(client);
    pair.write_during(REMOVE);
    assert_eq!(
        members(&pair.a),
        (vec!["a".into(), "b".into()], vec!["w".into()])
    );
    for head in [&pair.a, &pair.b] {
        assert_eq!(has_witness(head), Some(false), "{}", head.name);
    }
    assert_eq!(server.stop(), 0);
    // According to the file a and the witness are enough. According to the record they are not: b may have continued
    // alone.
    pair.b.leg_server.kill();
    pair.a.leg_server.kill();
    pair.a.start_leg_server();
    let said = pair.a.refused("");
    assert!(said.contains("has sent no message since"), "{said}");
    pair.b.start_leg_server();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// The owner's head is permanently lost, and its record has a witness that the other head's pool server has never seen.
#[test]
fn other_head_takes_over_with_vote_of_added_witness() {
    let (mut pair, server) = Pair::new(false);
    name_witness(&mut pair);
    pair.write_during(ADD);
    let said = pair.b.refused("");
    assert!(said.contains("serves it"), "two owners: {said}");
    server.kill();
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    let mut client = pair.b.client();
    pair.check(&mut client);
    pair.write(&mut client, 5);
    assert!(!pair.b.is_current("a"));
    pair.a.start_leg_server();
    pair.b.await_current("a", true);
    // And back: the head that serves now removes it, with the file that the other one wrote.
    pair.b.does(REMOVE);
    eventually("both heads have it", || has_witness(&pair.a) == Some(false));
    pair.check(&mut client);
    // The file is written last. The server, which has read the previous one, treats it as its current state.
    pair.unname_witness();
    pair.write(&mut client, 1);
    eventually("nobody differs", || {
        let (_, unrecorded) = members(&pair.b);
        let told = pair.b.does("pool status tank");
        unrecorded.is_empty() && !told.contains("that differs for this pool")
    });
    assert!(pair.b.does(REMOVE).contains("both heads alone store"));
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// The pool continues unchanged, and reports so.
#[test]
fn change_without_quorum_is_refused_without_blocking() {
    let (mut pair, server) = Pair::new(false);
    name_witness(&mut pair);
    pair.witness.kill();
    let said = pair.a.fails(ADD);
    assert!(
        said.contains("nothing was changed") && said.contains("w does not respond"),
        "{said}"
    );
    pair.start_witness();
    pair.b
        .reconfigure(|text| text.replace("number = 3\n", "number = 4\n"));
    let said = pair.a.fails(ADD);
    assert!(
        said.contains("leg-server of b has read a different configuration"),
        "{said}"
    );
    pair.b
        .reconfigure(|text| text.replace("number = 4\n", "number = 3\n"));
    let mut client = pair.a.client();
    pair.write(&mut client, 1);
    pair.a.await_all_current();
    assert_eq!(has_witness(&pair.a), Some(false));
    drop(client);
    pair.write_during(ADD);
    assert_eq!(server.stop(), 0);
}

/// Of an earlier release.
#[test]
fn record_without_members_gets_them_when_pool_is_served() {
    let (mut pair, server) = Pair::new(false);
    assert_eq!(server.stop(), 0);
    for head in [&mut pair.a, &mut pair.b] {
        head.leg_server.kill();
        let mut memory = head.memory();
        memory.accepted.as_mut().expect("a record").members = None;
        let bytes = leg_record::encode_state(&memory);
        std::fs::write(head.machine.path("state/legs/77.legs"), bytes).expect("written");
        head.start_leg_server();
    }
    let server = pair.a.serve("");
    for head in [&pair.a, &pair.b] {
        eventually("it is named", || has_witness(head) == Some(false));
    }
    name_witness(&mut pair);
    pair.write_during(ADD);
    assert_eq!(server.stop(), 0);
}

/// Serves the pool again after its server was killed on the same head.
fn serve_again(pair: &Pair, server: ServerProcess) -> ServerProcess {
    server.kill();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    server
}

/// The owner, the other head's leg-server or the witness is killed some time after a change began. All acknowledged
/// writes survive, and the change is completed when it is repeated.
#[test]
fn change_completes_despite_kill_of_any_process() {
    let seed = std::env::var("BULKHEAD_WITNESS_SEED");
    let seed: u64 = seed.map_or(7, |text| text.parse().expect("a number"));
    let mut random = seed;
    let mut next = |below: u64| {
        // Splitmix: the same seed reproduces the run, as far as processes allow.
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % below
    };
    let (mut pair, mut server) = Pair::new(false);
    name_witness(&mut pair);
    for round in 0..ROUNDS_MAX {
        let words = if round % 2 == 0 { ADD } else { REMOVE };
        let (victim, after_ms) = (next(3), next(1_200));
        let what =
            format!("seed {seed}, round {round}: {words}, victim {victim} after {after_ms} ms");
        let mut client = pair.a.client();
        let mut command = pair.a.begin(words);
        let begun = Instant::now();
        // A writing client is the clock: no write is lost, whenever the kill happens.
        while begun.elapsed() < Duration::from_millis(after_ms) {
            pair.write(&mut client, 1);
            std::thread::sleep(BETWEEN_WRITES);
        }
        drop(client);
        match victim {
            0 => server = serve_again(&pair, server),
            1 => {
                pair.b.leg_server.kill();
                pair.b.start_leg_server();
            }
            _ => {
                pair.witness.kill();
                pair.start_witness();
            }
        }
        command.wait().expect("a child of ours");
        eventually(&what, || pair.a.machine.run(words).code == 0);
        assert_eq!(has_witness(&pair.a), Some(round % 2 == 0), "{what}");
        assert_eq!(has_witness(&pair.b), Some(round % 2 == 0), "{what}");
        let mut client = pair.a.client();
        pair.write(&mut client, 1);
        pair.check(&mut client);
        drop(client);
        pair.a.await_all_current();
    }
    assert_eq!(server.stop(), 0);
}
