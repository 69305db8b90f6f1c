//! Derives events from the states of legs, and completes the view with the start of each state and the amount of data
//! still missing. Pure: the caller passes the legs and the time.

use std::collections::BTreeMap;

use control::answer::{DeviceLoad, DeviceView, PoolStatus};
use control::calendar::utc;
use control::legs::{LegState, LegView, LegsView};
use operations::events::NewEvent;

use super::journal::{MEMBER_BACK, MEMBER_LOST};

/// Event kinds of legs are this prefix followed by the state.
const KIND: &str = "leg_";

/// Returns the event kind for a state.
const fn kind(state: LegState) -> &'static str {
    match state {
        LegState::Current => "leg_current",
        LegState::Failing => "leg_failing",
        LegState::Stale => "leg_stale",
        LegState::Copying => "leg_copying",
        LegState::Faulted => "leg_faulted",
        LegState::Divergent => "leg_divergent",
    }
}

/// The last observed state of a leg.
#[derive(Clone, Debug)]
struct Seen {
    state: LegState,
    /// `None` if the state began before the first observation.
    since_ms: Option<u64>,
    /// Bytes written to its neighbours when it left.
    written_when_left: Option<u64>,
    /// Bytes written to its neighbours during its absence.
    missed: Option<u64>,
}

/// The legs of one pool.
#[derive(Debug, Default)]
pub struct LegWatch {
    legs: BTreeMap<u64, Seen>,
    /// Whether each member responded.
    members: BTreeMap<String, bool>,
}

/// Returns an earlier server's last event of a leg: the kind, and the time in milliseconds.
pub type Before<'a> = &'a dyn Fn(&str) -> Option<(String, u64)>;

impl LegWatch {
    /// Compares the legs with the last observation and returns the events since.
    pub fn look(
        &mut self,
        legs: &LegsView,
        status: &PoolStatus,
        before: Before<'_>,
        now_ms: u64,
    ) -> Vec<NewEvent> {
        let mut news = Vec::new();
        for leg in &legs.legs {
            let written = written_to_neighbours(legs, leg, &status.load.whole);
            let seen = self
                .legs
                .entry(leg.disk)
                .or_insert_with(|| first(leg, before));
            if seen.state != leg.state {
                let was = std::mem::replace(&mut seen.state, leg.state);
                seen.since_ms = Some(now_ms);
                seen.moved(was, written);
                news.push(leg_event(leg, legs));
            }
        }
        for member in &legs.members {
            let was = self.members.insert(member.name.clone(), member.answers);
            if was.unwrap_or(true) == member.answers {
                continue;
            }
            news.push(match member.answers {
                true => NewEvent::of_pool(MEMBER_BACK, format!("{} answers again", member.name), false),
                false => {
                    let why = member.why.as_deref().unwrap_or("no reason is known");
                    let message = format!(
                        "{} does not respond ({why}): one fewer member stores which legs are complete",
                        member.name
                    );
                    NewEvent::of_pool(MEMBER_LOST, message, true)
                }
            });
        }
        news
    }

    /// Completes the view with the observations.
    pub fn complete(&self, legs: &mut LegsView, status: &PoolStatus, now_ms: u64) {
        for leg in &mut legs.legs {
            let Some(seen) = self
                .legs
                .get(&leg.disk)
                .filter(|seen| seen.state == leg.state)
            else {
                continue;
            };
            leg.since_ms = seen.since_ms;
            if leg.state == LegState::Copying {
                seen.measure(leg, status, now_ms);
            }
        }
    }
}

impl Seen {
    fn moved(&mut self, was: LegState, written: Option<u64>) {
        match (was, self.state) {
            (LegState::Current, _) => {
                self.written_when_left = written;
                self.missed = None;
            }
            (_, LegState::Copying) => {
                let both = self.written_when_left.zip(written);
                self.missed = both.map(|(left, now)| now.saturating_sub(left));
            }
            _ => {}
        }
    }

    /// Sets the progress of the copy. The amount of missing data is bounded by the writes to neighbours during the
    /// absence, and by the rest of ZFS's scan.
    fn measure(&self, leg: &mut LegView, status: &PoolStatus, now_ms: u64) {
        let scan = status.scan.as_ref();
        let scan = scan.filter(|scan| scan.function == "resilver" && scan.state == "running");
        let Some(scan) = scan else {
            leg.left = self.missed;
            return;
        };
        let copied = device(&status.devices, &leg.device).map_or(0, |device| device.repaired);
        let unseen = scan.to_examine.saturating_sub(scan.examined);
        let missed = self.missed.map(|missed| missed.saturating_sub(copied));
        let left = missed.map_or(unseen, |missed| missed.min(unseen));
        let elapsed_s = self
            .since_ms
            .map(|since| now_ms.saturating_sub(since) / 1000);
        let by_speed = elapsed_s
            .filter(|elapsed| *elapsed > 0 && copied > 0)
            .map(|elapsed| (u128::from(left) * u128::from(elapsed) / u128::from(copied)) as u64);
        leg.copied = Some(copied);
        leg.left = Some(left);
        leg.remaining_s = [by_speed, scan.remaining_s].into_iter().flatten().min();
    }
}

