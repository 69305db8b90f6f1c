//! The sender in `bulkhead head`: it notes each sample of the head, sends due messages, and stores its state in a file.
//!
//! Several heads observe the same appliance. A receiver is served by the first head by name whose sender responds and
//! reaches the receiver. The heads exchange their last messages, so that another head continues where one stopped. A
//! head that no other one reaches sends by itself: a repeated message is better than none.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use api::Notifier;
use api::view::{Alert, Overview, ReceiverTest, ReceiverView, SentMessage};
use appliance::alerts::{Receiver, Way};
use control::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::book::{Attempts, Book, LastMessage, Message};
use crate::message::{Rendered, render, severity_name};
use crate::send::send;

/// The name of the file with the state, in the state directory.
pub const STATE_FILE: &str = "notifications.state";
/// Interval between two searches for due messages.
const TICK: Duration = Duration::from_secs(1);
/// Interval between two queries of the other heads.
const PEERS_INTERVAL: Duration = Duration::from_secs(10);
/// A report of another head counts for this time.
const REPORT_AGE_MAX: Duration = Duration::from_secs(25);
/// A head that has not observed the appliance for this time sends nothing.
const OBSERVED_AGE_MAX: Duration = Duration::from_secs(60);
/// A sender that has made no turn for this time hangs.
const TURN_AGE_MAX: Duration = Duration::from_secs(120);
/// Most alerts that a head reports as its own.
const OWN_ALERTS_MAX: usize = 50;
/// The subject of alerts about a head's own view.
const OWN_SUBJECT: &str = "appliance";
/// Longest text of a message in the history, in characters.
const HISTORY_CHARS_MAX: usize = 4000;
/// Longest file with the state, in bytes.
const STATE_BYTES_MAX: u64 = 64 << 20;
/// Failures in a row that are an alert.
const FAILURES_ALERT: u64 = 3;

/// The settings, from the appliance file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Settings {
    appliance: String,
    heads: Vec<String>,
    receivers: BTreeMap<String, Receiver>,
}

/// The state that the heads exchange.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Report {
    /// Age of the last sample, in milliseconds.
    observed_ms_ago: Option<u64>,
    /// Age of the last turn of the thread that sends, in milliseconds.
    #[serde(default)]
    turned_ms_ago: Option<u64>,
    /// Whether the head does not see the cluster.
    #[serde(default)]
    is_blind: bool,
    /// Alerts that only this head sees.
    #[serde(default)]
    own_alerts: Vec<Alert>,
    /// By name.
    receivers: BTreeMap<String, ReceiverReport>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ReceiverReport {
    last_message: LastMessage,
    attempts: Attempts,
}

/// The file with the state. It contains the settings: a head that starts with an invalid appliance file must report that.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    settings: Settings,
    book: Book,
}

/// The same, not copied.
#[derive(Serialize)]
struct ToStore<'a> {
    settings: &'a Settings,
    book: &'a Book,
}

#[derive(Default)]
struct Inner {
    book: Book,
    settings: Settings,
    /// Length and modification time of the appliance file of the settings.
    read: Option<(u64, SystemTime)>,
    observed_at: Option<Instant>,
    /// The last turn of the thread that sends.
    turned_at: Option<Instant>,
    /// Whether this head does not see the cluster: it reports only if no other head does.
    is_blind: bool,
    own_alerts: Vec<Alert>,
    reports: BTreeMap<String, (Instant, Report)>,
    /// Whether a change is not stored yet.
    is_dirty: bool,
}

/// Sends messages about alerts.
pub struct Service {
    head: String,
    /// The appliance file.
    file: PathBuf,
    /// The file with the state.
    place: PathBuf,
    inner: Mutex<Inner>,
}

impl Service {
    /// The service of `head`, with the state of the last run.
    pub fn open(head: String, file: PathBuf, state_dir: &Path) -> Self {
        let place = state_dir.join(STATE_FILE);
        let Stored { settings, book } = load(&place);
        let inner = Inner {
            book,
            settings,
            ..Inner::default()
        };
        let service = Self {
            head,
            file,
            place,
            inner: Mutex::new(inner),
        };
        service.read_settings();
        service
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder panics")
    }

    /// Reads the appliance file if it has changed. While it cannot be read, the receivers stay the same.
    fn read_settings(&self) {
        let about = std::fs::metadata(&self.file).ok();
        let about = about.and_then(|about| Some((about.len(), about.modified().ok()?)));
        let mut inner = self.lock();
        if inner.read == about {
            return;
        }
        inner.read = about;
        let text = read_bounded(&self.file).unwrap_or_default();
        let settings = match appliance::parse(&text) {
            Ok(parsed) => Settings {
                appliance: parsed.appliance.name.clone(),
                heads: parsed
                    .appliance
                    .heads
                    .keys()
                    .map(ToString::to_string)
                    .collect(),
                receivers: parsed.appliance.alerts.unwrap_or_default().receivers,
            },
            Err(finding) if about.is_some() => {
                tracing::warn!(
                    why = finding.what,
                    "the appliance file is invalid: the receivers of alerts stay"
                );
                return;
            }
            Err(_) => Settings::default(),
        };
        inner.settings = settings;
        inner.is_dirty = true;
        let receivers = inner.settings.receivers.clone();
        inner.book.set_receivers(&receivers);
        tracing::debug!(count = receivers.len(), "read the receivers of alerts");
    }

