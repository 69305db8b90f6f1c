//! Groups with two disks on each head, double parity over three heads, and pools of unlike groups, with real processes.

use std::time::{Duration, Instant};

use crate::common::eventually;
use crate::common::legs::Pair;

/// Longest time that a client may be blocked when a leg is lost. The promise is 3 s; a busy host gets more.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Writes some blocks durably, in bounded time.
pub fn write_on(pair: &mut Pair, client: &mut crate::common::nbd::Nbd) {
    let begun = Instant::now();
    pair.write(client, 10);
    assert!(begun.elapsed() < PAUSE_MAX, "{:?}", begun.elapsed());
}

/// A mirror with one disk on each head would be suspended.
#[test]
fn a_disk_of_a_four_way_mirror_fails_while_the_other_head_is_down_and_clients_go_on() {
    let (mut pair, _, server) = Pair::of_shapes(&[("aabb", 1)]);
    let mut client = pair.a.client();
    write_on(&mut pair, &mut client);
    assert_eq!(pair.a.survives(), (3, "ab".to_owned(), 1));
    pair.b.leg_server.kill();
    write_on(&mut pair, &mut client);
    eventually("both legs of b are stale", || {
        ["b", "b1"]
            .iter()
            .all(|disk| pair.a.state_of(&pair.b, disk) == "stale")
    });
    eventually("the loss of a is not survived", || {
        pair.a.survives() == (1, "b".to_owned(), 1)
    });
    pair.a.fail_disks(&[1]);
    write_on(&mut pair, &mut client);
    eventually("the disk is stale", || {
        pair.a.state_of(&pair.a, "a") == "stale"
    });
    assert_eq!(pair.a.state_of(&pair.a, "a1"), "current");
    let status = pair.a.machine.ok("status tank --json").json();
    assert_eq!(status["pool"]["suspended"], false, "{status}");
    write_on(&mut pair, &mut client);
    pair.check(&mut client);
    pair.a.fail_disks(&[]);
    pair.b.start_leg_server();
    pair.a.await_whole();
    write_on(&mut pair, &mut client);
    assert_eq!(pair.a.survives(), (3, "ab".to_owned(), 1));
    drop(client);
    // The copies on the other head are whole.
    let server = pair.take_over_on_b(server);
    let mut client = pair.b.client();
    write_on(&mut pair, &mut client);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// Four of six disks are needed. Any head may be lost, the one that serves the pool, too.
#[test]
fn double_parity_over_three_heads_survives_the_loss_of_each_head() {
    let (mut pair, third, server) = Pair::of_shapes(&[("aabbcc", 4)]);
    let mut third = third.expect("a third head");
    let mut client = pair.a.client();
    write_on(&mut pair, &mut client);
    assert_eq!(pair.a.survives(), (2, "abc".to_owned(), 0));
    third.leg_server.kill();
    write_on(&mut pair, &mut client);
    eventually("no further loss is survived", || {
        pair.a.survives() == (0, "c".to_owned(), 0)
    });
    third.start_leg_server();
    pair.a.await_whole();
    // Two disks on two heads.
    pair.a.fail_disks(&[1]);
    write_on(&mut pair, &mut client);
    eventually("the disk is stale", || {
        pair.a.state_of(&pair.a, "a") == "stale"
    });
    assert_eq!(pair.a.survives().0, 1);
    pair.a.fail_disks(&[]);
    pair.a.await_whole();
    pair.check(&mut client);
    drop(client);
    let server = pair.take_over_on_b(server);
    let mut client = pair.b.client();
    write_on(&mut pair, &mut client);
    pair.a.start_leg_server();
    pair.b.await_whole();
    pair.check(&mut client);
    pair.b.machine.ok("pool scrub tank --wait");
    let status = pair.b.machine.ok("pool status tank --json").json();
    assert_eq!(status["health"], "ONLINE", "{status}");
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// Each group counts for itself: the pool survives what its weakest group survives.
#[test]
fn a_pool_of_unlike_groups_survives_what_each_of_them_survives() {
    let (mut pair, third, server) = Pair::of_shapes(&[("aabb", 1), ("abc", 2)]);
    let mut third = third.expect("a third head");
    let mut client = pair.a.client();
    write_on(&mut pair, &mut client);
    assert_eq!(pair.a.survives(), (1, "abc".to_owned(), 0));
    third.leg_server.kill();
    // A disk of the other group.
    pair.a.fail_disks(&[1]);
    write_on(&mut pair, &mut client);
    pair.check(&mut client);
    third.start_leg_server();
    pair.a.fail_disks(&[]);
    pair.a.await_whole();
    drop(client);
    let server = pair.take_over_on_b(server);
    assert_eq!(server.stop(), 0);
}

/// The command that adds these legs as a mirror.
pub fn add(legs: &[String]) -> String {
    format!("pool add tank mirror {}", legs.join(" "))
}

/// The pool is served all the time, and the group counts from then on.
#[test]
fn a_group_is_added_while_clients_write_and_both_heads_serve_it() {
    let (mut pair, _, server) = Pair::of_shapes(&[("ab", 1)]);
    let mut client = pair.a.client();
    write_on(&mut pair, &mut client);
    let early = pair.a.fails("pool add tank mirror a:/x b:/y");
    assert!(early.contains("names no group"), "{early}");
    let legs = pair.name_group(("aabb", 1), 11);
    pair.a.await_all_current();
    eventually("the status has the command", || {
        let said = pair.a.machine.ok("pool status tank").out;
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        said.contains(&add(&legs))
    });
    let other = pair
        .a
        .fails(&format!("pool add tank raidz2 {}", legs.join(" ")));
    assert!(other.contains("of that kind"), "{other}");
    pair.write_during(&add(&legs));
    pair.a.await_whole();
    assert_eq!(pair.a.survives(), (1, "ab".to_owned(), 0));
    let said = pair.a.machine.ok(&add(&legs)).out;
    assert!(said.contains("is part of the pool"), "{said}");
    let status = pair.a.machine.ok("pool status tank").out;
    assert!(status.contains("mirror-1"), "{status}");
    write_on(&mut pair, &mut client);
    // The barrier holds for the new legs, too.
    pair.b.leg_server.kill();
    write_on(&mut pair, &mut client);
    pair.b.start_leg_server();
    pair.a.await_whole();
    drop(client);
    let server = pair.take_over_on_b(server);
    let mut client = pair.b.client();
    write_on(&mut pair, &mut client);
    pair.check(&mut client);
    pair.b.machine.ok("pool scrub tank --wait");
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// The server is killed after each record of the addition. The pool is opened, and the addition completes.
#[test]
fn a_crash_at_each_record_of_an_addition_leaves_a_pool_that_opens() {
    let (mut pair, _, mut server) = Pair::of_shapes(&[("ab", 1)]);
    let mut client = pair.a.client();
    for step in 0..5 {
        let legs = pair.name_group(("ab", 1), 100 + 10 * step as u64);
        pair.a.await_all_current();
        pair.write(&mut client, 5);
        drop(client);
        let before = pair.a.records();
        let mut command = pair.a.begin(&add(&legs));
        let mut ended = false;
        eventually("the record is updated", || {
            ended = command.try_wait().expect("it runs").is_some();
            pair.a.records() > before + step || ended
        });
        server.kill();
        let _ = command.wait();
        server = pair.a.serve_with_faults("");
        client = pair.a.client();
        pair.check(&mut client);
        pair.write(&mut client, 5);
        eventually("the group is added", || {
            let said = pair.a.machine.run(&add(&legs));
            said.code == 0
        });
        pair.a.await_whole();
    }
    drop(client);
    let server = pair.take_over_on_b(server);
    assert_eq!(server.stop(), 0);
}
