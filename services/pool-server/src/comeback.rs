//! Brings a device back that was given up and answers again, as an administrator would by `pool clear`: not at once, and not
//! for ever. What was taken out of use on purpose stays so, and a suspended pool waits for a person: the device that
//! comes back first may be the one that lacks the newest writes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use control::answer::{DeviceView, PoolStatus};
use engine::pool::DeviceState;
use operations::events::News;
use pool_access::engines::probe;

use super::journal::Journal;
use super::shared_pool::SharedPool;

/// Pause between the failure of a device and the first question.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two questions to one that does not answer; each is twice the one before.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Pause between two answers that are wanted of a device before it is trusted again.
const STEADY: Duration = Duration::from_secs(1);
/// How often a device is brought back within [`PERIOD`]. One that fails more often is bad, or badly connected.
const RETURNS_MAX: usize = 3;
/// The time in which returns are counted.
const PERIOD: Duration = Duration::from_secs(3600);

/// What is known of a device that failed.
#[derive(Debug, Default)]
struct Record {
    /// When to ask it; none while it works.
    due: Option<Instant>,
    pause: Duration,
    /// When it was brought back by us.
    returns: Vec<Instant>,
    /// Whether the latest return was ours, and it has not failed since.
    is_ours: bool,
    /// Whether it was told that it stays out.
    is_told: bool,
}

/// When which device is asked, and whether it may come back. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Policy(HashMap<String, Record>);

