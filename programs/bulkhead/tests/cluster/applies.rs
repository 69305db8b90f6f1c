//! Changes of a running appliance that once powered off a healthy head, or had no effect: each is refused or applied,
//! and every head stays on. With the real Corosync, Pacemaker and fence agents.

use std::process::Output;
use std::time::{Duration, Instant};

use super::lab::{Place, TIME_LIMIT, output_text, shell};

const TIMEOUTS: &str =
    "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\ntakeover_budget_s = 30\n\n[quorum]";

/// An example for a busy host with heads of little memory.
fn edited(example: &str) -> String {
    let text = example.replace("[quorum]", TIMEOUTS);
    text.replace("arc = \"32G\"", "arc = \"1G\"")
}

/// Applies `text` on a head by `program`.
fn apply(place: &Place, head: &str, program: &str, text: &str) -> Output {
    let script = format!(
        "cat >/run/wanted.toml; exec {program} appliance apply /run/wanted.toml --ssh 2>&1"
    );
    place.shell(head, &script, text)
}

fn applied(place: &Place, head: &str, text: &str) -> String {
    let output = apply(place, head, "bulkhead", text);
    assert!(output.status.success(), "{}", output_text(&output));
    // A second run finds no further changes.
    let again = apply(place, head, "bulkhead", text);
    let said = output_text(&again);
    assert!(
        again.status.success() && said.contains("everything is as the file says"),
        "{said}"
    );
    output_text(&output)
}

