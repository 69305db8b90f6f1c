//! Events of a pool, derived from two successive states. They are stored in the pool's own history,
//! so that they move with the pool and `zpool history` shows them too.

use std::collections::BTreeMap;

use control::answer::{DeviceView, Event, PoolStatus, ScanView};
use control::{Answer, Failure};
use engine::Pool;
use units::ByteCount;

use super::failures;
use crate::needs;

/// Maximum number of cached events.
pub const EVENTS_MAX: usize = 500;
/// How much of the history's end is searched for events, in bytes.
const TAIL_BYTES_MAX: usize = 1 << 20;
/// The prefix of our records in the history. The event follows as JSON.
const MARK: &str = "bulkhead event ";

/// An event without number and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// As [`Event::kind`].
    pub kind: &'static str,
    /// The device it is about.
    pub device: Option<String>,
    /// The message.
    pub message: String,
    /// Whether an administrator must act.
    pub is_bad: bool,
}

impl NewEvent {
    /// Event about the pool as a whole.
    pub fn of_pool(kind: &'static str, message: impl Into<String>, is_bad: bool) -> Self {
        Self {
            kind,
            device: None,
            message: message.into(),
            is_bad,
        }
    }

    fn of_device(kind: &'static str, device: &str, message: String, is_bad: bool) -> Self {
        Self {
            device: Some(device.to_owned()),
            ..Self::of_pool(kind, message, is_bad)
        }
    }
}

/// The events in the pool's history that are newer than number `after`, oldest first.
pub fn list(pool: &dyn Pool, after: Option<u64>) -> Result<Answer, Failure> {
    let mut events = read(pool)?;
    events.retain(|event| after.is_none_or(|after| event.number > after));
    Ok(Answer::Events(events))
}

/// The newest events in the pool's history, oldest first.
pub fn read(pool: &dyn Pool) -> Result<Vec<Event>, Failure> {
    let tail = needs(pool.history())?
        .history_tail(TAIL_BYTES_MAX)
        .map_err(failures::pool)?;
    let mut events = found_in(&tail);
    events.drain(..events.len().saturating_sub(EVENTS_MAX));
    Ok(events)
}

/// Returns the history record that stores `event`.
pub fn record(event: &Event) -> String {
    let event = serde_json::to_string(event).expect("events are JSON");
    format!("{MARK}{event}")
}

/// The event that a history record stores; none for a record of another kind.
pub fn in_record(text: &str) -> Option<Event> {
    serde_json::from_str(text.strip_prefix(MARK)?).ok()
}

/// Finds records by their mark at any offset, because the first record can be truncated.
fn found_in(tail: &[u8]) -> Vec<Event> {
    let mark = MARK.as_bytes();
    let starts = tail.windows(mark.len()).enumerate();
    let starts = starts.filter_map(|(at, bytes)| (bytes == mark).then_some(at + mark.len()));
    let event = |start: usize| {
        let mut values = serde_json::Deserializer::from_slice(&tail[start..]).into_iter();
        values.next()?.ok()
    };
    starts.filter_map(event).collect()
}

/// Returns the events between two states. Without an old state, returns all current problems.
pub fn between(old: Option<&PoolStatus>, new: &PoolStatus) -> Vec<NewEvent> {
    let mut news = Vec::new();
    let before = old.map(devices_of).unwrap_or_default();
    let now = devices_of(new);
    for (name, device) in &now {
        match before.get(name) {
            Some(was) => compare(was, device, &mut news),
            None => {
                if old.is_some() {
                    let message = format!("{name} joined the pool");
                    news.push(NewEvent::of_device("joined", name, message, false));
                }
                compare(&whole(device), device, &mut news);
            }
        }
    }
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        let message = format!("{name} left the pool");
        news.push(NewEvent::of_device("left", name, message, false));
    }
    if let Some(old) = old {
        compare_scans(old, new, &mut news);
    }
    news
}

/// Returns the leaf devices. A replacement device appears twice; the entry within the
/// replacement counts.
fn devices_of(status: &PoolStatus) -> BTreeMap<&str, &DeviceView> {
    fn collect<'a>(device: &'a DeviceView, found: &mut BTreeMap<&'a str, &'a DeviceView>) {
        if device.members.is_empty() {
            found.entry(&device.name).or_insert(device);
        }
        device.members.iter().for_each(|one| collect(one, found));
    }
    let mut found = BTreeMap::new();
    status
        .devices
        .iter()
        .for_each(|one| collect(one, &mut found));
    found
}

/// The device in its best state.
fn whole(device: &DeviceView) -> DeviceView {
    let state = match device.role.as_str() {
        "spare" => "AVAIL",
        _ => "ONLINE",
    };
    DeviceView {
        state: state.to_owned(),
        read_errors: 0,
        write_errors: 0,
        checksum_errors: 0,
        ..device.clone()
    }
}

fn compare(was: &DeviceView, is: &DeviceView, news: &mut Vec<NewEvent>) {
    let name = &is.name;
    if was.state != is.state {
        let why = is.note.as_ref().map(|note| format!(" ({note})"));
        let why = why.unwrap_or_default();
        let (advice, is_bad) = match is.state.as_str() {
            "ONLINE" | "AVAIL" => ("", false),
            "OFFLINE" => ("; `bulkhead pool online` uses it again", false),
            _ => (
                "; bring it back and `bulkhead pool clear` it, or `bulkhead pool replace` it",
                true,
            ),
        };
        let message = format!("{name} was {}, is {}{why}{advice}", was.state, is.state);
        news.push(NewEvent::of_device("state", name, message, is_bad));
    }
    let errors = |device: &DeviceView| device.read_errors + device.write_errors;
    let more = errors(is).saturating_sub(errors(was));
    if more > 0 {
        let message = format!("{more} reads or writes of {name} failed");
        news.push(NewEvent::of_device("errors", name, message, true));
    }
    let wrong = is.checksum_errors.saturating_sub(was.checksum_errors);
    if wrong > 0 {
        let message = format!(
            "{name} returned wrong data {wrong} times: read from elsewhere, and repaired where \
             there is another copy"
        );
        news.push(NewEvent::of_device("checksum", name, message, true));
    }
}

