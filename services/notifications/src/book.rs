//! Decides which message a receiver gets, and when. Pure: it is passed the causes of each sample and the time, so that a
//! table of events tests it.
//!
//! It stores the last message of each receiver. A message is the difference to the present state, so a message that could
//! not be sent is never outdated when it is tried again, and no queue can overflow.

use std::collections::{BTreeMap, VecDeque};

use api::view::{Alert, SentMessage, Takeover};
use appliance::alerts::{LeastSeverity, Receiver, Way};
use control::calendar::{SECONDS_PER_DAY, utc};
use serde::{Deserialize, Serialize};

/// Changes that follow each other within this time are one message.
pub const SETTLE_MS: u64 = 20_000;
/// Changes that never stop are sent after this time.
pub const SETTLE_MS_MAX: u64 = 60_000;
/// Most messages about changes in an hour; further changes are collected.
const HOURLY_MAX: usize = 20;
/// So many more are sent if an error began or ended: it is not delayed by the rest.
const HOURLY_ERRORS_MORE: usize = 10;
/// Delay of the second attempt; it doubles with each further one.
const RETRY_MS_MIN: u64 = 15_000;
/// Longest delay between two attempts.
const RETRY_MS_MAX: u64 = 600_000;
/// Interval at which an Alertmanager is sent the open alerts: an alert that is not repeated counts as solved there.
pub const ALERTMANAGER_INTERVAL_MS: u64 = 300_000;
/// Most causes in a sample.
const CAUSES_MAX: usize = 500;
/// Most causes that came and went since the last message.
const PASSED_MAX: usize = 100;
/// Most messages in the history.
const HISTORY_MAX: usize = 100;
/// Longest sentence, in characters.
const SENTENCE_CHARS_MAX: usize = 1000;
/// Most details of a cause.
const DETAILS_MAX: usize = 20;
/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

/// A condition that messages report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Its severity.
    pub severity: LeastSeverity,
    /// The subject, such as `pool tank`.
    pub about: String,
    /// The condition, in a sentence.
    pub sentence: String,
    /// Its start, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its consequences, each in a sentence.
    #[serde(default)]
    pub details: Vec<String>,
    /// The recommended action.
    #[serde(default)]
    pub advice: Option<String>,
    /// The command to type.
    #[serde(default)]
    pub command: Option<String>,
    /// The consequence of a further failure.
    #[serde(default)]
    pub risk: Option<String>,
}

/// A cause that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Identifies the cause.
    key: String,
    /// The cause.
    pub cause: Cause,
    /// Its end, in milliseconds since 1970.
    pub ended_ms: u64,
}

/// The reason for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Alerts began or ended.
    Change,
    /// Alerts are still open.
    Reminder,
    /// The daily sign of life.
    SignOfLife,
    /// A test.
    Test,
}

/// A message to one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its reason.
    pub reason: Reason,
    /// Causes that are reported for the first time, or with a higher severity.
    pub new: Vec<Cause>,
    /// Causes that came and went since the last message.
    pub passed: Vec<Passed>,
    /// Reported causes that are over.
    pub ended: Vec<Passed>,
    /// All open causes, those in `new` included, by their keys.
    pub open: BTreeMap<String, Cause>,
    /// Whether changes are not part of the message: a later one reports them.
    pub holds_changes: bool,
}

impl Message {
    /// A test.
    pub fn test() -> Self {
        Self {
            reason: Reason::Test,
            new: Vec::new(),
            passed: Vec::new(),
            ended: Vec::new(),
            open: BTreeMap::new(),
            holds_changes: false,
        }
    }
}

/// The last message of a receiver. The heads exchange it, so that another head does not repeat a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastMessage {
    /// Counts the messages of all heads: clocks of heads differ, so that times do not order them.
    pub number: u64,
    /// The open causes of the last message, by their keys.
    pub open: BTreeMap<String, Cause>,
    /// The time of the last message, in milliseconds since 1970.
    pub at_ms: u64,
    /// The day of the last sign of life, in days since 1970.
    pub life_day: u64,
}

impl LastMessage {
    /// A later message has a greater value.
    pub const fn order(&self) -> (u64, u64) {
        (self.number, self.at_ms)
    }
}