/// The initial state of a leg, from the last event of an earlier server. A leg without events was current.
fn first(leg: &LegView, before: Before<'_>) -> Seen {
    let before = before(&leg.name);
    let known = before.and_then(|(leg_event, at_ms)| {
        let state = LegState::ALL
            .into_iter()
            .find(|state| kind(*state) == leg_event);
        Some((state?, at_ms))
    });
    Seen {
        state: known.map_or(LegState::Current, |(state, _)| state),
        since_ms: known.map(|(_, at_ms)| at_ms),
        written_when_left: None,
        missed: None,
    }
}

/// Whether an event is about a leg's state.
pub fn is_of_leg(kind: &str) -> bool {
    kind.starts_with(KIND)
}

fn leg_event(leg: &LegView, legs: &LegsView) -> NewEvent {
    let name = &leg.name;
    let since = leg
        .lacks_since_group
        .map(|group| format!(" since transaction group {group}"))
        .unwrap_or_default();
    let (message, is_bad) = match leg.state {
        LegState::Current => (format!("leg {name} is complete"), false),
        LegState::Failing => (
            format!("leg {name} failed: writes are blocked until a record excludes it"),
            true,
        ),
        LegState::Stale => {
            let others = legs
                .legs
                .iter()
                .filter(|one| one.group == leg.group && one.state == LegState::Current)
                .map(|one| one.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!("leg {name} is missing writes{since}: only {others} is complete");
            (message, true)
        }
        LegState::Copying => (
            format!("leg {name} is back: the missing writes{since} are copied to it"),
            false,
        ),
        LegState::Faulted => {
            let until = leg.tried_again_ms.map(|ms| utc(ms / 1000));
            let until = until
                .map(|until| format!(" before {until}"))
                .unwrap_or_default();
            let message = format!(
                "leg {name} failed again and again: it is not retried{until}, except by `bulkhead pool online`"
            );
            (message, true)
        }
        LegState::Divergent => (
            format!(
                "leg {name} has a history that is not this pool's: nothing is written to it until a person decides"
            ),
            true,
        ),
    };
    NewEvent {
        device: Some(name.clone()),
        ..NewEvent::of_pool(kind(leg.state), message, is_bad)
    }
}

/// The largest number of bytes written to another leg of the same group.
fn written_to_neighbours(legs: &LegsView, leg: &LegView, whole: &DeviceLoad) -> Option<u64> {
    let mut names = legs.legs.iter();
    let beside = names
        .by_ref()
        .filter(|one| one.group == leg.group && one.disk != leg.disk);
    beside
        .filter_map(|one| load(whole, &one.device))
        .map(|load| load.written_bytes)
        .max()
}

fn load<'a>(of: &'a DeviceLoad, name: &str) -> Option<&'a DeviceLoad> {
    match of.name == name {
        true => Some(of),
        false => of.members.iter().find_map(|member| load(member, name)),
    }
}

fn device<'a>(devices: &'a [DeviceView], name: &str) -> Option<&'a DeviceView> {
    devices
        .iter()
        .find_map(|one| match one.name == name && one.members.is_empty() {
            true => Some(one),
            false => device(&one.members, name),
        })
}

#[cfg(test)]
mod tests {
    use control::answer::ScanView;
    use control::legs::LegMemberView;

    use super::*;

    fn legs(state: LegState) -> LegsView {
        let leg = |disk: u64, head: &str, state| LegView {
            name: format!("{head}:/d"),
            head: head.to_owned(),
            disk,
            device: format!("/run/{disk}"),
            state,
            lacks_since_group: (state != LegState::Current).then_some(30),
            ..LegView::default()
        };
        let witness = LegMemberView {
            name: "witness".into(),
            is_witness: true,
            answers: true,
            ..LegMemberView::default()
        };
        LegsView {
            legs: vec![leg(11, "a", LegState::Current), leg(22, "b", state)],
            members: vec![witness],
            ..LegsView::default()
        }
    }

    /// A status in which `written` bytes were written to the remaining leg, and `scan` holds the bytes copied to the
    /// other one and the bytes to examine.
    fn status(written: u64, scan: Option<(u64, u64)>) -> PoolStatus {
        let member = DeviceLoad {
            name: "/run/11".into(),
            written_bytes: written,
            ..DeviceLoad::default()
        };
        let mut status = PoolStatus::default();
        status.load.whole.members = vec![DeviceLoad {
            members: vec![member],
            ..DeviceLoad::default()
        }];
        status.devices = vec![DeviceView {
            name: "/run/22".into(),
            repaired: scan.map_or(0, |(copied, _)| copied),
            ..DeviceView::default()
        }];
        status.scan = scan.map(|(copied, to_examine)| ScanView {
            function: "resilver".into(),
            state: "running".into(),
            examined: copied,
            to_examine,
            ..ScanView::default()
        });
        status
    }

    fn nothing(_: &str) -> Option<(String, u64)> {
        None
    }

