//! Faults a device that responds but fails I/O repeatedly. The library faults a device that cannot be probed; one that
//! passes probes and fails writes, such as a file in a full file system, stays in use forever. With kernel ZFS, the
//! event daemon decides this by the same count.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use control::answer::{DeviceView, PoolStatus};
use engine::pool::{PoolError, PoolErrorKind};
use operations::events::NewEvent;

use super::journal::Journal;
use super::shared_pool::SharedPool;

/// Failed reads and writes within [`PERIOD`] that fault a device.
const ERRORS_MAX: u64 = 10;
/// The window in which errors are counted.
const PERIOD: Duration = Duration::from_secs(600);
/// Delay before the fault of an indispensable device is retried.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The error history of a device.
#[derive(Debug, Default)]
struct Record {
    /// Its counters at the last check.
    seen: u64,
    /// Errors of the last [`PERIOD`], with their times. Checks are half a second apart, so the queue is short.
    errors: VecDeque<(Instant, u64)>,
    /// Earliest time of the next attempt.
    rests_until: Option<Instant>,
    /// Whether its continued use was reported.
    is_told: bool,
}

impl Record {
    fn count(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }
}

/// Decides which device to fault. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Policy(HashMap<String, Record>);

impl Policy {
    /// Updates the error counts of the devices in use; returns a device to fault.
    fn look(&mut self, devices: &[(&str, u64)], now: Instant) -> Option<String> {
        self.0
            .retain(|name, _| devices.iter().any(|(used, _)| used == name));
        let mut failed = None;
        for (name, errors) in devices {
            let record = self.0.entry((*name).to_owned()).or_default();
            // A reset of the counters means that an administrator trusts the device.
            if *errors < record.seen {
                *record = Record::default();
            }
            let more = errors - record.seen;
            record.seen = *errors;
            if more > 0 {
                record.errors.push_back((now, more));
            }
            let is_old = |at: Instant| now.saturating_duration_since(at) >= PERIOD;
            while record.errors.front().is_some_and(|(at, _)| is_old(*at)) {
                record.errors.pop_front();
            }
            let rests = record.rests_until.is_some_and(|until| now < until);
            if failed.is_none() && !rests && record.count() >= ERRORS_MAX {
                record.rests_until = Some(now + AGAIN_AFTER);
                failed = Some((*name).to_owned());
            }
        }
        failed
    }

    /// Returns the event to report for the outcome.
    fn ended(&mut self, name: &str, outcome: &Outcome) -> Option<NewEvent> {
        let record = self.0.get_mut(name);
        let count = record.as_ref().map_or(ERRORS_MAX, |record| record.count());
        let begin = format!(
            "{count} reads or writes of {name} failed within {} minutes",
            PERIOD.as_secs() / 60
        );
        let message = match outcome {
            Outcome::Unknown => return None,
            Outcome::Faulted => format!("{begin}: it is not used any more"),
            Outcome::Needed => {
                if record.is_some_and(|record| std::mem::replace(&mut record.is_told, true)) {
                    return None;
                }
                format!("{begin}: it stays in use, because no other device has its data")
            }
        };
        Some(NewEvent {
            kind: "failed",
            device: Some(name.to_owned()),
            message,
            is_bad: true,
        })
    }
}

/// The outcome of a fault request.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The device is faulted.
    Faulted,
    /// The pool cannot run without it.
    Needed,
    /// The request was not made, or the pool is being closed.
    Unknown,
}

/// Monitors the errors of devices.
#[derive(Default)]
pub struct Diagnosis {
    policy: Policy,
    /// The device to fault, with the result of its thread, which blocks for a transaction group.
    asking: Option<(String, Receiver<Outcome>)>,
}

impl Diagnosis {
    /// Checks the error counts, and starts or collects a due fault. Never blocks.
    pub fn look(
        &mut self,
        pool: &Arc<SharedPool>,
        status: &PoolStatus,
        journal: &Journal,
        now: Instant,
    ) {
        if let Some((name, answer)) = self.asking.take() {
            let outcome = match answer.try_recv() {
                Ok(outcome) => outcome,
                Err(TryRecvError::Disconnected) => Outcome::Unknown,
                Err(TryRecvError::Empty) => {
                    self.asking = Some((name, answer));
                    return;
                }
            };
            if let Some(news) = self.policy.ended(&name, &outcome) {
                journal.add(news);
            }
            return;
        }
        if !status.suspended {
            if let Some(name) = self.policy.look(&in_use(status), now) {
                self.begin(pool, name);
            }
        }
    }

