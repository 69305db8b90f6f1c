//! Sequences of events with the messages that they cause.

use super::*;
use api::view::Step;

/// Midnight of a day, in seconds since 1970.
const MIDNIGHT_S: u64 = 20_000 * SECONDS_PER_DAY;
const NOON_S: u64 = MIDNIGHT_S + 12 * 3600;
const SAMPLE_S: u64 = 10;

const OFF: &str = "error|head right|right is offline";
const UNCLEAN: &str = "error|head right|right is unclean";
const WAIT: &str = "error|head right|right is lost, and its power-off is pending since 12:00";
const DISK: &str = "warning|pool tank|sda has 3 errors";
const FULL: &str = "warning|pool vm|vm is 85 % full";
const HOME: &str = "info|pool tank|tank is served by left, its home is right";

fn alert(text: &str) -> Alert {
    let mut parts = text.split('|').map(str::to_owned);
    let mut part = || parts.next().expect("three parts");
    Alert {
        severity: part(),
        about: part(),
        sentence: part(),
        ..Alert::default()
    }
}

/// A head with one receiver, second by second.
struct Run {
    book: Book,
    receivers: BTreeMap<String, Receiver>,
    now_s: u64,
    start_s: u64,
    takeover: Option<Takeover>,
    /// Attempts fail.
    is_broken: bool,
    sent: Vec<String>,
}

impl Run {
    fn new(start_s: u64, change: impl FnOnce(&mut Receiver)) -> Self {
        let mut receiver = Receiver {
            reminder_h: 24,
            ..Receiver::default()
        };
        change(&mut receiver);
        let mut run = Self {
            book: Book::default(),
            receivers: BTreeMap::from([("duty".to_owned(), receiver)]),
            now_s: start_s,
            start_s,
            takeover: None,
            is_broken: false,
            sent: Vec::new(),
        };
        // A head has run for a while.
        run.pass(&[], SAMPLE_S);
        run.start_s = run.now_s;
        run
    }

    /// Time passes with these alerts.
    fn pass(&mut self, alerts: &[&str], seconds: u64) {
        let alerts: Vec<Alert> = alerts.iter().copied().map(alert).collect();
        for second in 0..seconds {
            let now_ms = self.now_s * 1000;
            if second % SAMPLE_S == 0 {
                let last = self.takeover.as_ref();
                self.book.observe(&alerts, last, &self.receivers, now_ms);
            }
            if let Some(message) = self.book.due("duty", &self.receivers["duty"], now_ms) {
                match self.is_broken {
                    true => self.book.failed("duty", message.reason, "refused", now_ms),
                    false => {
                        let text = shown(&message);
                        self.sent
                            .push(format!("{} {text}", self.now_s - self.start_s));
                        let sent = SentMessage::default();
                        self.book.delivered("duty", &message, sent, now_ms);
                    }
                }
            }
            self.now_s += 1;
        }
    }

    fn assert_sent(&self, wanted: &[&str]) {
        assert_eq!(self.sent, wanted);
    }
}