    /// Sends messages until the process terminates. `ask` returns the report of another head; it may block.
    pub fn run(&self, ask: &dyn Fn(&str) -> Option<Value>) {
        let mut asked_at = None::<Instant>;
        loop {
            self.lock().turned_at = Some(Instant::now());
            self.read_settings();
            if asked_at.is_none_or(|at| at.elapsed() >= PEERS_INTERVAL) {
                self.ask_heads(ask);
                asked_at = Some(Instant::now());
            }
            self.send_due(api::now_ms());
            self.save();
            std::thread::sleep(TICK);
        }
    }

    /// Gets the reports of the other heads, and adopts newer states.
    fn ask_heads(&self, ask: &dyn Fn(&str) -> Option<Value>) {
        let heads = {
            let inner = self.lock();
            match inner.settings.receivers.is_empty() {
                true => Vec::new(),
                false => inner.settings.heads.clone(),
            }
        };
        for head in heads.into_iter().filter(|head| *head != self.head) {
            let report = ask(&head).and_then(|value| serde_json::from_value::<Report>(value).ok());
            let mut inner = self.lock();
            let Some(report) = report else { continue };
            for (name, receiver) in &report.receivers {
                let order = |inner: &Inner| {
                    let ledger = inner.book.receivers.get(name);
                    ledger.map(|ledger| ledger.last_message.order())
                };
                let before = order(&inner);
                inner
                    .book
                    .adopt(name, &receiver.last_message, api::now_ms());
                inner.is_dirty |= before != order(&inner);
            }
            inner.reports.insert(head, (Instant::now(), report));
        }
    }

    /// Whether this head serves a receiver. A head that sees the cluster goes before one that does not.
    fn is_on_duty(&self, inner: &Inner, name: &str) -> bool {
        let own = (inner.is_blind, self.head.as_str());
        !inner.settings.heads.iter().any(|head| {
            let Some(report) = inner.report_of(head) else {
                return false;
            };
            let receiver = report.receivers.get(name);
            let reaches = receiver.is_some_and(|receiver| receiver.attempts.failed_in_row == 0);
            *head != self.head && reaches && (report.is_blind, head.as_str()) < own
        })
    }

    /// Sends the messages that are due at `now_ms`.
    fn send_due(&self, now_ms: u64) {
        let due: Vec<(String, Receiver, Message)> = {
            let inner = self.lock();
            // Before the first sample the causes are those of the last run.
            let is_seeing = inner
                .observed_at
                .is_some_and(|at| at.elapsed() < OBSERVED_AGE_MAX);
            let receivers = inner.settings.receivers.iter().filter(|_| is_seeing);
            let on_duty = receivers.filter(|(name, _)| self.is_on_duty(&inner, name));
            let due = on_duty.filter_map(|(name, receiver)| {
                let message = inner.book.due(name, receiver, now_ms)?;
                Some((name.clone(), receiver.clone(), message))
            });
            due.collect()
        };
        if !due.is_empty() {
            self.send_all(due);
        }
    }

