//! Returns a faulted device to the pool when it responds again, as an administrator would with `pool clear`: after a
//! delay and a limited number of times. A device that was taken out of use on purpose stays out. A suspended pool needs
//! an administrator, because the first device to return may be missing the newest writes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use control::answer::{DeviceView, PoolStatus};
use engine::pool::{DeviceState, PoolError};
use operations::events::NewEvent;
use pool_access::engines;

use super::journal::Journal;
use super::shared_pool::SharedPool;

/// Delay between the failure of a device and the first probe.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest delay between probes of a device that does not respond; the delay doubles each time.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Delay between the two successful probes that a device needs before it is returned.
const STEADY: Duration = Duration::from_secs(1);
/// Automatic returns of a device within [`PERIOD`]. A device that fails more often is bad or badly connected.
const RETURNS_MAX: usize = 3;
/// The window in which returns are counted.
const PERIOD: Duration = Duration::from_secs(3600);

/// The state of a device that failed.
#[derive(Debug, Default)]
struct Record {
    /// Time of the next probe; none while the device works.
    due: Option<Instant>,
    pause: Duration,
    /// Times of automatic returns.
    returns: Vec<Instant>,
    /// Whether the latest return was automatic and the device has not failed since.
    is_ours: bool,
    /// Whether its exclusion was reported.
    is_told: bool,
}

/// Decides which device to probe when, and whether it may return. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Policy(HashMap<String, Record>);

impl Policy {
    /// Updates the set of failed devices.
    fn look(&mut self, failed: &[&str], now: Instant) {
        for (name, record) in &mut self.0 {
            if !failed.contains(&name.as_str()) && record.due.take().is_some() {
                record.is_told = false;
                if !std::mem::take(&mut record.is_ours) {
                    // An administrator cleared it and trusts it again.
                    record.returns.clear();
                }
            }
        }
        for name in failed {
            let record = self.0.entry((*name).to_owned()).or_default();
            if record.due.is_none() {
                record.due = Some(now + FIRST_PAUSE);
                record.pause = FIRST_PAUSE;
                record.is_ours = false;
            }
        }
    }

    /// Returns a device to probe now, and whether it may return on success.
    fn due(&mut self, now: Instant) -> Option<(String, bool)> {
        let is_due = |record: &Record| record.due.is_some_and(|due| due <= now);
        let (name, record) = self.0.iter_mut().find(|(_, record)| is_due(record))?;
        let returns = &mut record.returns;
        returns.retain(|at| now.saturating_duration_since(*at) < PERIOD);
        Some((name.clone(), returns.len() < RETURNS_MAX))
    }

    /// Records the outcome of a probe. Returns the event to report.
    fn asked(&mut self, name: &str, outcome: &Outcome, now: Instant) -> Option<NewEvent> {
        let record = self.0.get_mut(name)?;
        record.pause = (record.pause * 2).min(PAUSE_MAX);
        record.due = record.due.map(|_| now + record.pause);
        let news = |kind, message, is_bad| {
            Some(NewEvent {
                kind,
                device: Some(name.to_owned()),
                message,
                is_bad,
            })
        };
        match outcome {
            Outcome::Unresponsive => None,
            Outcome::Back => {
                record.returns.push(now);
                record.is_ours = true;
                let count = record.returns.len();
                let message = format!(
                    "{name} responds again, and was brought back ({count} of {RETURNS_MAX} times within an hour): the data it \
                     missed is copied; `bulkhead pool scrub` reads the rest of it"
                );
                news("returned", message, false)
            }
            Outcome::Fails => {
                record.returns.push(now);
                let message = format!("{name} responds to probes, but fails in the pool again");
                news("return_failed", message, true)
            }
            Outcome::Responds if std::mem::replace(&mut record.is_told, true) => None,
            Outcome::Responds => {
                let message = format!(
                    "{name} responds again, and stays out: it was brought back {RETURNS_MAX} times within an hour; replace it \
                     with `bulkhead pool replace-disk`, or trust it once more with `bulkhead pool clear`"
                );
                news("stays_out", message, true)
            }
        }
    }
}

/// The outcome of a probe.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It does not respond correctly.
    Unresponsive,
    /// It responds, and may not return.
    Responds,
    /// It was returned.
    Back,
    /// It was returned and failed at once.
    Fails,
}

/// Handles devices that failed.
#[derive(Default)]
pub struct DeviceReturn {
    policy: Policy,
    /// The device under probe, in a thread of its own, because a probe may take long.
    asking: Option<(String, Receiver<Outcome>)>,
}