    fn begin(&mut self, pool: &Arc<SharedPool>, name: String) {
        let (sender, answer) = channel();
        let (pool, device) = (Arc::clone(pool), name.clone());
        let ask = move || {
            // The receiver is gone when the server shuts down.
            let _ = sender.send(do_without(&pool, &device));
        };
        let thread = std::thread::Builder::new().name("diagnosis".into());
        match thread.spawn(ask) {
            Ok(_) => self.asking = Some((name, answer)),
            Err(error) => tracing::warn!(%error, "a failing device stays in use"),
        }
    }
}

fn do_without(pool: &SharedPool, device: &str) -> Outcome {
    let Some(pool) = pool.get() else {
        return Outcome::Unknown;
    };
    let faulted = pool
        .devices()
        .map_err(PoolError::from)
        .and_then(|devices| devices.fault(device));
    match faulted {
        Ok(()) => Outcome::Faulted,
        Err(error) if matches!(error.kind, PoolErrorKind::NoReplicas) => Outcome::Needed,
        Err(error) => {
            tracing::warn!(device, %error, "a failing device stays in use");
            Outcome::Unknown
        }
    }
}

/// Devices in use, with their failed reads and writes. Spares and caches hold no data of the pool.
fn in_use(status: &PoolStatus) -> Vec<(&str, u64)> {
    fn collect<'a>(device: &'a DeviceView, found: &mut Vec<(&'a str, u64)>) {
        let is_used = matches!(device.state.as_str(), "ONLINE" | "DEGRADED");
        if device.members.is_empty() && is_used {
            found.push((&device.name, device.read_errors + device.write_errors));
        }
        device.members.iter().for_each(|one| collect(one, found));
    }
    let holds = |device: &&DeviceView| !matches!(device.role.as_str(), "spare" | "cache");
    let mut found = Vec::new();
    let holding = status.devices.iter().filter(holds);
    holding.for_each(|device| collect(device, &mut found));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ten_errors_in_ten_minutes_fault_a_device() {
        let (mut policy, begun) = (Policy::default(), Instant::now());
        assert_eq!(policy.look(&[("/a", 9), ("/b", 0)], begun), None);
        let now = begun + PERIOD - SECOND;
        let failed = policy.look(&[("/a", 10), ("/b", 0)], now);
        assert_eq!(failed.as_deref(), Some("/a"));
        let told = policy.ended("/a", &Outcome::Faulted).expect("told");
        assert!(told.is_bad && told.message.contains("10 reads or writes"));
    }

    #[test]
    fn old_errors_are_ignored() {
        let (mut policy, mut now) = (Policy::default(), Instant::now());
        for count in 0..100 {
            now += PERIOD / 8;
            assert_eq!(policy.look(&[("/a", count)], now), None, "{count}");
        }
    }

    #[test]
    fn cleared_counters_restart_the_error_count() {
        let (mut policy, now) = (Policy::default(), Instant::now());
        assert_eq!(policy.look(&[("/a", 9)], now), None);
        assert_eq!(policy.look(&[("/a", 0)], now), None);
        assert_eq!(policy.look(&[("/a", 9)], now), None);
        assert!(policy.look(&[("/a", 10)], now).is_some());
    }

    #[test]
    fn reopened_device_restarts_its_error_count() {
        let (mut policy, now) = (Policy::default(), Instant::now());
        assert!(policy.look(&[("/a", 10)], now).is_some());
        assert_eq!(policy.look(&[], now), None);
        assert_eq!(policy.look(&[("/a", 9)], now), None);
    }

    #[test]
    fn required_failing_device_is_reported_once_and_rechecked() {
        let (mut policy, now) = (Policy::default(), Instant::now());
        assert!(policy.look(&[("/a", 10)], now).is_some());
        assert!(policy.ended("/a", &Outcome::Needed).is_some());
        assert_eq!(policy.look(&[("/a", 11)], now), None, "not at once");
        assert!(policy.look(&[("/a", 12)], now + AGAIN_AFTER).is_some());
        assert_eq!(policy.ended("/a", &Outcome::Needed), None);
        assert!(policy.ended("/a", &Outcome::Faulted).is_some());
    }
}
