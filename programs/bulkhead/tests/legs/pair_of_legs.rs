//! Pools with legs on two heads, with real processes: heads and their processes are killed, stopped and started, and
//! all acknowledged writes survive.

use std::time::{Duration, Instant};

use crate::common::eventually;
use crate::common::legs::{Head, Pair};
use serde_json::Value;

/// Longest time that a client may be blocked when a leg is lost. The promise is 3 s; a busy host gets more.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The other head's leg-server is killed: writes continue after a pause, and the leg is resynchronized. A leg that
/// hangs repeatedly is left out, with an alert, until an administrator confirms that it is in order.
#[test]
fn killed_lender_is_dropped_and_readmitted_unless_flapping() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    let begun = Instant::now();
    pair.write(&mut client, 20);
    assert!(begun.elapsed() < PAUSE_MAX, "{:?}", begun.elapsed());
    assert!(!pair.a.is_current("b"), "it misses acknowledged writes");
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    pair.write(&mut client, 20);
    let mut hang = |pair: &mut Pair| {
        pair.b.leg_server.freeze();
        pair.write(&mut client, 1);
        pair.b.leg_server.signal("-CONT");
    };
    for _ in 0..3 {
        hang(&mut pair);
        pair.a.await_current("b", true);
    }
    hang(&mut pair);
    eventually("it is left alone", || {
        leg_of(&pair.a, "b")["state"] == "faulted"
    });
    let leg = leg_of(&pair.a, "b");
    let (name, again) = (leg["name"].as_str(), leg["tried_again_ms"].as_u64());
    assert!(again > leg["since_ms"].as_u64(), "{leg}");
    let word = format!("pool online tank {}", name.expect("a name"));
    let status = pair.a.machine.ok("pool status tank").out;
    let told = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(&word), "{status}");
    eventually("it is an event", || {
        kinds_of_events(&pair.a).contains("leg_faulted")
    });
    pair.a.machine.ok(&word);
    pair.a.await_current("b", true);
    let said = pair.a.machine.ok(&word);
    assert!(said.out.contains("is in use"), "{}", said.out);
    pair.write(&mut client, 1);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// The whole head that served is lost: the other one has all data, and later resynchronizes the first one's leg.
#[test]
fn head_loss_keeps_acknowledged_writes_on_other_head() {
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
    // And its leg is complete: it continues alone.
    drop(client);
    server.kill();
    pair.b.leg_server.kill();
    let server = pair.a.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// openzfs#14640 over two hosts: a leg falls behind, all processes stop, and its head alone
/// returns.
#[test]
fn stale_head_alone_refuses_and_names_newer_one() {
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
        "is missing all writes since transaction group",
        "a:",
        "is current",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Nor is it opened without its record, by that of the witness.
    let words = format!(
        "pool confirm tank --search . --forget-legs --missing-devices-are-not-newer --legs {}",
        pair.b.config()
    );
    pair.b.leg_server.kill();
    let why = "is current, and b:";
    pair.b.machine.refused(&words, 6, why);
    pair.b.start_leg_server();
    // No member with the record is left.
    pair.witness.kill();
    let said = pair.b.refused("--previous-owner-is-stopped");
    assert!(said.contains("too few members respond"), "{said}");
    pair.start_witness();
    pair.a.start_leg_server();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    pair.a.await_current("b", true);
    assert_eq!(server.stop(), 0);
}

/// A command that discards the record is refused, on either head, whatever its labels state: with the lent leg alone,
/// too.
#[test]
fn without_the_record_no_leg_is_opened() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    pair.write(&mut client, 20);
    drop(client);
    assert_eq!(server.stop(), 0);
    pair.a.leg_server.kill();
    for head in [&pair.a, &pair.b] {
        for words in [
            "pool-server tank --no-iscsi --no-nbd",
            "pool-server tank --no-iscsi --no-nbd --previous-owner-is-stopped",
            "volume list --pool tank",
            "pool confirm tank",
            "pool confirm tank --missing-devices-are-not-newer",
            "volume create tank/w --size 1M",
        ] {
            let said = head.fails(words);
            let name = head.name;
            for part in [
                "only their record",
                "--legs /etc/bulkhead/legs.toml",
                "--forget-legs",
            ] {
                assert!(said.contains(part), "{name}, {words}: {part}: {said}");
            }
        }
    }
    pair.a.start_leg_server();
    pair.b.start_leg_server();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    pair.a.await_current("b", true);
    assert_eq!(server.stop(), 0);
    // A pool that shall belong to this head alone from now on.
    pair.a.leg_server.kill();
    let said = pair
        .a
        .does("pool confirm tank --forget-legs --missing-devices-are-not-newer");
    assert!(said.contains("without the record of its legs"), "{said}");
    let said = pair.a.does("volume list --pool tank");
    assert!(said.contains("tank/v"), "{said}");
    assert!(!said.contains("legs"), "{said}");
}

