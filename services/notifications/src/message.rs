//! A message in words, and as JSON for webhooks and programs.

use std::fmt::Write as _;

use appliance::alerts::LeastSeverity;
use control::calendar::utc;
use serde_json::{Value, json};

use crate::book::{Cause, Message, Passed, Reason};

/// Most causes of a kind in a message; the rest are counted.
const SHOWN_MAX: usize = 40;
/// Longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 200;
/// The version of the JSON form.
const FORMAT: u32 = 1;

/// A message in the forms that receivers accept.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The reason for it.
    pub reason: Reason,
    /// One line.
    pub subject: String,
    /// The text.
    pub text: String,
    /// Its severity: that of its worst new cause, else of its worst open one.
    pub severity: LeastSeverity,
    /// All of it.
    pub json: Value,
    /// Its causes.
    pub message: Message,
    /// The appliance.
    pub appliance: String,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The name of a severity.
pub const fn severity_name(severity: LeastSeverity) -> &'static str {
    match severity {
        LeastSeverity::Info => "info",
        LeastSeverity::Warning => "warning",
        LeastSeverity::Error => "error",
    }
}

/// Renders a message that `head` of `appliance` sends at `at_ms`.
pub fn render(message: &Message, appliance: &str, head: &str, at_ms: u64) -> Rendered {
    let open = message.open.values();
    let last_message = message.new.iter();
    let passed = message.passed.iter().map(|one| &one.cause);
    let worst = last_message.chain(passed).map(|cause| cause.severity).max();
    let worst = worst.or_else(|| open.clone().map(|cause| cause.severity).max());
    let subject = one_line(&format!("[{appliance}] {}", subject(message)));
    let mut text = format!(
        "Appliance {appliance}, sent by head {head} at {}\n",
        utc(at_ms / 1000)
    );
    if message.reason == Reason::Test {
        text.push_str("\nThis is a test. No action is needed.\n");
    }
    add_causes(&mut text, "New", &message.new);
    add_passed(&mut text, "Came and went", &message.passed);
    add_passed(&mut text, "Ended", &message.ended);
    let is_shown = |cause: &&Cause| !message.new.contains(*cause);
    let older: Vec<Cause> = open.clone().filter(is_shown).cloned().collect();
    add_causes(&mut text, "Still open", &older);
    if message.open.is_empty() && message.reason != Reason::Test {
        text.push_str("\nNo alert is open.\n");
    }
    text.push_str("\nThe present state: bulkhead head alerts\n");
    let over = |list: &[Passed]| -> Vec<Value> {
        let list = list.iter().take(SHOWN_MAX);
        list.map(|one| json!({"cause": one.cause, "ended_ms": one.ended_ms}))
            .collect()
    };
    let shown: Vec<&Cause> = open.take(SHOWN_MAX).collect();
    let new: Vec<&Cause> = message.new.iter().take(SHOWN_MAX).collect();
    let severity = worst.unwrap_or(LeastSeverity::Info);
    let json = json!({
        "format": FORMAT,
        "appliance": appliance,
        "head": head,
        "at_ms": at_ms,
        "reason": message.reason,
        "severity": severity,
        "subject": subject,
        "text": text,
        "new": new,
        "passed": over(&message.passed),
        "ended": over(&message.ended),
        "open": shown,
        "open_count": message.open.len(),
    });
    Rendered {
        reason: message.reason,
        subject,
        text,
        severity,
        json,
        message: message.clone(),
        appliance: appliance.to_owned(),
        at_ms,
    }
}

