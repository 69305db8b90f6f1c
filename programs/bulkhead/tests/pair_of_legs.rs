//! Pools whose legs lie on two heads, with real processes: heads and their parts are killed, stopped and started, and what was
//! acknowledged is there.

mod common;

use std::time::{Duration, Instant};

use common::legs::Pair;

/// Longest time that a client may wait when a leg is lost. The promise is 3 s; a busy machine gets more.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The other head's leg-server is killed: writes go on after a pause, and the leg comes back with what it missed.
#[test]
fn a_killed_lender_is_dropped_and_comes_back_current() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    let begun = Instant::now();
    pair.write(&mut client, 20);
    assert!(begun.elapsed() < PAUSE_MAX, "{:?}", begun.elapsed());
    assert!(!pair.a.is_current("b"), "it lacks what was acknowledged");
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    pair.write(&mut client, 20);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// The whole head that served is gone: the other one has everything, and takes the first one's leg back.
#[test]
fn after_the_loss_of_a_head_the_other_one_has_all_that_was_acknowledged() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 40);
    server.kill();
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    let mut client = pair.b.client();
    pair.check(&mut client);
    pair.write(&mut client, 20);
    assert!(!pair.b.is_current("a"));
    pair.a.start_leg_server();
    pair.b.await_current("a", true);
    pair.write(&mut client, 20);
    // And what it got is whole: it goes on alone.
    drop(client);
    server.kill();
    pair.b.leg_server.kill();
    let server = pair.a.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// openzfs#14640 over two machines: a leg falls behind, all stops, and its head alone comes back.
#[test]
fn a_stale_head_alone_refuses_and_says_who_is_newer() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    pair.write(&mut client, 20);
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    pair.b.start_leg_server();
    let said = pair.b.refused("--previous-owner-is-stopped");
    for part in [
        "b:",
        "lacks what was written since transaction group",
        "a:",
        "holds everything",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Nobody is left who remembers.
    pair.witness.kill();
    let said = pair.b.refused("--previous-owner-is-stopped");
    assert!(said.contains("too few members answer"), "{said}");
    pair.start_witness();
    pair.a.start_leg_server();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    pair.a.await_current("b", true);
    assert_eq!(server.stop(), 0);
}