/// A lender that hangs does not respond, and its connections stay open: its leg is dropped by the deadline.
#[test]
fn a_hung_lender_is_dropped_within_the_deadline() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.freeze();
    let begun = Instant::now();
    pair.write(&mut client, 20);
    assert!(begun.elapsed() < PAUSE_MAX, "{:?}", begun.elapsed());
    assert!(!pair.a.is_current("b"), "it misses acknowledged writes");
    pair.b.leg_server.signal("-CONT");
    pair.a.await_current("b", true);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// Without a witness the confirmed fence of the other head replaces its vote, if this head has been in contact with it
/// since it was started.
#[test]
fn two_heads_without_witness_continue_only_by_fence() {
    let (mut pair, server) = Pair::new(false);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    let said = pair.b.refused("");
    assert!(
        said.contains("nothing proves that head a has stopped"),
        "{said}"
    );
    let server = pair.b.serve("--previous-owner-is-stopped");
    let mut client = pair.b.client();
    pair.check(&mut client);
    pair.write(&mut client, 20);
    pair.a.start_leg_server();
    pair.b.await_current("a", true);
    drop(client);
    // A head that was restarted, and has not been in contact with the other one since, may have
    // missed any change.
    server.kill();
    pair.b.leg_server.kill();
    pair.a.leg_server.kill();
    pair.a.start_leg_server();
    let said = pair.a.refused("--previous-owner-is-stopped");
    assert!(said.contains("head b may have continued alone"), "{said}");
    pair.b.start_leg_server();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// Both heads lose power while both legs are current: one of them and the witness are enough.
#[test]
fn one_head_and_witness_start_after_loss_of_both() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    pair.b.leg_server.kill();
    pair.b.start_leg_server();
    let said = pair.b.refused("");
    assert!(
        said.contains("nothing proves that head a has stopped"),
        "{said}"
    );
    let server = pair.b.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.b.client());
    assert_eq!(server.stop(), 0);
}