fn shown(message: &Message) -> String {
    let sentences = |title: &str, causes: Vec<&Cause>| {
        let causes: Vec<&str> = causes.iter().map(|cause| cause.sentence.as_str()).collect();
        (!causes.is_empty()).then(|| format!("{title}({})", causes.join("; ")))
    };
    let over =
        |list: &[Passed]| -> Vec<Cause> { list.iter().map(|one| one.cause.clone()).collect() };
    let (passed, ended) = (over(&message.passed), over(&message.ended));
    let parts = [
        sentences("new", message.new.iter().collect()),
        sentences("passed", passed.iter().collect()),
        sentences("ended", ended.iter().collect()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match message.reason {
        Reason::Change => parts.join(" "),
        reason => format!("{reason:?}({})", message.open.len()),
    }
}

/// The server reports how long its own start took, and not how long the pool was not served.
#[test]
fn pause_is_not_claimed_for_a_start_that_only_the_server_reports() {
    let started = Takeover {
        pool: "tank".to_owned(),
        kind: "takeover".to_owned(),
        to: "vm".to_owned(),
        duration_ms: Some(600),
        steps: vec![Step {
            name: Takeover::SERVER_STARTED.to_owned(),
            after_ms: 0,
        }],
        ..Takeover::default()
    };
    let words = takeover_of(&started).cause.sentence;
    assert_eq!(
        words,
        "vm started the server of tank; clients could reach it 0.6 s after its start"
    );
}

#[test]
fn takeover_is_one_story_and_its_end_another() {
    let mut run = Run::new(NOON_S, |_| {});
    run.pass(&[UNCLEAN], 10);
    run.pass(&[WAIT, DISK, FULL, HOME], 10);
    run.takeover = Some(Takeover {
        pool: "tank".to_owned(),
        kind: "takeover".to_owned(),
        from: Some("right".to_owned()),
        to: "left".to_owned(),
        at_ms: run.now_s * 1000,
        duration_ms: Some(900),
        ..Takeover::default()
    });
    run.pass(&[OFF, HOME], 300);
    let story = "40 new(right is offline) passed(right is unclean; left took tank over from right; \
                 clients could reach it again after 0.9 s; right is lost, and its power-off is pending since 12:00; \
                 sda has 3 errors; vm is 85 % full)";
    assert_eq!(run.sent.len(), 1, "{:#?}", run.sent);
    let words = |text: &str| -> Vec<String> {
        let mut words: Vec<_> = text
            .split(['(', ')', ';'])
            .map(|one| one.trim().to_owned())
            .collect();
        words.sort();
        words
    };
    assert_eq!(words(&run.sent[0]), words(story));
    run.pass(&[], 300);
    run.assert_sent(&[&run.sent[0].clone(), "340 ended(right is offline)"]);
}

/// Events of the table: alerts with the seconds that they last, then the messages.
type Story = (
    &'static str,
    &'static [(&'static [&'static str], u64)],
    &'static [&'static str],
);

const STORIES: &[Story] = &[
    ("healthy", &[(&[], 9000)], &[]),
    (
        "one cause and its end",
        &[(&[DISK], 60), (&[], 60)],
        &["20 new(sda has 3 errors)", "80 ended(sda has 3 errors)"],
    ),
    (
        "it came and went within the settling time",
        &[(&[DISK], 10), (&[], 60)],
        &["30 passed(sda has 3 errors)"],
    ),
    ("less severe than wanted", &[(&[HOME], 60), (&[], 60)], &[]),
    (
        "its number changes",
        &[
            (&[DISK], 60),
            (&["warning|pool tank|sda has 400 errors"], 60),
        ],
        &["20 new(sda has 3 errors)"],
    ),
    (
        "it becomes worse",
        &[(&[DISK], 60), (&["error|pool tank|sda has 3 errors"], 60)],
        &["20 new(sda has 3 errors)", "80 new(sda has 3 errors)"],
    ),
    (
        "two disks that differ by a number",
        &[(
            &["warning|pool tank|7 fails", "warning|pool tank|8 fails"],
            60,
        )],
        &["20 new(7 fails; 8 fails)"],
    ),
    (
        "a second one while the first is open",
        &[(&[DISK], 60), (&[DISK, OFF], 60)],
        &["20 new(sda has 3 errors)", "80 new(right is offline)"],
    ),
    (
        "the subject has another state",
        &[(&[UNCLEAN], 60), (&[OFF], 60)],
        &["20 new(right is unclean)", "80 new(right is offline)"],
    ),
    (
        "a short absence is no end",
        &[(&[OFF], 60), (&[], 10), (&[OFF], 60)],
        &["20 new(right is offline)"],
    ),
    (
        "it lasts for a day",
        &[(&[OFF], 90_000)],
        &["20 new(right is offline)", "86420 Reminder(1)"],
    ),
    (
        "changes that never stop",
        &[
            (&[DISK], 10),
            (&[DISK, OFF], 10),
            (&[DISK], 10),
            (&[DISK, FULL], 10),
            (&[DISK], 10),
            (&[DISK, OFF], 10),
            (&[DISK], 10),
            (&[DISK, FULL], 100),
        ],
        &[
            "60 new(sda has 3 errors) passed(vm is 85 % full; right is offline)",
            "90 new(vm is 85 % full)",
        ],
    ),
];

#[test]
fn table_of_event_sequences() {
    for (name, events, wanted) in STORIES {
        let mut run = Run::new(NOON_S, |_| {});
        for (alerts, seconds) in *events {
            run.pass(alerts, *seconds);
        }
        assert_eq!(run.sent, *wanted, "{name}");
    }
}

#[test]
fn alert_about_the_receiver_itself_is_not_sent_to_it() {
    let mut run = Run::new(NOON_S, |_| {});
    let own = "warning|receiver duty|messages to the receiver duty fail";
    let other = "warning|receiver chat|messages to the receiver chat fail";
    run.pass(&[own, other], 60);
    run.assert_sent(&["20 new(messages to the receiver chat fail)"]);
}

#[test]
fn quiet_hours_over_midnight_delay_all_but_errors() {
    let quiet = |receiver: &mut Receiver| {
        receiver.quiet_utc = Some("22:00-06:00".to_owned().try_into().expect("hours"));
    };
    let at_23 = MIDNIGHT_S + 23 * 3600;
    let mut run = Run::new(at_23, quiet);
    run.pass(&[DISK], 8 * 3600);
    let until_6 = 7 * 3600 - SAMPLE_S;
    run.assert_sent(&[&format!("{until_6} new(sda has 3 errors)")]);
    // An error, a delayed warning, and its end.
    let mut run = Run::new(at_23, quiet);
    run.pass(&[DISK], 600);
    run.pass(&[DISK, OFF], 600);
    run.pass(&[DISK], 600);
    run.assert_sent(&[
        "620 new(right is offline; sda has 3 errors)",
        "1220 ended(right is offline)",
    ]);
    // A reminder of a warning is delayed, too.
    let mut run = Run::new(MIDNIGHT_S + 20 * 3600, |receiver| {
        quiet(receiver);
        receiver.reminder_h = 4;
    });
    run.pass(&[DISK], 11 * 3600);
    let until_6 = 10 * 3600 - SAMPLE_S;
    run.assert_sent(&[
        "20 new(sda has 3 errors)",
        &format!("{until_6} Reminder(1)"),
    ]);
}

#[test]
fn sign_of_life_is_sent_once_a_day_at_its_time() {
    let mut run = Run::new(MIDNIGHT_S + 3600, |receiver| {
        receiver.sign_of_life_utc = Some("06:00".parse().expect("a time"));
        receiver.reminder_h = 0;
    });
    run.pass(&[], 30 * 3600);
    let (first, second) = (5 * 3600 - SAMPLE_S, 29 * 3600 - SAMPLE_S);
    run.assert_sent(&[
        &format!("{first} SignOfLife(0)"),
        &format!("{second} SignOfLife(0)"),
    ]);
}

#[test]
fn failed_message_is_retried_with_growing_delays_and_then_tells_the_present_state() {
    let mut run = Run::new(NOON_S, |_| {});
    run.is_broken = true;
    run.pass(&[DISK], 300);
    run.pass(&[OFF], 3300);
    let attempts = &run.book.receivers["duty"].attempts;
    assert!((8..20).contains(&attempts.failed_count), "{attempts:?}");
    assert_eq!(attempts.failure.as_deref(), Some("refused"));
    assert_eq!(attempts.failing_since_ms, Some((run.start_s + 20) * 1000));
    run.is_broken = false;
    run.pass(&[OFF], 700);
    assert_eq!(run.sent.len(), 1, "{:?}", run.sent);
    assert!(
        run.sent[0].ends_with("new(right is offline) passed(sda has 3 errors)"),
        "{:?}",
        run.sent
    );
    assert_eq!(run.book.receivers["duty"].attempts.failed_in_row, 0);
}

/// A cable that is plugged in and out for hours.
#[test]
fn messages_in_an_hour_are_limited_and_none_is_lost() {
    let mut run = Run::new(NOON_S, |_| {});
    for _ in 0..60 {
        run.pass(&[OFF], 30);
        run.pass(&[], 30);
    }
    let most = HOURLY_MAX + HOURLY_ERRORS_MORE;
    assert!(run.sent.len() <= most, "{}", run.sent.len());
    let before = run.sent.len();
    run.pass(&[DISK], 3700);
    let last = run.sent.last().expect("sent");
    assert!(
        run.sent.len() > before && last.contains("sda has 3 errors"),
        "{:#?}",
        run.sent
    );
}

#[test]
fn restart_in_the_middle_loses_and_repeats_nothing() {
    for restart_after_s in [1, 15, 25, 65, 75, 95] {
        let mut run = Run::new(NOON_S, |_| {});
        let mut left_s = restart_after_s;
        for alerts in [&[OFF][..], &[]] {
            let before = std::cmp::min(left_s, 60);
            run.pass(alerts, before);
            if before < 60 {
                let stored = serde_json::to_vec(&run.book).expect("JSON");
                run.book = serde_json::from_slice(&stored).expect("the same");
            }
            run.pass(alerts, 60 - before);
            left_s -= before;
        }
        run.pass(&[], 60);
        let words: Vec<&str> = run
            .sent
            .iter()
            .filter_map(|text| text.split_once(' '))
            .map(|(_, text)| text)
            .collect();
        let wanted = ["new(right is offline)", "ended(right is offline)"];
        assert_eq!(words, wanted, "restart after {restart_after_s} s");
    }
}

#[test]
fn cause_that_ended_while_the_head_was_off_is_reported_with_its_end() {
    let mut run = Run::new(NOON_S, |_| {});
    run.pass(&[OFF], 5);
    run.now_s += 1000;
    run.pass(&[], 60);
    run.assert_sent(&["1025 passed(right is offline)"]);
}

#[test]
fn another_head_continues_where_the_first_one_stopped() {
    let mut first = Run::new(NOON_S, |_| {});
    let mut second = Run::new(NOON_S, |_| {});
    first.pass(&[DISK], 60);
    second.is_broken = true;
    second.pass(&[DISK], 60);
    second.is_broken = false;
    let last_message = first.book.receivers["duty"].last_message.clone();
    let now_ms = second.now_s * 1000;
    second.book.adopt("duty", &last_message, now_ms);
    second
        .book
        .receivers
        .get_mut("duty")
        .expect("there")
        .attempts = Attempts::default();
    second.pass(&[DISK], 100);
    second.assert_sent(&[]);
    second.pass(&[], 100);
    second.assert_sent(&["180 ended(sda has 3 errors)"]);
    // An older state is not adopted.
    second.book.adopt("duty", &last_message, now_ms);
    assert!(second.book.receivers["duty"].last_message.open.is_empty());
}

#[test]
fn state_is_bounded() {
    let mut run = Run::new(NOON_S, |_| {});
    run.is_broken = true;
    for round in 0..50 {
        let many: Vec<String> = (0..1000)
            .map(|number| format!("error|pool tank|disk{round}x{number} {}", "x".repeat(5000)))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        run.pass(&many, 1);
        run.pass(&[], 1);
    }
    assert!(run.book.receivers["duty"].passed.len() <= PASSED_MAX);
    let stored = serde_json::to_vec(&run.book).expect("JSON");
    assert!(stored.len() < 2_000_000, "{}", stored.len());
}

#[test]
fn alertmanager_gets_open_alerts_every_few_minutes_and_the_history_one_of_them() {
    let mut run = Run::new(NOON_S, |receiver| {
        receiver.quiet_utc = Some("00:00-23:59".to_owned().try_into().expect("hours"));
        receiver.alertmanager = Some(appliance::alerts::HttpServer {
            url: "http://a.example/"
                .to_owned()
                .try_into()
                .expect("an address"),
            token_file: None,
            authority_file: None,
        });
    });
    run.pass(&[OFF], 1000);
    run.assert_sent(&[
        "20 new(right is offline)",
        "320 Reminder(1)",
        "620 Reminder(1)",
        "920 Reminder(1)",
    ]);
    assert_eq!(run.book.history.len(), 1);
    run.pass(&[], 100);
    assert_eq!(run.sent.len(), 5, "{:?}", run.sent);
    assert_eq!(run.book.history.len(), 2);
}
