//! Simulated power failures, with the real Corosync, Pacemaker and Network UPS Tools: pools move away from a head without
//! power, all heads stop in order, and return. No head is fenced. Skipped where NUT or a lab is missing.

use std::path::Path;
use std::time::{Duration, Instant};

use super::lab::{Place, TIME_LIMIT, shell};

const UPSD: &str = "/lib/nut/upsd";

/// Each head sees both supplies at its own loopback address; `a` supplies left, and `b` right.
fn file() -> String {
    let text = include_str!("../../../../examples/pair.toml").replace(
        "[quorum]",
        "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\ntakeover_budget_s = 30\n\n[quorum]",
    );
    format!(
        "{text}\n[ups.feeds.a]\nups = \"a@127.0.0.1\"\nheads = [\"left\"]\n\
         [ups.feeds.b]\nups = \"b@127.0.0.1\"\nheads = [\"right\"]\n"
    )
}

/// Starts NUT on a head, with two simulated supplies.
const START: &str = "touch /run/alive; mkdir -m 700 /run/nut-test; cd /run/nut-test; \
    for ups in a b; do printf '[%s]\\ndriver = dummy-ups\\nport = %s.dev\\n' $ups $ups >>ups.conf; \
    echo 'ups.status: OL' >$ups.dev; done; echo 'LISTEN 127.0.0.1 3493' >upsd.conf; touch upsd.users; \
    export NUT_CONFPATH=$PWD NUT_STATEPATH=$PWD; \
    for ups in a b; do /lib/nut/dummy-ups -a $ups -u root -F </dev/null >/dev/null 2>&1 & done; \
    /lib/nut/upsd -u root -F </dev/null >/dev/null 2>&1 &";

/// Starts its server again.
const START_UPSD: &str = "cd /run/nut-test; export NUT_CONFPATH=$PWD NUT_STATEPATH=$PWD; rm -f upsd.pid; \
    /lib/nut/upsd -u root -F </dev/null >/dev/null 2>&1 & echo $! >/run/nut-test/upsd.number";

/// Longer than a shutdown takes to begin.
const NOTHING_FOLLOWS: Duration = Duration::from_secs(20);

/// Sets the status of a supply, as both heads see it.
fn set(place: &Place, ups: &str, status: &str) {
    for head in ["left", "right"] {
        set_on(place, head, ups, status);
    }
}

/// Sets the status of a supply, as one head sees it.
fn set_on(place: &Place, head: &str, ups: &str, status: &str) {
    // The driver reads a file again when its time has changed, in seconds.
    let script = format!(
        "cd /run/nut-test; old=$(stat -c %Y {ups}.dev); echo 'ups.status: {status}' >{ups}.dev; \
         touch -d @$((old + 2)) {ups}.dev"
    );
    shell(place, head, &script);
}

#[track_caller]
fn wait_until(place: &Place, head: &str, what: &str, command: &str, part: &str) -> String {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let seen = shell(place, head, &format!("{command} 2>&1 || true"));
        if seen.contains(part) {
            return seen;
        }
        let alerts = || {
            shell(
                place,
                head,
                "bulkhead head alerts 2>&1; crm_mon -1 2>&1 || true",
            )
        };
        assert!(Instant::now() < deadline, "{what}: {seen}\n{}", alerts());
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Starts a pair, with NUT on both heads, after a volume was created. `None` where this host cannot.
#[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn started(file: &str) -> Option<Place> {
    if !Path::new(UPSD).exists() {
        eprintln!("skipped: there is no {UPSD} (package nut-server)");
        return None;
    }
    let place = Place::new();
    if !place.up_as(file, "") {
        return None;
    }
    place.wait_for("pool tank: served by left");
    shell(
        &place,
        "left",
        "bulkhead volume create tank/kept --size 8M --sparse",
    );
    for head in ["left", "right"] {
        start(&place, head);
    }
    Some(place)
}

fn start(place: &Place, head: &str) {
    // The number of the process of `upsd`.
    shell(
        place,
        head,
        &format!("{START} echo $! >/run/nut-test/upsd.number"),
    );
    let (command, part) = ("bulkhead head power", "nothing changes");
    wait_until(place, head, "mains", command, part);
}

/// The volume exists where the pool is served.
fn assert_kept(place: &Place) {
    let status = place.status();
    let head = match status.contains("pool tank: served by left") {
        true => "left",
        false => "right",
    };
    let volumes = shell(place, head, "bulkhead volume list tank");
    assert!(volumes.contains("tank/kept"), "{status}\n{volumes}");
}

/// The attribute of a head that a member of the cluster has marked.
fn mark_of(head: &str) -> String {
    format!("crm_attribute --node {head} --name bulkhead-power --query --quiet --lifetime reboot")
}