/// The attempts of this head to reach a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempts {
    /// Messages that were delivered.
    pub sent_count: u64,
    /// Attempts that failed.
    pub failed_count: u64,
    /// Failures since the last success.
    pub failed_in_row: u64,
    /// The last success, in milliseconds since 1970.
    pub success_ms: Option<u64>,
    /// The last failure.
    pub failure_ms: Option<u64>,
    /// The first failure since the last success.
    pub failing_since_ms: Option<u64>,
    /// The reason of the last failure.
    pub failure: Option<String>,
    /// The time of the next attempt.
    next_ms: u64,
    /// The times of the messages about changes in the last hour.
    recent_ms: Vec<u64>,
}

impl Attempts {
    /// The time of the last attempt.
    pub fn last_ms(&self) -> Option<u64> {
        self.success_ms.max(self.failure_ms)
    }
}

/// A receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The last message.
    pub last_message: LastMessage,
    /// The attempts of this head.
    pub attempts: Attempts,
    /// Causes that came and went since the last message.
    passed: Vec<Passed>,
    /// The times at which reported causes were over.
    ended: BTreeMap<String, u64>,
    /// The first and the last change since the last message.
    changed_ms: Option<(u64, u64)>,
}

/// The state of all receivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Book {
    /// The causes of the last sample.
    current: BTreeMap<String, Cause>,
    /// The last takeover that was noticed, in milliseconds since 1970; older ones are no news.
    takeover_ms: Option<u64>,
    /// By name.
    pub receivers: BTreeMap<String, Ledger>,
    /// The last messages of this head, the newest last.
    pub history: VecDeque<SentMessage>,
}

impl Cause {
    /// The cause of an alert that was seen at `now_ms`.
    pub fn of(alert: &Alert, now_ms: u64) -> Self {
        let advice = alert.advice.as_ref();
        let details = alert.details.iter().take(DETAILS_MAX);
        Self {
            severity: match alert.severity.as_str() {
                "error" => LeastSeverity::Error,
                "warning" => LeastSeverity::Warning,
                _ => LeastSeverity::Info,
            },
            about: clipped(&alert.about),
            sentence: clipped(&alert.sentence),
            since_ms: alert.since_ms.unwrap_or(now_ms),
            details: details.map(|detail| clipped(detail)).collect(),
            advice: advice.map(|advice| clipped(&advice.what)),
            command: advice.and_then(|advice| advice.command.as_deref().map(clipped)),
            risk: advice.and_then(|advice| advice.risk.as_deref().map(clipped)),
        }
    }

    /// Identifies the cause. Numbers in its sentence change while it stays the same.
    fn key(&self) -> String {
        let words = self.sentence.split_whitespace().map(|word| {
            let first = word.trim_start_matches(|letter: char| !letter.is_alphanumeric());
            match first.starts_with(|letter: char| letter.is_ascii_digit()) {
                true => "#",
                false => word,
            }
        });
        let words: Vec<&str> = words.collect();
        format!("{}: {}", self.about, words.join(" "))
    }
}

fn clipped(text: &str) -> String {
    text.chars().take(SENTENCE_CHARS_MAX).collect()
}

/// A takeover as a cause that is over.
fn takeover_of(takeover: &Takeover) -> Passed {
    let Takeover { pool, from, to, .. } = takeover;
    let what = match (takeover.kind.as_str(), from) {
        ("takeover", Some(from)) => format!("{to} took {pool} over from {from}"),
        // Without a previous head it may as well have been this one.
        ("takeover", None) => format!("{to} started the server of {pool}"),
        _ => format!("the server of {pool} ended, and {to} started it again"),
    };
    let paused = takeover.duration_ms.map_or_else(String::new, |ms| {
        let seconds = ms as f64 / 1000.0;
        match takeover.counts_from_start() {
            true => format!("; clients could reach it {seconds:.1} s after its start"),
            false => format!("; clients could reach it again after {seconds:.1} s"),
        }
    });
    let cause = Cause {
        severity: LeastSeverity::Warning,
        about: format!("pool {pool}"),
        sentence: what + &paused,
        since_ms: takeover.at_ms,
        advice: Some("find the reason in the events of the pool".to_owned()),
        command: Some(format!("bulkhead pool events {pool}")),
        ..Cause::default()
    };
    Passed {
        key: format!("takeover {pool} {}", utc(takeover.at_ms / 1000)),
        ended_ms: takeover.at_ms + takeover.duration_ms.unwrap_or(0),
        cause,
    }
}

/// Whether a receiver gets the cause. An alert about the receiver itself would reach it only when it is over.
fn is_for(cause: &Cause, name: &str, receiver: &Receiver) -> bool {
    let is_own = cause.about.strip_prefix("receiver ") == Some(name);
    cause.severity >= receiver.least && !is_own
}