/// `status` names the stale leg, and the member that does not respond.
#[test]
fn status_reports_stale_leg_and_unresponsive_member() {
    let (mut pair, server) = Pair::new(true);
    let status = || pair.a.machine.ok("pool status tank").out;
    assert!(!status().contains("lacks"), "{}", status());
    pair.b.leg_server.kill();
    let mut client = pair.a.client();
    pair.write(&mut client, 5);
    let status = pair.a.machine.ok("pool status tank").out;
    assert!(
        status.contains("is missing all writes since transaction group"),
        "{status}"
    );
    assert!(status.contains("member b does not answer"), "{status}");
    let seen = pair.a.machine.ok("pool status tank --json").json();
    assert_eq!(seen["health"], "DEGRADED", "{seen}");
    for leg in [pair.a.leg("a"), pair.b.leg("b")] {
        assert!(status.matches(&leg).count() >= 2, "{leg}: {status}");
    }
    assert!(!status.contains("run/legs"), "{status}");
    let stale = leg_of(&pair.a, "b");
    assert_eq!(
        (&stale["state"], &stale["group"]),
        (&"stale".into(), &0.into())
    );
    assert!(
        stale["lacks_since_group"]
            .as_u64()
            .is_some_and(|group| group > 0),
        "{stale}"
    );
    eventually("the event is reported", || {
        leg_of(&pair.a, "b")["since_ms"].is_u64()
    });
    assert_eq!(leg_of(&pair.a, "a")["state"], "current");
    // Each change is an event, and the next server reads it.
    let since = leg_of(&pair.a, "b")["since_ms"].clone();
    drop(client);
    assert_eq!(server.stop(), 0);
    let server = pair.a.serve("");
    eventually("the time is known again", || {
        leg_of(&pair.a, "b")["since_ms"] == since
    });
    pair.b.start_leg_server();
    eventually("it is current", || {
        leg_of(&pair.a, "b")["state"] == "current"
    });
    eventually("all of it is reported", || {
        kinds_of_events(&pair.a).contains("leg_current")
    });
    let kinds = kinds_of_events(&pair.a);
    assert_eq!(kinds.matches("leg_stale").count(), 1, "{kinds}");
    for kind in ["member_lost", "member_back"] {
        assert!(kinds.contains(kind), "{kind}: {kinds}");
    }
    let log = pair.a.machine.log();
    assert!(log.contains("the pool is not whole"), "{log}");
    for plain in ["replace-disk", "`bulkhead pool replace` it", "run/legs"] {
        let events = pair.a.machine.ok("pool events tank").out;
        assert!(!events.contains(plain), "{plain}: {events}");
        assert!(
            !log.contains(plain) || plain == "run/legs",
            "{plain}: {log}"
        );
    }
    assert_eq!(server.stop(), 0);
    let said = pair.a.founds("tank").expect_err("it was made");
    assert!(
        said.contains("if that is pool tank, it was made before"),
        "{said}"
    );
}

/// Returns the leg of head `name` from `pool status --json` on `asked`.
fn leg_of(asked: &Head, name: &str) -> Value {
    let found = asked.legs().into_iter().find(|leg| leg["head"] == name);
    found.expect("a leg of that head")
}

/// Returns the events of legs and members, in order.
fn kinds_of_events(asked: &Head) -> String {
    let events = asked.machine.ok("pool events tank --json").json();
    let kinds = events.as_array().expect("a list").iter();
    let kinds = kinds.filter_map(|event| event["kind"].as_str());
    let kinds: Vec<&str> = kinds
        .filter(|kind| kind.starts_with("leg_") || kind.starts_with("member_"))
        .collect();
    kinds.join(" ")
}

/// An administrator opens the other head's leg as a pool of its own, writes there, and returns it. It is left out and
/// reported, can be inspected, and is overwritten by a copy of the pool after a confirmation that names the pool.
#[test]
fn diverged_leg_is_reported_and_recopied_after_confirmation() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    pair.write(&mut client, 4);
    pair.b
        .does("pool confirm tank --forget-legs --missing-devices-are-not-newer");
    let other = pair.b.machine.serve("--search .");
    let mut elsewhere = pair.b.client();
    for round in 0..200_u64 {
        elsewhere
            .write(16 << 20, &[round as u8; 4096])
            .expect("written");
        elsewhere.flush().expect("durable");
    }
    drop(elsewhere);
    // Its transaction groups are ahead of the pool's.
    for round in 0..40 {
        pair.b
            .machine
            .ok(&format!("pool set tank comment=round-{round}"));
    }
    assert_eq!(other.stop(), 0);
    pair.b.start_leg_server();
    eventually("it is found out", || {
        leg_of(&pair.a, "b")["state"] == "divergent"
    });
    let name = leg_of(&pair.a, "b")["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let status = pair.a.machine.ok("pool status tank").out;
    let unwrapped = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped.contains("has a history that is not this pool's"),
        "{status}"
    );
    assert!(
        unwrapped.contains(&format!(
            "pool discard-leg tank {name} --overwrite-with tank"
        )),
        "{status}"
    );
    pair.write(&mut client, 4);
    pair.a.sees_of("b", |seen| {
        let found = seen.read(16 << 20, 4096).expect("read");
        assert!(found == [199; 4096], "the divergent write");
    });
    assert_eq!(leg_of(&pair.a, "b")["state"], "divergent");
    // Not without the confirmation, not with another pool's name, and not a leg that is the pool's.
    pair.a
        .machine
        .refused(&format!("pool discard-leg tank {name}"), 6, "would be lost");
    pair.a.machine.refused(
        &format!("pool discard-leg tank {name} --overwrite-with bank"),
        6,
        "would be lost",
    );
    let own = leg_of(&pair.a, "a")["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let said = pair.a.machine.run(&format!(
        "pool discard-leg tank {own} --overwrite-with tank"
    ));
    assert!(said.err.contains("the pool's own history"), "{}", said.err);
    assert_eq!(leg_of(&pair.a, "b")["state"], "divergent");
    pair.a.machine.ok(&format!(
        "pool discard-leg tank {name} --overwrite-with tank"
    ));
    eventually("it is a copy", || {
        leg_of(&pair.a, "b")["state"] == "current"
    });
    pair.write(&mut client, 4);
    drop(client);
    // It is current, and has no divergent data: it continues alone.
    server.kill();
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.b.client());
    pair.b.machine.ok("pool scrub tank --wait");
    let status = pair.b.machine.ok("pool status tank --json").json();
    assert_eq!(status["scan"]["errors"], 0, "{status}");
    assert_eq!(server.stop(), 0);
}