impl DeviceReturn {
    /// Starts and collects due probes; returns whether a device was returned. Never blocks.
    pub fn look(
        &mut self,
        pool: &Arc<SharedPool>,
        status: &PoolStatus,
        journal: &Journal,
        now: Instant,
    ) -> bool {
        if let Some((name, answer)) = self.asking.take() {
            let outcome = match answer.try_recv() {
                Ok(outcome) => outcome,
                Err(TryRecvError::Disconnected) => Outcome::Unresponsive,
                Err(TryRecvError::Empty) => {
                    self.asking = Some((name, answer));
                    return false;
                }
            };
            if let Some(news) = self.policy.asked(&name, &outcome, now) {
                journal.add(news);
            }
            // This status is older than the outcome; the next one shows the device's state.
            return outcome == Outcome::Back;
        }
        if !status.suspended {
            self.policy.look(&failed(status), now);
            if let Some((name, may_return)) = self.policy.due(now) {
                self.begin(pool, name, may_return);
            }
        }
        false
    }

    fn begin(&mut self, pool: &Arc<SharedPool>, name: String, may_return: bool) {
        let (sender, answer) = channel();
        let (pool, device) = (Arc::clone(pool), name.clone());
        let ask = move || {
            let outcome = ask(&pool, &device, may_return).unwrap_or(Outcome::Unresponsive);
            // The receiver is gone when the server shuts down.
            let _ = sender.send(outcome);
        };
        let thread = std::thread::Builder::new().name("device_return".into());
        match thread.spawn(ask) {
            Ok(_) => self.asking = Some((name, answer)),
            Err(error) => tracing::warn!(%error, "a failed device cannot be probed"),
        }
    }
}

/// Probes a device twice and returns it. Holds the pool only as needed, so that it can be closed concurrently.
fn ask(pool: &SharedPool, device: &str, may_return: bool) -> Option<Outcome> {
    let (tools, pool_guid, guid) = {
        let pool = pool.get()?;
        let status = pool.status().ok()?;
        let tools = engines::tools_of(pool.engine_name())?;
        (tools, status.guid, status.find(device)?.guid)
    };
    for is_first in [true, false] {
        if let Err(failure) = tools.probe(Path::new(device), pool_guid, guid) {
            tracing::debug!(device, %failure, "a failed device was probed");
            return Some(Outcome::Unresponsive);
        }
        if is_first {
            std::thread::sleep(STEADY);
        }
    }
    if !may_return {
        return Some(Outcome::Responds);
    }
    let pool = pool.get()?;
    // An administrator may have taken it out of use since, which must not be undone.
    let is_failed = |state| {
        let given_up = [
            DeviceState::Faulted,
            DeviceState::Removed,
            DeviceState::Unavailable,
        ];
        given_up.contains(&state)
    };
    if !is_failed(pool.status().ok()?.find(device)?.state) {
        return Some(Outcome::Unresponsive);
    }
    let cleared = pool
        .upkeep()
        .map_err(PoolError::from)
        .and_then(|upkeep| upkeep.clear(Some(device)));
    if let Err(error) = cleared {
        tracing::warn!(device, %error, "a device that responds again cannot be brought back");
        return Some(Outcome::Fails);
    }
    match is_failed(pool.status().ok()?.find(device)?.state) {
        true => Some(Outcome::Fails),
        false => Some(Outcome::Back),
    }
}

