//! Messages about alerts from a pair with the real cluster software: the head that sends them loses its power.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::lab::{Place, shell};

/// A command that appends each message to a file, as one line.
const RECEIVER: &str =
    "\n[alerts.receivers.duty]\nleast = \"error\"\nprogram = { path = \"/etc/bulkhead/page\" }\n";
const PROGRAM: &str = "printf '%s\\n' '#!/bin/sh' 'cat >>/var/lib/bulkhead/got; echo >>/var/lib/bulkhead/got' >/etc/bulkhead/page; \
                       chmod 700 /etc/bulkhead/page";
/// A message is sent within a sampling interval, the settling time, and the time until another head takes over sending.
const MESSAGE_WAIT: Duration = Duration::from_secs(180);

fn file() -> String {
    let text = include_str!("../../../../examples/pair.toml").replace(
        "[quorum]",
        "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\ntakeover_budget_s = 30\n\n[quorum]",
    );
    text + RECEIVER
}

/// The messages of a head about a lost head, the oldest first.
fn messages(place: &Place, head: &str) -> Vec<Value> {
    let text = shell(place, head, "cat /var/lib/bulkhead/got 2>/dev/null || true");
    let lines = text.lines().filter(|line| !line.is_empty());
    let messages = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    messages
        .filter(|message| !about(message, "new").is_empty() || !about(message, "ended").is_empty())
        .collect()
}

/// The causes of a list that are about the head `left`.
fn about(message: &Value, list: &str) -> Vec<Value> {
    let causes = message[list].as_array().expect("a list").iter();
    let causes = causes.map(|one| {
        if one["cause"].is_null() {
            one
        } else {
            &one["cause"]
        }
    });
    causes
        .filter(|cause| cause["about"] == "head left")
        .cloned()
        .collect()
}

fn wait_for_messages(place: &Place, head: &str, count: usize) -> Vec<Value> {
    let deadline = Instant::now() + MESSAGE_WAIT;
    loop {
        let messages = messages(place, head);
        if messages.len() >= count {
            return messages;
        }
        assert!(Instant::now() < deadline, "{head}: {messages:#?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn takeover_of_the_sending_head_is_one_message_by_the_other_and_its_end_another() {
    let place = Place::new();
    if !place.up_as(&file(), "") {
        return;
    }
    for head in ["left", "right"] {
        shell(&place, head, PROGRAM);
        let tested = shell(&place, head, "bulkhead alert test");
        assert_eq!(tested, "duty: accepted the message\n");
        shell(&place, head, "rm /var/lib/bulkhead/got");
    }
    place.wait_for("pool tank: served by left");
    place.ok("power left off");
    place.wait_for("pool tank: served by right");
    let story = wait_for_messages(&place, "right", 1);
    let new = about(&story[0], "new");
    assert_eq!(new.len(), 1, "{story:#?}");
    assert_eq!(new[0]["sentence"], "left is offline");
    assert!(
        new[0]["command"].is_string() && new[0]["since_ms"].is_u64(),
        "{new:#?}"
    );
    let receivers = shell(&place, "right", "bulkhead alert receivers");
    assert!(receivers.contains("duty"), "{receivers}");
    let history = shell(&place, "right", "bulkhead alert history");
    assert!(history.contains("left is offline"), "{history}");
    // Either head may send the end: the first one by name does when it is back.
    shell(&place, "right", "rm /var/lib/bulkhead/got");
    place.ok("power left on");
    place.wait_for("head left: on, a member");
    let deadline = Instant::now() + MESSAGE_WAIT;
    let is_end = |message: &Value| !about(message, "ended").is_empty();
    while !["left", "right"]
        .iter()
        .any(|head| messages(&place, head).iter().any(is_end))
    {
        assert!(
            Instant::now() < deadline,
            "{:#?}",
            messages(&place, "right")
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    let again = messages(&place, "right");
    assert!(
        again.iter().all(|message| about(message, "new").is_empty()),
        "{again:#?}"
    );
    place.ok("down");
    place.assert_empty();
}
