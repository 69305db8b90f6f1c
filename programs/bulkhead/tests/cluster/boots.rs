//! Heads with a witness that boot one after the other, or alone, with the real Corosync and Pacemaker. A head that boots first
//! must not power off one that still boots.

use std::time::{Duration, Instant};

use super::lab::{Place, TIME_LIMIT, shell};

/// `boot_wait_s` of the file.
const BOOT_WAIT: Duration = Duration::from_secs(25);
/// Delay of the links of the other head: longer than a head needs to power it off.
const LATER: Duration = Duration::from_secs(15);
/// The time in which a head and its cluster boot and serve a pool, without the wait. A busy host is slow.
const START_MAX: Duration = Duration::from_secs(45);

fn file() -> String {
    include_str!("../../../../examples/witness.toml").replace(
        "[quorum]",
        "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\ntakeover_budget_s = 30\nboot_wait_s = 25\n\n[quorum]",
    )
}

fn power_off_all(place: &Place) {
    // Two commands at once: the survivor has no time to take over.
    std::thread::scope(|scope| {
        for head in ["left", "right"] {
            scope.spawn(move || place.ok(&format!("power {head} off")));
        }
    });
}

/// Counts the power-offs that a head has requested since it booted.
fn power_offs(place: &Place, head: &str) -> usize {
    let history = place.ok(&format!(
        "exec {head} -- stonith_admin --history * --output-as xml"
    ));
    history.matches("<fence_event").count()
}

/// Blocks until the pool is served, and returns the time that it took.
fn served(place: &Place, by: &str) -> Duration {
    let begin = Instant::now();
    let part = format!("pool tank: served by {by}");
    while !place.status().contains(&part) {
        assert!(begin.elapsed() < TIME_LIMIT, "{}", place.status());
        std::thread::sleep(Duration::from_millis(300));
    }
    begin.elapsed()
}

#[test]
#[ignore = "minutes of waiting: make nightly"]
fn first_booted_head_serves_alone_after_configured_wait() {
    let place = Place::new();
    if !place.up_as(&file(), "--no-console") {
        return;
    }

    // Both get their power back. The links of one come up later, as after a longer boot.
    power_off_all(&place);
    place.ok("cut right");
    place.ok("power left on");
    place.ok("power right on");
    let begin = Instant::now();
    while begin.elapsed() < LATER {
        assert!(
            place.status().contains("head right: on"),
            "{}",
            place.status()
        );
        std::thread::sleep(Duration::from_millis(300));
    }
    place.ok("mend right");
    place.wait_for("head left: on, a member");
    place.wait_for("head right: on, a member");
    let waited = served(&place, "");
    assert!(waited < START_MAX, "{waited:?}");
    assert_eq!(
        (power_offs(&place, "left"), power_offs(&place, "right")),
        (0, 0)
    );

    // One of them never boots. The other powers it off and serves, but only after the wait.
    power_off_all(&place);
    place.ok("power left on");
    let waited = served(&place, "left");
    assert!(
        (BOOT_WAIT..BOOT_WAIT + START_MAX).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(power_offs(&place, "left"), 1);

    // Long after the boot a restart of Pacemaker does not wait for a head that is off.
    shell(
        &place,
        "left",
        "systemctl stop pacemaker && systemctl start pacemaker",
    );
    let waited = served(&place, "left");
    assert!(waited < BOOT_WAIT, "{waited:?}");

    // Nor does a head that joins a serving one.
    place.ok("power right on");
    place.wait_for("head right: on, a member");
    place.ok("down");
    place.assert_empty();
}