/// Faulted devices of the pool. Excludes devices under replacement, devices taken offline, and legs, which return by
/// their record.
fn failed(status: &PoolStatus) -> Vec<&str> {
    fn collect<'a>(device: &'a DeviceView, found: &mut Vec<&'a str>) {
        if device.name.starts_with("replacing-") {
            return;
        }
        if device.members.is_empty() {
            let is_gone = matches!(device.state.as_str(), "FAULTED" | "REMOVED" | "UNAVAIL");
            let has_path = device.name.starts_with('/');
            found.extend((is_gone && has_path).then_some(device.name.as_str()));
        }
        device.members.iter().for_each(|one| collect(one, found));
    }
    let used = status.devices.iter().filter(|one| one.role != "spare");
    let mut found = Vec::new();
    used.for_each(|device| collect(device, &mut found));
    let legs = status.legs.iter().flat_map(|legs| &legs.legs);
    let legs: Vec<&str> = legs.map(|leg| leg.device.as_str()).collect();
    found.retain(|name| !legs.contains(name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn leg_devices_are_not_retried_by_device_return() {
        use control::answer::DeviceView;
        use control::legs::{LegView, LegsView};
        let device = |name: &str| DeviceView {
            name: name.to_owned(),
            state: "FAULTED".to_owned(),
            ..DeviceView::default()
        };
        let leg = LegView {
            device: "/run/legs/tank/11".to_owned(),
            ..LegView::default()
        };
        let mut status = PoolStatus {
            devices: vec![device(&leg.device), device("/dev/cache")],
            ..PoolStatus::default()
        };
        assert_eq!(failed(&status), ["/run/legs/tank/11", "/dev/cache"]);
        status.legs = Some(LegsView {
            legs: vec![leg],
            ..LegsView::default()
        });
        assert_eq!(failed(&status), ["/dev/cache"]);
    }

    /// A pool in which `/a` fails, responds and is probed, on a simulated clock.
    struct Scenario {
        policy: Policy,
        now: Instant,
    }

    impl Scenario {
        fn new() -> Self {
            Self {
                policy: Policy::default(),
                now: Instant::now(),
            }
        }

        fn after(&mut self, time: Duration, failed: &[&str]) -> Option<(String, bool)> {
            self.now += time;
            self.policy.look(failed, self.now);
            self.policy.due(self.now)
        }

        fn asked(&mut self, outcome: Outcome) -> Option<&'static str> {
            let news = self.policy.asked("/a", &outcome, self.now);
            news.map(|news| news.kind)
        }

        /// `/a` fails, responds, and is returned if allowed. Returns whether it is.
        fn flaps(&mut self) -> bool {
            assert_eq!(self.after(SECOND, &["/a"]), None, "not at once");
            let (_, may_return) = self.after(FIRST_PAUSE, &["/a"]).expect("it is asked");
            if may_return {
                assert_eq!(self.asked(Outcome::Back), Some("returned"));
                assert_eq!(self.after(SECOND, &[]), None);
            } else {
                assert_eq!(self.asked(Outcome::Responds), Some("stays_out"));
            }
            may_return
        }
    }

    #[test]
    fn flapping_device_stays_out_until_administrator_action() {
        let mut story = Scenario::new();
        for _ in 0..RETURNS_MAX {
            assert!(story.flaps());
        }
        assert!(!story.flaps());
        let (_, may_return) = story.after(PAUSE_MAX, &["/a"]).expect("it is probed on");
        assert!(!may_return);
        assert_eq!(story.asked(Outcome::Responds), None, "told once");
        // An administrator clears it.
        assert_eq!(story.after(SECOND, &[]), None);
        assert!(story.flaps());
    }

    #[test]
    fn flapping_count_expires_after_an_hour() {
        let mut story = Scenario::new();
        (0..RETURNS_MAX).for_each(|_| assert!(story.flaps()));
        story.after(PERIOD, &[]);
        assert!(story.flaps());
    }

    #[test]
    fn unresponsive_device_is_probed_with_backoff() {
        let mut story = Scenario::new();
        assert_eq!(story.after(SECOND, &["/a"]), None);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let begun = story.now;
            while story.after(SECOND, &["/a"]).is_none() {}
            pauses.push((story.now - begun).as_secs());
            assert_eq!(story.asked(Outcome::Unresponsive), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn device_that_fails_after_a_good_probe_counts_as_flapping() {
        let mut story = Scenario::new();
        assert_eq!(story.after(SECOND, &["/a"]), None);
        for _ in 0..RETURNS_MAX {
            assert_eq!(
                story.after(PAUSE_MAX, &["/a"]),
                Some(("/a".to_owned(), true))
            );
            assert_eq!(story.asked(Outcome::Fails), Some("return_failed"));
        }
        assert_eq!(
            story.after(PAUSE_MAX, &["/a"]),
            Some(("/a".to_owned(), false))
        );
        assert_eq!(story.asked(Outcome::Responds), Some("stays_out"));
    }

    #[test]
    fn offline_device_is_not_probed() {
        let device = |name: &str, role: &str, state: &str, members: Vec<DeviceView>| DeviceView {
            name: name.to_owned(),
            role: role.to_owned(),
            state: state.to_owned(),
            members,
            ..DeviceView::default()
        };
        let data = |name, state| device(name, "data", state, Vec::new());
        let mirror = vec![
            data("/off", "OFFLINE"),
            data("/a", "FAULTED"),
            data("/works", "ONLINE"),
            data("7123456", "UNAVAIL"),
            device(
                "replacing-1",
                "data",
                "DEGRADED",
                vec![data("/old", "FAULTED")],
            ),
            device(
                "spare-2",
                "data",
                "DEGRADED",
                vec![data("/b", "REMOVED"), data("/s", "ONLINE")],
            ),
        ];
        let status = PoolStatus {
            devices: vec![
                device("mirror-0", "data", "DEGRADED", mirror),
                device("/log", "log", "UNAVAIL", Vec::new()),
                device("/spare", "spare", "UNAVAIL", Vec::new()),
            ],
            ..PoolStatus::default()
        };
        assert_eq!(failed(&status), ["/a", "/b", "/log"]);
    }
}