const PACEMAKER: &str = "systemctl is-active pacemaker.service && echo runs || echo stopped";

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn heads_without_power_stop_in_order_and_return_without_a_fence() {
    if !Path::new(UPSD).exists() {
        eprintln!("skipped: there is no {UPSD} (package nut-server)");
        return;
    }
    let place = Place::new();
    if !place.up_as(&file(), "") {
        return;
    }
    place.wait_for("pool tank: served by left");
    for head in ["left", "right"] {
        shell(&place, head, START);
        wait_until(
            &place,
            head,
            "mains",
            "bulkhead head power",
            "nothing changes",
        );
    }

    // A battery is an alert, and no more.
    set(&place, "a", "OB");
    let alert = "the power supply a runs on its battery";
    wait_until(&place, "right", "an alert", "bulkhead head alerts", alert);
    let next = "a head shuts down when all its supplies are low";
    wait_until(
        &place,
        "right",
        "the next step",
        "bulkhead head power",
        next,
    );

    // The supply of left is low: its pool moves, and it leaves the cluster.
    set(&place, "a", "OB LB");
    place.wait_for("pool tank: served by right");
    wait_until(&place, "left", "left leaves", PACEMAKER, "stopped");
    wait_until(
        &place,
        "right",
        "left is gone",
        "crm_mon -1",
        "OFFLINE: [ left ]",
    );
    let history = shell(&place, "right", "stonith_admin --history '*' 2>&1 || true");
    assert!(
        !history.contains("left was able to") && !history.contains("reboot"),
        "{history}"
    );

    // Its power is back.
    set(&place, "a", "OL");
    wait_until(
        &place,
        "right",
        "left returns",
        "crm_mon -1",
        "Online: [ left right ]",
    );

    // All supplies are low.
    for ups in ["a", "b"] {
        set(&place, ups, "OB LB");
    }
    for head in ["left", "right"] {
        wait_until(&place, head, "it leaves", PACEMAKER, "stopped");
    }
    let log = shell(&place, "right", "cat /var/lib/bulkhead/tank.log");
    assert!(log.contains("exported pool tank"), "{log}");

    for ups in ["a", "b"] {
        set(&place, ups, "OL");
    }
    place.wait_for("pool tank: served by");
    for head in ["left", "right"] {
        // The directory is empty after a boot.
        assert_eq!(
            shell(&place, head, "ls /run/alive"),
            "/run/alive\n",
            "{head} was powered off"
        );
    }
    place.ok("down");
    place.assert_empty();
}

/// The head that decides is off before the pools have stopped. The other one fences it, takes nothing over, and leaves.
/// When the power is back, the pool is served with its data.
#[test]
#[ignore = "a lab of minutes: python3 -m proof.check runs it at night"]
fn head_that_dies_after_its_decision_does_not_stop_the_shutdown() {
    let both = file()
        .replace("heads = [\"left\"]\n", "")
        .replace("heads = [\"right\"]\n", "");
    let Some(place) = started(&both) else { return };
    for ups in ["a", "b"] {
        set(&place, ups, "OB LB");
    }
    // The first member of the cluster decides.
    wait_until(&place, "right", "the decision", &mark_of("right"), "left");
    place.ok("power left off");
    wait_until(&place, "right", "right leaves", PACEMAKER, "stopped");
    assert!(!place.status().contains("served by"), "{}", place.status());

    for ups in ["a", "b"] {
        set_on(&place, "right", ups, "OL");
    }
    wait_until(&place, "right", "right returns", PACEMAKER, "runs");
    // Two heads without a witness start together only.
    place.ok("power left on");
    place.wait_for("pool tank: served by");
    assert_kept(&place);
    place.ok("down");
    place.assert_empty();
}

/// The host of the supplies dies on mains: an alert, and nothing stops. It dies while a supply is low: the head leaves
/// all the same.
#[test]
#[ignore = "a lab of minutes: python3 -m proof.check runs it at night"]
fn upsd_that_dies_is_an_alert_and_cancels_no_shutdown() {
    let Some(place) = started(&file()) else {
        return;
    };
    let kill = |head| shell(&place, head, "kill -9 $(cat /run/nut-test/upsd.number)");
    for head in ["left", "right"] {
        kill(head);
    }
    for ups in ["a", "b"] {
        let alert = format!("the state of the power supply {ups} is not known");
        wait_until(&place, "right", "an alert", "bulkhead head alerts", &alert);
    }
    std::thread::sleep(NOTHING_FOLLOWS);
    place.wait_for("pool tank: served by left");
    for head in ["left", "right"] {
        assert_eq!(shell(&place, head, PACEMAKER), "runs\n");
        shell(&place, head, START_UPSD);
        let command = "bulkhead head alerts | grep -q 'is not known' && echo unknown || echo seen";
        wait_until(&place, head, "mains", command, "seen");
    }

    set(&place, "a", "OB LB");
    let next = "then left leaves the cluster";
    wait_until(&place, "left", "low", "bulkhead head power", next);
    for head in ["left", "right"] {
        kill(head);
    }
    place.wait_for("pool tank: served by right");
    wait_until(&place, "left", "left leaves", PACEMAKER, "stopped");

    set(&place, "a", "OL");
    for head in ["left", "right"] {
        shell(&place, head, START_UPSD);
    }
    let both = "Online: [ left right ]";
    wait_until(&place, "right", "left returns", "crm_mon -1", both);
    assert_kept(&place);
    place.ok("down");
    place.assert_empty();
}