    /// Sends messages at the same time; returns the results in their order.
    fn send_all(&self, due: Vec<(String, Receiver, Message)>) -> Vec<ReceiverTest> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let result = Err(format!("start the runtime of messages: {error}"));
                for (name, _, message) in &due {
                    self.note(name, message, None, &result);
                }
                return Vec::new();
            }
        };
        let appliance = self.lock().settings.appliance.clone();
        let results = runtime.block_on(async {
            let tasks: Vec<_> = due
                .iter()
                .map(|(_, receiver, message)| {
                    let rendered = render(message, &appliance, &self.head, api::now_ms());
                    let receiver = receiver.clone();
                    tokio::spawn(async move {
                        let result = send(&receiver, &rendered).await;
                        (rendered, result)
                    })
                })
                .collect();
            let mut results = Vec::new();
            for task in tasks {
                results.push(task.await);
            }
            results
        });
        // The resolver of names may block for longer than a message is awaited.
        runtime.shutdown_background();
        let mut outcomes = Vec::new();
        for ((name, _, message), result) in due.into_iter().zip(results) {
            let (rendered, result) = match result {
                Ok((rendered, result)) => (Some(rendered), result),
                Err(error) => (None, Err(format!("the attempt ended: {error}"))),
            };
            self.note(&name, &message, rendered, &result);
            outcomes.push(ReceiverTest {
                receiver: name,
                is_delivered: result.is_ok(),
                why: result.err(),
            });
        }
        outcomes
    }

    fn note(
        &self,
        name: &str,
        message: &Message,
        rendered: Option<Rendered>,
        result: &Result<(), String>,
    ) {
        let mut inner = self.lock();
        let now_ms = api::now_ms();
        match (result, rendered) {
            (Ok(()), Some(rendered)) => {
                let sent = SentMessage {
                    at_ms: now_ms,
                    receiver: name.to_owned(),
                    head: self.head.clone(),
                    subject: rendered.subject,
                    text: rendered.text.chars().take(HISTORY_CHARS_MAX).collect(),
                };
                tracing::info!(receiver = name, subject = sent.subject, "sent a message");
                inner.book.delivered(name, message, sent, now_ms);
            }
            (Err(why), _) => {
                tracing::warn!(
                    receiver = name,
                    why,
                    "a message about alerts was not delivered"
                );
                inner.book.failed(name, message.reason, why, now_ms);
            }
            (Ok(()), None) => {}
        }
        inner.is_dirty = true;
    }

    /// Stores the state if it has changed.
    fn save(&self) {
        let text = {
            let mut inner = self.lock();
            if !inner.is_dirty {
                return;
            }
            inner.is_dirty = false;
            serde_json::to_vec(&ToStore {
                settings: &inner.settings,
                book: &inner.book,
            })
        };
        let written = text
            .map_err(std::io::Error::other)
            .and_then(|text| write(&self.place, &text));
        if let Err(error) = written {
            // After a restart messages may be repeated.
            tracing::warn!(%error, place = %self.place.display(), "store the state of messages");
            self.lock().is_dirty = true;
        }
    }
}

impl Inner {
    /// The report of another head, if its sender is alive.
    fn report_of(&self, head: &str) -> Option<&Report> {
        let (at, report) = self.reports.get(head)?;
        let is_recent = |ago_ms: u64, most: Duration| Duration::from_millis(ago_ms) < most;
        let is_alive = at.elapsed() < REPORT_AGE_MAX
            && report
                .observed_ms_ago
                .is_some_and(|ago_ms| is_recent(ago_ms, OBSERVED_AGE_MAX))
            && report
                .turned_ms_ago
                .is_none_or(|ago_ms| is_recent(ago_ms, TURN_AGE_MAX));
        is_alive.then_some(report)
    }

    /// The alerts of a sample and those that only other heads see, and whether this head does not see the cluster.
    fn alerts_of(&mut self, overview: &Overview, own: &str) -> (Vec<Alert>, bool) {
        if self.settings.heads.len() < 2 {
            return (overview.alerts.clone(), false);
        }
        let is_blind = overview.appliance.is_none()
            || overview.heads.iter().all(|head| head.state == "unknown");
        let is_own = |alert: &&Alert| alert.about == OWN_SUBJECT;
        let own_alerts = overview.alerts.iter().filter(is_own).map(|alert| Alert {
            sentence: format!("{own}: {}", alert.sentence),
            ..alert.clone()
        });
        self.own_alerts = own_alerts.take(OWN_ALERTS_MAX).collect();
        let others = self.settings.heads.iter().filter(|head| *head != own);
        let others = others.filter_map(|head| self.report_of(head));
        let others = others.flat_map(|report| report.own_alerts.iter().take(OWN_ALERTS_MAX));
        let shared = overview.alerts.iter().filter(|alert| !is_own(alert));
        let all = shared.chain(&self.own_alerts).chain(others);
        (all.cloned().collect(), is_blind)
    }
}

impl Notifier for Service {
    fn observed(&self, overview: &Overview) {
        let mut inner = self.lock();
        let is_first = inner
            .observed_at
            .is_none_or(|at| at.elapsed() >= OBSERVED_AGE_MAX);
        if is_first {
            inner.book.settle(overview.at_ms);
        }
        inner.observed_at = Some(Instant::now());
        let receivers = inner.settings.receivers.clone();
        if receivers.is_empty() {
            return;
        }
        let (alerts, is_blind) = inner.alerts_of(overview, &self.head);
        if inner.is_blind && !is_blind {
            inner.book.settle(overview.at_ms);
        }
        inner.is_blind = is_blind;
        let sees = |head: &String| inner.report_of(head).is_some_and(|report| !report.is_blind);
        if is_blind && inner.settings.heads.iter().any(sees) {
            // What this head does not see is not over.
            return;
        }
        let last = overview.last_takeover.as_ref();
        let has_changed = inner
            .book
            .observe(&alerts, last, &receivers, overview.at_ms);
        inner.is_dirty |= has_changed;
    }