impl Book {
    /// Sets the receivers; the state of all other receivers is dropped.
    pub fn set_receivers(&mut self, receivers: &BTreeMap<String, Receiver>) {
        self.receivers
            .retain(|name, _| receivers.contains_key(name));
        for name in receivers.keys() {
            self.receivers.entry(name.clone()).or_default();
        }
    }

    /// Notes the alerts of a sample; returns whether the state should be stored.
    pub fn observe(
        &mut self,
        alerts: &[Alert],
        last_takeover: Option<&Takeover>,
        receivers: &BTreeMap<String, Receiver>,
        now_ms: u64,
    ) -> bool {
        let before = self.receivers.clone();
        let mut current: BTreeMap<String, Cause> = BTreeMap::new();
        for alert in alerts.iter().take(CAUSES_MAX) {
            let mut cause = Cause::of(alert, now_ms);
            let (key, mut count) = (cause.key(), 1);
            // Two disks may differ by a number only.
            let mut unique = key.clone();
            while current.contains_key(&unique) {
                count += 1;
                unique = format!("{key} ({count})");
            }
            if let Some(known) = self.current.get(&unique) {
                cause.since_ms = cause.since_ms.min(known.since_ms);
            }
            current.insert(unique, cause);
        }
        let taken = self.news_of(last_takeover, now_ms);
        self.set_receivers(receivers);
        for (name, receiver) in receivers {
            let ledger = self.receivers.entry(name.clone()).or_default();
            let taken = taken
                .iter()
                .filter(|one| is_for(&one.cause, name, receiver));
            let mut has_changed = ledger.add_passed(taken.cloned());
            let is_sent =
                |ledger: &Ledger, key: &String| ledger.last_message.open.contains_key(key);
            let before = self.current.iter();
            let gone = before.filter(|(key, cause)| {
                !current.contains_key(*key) && is_for(cause, name, receiver)
            });
            for (key, cause) in gone {
                has_changed = true;
                if !is_sent(ledger, key) {
                    ledger.add_passed([Passed {
                        key: key.clone(),
                        cause: cause.clone(),
                        ended_ms: now_ms,
                    }]);
                }
            }
            let is_new = |key: &String, cause: &Cause| {
                let known = self.current.get(key);
                known.is_none_or(|known| known.severity < cause.severity)
            };
            has_changed |= current
                .iter()
                .any(|(key, cause)| is_new(key, cause) && is_for(cause, name, receiver));
            let reported = &ledger.last_message.open;
            let ended = reported.keys().filter(|key| !current.contains_key(*key));
            let ended = ended.map(|key| {
                let at_ms = ledger.ended.get(key).copied().unwrap_or(now_ms);
                (key.clone(), at_ms)
            });
            ledger.ended = ended.collect();
            if has_changed {
                ledger.has_changed(now_ms);
            }
        }
        let has_changed = !self.current.keys().eq(current.keys()) || self.receivers != before;
        self.current = current;
        has_changed
    }

    /// The takeover, if it is later than all that were noticed.
    fn news_of(&mut self, last: Option<&Takeover>, now_ms: u64) -> Option<Passed> {
        let known_ms = *self.takeover_ms.get_or_insert(now_ms);
        let is_fault = |one: &&Takeover| matches!(one.kind.as_str(), "takeover" | "restart");
        let last = last.filter(|one| one.at_ms > known_ms).filter(is_fault)?;
        self.takeover_ms = Some(last.at_ms);
        Some(takeover_of(last))
    }