fn subject(message: &Message) -> String {
    let more = |count: usize| match count {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let of = |cause: &Cause| format!("{}: {}", severity_name(cause.severity), cause.sentence);
    let count = message.new.len() + message.passed.len() + message.ended.len();
    let open = message.open.values().max_by_key(|cause| cause.severity);
    match (message.reason, message.new.first()) {
        (Reason::Test, _) => "test of a receiver of alerts".to_owned(),
        (Reason::SignOfLife, _) => match message.open.len() {
            0 => "all is well".to_owned(),
            1 => "1 alert is open".to_owned(),
            count => format!("{count} alerts are open"),
        },
        (Reason::Reminder, _) => match open {
            Some(cause) => format!("still {}{}", of(cause), more(message.open.len())),
            None => "no alert is open".to_owned(),
        },
        (Reason::Change, Some(cause)) => of(cause) + &more(count),
        (Reason::Change, None) => {
            // The most severe cause is usually the reason of the rest.
            let over = message.passed.iter().chain(&message.ended);
            let worst = over.max_by_key(|one| one.cause.severity);
            let worst = worst.map_or_else(String::new, |one| one.cause.sentence.clone());
            format!("ended: {worst}{}", more(count))
        }
    }
}

fn one_line(text: &str) -> String {
    let is_shown = |letter: &char| !letter.is_control();
    text.chars()
        .filter(is_shown)
        .take(SUBJECT_CHARS_MAX)
        .collect()
}

fn add_causes(text: &mut String, title: &str, causes: &[Cause]) {
    if causes.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for cause in causes.iter().take(SHOWN_MAX) {
        add_head(text, cause);
        let _ = writeln!(text, "    since {}", utc(cause.since_ms / 1000));
        for detail in &cause.details {
            let _ = writeln!(text, "    {detail}");
        }
        if let Some(risk) = &cause.risk {
            let _ = writeln!(text, "    at risk: {risk}");
        }
        add_advice(text, cause);
    }
    add_rest(text, causes.len());
}

fn add_passed(text: &mut String, title: &str, passed: &[Passed]) {
    if passed.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for one in passed.iter().take(SHOWN_MAX) {
        add_head(text, &one.cause);
        let (since, end) = (utc(one.cause.since_ms / 1000), utc(one.ended_ms / 1000));
        let _ = writeln!(text, "    from {since} to {end}");
        if title != "Ended" {
            add_advice(text, &one.cause);
        }
    }
    add_rest(text, passed.len());
}

fn add_head(text: &mut String, cause: &Cause) {
    let severity = severity_name(cause.severity);
    let _ = writeln!(text, "  {severity}: {}: {}", cause.about, cause.sentence);
}

fn add_advice(text: &mut String, cause: &Cause) {
    if let Some(advice) = &cause.advice {
        let _ = writeln!(text, "    next: {advice}");
    }
    if let Some(command) = &cause.command {
        let _ = writeln!(text, "    type: {command}");
    }
}

fn add_rest(text: &mut String, count: usize) {
    if count > SHOWN_MAX {
        let _ = writeln!(text, "  and {} more", count - SHOWN_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::view::Alert;
    use appliance::alerts::Receiver;

    use super::*;
    use crate::book::{Book, SETTLE_MS};

    const NOON_S: u64 = 1_728_043_200;

    #[test]
    fn message_names_cause_time_risk_and_command() {
        let mut alert = Alert {
            severity: "error".to_owned(),
            about: "head right".to_owned(),
            sentence: "right is offline".to_owned(),
            ..Alert::default()
        };
        alert.since_ms = Some(NOON_S * 1000);
        alert.details = vec!["pool tank has one copy".to_owned()];
        let advice = control::Advice::new(control::Severity::Error, "find out why", "");
        let advice = advice.by("bulkhead appliance check --ssh");
        alert.advice = Some(advice.risking(Some("no head can take over".to_owned())));
        let receivers = BTreeMap::from([("duty".to_owned(), Receiver::default())]);
        let mut book = Book::default();
        book.observe(&[alert], None, &receivers, NOON_S * 1000);
        let message = book.due("duty", &receivers["duty"], NOON_S * 1000 + SETTLE_MS);
        let message = message.expect("due");
        let rendered = render(&message, "attic", "left", NOON_S * 1000);
        assert_eq!(rendered.subject, "[attic] error: right is offline");
        for part in [
            "Appliance attic, sent by head left at 2024-10-04T12:00:00Z",
            "error: head right: right is offline",
            "since 2024-10-04T12:00:00Z",
            "pool tank has one copy",
            "at risk: no head can take over",
            "next: find out why",
            "type: bulkhead appliance check --ssh",
        ] {
            assert!(rendered.text.contains(part), "{part}: {}", rendered.text);
        }
        assert_eq!(rendered.json["new"][0]["severity"], "error");
        assert_eq!(rendered.json["open_count"], 1);
    }
}
