//! Legs that join a pool after it was created.

use crate::common::legs::Pair;

/// A pool with one leg gets one on the other head, which then carries it alone. A resynchronization resumes after a
/// crash.
#[test]
fn leg_of_other_head_is_attached_to_single_leg_pool() {
    let (mut pair, server) = Pair::narrow();
    let mut client = pair.a.client();
    pair.write(&mut client, 40);
    let (own, new) = (pair.a.leg("a"), pair.b.leg("b"));
    let words = format!("pool attach tank {own} {new}");
    let said = pair.a.machine.run(&words);
    assert!(said.err.contains("names no leg"), "{}", said.err);
    pair.widen();
    drop(client);
    assert_eq!(server.stop(), 0);
    let server = pair.a.serve("");
    let mut client = pair.a.client();
    assert!(!pair.a.is_current("b"), "nobody said so");
    let said = pair.a.machine.ok("pool status tank").out;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("bulkhead {words}")), "{said}");
    let turned = format!("pool attach tank {new} {own}");
    pair.a
        .machine
        .refused(&turned, 2, "is no part of the pool yet");
    pair.a.machine.ok(&words);
    drop(client);
    server.kill();
    let server = pair.a.serve("");
    client = pair.a.client();
    pair.a.await_current("b", true);
    let said = pair.a.machine.ok(&words).out;
    assert!(said.contains("is a leg of the pool"), "{said}");
    pair.write(&mut client, 20);
    pair.a.machine.ok("pool scrub tank --wait");
    let status = pair.a.machine.ok("pool status tank --json").json();
    assert_eq!(status["scan"]["errors"], 0, "{status}");
    // It fails and returns like any other leg.
    pair.b.leg_server.kill();
    pair.write(&mut client, 4);
    assert!(!pair.a.is_current("b"));
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.b.client());
    assert_eq!(server.stop(), 0);
}

/// It is a leg of another head, and nothing else is new there.
#[test]
fn newly_configured_leg_is_attached_without_restart() {
    let (mut pair, server) = Pair::narrow();
    pair.widen();
    let words = format!("pool attach tank {} {}", pair.a.leg("a"), pair.b.leg("b"));
    pair.a.machine.ok(&words);
    pair.a.await_current("b", true);
    let mut client = pair.a.client();
    pair.write(&mut client, 4);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}