/// The confirmation that the owner is stopped is wrong, and the owner is still reachable.
#[test]
fn serving_head_is_not_treated_as_stopped() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 5);
    let said = pair.b.refused("--previous-owner-is-stopped");
    assert!(said.contains("head a serves it"), "{said}");
    pair.write(&mut client, 5);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// Two heads and no witness: the server hangs, and the leg-server next to it runs. A confirmation does not override its
/// response.
#[test]
fn head_with_hung_server_is_not_treated_as_stopped() {
    let (mut pair, server) = Pair::new(false);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    server.freeze();
    let said = pair.b.refused("--previous-owner-is-stopped");
    assert!(said.contains("head a serves it"), "{said}");
    assert!(said.contains("power a off"), "{said}");
    server.signal("-CONT");
    pair.write(&mut client, 20);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// Two heads and no witness: a whole head stalls and is treated as off. When it resumes it discards its state, and
/// acknowledges nothing.
#[test]
fn stalled_head_discards_its_state_after_resuming() {
    let (mut pair, server) = Pair::new(false);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    server.freeze();
    pair.a.leg_server.freeze();
    let next = pair.b.serve("--previous-owner-is-stopped");
    pair.write(&mut pair.b.client(), 20);
    next.kill();
    pair.b.leg_server.kill();
    pair.a.leg_server.signal("-CONT");
    server.signal("-CONT");
    let late = std::thread::spawn(move || {
        client
            .write(31 << 20, &[7; 4096])
            .and_then(|()| client.flush())
    });
    // An administrator restarts the hung processes, and confirms again.
    server.kill();
    let acknowledged = late.join().expect("no panic");
    assert!(acknowledged.is_err(), "the other head does not have it");
    let said = pair.a.refused("--previous-owner-is-stopped");
    assert!(said.contains("head b may have continued alone"), "{said}");
    pair.b.start_leg_server();
    let server = pair.a.serve("");
    pair.check(&mut pair.a.client());
    assert_eq!(server.stop(), 0);
}

/// The leg-server alone stalls: its pool server is reachable, and a confirmation is refused.
#[test]
fn reachable_head_with_hung_leg_server_is_not_stopped() {
    let (mut pair, server) = Pair::new(false);
    let mut client = pair.a.client();
    pair.write(&mut client, 5);
    pair.a.leg_server.freeze();
    let said = pair.b.refused("--previous-owner-is-stopped");
    assert!(said.contains("has sent a message"), "{said}");
    pair.a.leg_server.signal("-CONT");
    pair.write(&mut client, 5);
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// Two heads and no witness, and the network between their disks is cut, but not that of the cluster: it stops the
/// pool's server on one head and starts it on the other one, in either order. A stopped server is no vote of its head.
#[test]
fn two_heads_with_cut_network_lose_no_acknowledged_write() {
    let (mut pair, server) = Pair::with_network();
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.cut_network(true);
    let late = std::thread::spawn(move || {
        client
            .write(31 << 20, &[7; 4096])
            .and_then(|()| client.flush())
    });
    eventually("the leg is missed", || {
        let status = pair.a.machine.ok("pool status tank").out;
        status.contains("writes wait until it is on record")
    });
    server.kill();
    let acknowledged = late.join().expect("no panic");
    assert!(acknowledged.is_err(), "the other head does not have it");
    for (head, other) in [(&pair.b, "a"), (&pair.a, "b")] {
        let said = head.refused(&format!("--stopped-owner {other}"));
        assert!(said.contains("does not replace its vote"), "{said}");
        assert!(said.contains(&format!("power head {other} off")), "{said}");
    }
    // A fence stops the leg-server, too.
    pair.a.leg_server.kill();
    let server = pair.b.serve("--fenced-owner a");
    let mut client = pair.b.client();
    pair.check(&mut client);
    pair.write(&mut client, 20);
    drop(client);
    server.kill();
    pair.a.start_leg_server();
    for word in ["--stopped-owner b", "--fenced-owner b"] {
        let said = pair.a.refused(word);
        assert!(said.contains("head b may have continued alone"), "{said}");
    }
    pair.cut_network(false);
    let server = pair.a.serve("--stopped-owner b");
    pair.check(&mut pair.a.client());
    // Its own leg is about to return: that does not delay the exit.
    assert_eq!(server.stop(), 0);
}

/// A pool is to be created on the disks of another pool that is served: it is refused before the disks are changed.
#[test]
fn disks_of_served_pool_are_refused_for_new_pool() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 10);
    for head in [&mut pair.b, &mut pair.a] {
        head.reconfigure(|text| {
            let renamed = text.replace("pools.tank", "pools.other");
            renamed.replace("guid = 77", "guid = 78")
        });
    }
    pair.write(&mut client, 10);
    pair.a.await_current("b", true);
    let records = pair.a.records();
    for words in ["other", "other --overwrite-old-labels"] {
        let said = pair.b.founds(words).expect_err("they are in use");
        for part in [
            "nothing was changed",
            "is in use by a process of its head",
            "is in use by head a",
            "the pool of number 77",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    pair.write(&mut client, 10);
    assert_eq!(pair.a.records(), records, "nobody noticed");
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
    let said = pair.b.founds("other").expect_err("they hold something");
    for part in ["the exported pool tank", "--overwrite-old-labels"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let made = pair.b.founds("other --overwrite-old-labels");
    assert_eq!(made, Ok(()), "nobody uses them");
}

/// Two heads and no witness: the other head is lost while the pool is open. When it was fenced since, writes continue.
/// The cluster's agent reports that by a file; here the test does.
#[test]
fn writes_resume_after_fence_of_lost_head() {
    let (mut pair, server) = Pair::new(false);
    let mut client = pair.a.client();
    pair.write(&mut client, 10);
    let wanted = pair.a.machine.path("state/legs/77.fence-wanted");
    let confirmed = pair.a.machine.path("state/legs/77.fence-confirmed");
    let wish = || {
        let text = std::fs::read_to_string(&wanted).ok()?;
        let (number, rest) = text.trim_end().split_once(' ')?;
        Some((number.to_owned(), rest.to_owned()))
    };
    eventually("its fence would be a vote", || {
        wish().is_some_and(|(_, rest)| rest == "b")
    });
    // A file of another request has no effect.
    std::fs::write(&confirmed, format!("{:016x}\n", 1)).expect("written");
    pair.b.leg_server.kill();
    let mut waits = pair.a.client();
    let waiting = std::thread::spawn(move || {
        waits
            .write(31 << 20, &[7; 4096])
            .and_then(|()| waits.flush())
    });
    eventually("the leg is missed", || {
        let status = pair.a.machine.ok("pool status tank").out;
        status.contains("writes wait until it is on record")
    });
    // It could be resumed first.
    eventually("the head is missed", || {
        wish().is_some_and(|(_, rest)| rest == "b missed")
    });
    let (number, _) = wish().expect("it is missed");
    assert!(!waiting.is_finished(), "it is on one leg");
    std::fs::write(&confirmed, format!("{number}\n")).expect("written");
    waiting.join().expect("no panic").expect("it goes on");
    pair.write(&mut client, 10);
    assert!(!pair.a.is_current("b"));
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    assert!(!confirmed.exists(), "it is heard");
    eventually("its next fence would be one", || {
        wish().is_some_and(|(next, rest)| next != number && rest == "b")
    });
    pair.check(&mut client);
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// The heads have different configurations of the pool: that is reported while it is open, and the next start is
/// refused.
#[test]
fn configuration_mismatch_is_reported_and_start_refused() {
    let (mut pair, server) = Pair::new(true);
    let path = pair.a.machine.path("a").display().to_string();
    let other = format!("{path}-other");
    pair.b.reconfigure(|text| text.replace(&path, &other));
    eventually("it is told", || {
        let status = pair.a.machine.ok("pool status tank").out;
        status.contains("the leg-server of b has read a legs.toml that differs for this pool")
    });
    pair.a.await_current("b", true);
    assert_eq!(server.stop(), 0);
    let said = pair.a.refused("");
    assert!(said.contains("the leg-server of b has read"), "{said}");
    let said = pair.b.founds("other").expect_err("no such pool");
    assert!(said.contains("names no pool other"), "{said}");
    pair.b.reconfigure(|text| text.replace(&other, &path));
    let server = pair.a.serve("");
    assert_eq!(server.stop(), 0);
}

/// A connection to a leg is cut while its lender runs: the next session resumes, and no leg is dropped.
#[test]
fn cut_connection_resumes_and_leg_stays_current() {
    let (mut pair, server) = Pair::new(true);
    assert_eq!(server.stop(), 0);
    let way = pair.link_to_b();
    let server = pair.a.serve("");
    let records = pair.a.records();
    let mut client = pair.a.client();
    for _ in 0..5 {
        pair.write(&mut client, 4);
        // That of the session, and possibly one that probes the lender.
        assert_ne!(way.cut(), 0);
        pair.write(&mut client, 4);
    }
    assert_eq!(pair.a.records(), records, "nothing changed");
    assert!(pair.a.is_current("b"));
    pair.check(&mut client);
    drop(client);
    server.kill();
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.b.client());
    assert_eq!(server.stop(), 0);
}

/// The only current leg is the other head's: the pool is opened on it alone, and the own leg is resynchronized.
#[test]
fn head_with_stale_leg_opens_pool_on_leg_of_peer() {
    let (mut pair, server) = Pair::new(true);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    pair.write(&mut client, 20);
    drop(client);
    assert_eq!(server.stop(), 0);
    pair.b.start_leg_server();
    let server = pair.b.serve("");
    pair.check(&mut pair.b.client());
    pair.b.await_current("b", true);
    pair.write(&mut pair.b.client(), 20);
    server.kill();
    pair.a.leg_server.kill();
    let server = pair.b.serve("--previous-owner-is-stopped");
    pair.check(&mut pair.b.client());
    assert_eq!(server.stop(), 0);
}

/// Two heads and no witness: no write that only one leg has is acknowledged before the other head is confirmed to be
/// off.
#[test]
fn writes_without_witness_wait_for_peer_or_its_fence() {
    let (mut pair, server) = Pair::new(false);
    let mut client = pair.a.client();
    pair.write(&mut client, 20);
    pair.b.leg_server.kill();
    let mut waits = pair.a.client();
    let waiting = std::thread::spawn(move || {
        waits
            .write(31 << 20, &[7; 4096])
            .and_then(|()| waits.flush())
    });
    std::thread::sleep(Duration::from_secs(6));
    assert!(!waiting.is_finished(), "it is on one leg");
    let status = pair.a.machine.ok("pool status tank").out;
    assert!(
        status.contains("writes wait until it is on record"),
        "{status}"
    );
    pair.a.machine.refused(
        "volume create tank/w --size 1M",
        8,
        "nothing was changed: writes wait until it is on record",
    );
    drop(client);
    server.kill();
    assert!(waiting.join().expect("no panic").is_err());
    let server = pair.a.serve("--previous-owner-is-stopped");
    let mut client = pair.a.client();
    pair.check(&mut client);
    pair.write(&mut client, 20);
    pair.b.start_leg_server();
    pair.a.await_current("b", true);
    drop(client);
    assert_eq!(server.stop(), 0);
}