    /// The message that a receiver should get now.
    pub fn due(&self, name: &str, receiver: &Receiver, now_ms: u64) -> Option<Message> {
        let ledger = self.receivers.get(name)?;
        let next_ms = ledger.attempts.next_ms;
        // A time that is too far in the future is that of a clock that was wrong.
        if now_ms < next_ms && next_ms <= now_ms + RETRY_MS_MAX {
            return None;
        }
        let mut message = self.difference(ledger, name, receiver, now_ms);
        // An alert that an Alertmanager is not sent for a while counts as solved there: it has limits of its own.
        let is_alertmanager = matches!(receiver.ways().first(), Some(Way::Alertmanager(_)));
        let second = now_ms / 1000;
        let is_quiet = receiver
            .quiet_utc
            .is_some_and(|quiet| quiet.contains(second));
        let is_silent = is_quiet && !is_alertmanager;
        if message.has_change() {
            let (first_ms, last_ms) = ledger.changed_ms.unwrap_or_default();
            let settled_ms = (last_ms + SETTLE_MS).min(first_ms + SETTLE_MS_MAX);
            let is_urgent = !is_silent || message.has_error();
            if is_alertmanager || (is_urgent && !ledger.is_limited(&message, now_ms)) {
                return (now_ms >= settled_ms).then_some(message);
            }
            message.hold_changes(&ledger.last_message);
        }
        let day = second / SECONDS_PER_DAY;
        let sign = receiver.sign_of_life_utc.map(|time| time.seconds());
        let is_time = sign.is_some_and(|time| second % SECONDS_PER_DAY >= time);
        if is_time && ledger.last_message.life_day != day {
            message.reason = Reason::SignOfLife;
            return Some(message);
        }
        message.reason = Reason::Reminder;
        let interval_ms = match is_alertmanager {
            true => ALERTMANAGER_INTERVAL_MS,
            false => u64::from(receiver.reminder_h) * HOUR_MS,
        };
        let has_error = message
            .open
            .values()
            .any(|one| one.severity == LeastSeverity::Error);
        let sent_ms = ledger.last_message.at_ms.min(now_ms);
        let is_due = interval_ms > 0 && now_ms >= sent_ms.saturating_add(interval_ms);
        let is_allowed = !is_silent || has_error;
        (is_due && is_allowed && !message.open.is_empty()).then_some(message)
    }

    /// The message about all differences between the last message and the present state.
    fn difference(&self, ledger: &Ledger, name: &str, receiver: &Receiver, now_ms: u64) -> Message {
        let open: BTreeMap<String, Cause> = self
            .current
            .iter()
            .filter(|(_, cause)| is_for(cause, name, receiver))
            .map(|(key, cause)| (key.clone(), cause.clone()))
            .collect();
        let reported = &ledger.last_message.open;
        let new = open.iter().filter(|(key, cause)| {
            let known = reported.get(*key);
            known.is_none_or(|known| known.severity < cause.severity)
        });
        let mut new: Vec<Cause> = new.map(|(_, cause)| cause.clone()).collect();
        new.sort_by_key(|cause| std::cmp::Reverse(cause.severity));
        // The new state of a subject replaces its old one; a whole head has several independent ones.
        let is_replaced = |cause: &Cause| {
            let has_one_state = !matches!(cause.about.as_str(), "appliance" | "cluster");
            has_one_state && new.iter().any(|one| one.about == cause.about)
        };
        let ended = reported.iter().filter(|(key, cause)| {
            !open.contains_key(*key) && !is_replaced(cause) && is_for(cause, name, receiver)
        });
        let ended = ended.map(|(key, cause)| Passed {
            key: key.clone(),
            cause: cause.clone(),
            ended_ms: ledger.ended.get(key).copied().unwrap_or(now_ms),
        });
        // A cause that has returned is open, and one that has passed twice is named once.
        let passed = ledger
            .passed
            .iter()
            .filter(|one| !open.contains_key(&one.key));
        Message {
            reason: Reason::Change,
            ended: ended.collect(),
            passed: passed.cloned().collect(),
            new,
            open,
            holds_changes: false,
        }
    }

    /// Notes that the receiver has got the message.
    pub fn delivered(&mut self, name: &str, message: &Message, sent: SentMessage, now_ms: u64) {
        let Some(ledger) = self.receivers.get_mut(name) else {
            return;
        };
        let attempts = &mut ledger.attempts;
        attempts.sent_count += 1;
        attempts.success_ms = Some(now_ms);
        attempts.failed_in_row = 0;
        attempts.failing_since_ms = None;
        attempts.next_ms = 0;
        attempts
            .recent_ms
            .retain(|at_ms| *at_ms <= now_ms && *at_ms + HOUR_MS > now_ms);
        if message.reason == Reason::Change {
            attempts.recent_ms.push(now_ms);
        }
        if message.reason != Reason::Test {
            if !message.holds_changes {
                ledger.last_message.open.clone_from(&message.open);
            }
            ledger.last_message.number += 1;
            ledger.last_message.at_ms = now_ms;
            if message.reason == Reason::SignOfLife {
                ledger.last_message.life_day = now_ms / 1000 / SECONDS_PER_DAY;
            }
            // A cause that was over before the delivery is reported as over by the next message.
            let reported = &ledger.last_message.open;
            let is_new =
                |one: &Passed| !message.passed.contains(one) && !reported.contains_key(&one.key);
            ledger.passed.retain(is_new);
            ledger.changed_ms = None;
            let is_pending = reported.keys().any(|key| !self.current.contains_key(key));
            let is_unknown = self.current.keys().any(|key| !reported.contains_key(key));
            if is_pending || is_unknown || !ledger.passed.is_empty() {
                ledger.changed_ms = Some((now_ms, now_ms));
            }
        }
        if message.reason == Reason::Reminder {
            // An Alertmanager gets one every few minutes: the history has the last one only.
            let is_same =
                |one: &SentMessage| one.receiver == sent.receiver && one.subject == sent.subject;
            self.history.retain(|one| !is_same(one));
        }
        self.history.push_back(sent);
        while self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
    }