impl Policy {
    /// These devices have failed now, and no others.
    fn look(&mut self, failed: &[&str], now: Instant) {
        for (name, record) in &mut self.0 {
            if !failed.contains(&name.as_str()) && record.due.take().is_some() {
                record.is_told = false;
                if !std::mem::take(&mut record.is_ours) {
                    // A person has brought it back, and trusts it.
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

    /// A device that is to be asked now, and whether it comes back if it answers.
    fn due(&mut self, now: Instant) -> Option<(String, bool)> {
        let is_due = |record: &Record| record.due.is_some_and(|due| due <= now);
        let (name, record) = self.0.iter_mut().find(|(_, record)| is_due(record))?;
        let returns = &mut record.returns;
        returns.retain(|at| now.saturating_duration_since(*at) < PERIOD);
        Some((name.clone(), returns.len() < RETURNS_MAX))
    }

    /// It was asked, with that outcome. Returns what is to be told.
    fn asked(&mut self, name: &str, outcome: &Outcome, now: Instant) -> Option<News> {
        let record = self.0.get_mut(name)?;
        record.pause = (record.pause * 2).min(PAUSE_MAX);
        record.due = record.due.map(|_| now + record.pause);
        let news = |kind, message, is_bad| {
            Some(News {
                kind,
                device: Some(name.to_owned()),
                message,
                is_bad,
            })
        };
        match outcome {
            Outcome::Silent => None,
            Outcome::Back => {
                record.returns.push(now);
                record.is_ours = true;
                let count = record.returns.len();
                let message = format!(
                    "{name} answers again, and was brought back ({count} of {RETURNS_MAX} times within an hour): what it \
                     missed is copied; `bulkhead pool scrub` reads the rest of it"
                );
                news("returned", message, false)
            }
            Outcome::Fails => {
                record.returns.push(now);
                let message = format!("{name} answers questions, but fails in the pool again");
                news("return_failed", message, true)
            }
            Outcome::Answers if std::mem::replace(&mut record.is_told, true) => None,
            Outcome::Answers => {
                let message = format!(
                    "{name} answers again, and stays out: it was brought back {RETURNS_MAX} times within an hour; replace it \
                     with `bulkhead pool replace-disk`, or trust it once more with `bulkhead pool clear`"
                );
                news("stays_out", message, true)
            }
        }
    }
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It does not answer as it should.
    Silent,
    /// It does, and was not to be brought back.
    Answers,
    /// It was brought back.
    Back,
    /// It was brought back, and failed at once.
    Fails,
}

/// Looks after devices that failed.
#[derive(Default)]
pub struct Comeback {
    policy: Policy,
    /// The device that is asked now, by a thread of its own: it may take its time.
    asking: Option<(String, Receiver<Outcome>)>,
}

impl Comeback {
    /// Takes a look at the pool, and begins or ends what is due; whether a device is back. Never waits.
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
                Err(TryRecvError::Disconnected) => Outcome::Silent,
                Err(TryRecvError::Empty) => {
                    self.asking = Some((name, answer));
                    return false;
                }
            };
            if let Some(news) = self.policy.asked(&name, &outcome, now) {
                journal.add(news);
            }
            // The look was before the answer: the next one tells what became of the device.
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
            let outcome = ask(&pool, &device, may_return).unwrap_or(Outcome::Silent);
            // Nobody listens any more when the server ends.
            let _ = sender.send(outcome);
        };
        let thread = std::thread::Builder::new().name("comeback".into());
        match thread.spawn(ask) {
            Ok(_) => self.asking = Some((name, answer)),
            Err(error) => tracing::warn!(%error, "a device that failed is not asked"),
        }
    }
}

/// Asks a device twice, and brings it back. The pool is held only while that needs it, so that it can be closed meanwhile.
fn ask(pool: &SharedPool, device: &str, may_return: bool) -> Option<Outcome> {
    let (pool_guid, guid) = {
        let status = pool.get()?.status().ok()?;
        (status.guid, status.find(device)?.guid)
    };
    for is_first in [true, false] {
        if let Err(failure) = probe(Path::new(device), pool_guid, guid) {
            tracing::debug!(device, %failure, "a device that failed was asked");
            return Some(Outcome::Silent);
        }
        if is_first {
            std::thread::sleep(STEADY);
        }
    }
    if !may_return {
        return Some(Outcome::Answers);
    }
    let pool = pool.get()?;
    // It may have been taken out of use meanwhile, which is not undone.
    let is_failed = |state| {
        let given_up = [
            DeviceState::Faulted,
            DeviceState::Removed,
            DeviceState::Unavailable,
        ];
        given_up.contains(&state)
    };
    if !is_failed(pool.status().ok()?.find(device)?.state) {
        return Some(Outcome::Silent);
    }
    if let Err(error) = pool.clear(Some(device)) {
        tracing::warn!(device, %error, "a device that answers again is not brought back");
        return Some(Outcome::Fails);
    }
    match is_failed(pool.status().ok()?.find(device)?.state) {
        true => Some(Outcome::Fails),
        false => Some(Outcome::Back),
    }
}

/// Devices of the pool that were given up. Those that are being replaced have a successor; what was taken offline is not
/// among them, nor are legs, which their record brings back.
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
    fn a_leg_is_left_to_its_record() {
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

    /// A pool in which `/a` fails, answers and is asked, minute by minute.
    struct Story {
        policy: Policy,
        now: Instant,
    }

    impl Story {
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

        /// `/a` fails, answers, and is brought back if it may be; whether it is.
        fn flaps(&mut self) -> bool {
            assert_eq!(self.after(SECOND, &["/a"]), None, "not at once");
            let (_, may_return) = self.after(FIRST_PAUSE, &["/a"]).expect("it is asked");
            if may_return {
                assert_eq!(self.asked(Outcome::Back), Some("returned"));
                assert_eq!(self.after(SECOND, &[]), None);
            } else {
                assert_eq!(self.asked(Outcome::Answers), Some("stays_out"));
            }
            may_return
        }
    }

    #[test]
    fn a_device_that_flaps_stays_out_until_a_person_says_so() {
        let mut story = Story::new();
        for _ in 0..RETURNS_MAX {
            assert!(story.flaps());
        }
        assert!(!story.flaps());
        let (_, may_return) = story.after(PAUSE_MAX, &["/a"]).expect("it is asked on");
        assert!(!may_return);
        assert_eq!(story.asked(Outcome::Answers), None, "told once");
        // A person clears it.
        assert_eq!(story.after(SECOND, &[]), None);
        assert!(story.flaps());
    }

    #[test]
    fn an_hour_later_it_is_trusted_again() {
        let mut story = Story::new();
        (0..RETURNS_MAX).for_each(|_| assert!(story.flaps()));
        story.after(PERIOD, &[]);
        assert!(story.flaps());
    }

    #[test]
    fn one_that_stays_silent_is_asked_less_and_less() {
        let mut story = Story::new();
        assert_eq!(story.after(SECOND, &["/a"]), None);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let begun = story.now;
            while story.after(SECOND, &["/a"]).is_none() {}
            pauses.push((story.now - begun).as_secs());
            assert_eq!(story.asked(Outcome::Silent), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn one_that_lies_counts_as_one_that_flaps() {
        let mut story = Story::new();
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
        assert_eq!(story.asked(Outcome::Answers), Some("stays_out"));
    }

    #[test]
    fn what_an_administrator_took_out_of_use_is_not_asked() {
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
