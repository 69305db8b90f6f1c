//! The service with programs as receivers, files, and other heads.

use std::os::unix::fs::PermissionsExt;

use api::view::Alert;

use super::*;

/// A head in a directory of its own. Its receivers append the subjects of messages to `got`.
struct Head {
    folder: tempfile::TempDir,
    service: Service,
}

const START_MS: u64 = 1_728_043_200_000;

impl Head {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        let got = folder.path().join("got");
        let script = format!(
            "#!/bin/sh\n[ -e {0}.refuse ] && exit 1\nsed 's/.*\"subject\":\"\\([^\"]*\\)\".*/\\1\\n/' >>{0}\n",
            got.display()
        );
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("set");
        let file = folder.path().join("appliance.toml");
        let text = include_str!("../../../../examples/pair.toml");
        let alerts = format!("\n[alerts.receivers.duty.program]\npath = {program:?}\n");
        std::fs::write(&file, format!("{text}{alerts}")).expect("written");
        let service = Service::open(name.to_owned(), file, folder.path());
        Self { folder, service }
    }

    fn restart(&mut self) {
        let file = self.folder.path().join("appliance.toml");
        self.service = Service::open(self.service.head.clone(), file, self.folder.path());
    }

    fn refuse(&self) {
        std::fs::write(self.folder.path().join("got.refuse"), "").expect("written");
    }

    fn observe(&self, sentences: &[&str], at_ms: u64) {
        let alerts = sentences.iter().map(|sentence| Alert {
            severity: "error".to_owned(),
            about: "head third".to_owned(),
            sentence: (*sentence).to_owned(),
            ..Alert::default()
        });
        self.service.observed(&Overview {
            at_ms,
            alerts: alerts.collect(),
            ..Overview::default()
        });
    }

    fn got(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("got")).unwrap_or_default();
        text.lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

#[test]
fn message_survives_a_restart_and_is_sent_once() {
    let mut head = Head::new("left");
    head.observe(&["third is offline"], START_MS);
    head.service.send_due(START_MS + 5_000);
    head.service.save();
    head.restart();
    head.observe(&["third is offline"], START_MS + 10_000);
    head.service.send_due(START_MS + 15_000);
    assert!(head.got().is_empty(), "not settled: {:?}", head.got());
    head.service.send_due(START_MS + 25_000);
    head.service.save();
    let mode = std::fs::metadata(head.folder.path().join(STATE_FILE)).expect("there");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    head.restart();
    head.observe(&["third is offline"], START_MS + 30_000);
    head.service.send_due(START_MS + 90_000);
    assert_eq!(head.got(), ["[attic] error: third is offline"]);
    let history = head.service.history();
    assert_eq!(history.len(), 1);
    assert!(history[0].text.contains("third is offline"), "{history:?}");
    let receivers = head.service.receivers();
    assert_eq!(
        (receivers[0].sent_count, receivers[0].is_failing),
        (1, false)
    );
}

#[test]
fn state_that_cannot_be_parsed_is_replaced() {
    let mut head = Head::new("left");
    std::fs::write(head.folder.path().join(STATE_FILE), "{\"current\": 3").expect("written");
    head.restart();
    head.observe(&["third is offline"], START_MS);
    head.service.send_due(START_MS + 25_000);
    head.service.save();
    assert_eq!(head.got().len(), 1);
    head.restart();
    assert_eq!(head.service.history().len(), 1);
}

#[test]
fn one_head_sends_and_another_takes_over_when_it_is_gone_or_fails() {
    let (left, right) = (Head::new("left"), Head::new("right"));
    for head in [&left, &right] {
        head.observe(&["third is offline"], START_MS);
    }
    let ask_left = |_: &str| Some(left.service.report());
    let ask_right = |_: &str| Some(right.service.report());
    right.service.ask_heads(&ask_left);
    left.service.ask_heads(&ask_right);
    right.service.send_due(START_MS + 25_000);
    left.service.send_due(START_MS + 25_000);
    assert_eq!((left.got().len(), right.got().len()), (1, 0));
    // The second head has adopted it, and sends its end when the first one is gone.
    right.service.ask_heads(&ask_left);
    right.service.lock().reports.clear();
    right.service.ask_heads(&|_| None);
    right.observe(&["third is offline"], START_MS + 40_000);
    right.service.send_due(START_MS + 80_000);
    assert_eq!(right.got(), [""; 0]);
    right.observe(&[], START_MS + 100_000);
    right.service.send_due(START_MS + 130_000);
    assert_eq!(right.got(), ["[attic] ended: third is offline"]);
    // The first one is back, and does not repeat it.
    left.observe(&[], START_MS + 140_000);
    left.service.ask_heads(&ask_right);
    left.service.send_due(START_MS + 200_000);
    assert_eq!(left.got().len(), 1);
    // The first one responds, and does not reach the receiver.
    left.refuse();
    for head in [&left, &right] {
        head.observe(&["third is unclean"], START_MS + 300_000);
    }
    left.service.send_due(START_MS + 330_000);
    right.service.ask_heads(&ask_left);
    right.service.send_due(START_MS + 330_000);
    assert_eq!(right.got()[1..], ["[attic] error: third is unclean"]);
    // Each shows the last attempt of any head.
    left.service.ask_heads(&ask_right);
    assert!(left.service.receivers()[0].last_success_ms.is_some());
}

#[test]
fn head_that_observes_nothing_does_not_keep_another_from_sending() {
    let (left, right) = (Head::new("left"), Head::new("right"));
    right.observe(&["third is offline"], START_MS);
    // It runs, and its first sample hangs.
    right.service.ask_heads(&|_| Some(left.service.report()));
    right.service.send_due(START_MS + 25_000);
    assert_eq!(right.got().len(), 1);
    // A head of another version.
    right
        .service
        .ask_heads(&|_| Some(serde_json::json!({"receivers": 7})));
}

#[test]
fn repeated_failures_are_visible() {
    let head = Head::new("left");
    head.refuse();
    head.observe(&["third is offline"], START_MS);
    for attempt in 1..=3 {
        assert!(!head.service.receivers()[0].is_failing);
        let results = head.service.test(Some("duty")).expect("a receiver");
        assert!(!results[0].is_delivered, "{attempt}");
    }
    let shown = &head.service.receivers()[0];
    assert!(shown.is_failing && shown.failed_count == 3, "{shown:?}");
    assert!(
        shown
            .last_failure
            .as_deref()
            .is_some_and(|why| why.contains("exit status: 1"))
    );
    head.service
        .test(Some("nobody"))
        .expect_err("no such receiver");
}

#[test]
fn receivers_follow_the_appliance_file() {
    let head = Head::new("left");
    let file = head.folder.path().join("appliance.toml");
    let text = std::fs::read_to_string(&file).expect("there");
    std::fs::write(&file, "half a file [").expect("written");
    assert_eq!(head.service.receivers().len(), 1, "unchanged");
    // A head that starts now uses the last valid settings, and can report the mistake.
    head.service.save();
    let again = Service::open("left".to_owned(), file.clone(), head.folder.path());
    assert_eq!(again.receivers()[0].name, "duty");
    let other = text.replace("receivers.duty", "receivers.another");
    std::fs::write(&file, other).expect("written");
    assert_eq!(head.service.receivers()[0].name, "another");
    std::fs::remove_file(&file).expect("removed");
    assert!(head.service.receivers().is_empty());
    let failure = head.service.test(None).expect_err("none");
    assert!(
        failure.to_string().contains("names no receiver"),
        "{failure}"
    );
}
