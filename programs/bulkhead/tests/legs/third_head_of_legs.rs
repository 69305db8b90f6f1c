//! A third head is added to a pool with legs of two heads while a client writes, and gets a leg, with real processes.
//! Then heads are lost in turns.

use std::time::{Duration, Instant};

use crate::common::legs::{Head, Pair};
use crate::common::{ServerProcess, eventually};
use leg_record::{MemberId, Membership};

/// Longest time that a client may be blocked when a leg is lost. The promise is 3 s; a busy host gets more.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longer than a server may stall without checking its ownership.
const STALLS: [Duration; 2] = [Duration::from_millis(1_500), Duration::from_secs(3)];
const ADD: &str = "pool add-head tank c";

/// Returns whether the record that the member of a head accepted names three heads.
fn has_three(head: &Head) -> bool {
    let record = head.memory().accepted;
    let three = Membership::ThreeHeads([1, 2, 4].map(MemberId));
    record.is_some_and(|record| record.members == Some(three))
}

/// Adds the third head to the configurations, with all legs current.
fn name_third(pair: &mut Pair) -> Head {
    let third = pair.name_third();
    let mut client = pair.a.client();
    // Any state lost in between is noticed.
    pair.write(&mut client, 1);
    pair.a.await_all_current();
    third
}

/// Attaches the leg of the third head, and returns when it is current.
fn attach(pair: &mut Pair, third: &Head) {
    let words = format!("pool attach tank {} {}", pair.a.leg("a"), third.leg("c"));
    let said = pair.a.machine.ok("pool status tank").out;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("bulkhead {words}")), "{said}");
    pair.write_during(&words);
    pair.a.await_current("c", true);
}

/// Most labels are on other heads, which are queried for ownership. Clients write concurrently.
fn is_stalled(pair: &mut Pair, server: &ServerProcess) {
    let mut client = pair.a.client();
    for length in STALLS {
        std::thread::scope(|scope| {
            let stop = || {
                server.freeze();
                std::thread::sleep(length);
                server.signal("-CONT");
            };
            let stopped = scope.spawn(stop);
            let begun = Instant::now();
            while !stopped.is_finished() {
                pair.write(&mut client, 1);
            }
            pair.write(&mut client, 5);
            assert!(
                begun.elapsed() < length + PAUSE_MAX,
                "{:?}",
                begun.elapsed()
            );
        });
        pair.a.await_all_current();
    }
    pair.check(&mut client);
}

fn add_third_head(has_witness: bool) {
    let (mut pair, server) = Pair::new(has_witness);
    let unnamed = pair.a.fails(ADD);
    assert!(unnamed.contains("names no head c"), "{unnamed}");
    let mut third = name_third(&mut pair);
    let unread = pair.a.does("pool status tank");
    assert!(
        unread.contains("bulkhead pool add-head tank HEAD"),
        "{unread}"
    );
    let early = third.refused("");
    assert!(
        early.contains("other members than the configuration"),
        "{early}"
    );
    pair.write_during(ADD);
    for head in [&pair.a, &pair.b] {
        assert!(has_three(head), "{}", head.name);
    }
    eventually("the third head has the record", || has_three(&third));
    assert!(pair.a.does(ADD).contains("c is a head of the pool"));
    attach(&mut pair, &third);
    is_stalled(&mut pair, &server);
    // A witness has no vote any more, and no fence is needed.
    pair.witness.kill();
    pair.b.leg_server.kill();
    let mut client = pair.a.client();
    let begun = Instant::now();
    pair.write(&mut client, 5);
    assert!(begun.elapsed() < PAUSE_MAX, "{:?}", begun.elapsed());
    assert!(!pair.a.is_current("b"));
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    let said = third.refused("");
    assert!(said.contains("serves it"), "two owners: {said}");
    drop(client);
    // The owner's head is lost, and the third one takes over.
    server.kill();
    pair.a.leg_server.kill();
    let server = third.serve("--previous-owner-is-stopped");
    let mut client = third.client();
    pair.check(&mut client);
    pair.write(&mut client, 5);
    assert!(!third.is_current("a"));
    pair.a.start_leg_server();
    third.await_current("a", true);
    for lost in ["b", "a"] {
        let head = if lost == "a" {
            &mut pair.a
        } else {
            &mut pair.b
        };
        head.leg_server.kill();
        pair.write(&mut client, 5);
        assert!(!third.is_current(lost), "{lost}");
        let head = if lost == "a" {
            &mut pair.a
        } else {
            &mut pair.b
        };
        head.start_leg_server();
        third.await_current(lost, true);
        pair.check(&mut client);
    }
    drop(client);
    assert_eq!(server.stop(), 0);
    third.leg_server.kill();
    let server = pair.b.serve("");
    pair.check(&mut pair.b.client());
    assert_eq!(server.stop(), 0);
}

#[test]
fn third_head_joins_and_pool_survives_loss_of_any_head() {
    add_third_head(false);
}

#[test]
fn third_head_replaces_a_witness() {
    add_third_head(true);
}

/// All acknowledged writes survive, and the head is added when the request is repeated.
#[test]
fn third_head_addition_survives_concurrent_owner_kill() {
    let (mut pair, mut server) = Pair::new(true);
    let third = name_third(&mut pair);
    for after_ms in [0, 40, 120, 400] {
        let mut client = pair.a.client();
        let mut command = pair.a.begin(ADD);
        let begun = Instant::now();
        // A writing client is the clock: no write is lost, whenever the kill happens.
        while begun.elapsed() < Duration::from_millis(after_ms) {
            pair.write(&mut client, 1);
        }
        drop(client);
        server.kill();
        command.wait().expect("a child of ours");
        server = pair.a.serve("");
        pair.check(&mut pair.a.client());
    }
    eventually("it is added", || pair.a.machine.run(ADD).code == 0);
    for head in [&pair.a, &pair.b, &third] {
        eventually("it was told", || has_three(head));
    }
    attach(&mut pair, &third);
    assert_eq!(server.stop(), 0);
}