    fn receivers(&self) -> Vec<ReceiverView> {
        self.read_settings();
        let inner = self.lock();
        let none = Attempts::default();
        let views = inner.settings.receivers.iter().map(|(name, receiver)| {
            let own = inner.book.receivers.get(name);
            let own = own.map_or(&none, |ledger| &ledger.attempts);
            let reports = inner.reports.values();
            let reports = reports.filter(|(at, _)| at.elapsed() < REPORT_AGE_MAX);
            let theirs = reports.filter_map(|(_, report)| report.receivers.get(name));
            let theirs = theirs.map(|receiver| &receiver.attempts);
            let tried = theirs.filter(|one| one.last_ms().is_some());
            let all: Vec<&Attempts> = tried.chain([own]).collect();
            view(name, receiver, own, &all)
        });
        views.collect()
    }

    fn history(&self) -> Vec<SentMessage> {
        self.lock().book.history.iter().rev().cloned().collect()
    }

    fn test(&self, receiver: Option<&str>) -> Result<Vec<ReceiverTest>, Failure> {
        self.read_settings();
        let receivers = self.lock().settings.receivers.clone();
        if receivers.is_empty() {
            let message = "the appliance file names no receiver of alerts";
            return Err(Failure::not_found(message).advise(
                "add [alerts.receivers.NAME] to it; see \"Messages about alerts\" in the guide",
            ));
        }
        let known: Vec<&str> = receivers.keys().map(String::as_str).collect();
        if let Some(name) = receiver.filter(|name| !known.contains(name)) {
            let message = format!("there is no receiver {name:?}");
            return Err(Failure::not_found(message).advise(format!("name {}", known.join(" or "))));
        }
        let wanted = receivers
            .iter()
            .filter(|(name, _)| receiver.is_none_or(|one| one == name.as_str()));
        let wanted = wanted.map(|(name, one)| (name.clone(), one.clone(), Message::test()));
        Ok(self.send_all(wanted.collect()))
    }

    fn report(&self) -> Value {
        let inner = self.lock();
        let receivers = inner.book.receivers.iter().map(|(name, ledger)| {
            let report = ReceiverReport {
                last_message: ledger.last_message.clone(),
                attempts: ledger.attempts.clone(),
            };
            (name.clone(), report)
        });
        let report = Report {
            observed_ms_ago: inner.observed_at.map(|at| at.elapsed().as_millis() as u64),
            turned_ms_ago: inner.turned_at.map(|at| at.elapsed().as_millis() as u64),
            is_blind: inner.is_blind,
            own_alerts: inner.own_alerts.clone(),
            receivers: receivers.collect(),
        };
        serde_json::to_value(report).unwrap_or_default()
    }
}

/// `all` are the attempts of all heads that respond, the own ones at the end.
fn view(name: &str, receiver: &Receiver, own: &Attempts, all: &[&Attempts]) -> ReceiverView {
    // The last attempt of any head.
    let last = all.iter().max_by_key(|attempts| attempts.last_ms());
    let last = last.copied().unwrap_or(own);
    let tried = all.iter().filter(|one| one.last_ms().is_some());
    let is_reached = tried.clone().any(|one| one.failed_in_row == 0);
    let fails = tried.clone().any(|one| one.failed_in_row >= FAILURES_ALERT);
    let ways = receiver.ways();
    let way = ways.first();
    ReceiverView {
        name: name.to_owned(),
        kind: way.map_or_else(String::new, |way| way.name().to_owned()),
        destination: way.map_or_else(String::new, Way::destination),
        least: severity_name(receiver.least).to_owned(),
        sent_count: own.sent_count,
        failed_count: own.failed_count,
        last_success_ms: last.success_ms,
        last_failure_ms: last.failure_ms,
        last_failure: last.failure.clone(),
        failing_since_ms: last.failing_since_ms,
        is_failing: fails && !is_reached,
    }
}

/// The text of a file; the rest of one that is far too long is not read, so that it is invalid.
fn read_bounded(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    let mut limited = file.take(appliance::FILE_BYTES_MAX as u64 + 1);
    limited.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The state in a file. A file that cannot be parsed is an empty state: then open alerts are sent again.
fn load(place: &Path) -> Stored {
    let about = std::fs::metadata(place);
    if about.is_ok_and(|about| about.len() > STATE_BYTES_MAX) {
        return Stored::default();
    }
    let Ok(bytes) = std::fs::read(place) else {
        return Stored::default();
    };
    serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        tracing::warn!(%error, place = %place.display(), "the state of messages cannot be read");
        Stored::default()
    })
}

/// Replaces the file, so that it has the old contents or the new after a power loss.
fn write(place: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = place.with_extension("new");
    if let Some(directory) = place.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, place)?;
    match place.parent() {
        Some(directory) => std::fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
