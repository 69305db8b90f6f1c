//! The preconditions of a takeover are monitored at each head, with the real Corosync, Pacemaker and fence agents: the
//! vote of the witness, fence devices, quorum, and a power-off that no device confirms.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::lab::{Place, TIME_LIMIT, shell};

/// The witness's command line, as a lab starts it. The lab does not restart one that was killed by a signal.
const QNETD: &str =
    "corosync-qnetd -f -s req -p 5403 -S heartbeat_interval_min=100 </dev/null >/dev/null 2>&1 &";

/// Two heads and a witness; each head can be powered off by its BMC only.
fn file() -> String {
    let text = include_str!("../../../../examples/witness.toml");
    let without_outlets = text.lines().filter(|line| !line.starts_with("outlets = "));
    let text = without_outlets.collect::<Vec<_>>().join("\n");
    text.replace(
        "[quorum]",
        "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\nfence_s = 10\nfence_monitor_s = 10\ntakeover_budget_s = 60\n\n[quorum]",
    )
}

/// Returns a head's overview from its API.
fn overview(place: &Place, head: &str) -> Value {
    let ask = "curl -sk -H \"Authorization: Bearer $(cat /run/token)\" https://127.0.0.1:7443/api/v1/overview";
    serde_json::from_str(&shell(place, head, ask)).expect("JSON")
}

/// Returns the alert about `about` with `part` in its sentence, as soon as the head reports it.
fn alert(place: &Place, head: &str, about: &str, part: &str) -> Value {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let seen = overview(place, head);
        let mut alerts = seen["alerts"].as_array().expect("alerts").iter();
        let found = alerts.find(|alert| {
            let sentence = alert["sentence"].as_str().expect("a sentence");
            alert["about"] == about && sentence.contains(part)
        });
        if let Some(found) = found {
            assert!(found["since_ms"].is_u64(), "{found}");
            return found.clone();
        }
        assert!(Instant::now() < deadline, "{head}, {part}: {seen:#}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Blocks until a head reports no error.
fn wait_until_healthy(place: &Place, head: &str) {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let seen = overview(place, head);
        let mut alerts = seen["alerts"].as_array().expect("alerts").iter();
        if alerts.all(|alert| alert["severity"] != "error") {
            return;
        }
        assert!(Instant::now() < deadline, "{head}: {seen:#}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn metric(place: &Place, head: &str, name: &str) -> String {
    let ask = format!("curl -sk https://127.0.0.1:7443/metrics | grep '^{name}'");
    shell(place, head, &ask)
}

fn command(alert: &Value) -> &str {
    alert["advice"]["command"].as_str().unwrap_or_default()
}

#[test]
fn a_lost_vote_a_broken_fence_device_and_an_unconfirmed_power_off_are_alerts_at_each_head() {
    let place = Place::new();
    if !place.up_as(&file(), "") {
        return;
    }
    for head in ["left", "right"] {
        shell(
            &place,
            head,
            "bulkhead token create --user admin t >/run/token",
        );
        wait_until_healthy(&place, head);
        assert_eq!(
            metric(&place, head, "bulkhead_quorum"),
            "bulkhead_quorum 1\n"
        );
    }

    // The witness's process dies. Both heads continue, and warn of the effect of a further loss.
    shell(&place, "witness", "pkill corosync-qnetd");
    for head in ["left", "right"] {
        let lost = alert(&place, head, "witness", "has no vote at left, right");
        assert_eq!(lost["severity"], "error");
        assert_eq!(command(&lost), "corosync-qdevice-tool -s");
        assert!(metric(&place, head, "bulkhead_witness_vote").ends_with(" 0\n"));
    }
    shell(&place, "witness", QNETD);
    for head in ["left", "right"] {
        wait_until_healthy(&place, head);
    }

    // The only fence device of a head dies: an administrator would have to confirm each fence.
    place.ok("bmc left --dead true");
    for head in ["left", "right"] {
        let broken = alert(&place, head, "head left", "fence-left-bmc does not work");
        assert_eq!(broken["severity"], "error", "{broken}");
        let works = metric(&place, head, "bulkhead_fence_device_works");
        assert!(
            works.contains("device=\"fence-left-bmc\",level=\"1\"} 0"),
            "{works}"
        );
        assert!(
            works.contains("device=\"fence-right-bmc\",level=\"1\"} 1"),
            "{works}"
        );
    }

    let said = shell(&place, "right", "bulkhead head alerts");
    assert!(
        said.starts_with("error: the fence device fence-left-bmc does not work"),
        "{said}"
    );
    let cleanup = "next: repair it (\"A fence device does not respond\" in the guide to failures), then have it tried again: \
                   `crm_resource --cleanup --resource fence-left-bmc`";
    assert!(said.contains(cleanup) && said.contains("(since "), "{said}");

    // The head itself is lost. There is no advice before the device has been tried.
    place.ok("power left off");
    let waits = alert(
        &place,
        "right",
        "head left",
        "its power-off is pending since",
    );
    assert!(
        waits["sentence"]
            .as_str()
            .expect("text")
            .ends_with("no head serves tank")
    );
    let deadline = Instant::now() + TIME_LIMIT;
    let advised = loop {
        let waits = alert(
            &place,
            "right",
            "head left",
            "its power-off is pending since",
        );
        if command(&waits) == "stonith_admin --confirm left" {
            break waits;
        }
        assert!(Instant::now() < deadline, "{waits}");
        std::thread::sleep(Duration::from_millis(500));
    };
    assert_eq!(advised["since_ms"], waits["since_ms"]);
    assert!(
        advised["advice"]["what"]
            .as_str()
            .expect("text")
            .contains("cut all its power")
    );
    let said = shell(&place, "right", "bulkhead head alerts");
    assert!(said.contains("`stonith_admin --confirm left`"), "{said}");
    // Pacemaker moves and stops no pool before, so that these commands would block for minutes.
    for words in [
        "pool move tank right",
        "pool move tank left",
        "appliance maintenance right on --stop-pools",
        "appliance shutdown --yes",
    ] {
        let begun = Instant::now();
        let said = shell(&place, "right", &format!("! bulkhead {words} 2>&1"));
        assert!(begun.elapsed() < Duration::from_secs(20), "{words}: {said}");
        for part in [
            "the power-off of left is pending",
            "No takeover: fencing is not confirmed",
            "`stonith_admin --confirm left`",
        ] {
            assert!(said.contains(part), "{words}: {said}");
        }
    }
    let waited = metric(
        &place,
        "right",
        "bulkhead_power_off_wait_seconds{head=\"left\"}",
    );
    assert!(!waited.ends_with(" 0\n"), "{waited}");
    shell(&place, "right", "stonith_admin --confirm left");
    place.wait_for("pool tank: served by right");

    // Then the witness, too: the remaining head may not act.
    shell(&place, "witness", "pkill corosync-qnetd");
    alert(&place, "right", "cluster", "right has no quorum");
    assert_eq!(
        metric(&place, "right", "bulkhead_quorum"),
        "bulkhead_quorum 0\n"
    );
    shell(&place, "witness", QNETD);
    place.wait_for("pool tank: served by right");
    place.ok("down");
    place.assert_empty();
}
