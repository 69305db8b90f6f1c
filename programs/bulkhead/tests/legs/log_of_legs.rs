//! A pool with a group of legs for its intent log, with real processes.

use crate::common::legs::{Head, Pair};
use crate::common::nbd::Nbd;
use crate::common::{ServerProcess, eventually};

use super::shapes_of_legs::write_on;

/// Head `b`, which serves, is lost. `a` takes over.
fn take_over_on_a(pair: &mut Pair, server: ServerProcess) -> ServerProcess {
    server.kill();
    pair.b.leg_server.kill();
    let server = pair.a.serve_with_faults("--previous-owner-is-stopped");
    pair.check(&mut pair.a.client());
    server
}

/// The least bytes of the writes of one call of `write_on`.
const WRITTEN_BYTES_MIN: u64 = 10 * (16 << 10);

/// Writes some blocks durably on `a`, which serves the pool: each is in the log before it is acknowledged.
fn write_to_log(pair: &mut Pair, client: &mut Nbd) {
    let before = logged_bytes(&pair.a);
    write_on(pair, client);
    let bytes = logged_bytes(&pair.a) - before;
    assert!(bytes >= WRITTEN_BYTES_MIN, "{bytes} bytes are in the log");
}

/// Bytes that were written to the group of the log, which is the second one.
fn logged_bytes(head: &Head) -> u64 {
    let load = head.machine.ok("pool iostat tank --json").json();
    let bytes = &load["whole"]["members"][1]["written_bytes"];
    bytes.as_u64().expect("a count")
}

/// The last writes are in the log only: the transaction group that has them was not written.
#[test]
fn log_of_legs_is_replayed_after_the_loss_of_each_head() {
    let (mut pair, _, server) = Pair::of_shapes(&[("ab", 1), ("log ab", 1)]);
    let mut client = pair.a.client();
    write_to_log(&mut pair, &mut client);
    assert_eq!(pair.a.survives(), (1, "ab".to_owned(), 0));
    // One leg of the log.
    pair.a.fail_disks(&[3]);
    write_on(&mut pair, &mut client);
    eventually("the leg of the log is stale", || {
        pair.a.state_of(&pair.a, "a1") == "stale"
    });
    assert_eq!(pair.a.state_of(&pair.a, "a"), "current");
    write_on(&mut pair, &mut client);
    pair.a.fail_disks(&[]);
    pair.a.await_whole();
    write_to_log(&mut pair, &mut client);
    // The last writes are in no transaction group yet.
    write_on(&mut pair, &mut client);
    drop(client);
    let server = pair.take_over_on_b(server);
    eventually("the log of the volume is replayed", || {
        pair.b
            .machine
            .log()
            .contains("intent logs replayed count=1")
    });
    let mut client = pair.b.client();
    write_on(&mut pair, &mut client);
    pair.a.start_leg_server();
    pair.b.await_whole();
    write_on(&mut pair, &mut client);
    drop(client);
    // The leg that was away has the log, too.
    let server = take_over_on_a(&mut pair, server);
    pair.b.start_leg_server();
    pair.a.await_whole();
    let mut client = pair.a.client();
    write_on(&mut pair, &mut client);
    pair.a.machine.ok("pool scrub tank --wait");
    pair.check(&mut client);
    let status = pair.a.machine.ok("pool status tank --json").json();
    assert_eq!(status["health"], "ONLINE", "{status}");
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// The leg of the head that takes over is the only one with the last writes.
#[test]
fn log_with_one_leg_left_is_replayed_on_the_head_that_has_it() {
    let (mut pair, _, server) = Pair::of_shapes(&[("ab", 1), ("log ab", 1)]);
    let mut client = pair.a.client();
    pair.a.fail_disks(&[3]);
    write_on(&mut pair, &mut client);
    eventually("the leg of the log is stale", || {
        pair.a.state_of(&pair.a, "a1") == "stale"
    });
    write_on(&mut pair, &mut client);
    drop(client);
    let server = pair.take_over_on_b(server);
    pair.a.start_leg_server();
    pair.b.await_whole();
    pair.check(&mut pair.b.client());
    assert_eq!(server.stop(), 0);
}

#[test]
fn log_of_legs_is_added_while_clients_write() {
    let (mut pair, _, server) = Pair::of_shapes(&[("ab", 1)]);
    let legs = pair.name_group(("log ab", 1), 11);
    pair.a.await_all_current();
    let command = format!("pool add tank log mirror {}", legs.join(" "));
    eventually("the status has the command", || {
        let said = pair.a.machine.ok("pool status tank").out;
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        said.contains(&command)
    });
    pair.write_during(&command);
    pair.a.await_whole();
    let mut client = pair.a.client();
    write_to_log(&mut pair, &mut client);
    drop(client);
    let server = pair.take_over_on_b(server);
    assert_eq!(server.stop(), 0);
}