/// The command is refused, and its output contains each of `parts`.
fn refused(output: &Output, parts: &[&str]) {
    let said = output_text(output);
    assert!(!output.status.success(), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Every head is on, and none was powered off since it booted. Pacemaker decides on that within seconds.
fn assert_all_on(place: &Place) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(12) {
        let status = place.status();
        for head in ["left", "right"] {
            assert!(
                status.contains(&format!("head {head}: on, a member")),
                "{status}"
            );
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let history = place.ok("exec left -- stonith_admin --history * --output-as xml");
    assert!(!history.contains("<fence_event"), "{history}");
}

fn has_address(place: &Place, head: &str, address: &str) -> bool {
    let list = shell(place, head, "ip -o address show");
    list.contains(&format!(" {address}/"))
}

#[test]
fn cluster_pool_destroy_export_and_impossible_move_are_refused() {
    let place = Place::new();
    let text = edited(include_str!("../../../../examples/pair.toml"));
    if !place.up_as(&text, "") {
        return;
    }
    let server = "pgrep -f '[p]ool-server tank'";
    let before = shell(&place, "left", server);
    let on =
        |head: &str, words: &str| place.shell(head, &format!("exec bulkhead {words} 2>&1"), "");
    refused(
        &on("left", "pool destroy tank --yes-destroy-all-data"),
        &[
            "pool tank is not destroyed: the cluster runs it",
            "bulkhead appliance retire tank --ssh",
        ],
    );
    refused(
        &on("left", "pool export tank"),
        &[
            "pool tank is not exported by a command",
            "pool move tank HEAD",
        ],
    );
    let maintenance = |words: &str| {
        let output = on("left", &format!("appliance maintenance {words} --ssh"));
        assert!(output.status.success(), "{}", output_text(&output));
        output_text(&output)
    };
    maintenance("right on");
    refused(
        &on("left", "pool move tank right"),
        &["right", "bulkhead appliance maintenance right off"],
    );
    refused(
        &on("left", "appliance maintenance left on --ssh"),
        &["no other head can serve tank", "--stop-pools"],
    );
    maintenance("right off");
    assert!(
        place.status().contains("pool tank: served by left"),
        "{}",
        place.status()
    );
    assert_eq!(shell(&place, "left", server), before, "the same server");
    assert_all_on(&place);

    // A release at another path, on one head only.
    let copy = "mkdir -p /run/release && cp $(command -v bulkhead) /run/release/";
    shell(&place, "left", copy);
    refused(
        &apply(&place, "left", "/run/release/bulkhead", &text),
        &["/run/release/bulkhead", "right"],
    );
    // Another number of a head that runs.
    let renumbered = text.replace("number = 2", "number = 3");
    refused(
        &apply(&place, "left", "bulkhead", &renumbered),
        &["right has the number 3 in the file and 2 in the running cluster"],
    );
    assert_all_on(&place);

    // The pool is served elsewhere during maintenance, and returns by a move only.
    assert!(maintenance("left on").contains("tank: move to right"));
    place.wait_for("pool tank: served by right");
    assert!(maintenance("left on").contains("in maintenance already"));
    maintenance("left off");
    shell(&place, "left", "bulkhead pool move tank left");

    // Pools and cluster stop in order, and no head is powered off.
    let planned = |words: &str| {
        let output = on("right", &format!("appliance {words} --ssh"));
        assert!(output.status.success(), "{}", output_text(&output));
        output_text(&output)
    };
    planned("shutdown");
    for head in ["left", "right"] {
        let running = place.shell(
            head,
            "pgrep -x pacemakerd || pgrep -f '[p]ool-server tank'",
            "",
        );
        assert!(
            !running.status.success(),
            "{head}: {}",
            output_text(&running)
        );
        assert!(!has_address(&place, head, "10.77.1.100"));
    }
    assert!(planned("shutdown").contains("stopped on all reachable heads already"));
    assert!(planned("start").contains("all pools are served"));
    assert!(planned("start").contains("served already"));

    // An address that Pacemaker has found by a probe, because the pool itself set it.
    let refresh = "crm_resource --refresh --resource address-10.77.1.100 && crm_resource --wait";
    shell(&place, "left", refresh);
    let line = "    { network = \"storage-a\", address = \"10.77.1.100\" },\n";
    assert!(text.contains(line));
    let fewer = text.replace(line, "");
    applied(&place, "left", &fewer);
    assert_all_on(&place);
    assert!(!has_address(&place, "left", "10.77.1.100"));
    assert!(has_address(&place, "left", "10.77.2.100"));
    // And again there.
    applied(&place, "left", &text);
    assert!(has_address(&place, "left", "10.77.1.100"));

    // The pool itself, found by a probe, too.
    shell(
        &place,
        "left",
        "crm_resource --refresh && crm_resource --wait",
    );
    let begin = text.find("[pools.tank]").expect("the pool");
    let output = apply(&place, "left", "bulkhead", &text[..begin]);
    let said = output_text(&output);
    assert!(output.status.success(), "{said}");
    assert_all_on(&place);
    assert!(
        !place.shell("left", server, "").status.success(),
        "no server"
    );
    assert!(!has_address(&place, "left", "10.77.2.100"));
    place.ok("down");
    place.assert_empty();
}

/// The standby of a shutdown is gone after the next boot.
#[test]
#[ignore = "minutes of waiting: make nightly"]
fn heads_serve_after_a_shutdown_and_a_power_loss() {
    let place = Place::new();
    let text = edited(include_str!("../../../../examples/pair.toml"));
    if !place.up_as(&text, "") {
        return;
    }
    shell(&place, "right", "bulkhead appliance shutdown --ssh");
    for words in [
        "power left off",
        "power right off",
        "power right on",
        "power left on",
    ] {
        place.ok(words);
    }
    place.wait_for("pool tank: served by ");
    assert_all_on(&place);
    place.ok("down");
    place.assert_empty();
}

/// Returns the start options of a head's device, and its state, for the process in its pid file.
fn device(place: &Place, head: &str) -> String {
    let script = "pid=$(cat /run/corosync-qdevice/corosync-qdevice.pid) && [ \"$(pgrep -ox corosync-qdevic)\" = $pid ] && \
                  tr '\\0' '\\n' </proc/$pid/environ | grep ^BULKHEAD_WITNESS_SETTINGS= && \
                  corosync-qdevice-tool -s | grep ^State:";
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let output = place.shell(head, script, "");
        if output.status.success() {
            return output_text(&output);
        }
        assert!(Instant::now() < deadline, "{}", output_text(&output));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "minutes of waiting: make nightly"]
fn profile_change_restarts_witness_device_head_by_head() {
    let place = Place::new();
    let text = edited(include_str!("../../../../examples/witness.toml"));
    if !place.up_as(&text, "") {
        return;
    }
    for head in ["left", "right"] {
        let before = device(&place, head);
        assert!(
            before.contains("timeout: 6600 ") && before.contains("Connected"),
            "{before}"
        );
    }
    let slower = text.replace("token_ms = 3000", "token_ms = 4000");
    let said = applied(&place, "left", &slower);
    assert!(said.contains("restart corosync-qdevice.service"), "{said}");
    for head in ["left", "right"] {
        let after = device(&place, head);
        assert!(
            after.contains("timeout: 7600 ") && after.contains("Connected"),
            "{after}"
        );
    }
    assert_all_on(&place);
    let votes = shell(&place, "right", "corosync-quorumtool -s");
    assert_eq!(votes.matches("A,V,NMW").count(), 2, "{votes}");

    // The witness does not respond: that is detected before any change.
    shell(&place, "witness", "pkill corosync-qnetd");
    let elsewhere = slower.replace("token_ms = 4000", "token_ms = 5000");
    let output = apply(&place, "left", "bulkhead", &elsewhere);
    refused(
        &output,
        &[
            "the witness does not respond to left",
            "the witness does not respond to right",
        ],
    );
    assert_all_on(&place);
    place.ok("down");
    place.assert_empty();
}