    /// Notes that an attempt failed. Failures of tests do not delay messages.
    pub fn failed(&mut self, name: &str, reason: Reason, why: &str, now_ms: u64) {
        let Some(ledger) = self.receivers.get_mut(name) else {
            return;
        };
        let attempts = &mut ledger.attempts;
        attempts.failed_count += 1;
        attempts.failed_in_row += 1;
        attempts.failure_ms = Some(now_ms);
        attempts.failing_since_ms.get_or_insert(now_ms);
        attempts.failure = Some(why.to_owned());
        if reason != Reason::Test {
            let doublings = attempts.failed_in_row.saturating_sub(1).min(10);
            attempts.next_ms = now_ms + (RETRY_MS_MIN << doublings).min(RETRY_MS_MAX);
        }
    }

    /// Delays messages until the state has settled: the first samples of a process may be incomplete.
    pub fn settle(&mut self, now_ms: u64) {
        for ledger in self.receivers.values_mut() {
            ledger.has_changed(now_ms);
        }
    }

    /// Adopts the last message of another head to the receiver, if that is newer.
    pub fn adopt(&mut self, name: &str, last_message: &LastMessage, now_ms: u64) {
        let Some(ledger) = self.receivers.get_mut(name) else {
            return;
        };
        if last_message.order() <= ledger.last_message.order() {
            return;
        }
        ledger.last_message = last_message.clone();
        let sent_ms = last_message.at_ms.min(now_ms);
        ledger.passed.retain(|one| one.ended_ms > sent_ms);
        ledger
            .ended
            .retain(|key, _| last_message.open.contains_key(key));
        ledger.has_changed(now_ms);
    }
}

impl Ledger {
    fn has_changed(&mut self, now_ms: u64) {
        // An older change was sent, or its cause is over.
        let recent = self
            .changed_ms
            .filter(|(_, last_ms)| now_ms <= last_ms + SETTLE_MS);
        let first_ms = recent.map_or(now_ms, |(first_ms, _)| first_ms);
        self.changed_ms = Some((first_ms, now_ms));
    }

    /// Adds causes that are over; returns whether there were any.
    fn add_passed(&mut self, passed: impl IntoIterator<Item = Passed>) -> bool {
        let mut any = false;
        for one in passed {
            any = true;
            self.passed.retain(|known| known.key != one.key);
            self.passed.push(one);
        }
        let excess = self.passed.len().saturating_sub(PASSED_MAX);
        self.passed.drain(..excess);
        any
    }
}

impl Ledger {
    /// Whether the receiver has got too many messages about changes in the last hour. Errors have a limit of their own.
    fn is_limited(&self, message: &Message, now_ms: u64) -> bool {
        let in_hour = self.attempts.recent_ms.iter();
        let in_hour = in_hour.filter(|at_ms| **at_ms <= now_ms && **at_ms + HOUR_MS > now_ms);
        let most = match message.has_error() {
            true => HOURLY_MAX + HOURLY_ERRORS_MORE,
            false => HOURLY_MAX,
        };
        in_hour.count() >= most
    }
}

impl Message {
    fn has_change(&self) -> bool {
        !(self.new.is_empty() && self.ended.is_empty() && self.passed.is_empty())
    }

    /// Leaves out the changes since the last message.
    fn hold_changes(&mut self, last_message: &LastMessage) {
        self.new.clear();
        self.ended.clear();
        self.passed.clear();
        self.open
            .retain(|key, _| last_message.open.contains_key(key));
        self.holds_changes = true;
    }

    /// Whether an error began or ended.
    fn has_error(&self) -> bool {
        let over = self.passed.iter().chain(&self.ended).map(|one| &one.cause);
        let mut causes = self.new.iter().chain(over);
        causes.any(|cause| cause.severity == LeastSeverity::Error)
    }
}

#[cfg(test)]
mod tests;