    #[test]
    fn leg_change_yields_one_event_with_start_time() {
        let mut watch = LegWatch::default();
        let mut look = |state, now_ms| -> (Vec<&'static str>, Option<u64>) {
            let (mut legs, status) = (legs(state), status(0, None));
            let news = watch.look(&legs, &status, &nothing, now_ms);
            watch.complete(&mut legs, &status, now_ms);
            (
                news.iter().map(|one| one.kind).collect(),
                legs.legs[1].since_ms,
            )
        };
        assert_eq!(look(LegState::Current, 1), (vec![], None));
        assert_eq!(look(LegState::Failing, 2), (vec!["leg_failing"], Some(2)));
        assert_eq!(look(LegState::Stale, 3), (vec!["leg_stale"], Some(3)));
        assert_eq!(look(LegState::Stale, 4), (vec![], Some(3)));
        assert_eq!(look(LegState::Copying, 5), (vec!["leg_copying"], Some(5)));
        assert_eq!(look(LegState::Current, 6), (vec!["leg_current"], Some(6)));
        assert_eq!(
            look(LegState::Divergent, 7),
            (vec!["leg_divergent"], Some(7))
        );
    }

    /// The event names the leg, the transaction group, and the complete leg.
    #[test]
    fn leg_event_names_the_leg_and_the_complete_leg() {
        let mut watch = LegWatch::default();
        let news = watch.look(&legs(LegState::Stale), &status(0, None), &nothing, 1);
        assert_eq!(news[0].device.as_deref(), Some("b:/d"));
        assert!(news[0].is_bad);
        let wanted = "leg b:/d is missing writes since transaction group 30: only a:/d is complete";
        assert_eq!(news[0].message, wanted);
    }

    #[test]
    fn excluded_leg_reports_retry_time_and_command() {
        let mut watch = LegWatch::default();
        let mut seen = legs(LegState::Faulted);
        seen.legs[1].tried_again_ms = Some(3_600_000);
        let news = watch.look(&seen, &status(0, None), &nothing, 1);
        assert_eq!((news[0].kind, news[0].is_bad), ("leg_faulted", true));
        for part in ["b:/d", "before 1970-01-01T01:00:00Z", "pool online"] {
            assert!(
                news[0].message.contains(part),
                "{part}: {}",
                news[0].message
            );
        }
    }

    #[test]
    fn leg_event_of_a_previous_server_is_not_repeated() {
        let leg_event = |_: &str| Some(("leg_stale".to_owned(), 77));
        let mut watch = LegWatch::default();
        let (mut seen, status) = (legs(LegState::Stale), status(0, None));
        let news = watch.look(&seen, &status, &leg_event, 100);
        assert_eq!(
            news.iter().map(|one| one.kind).collect::<Vec<_>>(),
            ["leg_current"]
        );
        watch.complete(&mut seen, &status, 100);
        assert_eq!(seen.legs[1].since_ms, Some(77));
        let mut other = LegWatch::default();
        let news = other.look(&legs(LegState::Copying), &status, &leg_event, 100);
        assert!(news.iter().any(|one| one.kind == "leg_copying"));
    }

    #[test]
    fn remaining_resync_is_new_writes_minus_copied_data() {
        let mut watch = LegWatch::default();
        let mut look = |state, written, scan, now_ms| {
            let (mut legs, status) = (legs(state), status(written, scan));
            watch.look(&legs, &status, &nothing, now_ms);
            watch.complete(&mut legs, &status, now_ms);
            let leg = legs.legs.remove(1);
            (leg.copied, leg.left, leg.remaining_s)
        };
        look(LegState::Current, 1_000, None, 0);
        look(LegState::Stale, 1_000, None, 1_000);
        look(LegState::Stale, 9_000, None, 2_000);
        assert_eq!(
            look(LegState::Copying, 9_000, None, 3_000),
            (None, Some(8_000), None)
        );
        // Two seconds for a quarter: three quarters take six.
        let wanted = (Some(2_000), Some(6_000), Some(6));
        assert_eq!(
            look(LegState::Copying, 9_500, Some((2_000, 100_000)), 5_000),
            wanted
        );
        // ZFS has less left to examine.
        let wanted = (Some(2_000), Some(500), Some(0));
        assert_eq!(
            look(LegState::Copying, 9_500, Some((2_000, 2_500)), 5_000),
            wanted
        );
        assert_eq!(
            look(LegState::Current, 9_500, None, 6_000),
            (None, None, None)
        );
    }

    #[test]
    fn member_loss_and_recovery_yield_one_event_each() {
        let mut watch = LegWatch::default();
        let mut look = |answers| -> Vec<(&'static str, bool)> {
            let mut legs = legs(LegState::Current);
            legs.members[0].answers = answers;
            let news = watch.look(&legs, &status(0, None), &nothing, 1);
            news.iter().map(|one| (one.kind, one.is_bad)).collect()
        };
        assert_eq!(look(true), []);
        assert_eq!(look(false), [("member_lost", true)]);
        assert_eq!(look(false), []);
        assert_eq!(look(true), [("member_back", false)]);
    }
}