/// Which devices the scan wrote to.
fn repaired_where(status: &PoolStatus) -> String {
    let devices = devices_of(status).into_values();
    let repaired = devices.filter(|device| device.repaired > 0);
    repaired
        .map(|device| {
            let repaired = ByteCount(device.repaired);
            format!("; {repaired} repaired on {}", device.name)
        })
        .collect()
}

fn compare_scans(old: &PoolStatus, new: &PoolStatus, news: &mut Vec<NewEvent>) {
    let Some(is) = &new.scan else { return };
    let is_same = |was: &&ScanView| was.started == is.started && was.function == is.function;
    let was = old.scan.as_ref().filter(is_same);
    if was.is_none() {
        let message = format!("the {} began", is.function);
        news.push(NewEvent::of_pool("scan", message, false));
        if is.state == "running" {
            return;
        }
    }
    if was.is_none_or(|was| was.state != is.state) {
        let message = match is.state.as_str() {
            "finished" => format!(
                "the {} finished: {} repaired or copied, {} blocks cannot be repaired{}",
                is.function,
                ByteCount(is.repaired),
                is.errors,
                repaired_where(new)
            ),
            "running" => format!("the {} is resumed", is.function),
            state => format!("the {} is {state}", is.function),
        };
        news.push(NewEvent::of_pool("scan", message, is.errors > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, state: &str) -> DeviceView {
        DeviceView {
            name: name.to_owned(),
            role: "data".to_owned(),
            state: state.to_owned(),
            ..DeviceView::default()
        }
    }

    fn pool(devices: Vec<DeviceView>) -> PoolStatus {
        let mirror = DeviceView {
            members: devices,
            ..device("mirror-0", "ONLINE")
        };
        PoolStatus {
            devices: vec![mirror],
            ..PoolStatus::default()
        }
    }

    fn kinds(news: &[NewEvent]) -> Vec<(&str, bool)> {
        news.iter().map(|one| (one.kind, one.is_bad)).collect()
    }

    #[test]
    fn leg_failure_and_recovery_yield_one_event_each() {
        let whole = pool(vec![device("/a", "ONLINE"), device("/b", "ONLINE")]);
        let hurt = pool(vec![device("/a", "FAULTED"), device("/b", "ONLINE")]);
        assert_eq!(kinds(&between(None, &whole)), []);
        let failed = between(Some(&whole), &hurt);
        assert_eq!(kinds(&failed), [("state", true)]);
        assert_eq!(failed[0].device.as_deref(), Some("/a"));
        assert!(failed[0].message.contains("is FAULTED"));
        assert_eq!(kinds(&between(None, &hurt)), [("state", true)]);
        assert_eq!(kinds(&between(Some(&hurt), &hurt)), []);
        assert_eq!(kinds(&between(Some(&hurt), &whole)), [("state", false)]);
    }

    #[test]
    fn checksum_errors_and_device_changes_yield_events() {
        let before = pool(vec![device("/a", "ONLINE")]);
        let wrong = DeviceView {
            checksum_errors: 3,
            ..device("/a", "ONLINE")
        };
        let after = pool(vec![wrong, device("/b", "ONLINE")]);
        assert_eq!(
            kinds(&between(Some(&before), &after)),
            [("checksum", true), ("joined", false)]
        );
        assert_eq!(kinds(&between(Some(&after), &before)), [("left", false)]);
    }

    #[test]
    fn scan_between_two_polls_yields_start_and_end_events() {
        let scanned = |started, state: &str| PoolStatus {
            scan: Some(ScanView {
                function: "scrub".to_owned(),
                state: state.to_owned(),
                started,
                ..ScanView::default()
            }),
            ..PoolStatus::default()
        };
        let never = PoolStatus::default();
        let count = |old: &PoolStatus, new: &PoolStatus| between(Some(old), new).len();
        assert_eq!(count(&never, &scanned(1, "finished")), 2);
        assert_eq!(count(&never, &scanned(1, "running")), 1);
        assert_eq!(count(&scanned(1, "running"), &scanned(1, "finished")), 1);
        assert_eq!(count(&scanned(1, "finished"), &scanned(1, "finished")), 0);
        assert_eq!(count(&scanned(1, "finished"), &scanned(2, "finished")), 2);
        assert!(between(None, &scanned(1, "finished")).is_empty());
    }

    #[test]
    fn events_are_found_in_a_truncated_mixed_history() {
        let event = |number| Event {
            number,
            at_ms: 5,
            kind: "state".to_owned(),
            device: None,
            message: "a \"quoted\" word".to_owned(),
        };
        let mut tail = record(&event(1)).into_bytes().split_off(20);
        tail.extend(b"\0\0\x01zpool create\0");
        tail.extend(record(&event(2)).bytes());
        tail.extend(b"\0\0bulkhead event {\"cut");
        tail.extend(record(&event(3)).bytes());
        assert_eq!(found_in(&tail), [event(2), event(3)]);
    }
}
