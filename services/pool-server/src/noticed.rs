//! The start of each fault, for the advice about it. Pure: the caller passes the events and the time.

use std::collections::BTreeMap;

use control::answer::PoolStatus;
use control::legs::{LegState, LegsView};
use control::{Advice, Severity};

/// Advice that is not given any more is dropped after this time: a status without it may be incomplete.
const DROPPED_AFTER_MS: u64 = 60_000;

/// A fault that is noticed this soon after the start of the server may have begun under an earlier one, on another head.
const STARTED_BEFORE_MS: u64 = 10_000;

/// When this server noticed each fault.
#[derive(Debug, Default)]
pub struct Noticed {
    /// The first check of this server.
    begun_ms: Option<u64>,
    /// By the text of the advice.
    faults: BTreeMap<String, Times>,
}

#[derive(Debug)]
struct Times {
    /// `None` if it may have begun before this server.
    first_ms: Option<u64>,
    last_ms: u64,
}

impl Noticed {
    /// Completes the advice of a status. `newest`: the time of the newest change of a device's state, or since when a
    /// member of the record does not respond. Such times are stored in the pool, so that they stay the same after a
    /// move. A fault without one that is older than this server has none.
    pub fn date(
        &mut self,
        status: &mut PoolStatus,
        newest: &dyn Fn(&str) -> Option<u64>,
        now_ms: u64,
    ) {
        let begun_ms = *self.begun_ms.get_or_insert(now_ms);
        let is_starting = now_ms.saturating_sub(begun_ms) < STARTED_BEFORE_MS;
        let legs = status.legs.as_ref();
        for advice in &mut status.advice {
            if advice.severity == Severity::Info || advice.since_ms.is_some() {
                continue;
            }
            let times = self.faults.entry(key(advice)).or_insert(Times {
                first_ms: (!is_starting).then_some(now_ms),
                last_ms: now_ms,
            });
            times.last_ms = now_ms;
            let of_legs = legs.and_then(|legs| since_of_legs(legs, advice));
            let subject = advice.device.as_deref().or(advice.head.as_deref());
            let of_device = || subject.and_then(newest);
            advice.since_ms = of_legs.or_else(of_device).or(times.first_ms);
        }
        let is_recent = |last_ms: u64| now_ms.saturating_sub(last_ms) < DROPPED_AFTER_MS;
        self.faults.retain(|_, times| is_recent(times.last_ms));
    }
}

/// Counts change while the fault is the same.
fn key(advice: &Advice) -> String {
    let texts = [&advice.what, "\n", &advice.why];
    let letters = texts.into_iter().flat_map(str::chars);
    letters.filter(|letter| !letter.is_ascii_digit()).collect()
}

/// The first failure among the legs that the advice is about.
fn since_of_legs(legs: &LegsView, advice: &Advice) -> Option<u64> {
    let is_meant = |name: &str, head: &str| {
        advice.device.as_deref() == Some(name) || advice.head.as_deref() == Some(head)
    };
    let legs = legs.legs.iter();
    let failed = legs.filter(|leg| leg.state != LegState::Current);
    let meant = failed.filter(|leg| is_meant(&leg.name, &leg.head));
    meant.filter_map(|leg| leg.since_ms).min()
}

#[cfg(test)]
mod tests {
    use control::legs::LegView;

    use super::*;

    fn warning(why: &str) -> Advice {
        Advice::new(Severity::Warning, "see to it", why)
    }

    fn dated(noticed: &mut Noticed, advice: Advice, now_ms: u64) -> Option<u64> {
        let leg = |name: &str, head: &str, since_ms| LegView {
            name: name.to_owned(),
            head: head.to_owned(),
            state: LegState::Stale,
            since_ms: Some(since_ms),
            ..LegView::default()
        };
        let legs = vec![leg("b:/y", "b", 500), leg("b:/z", "b", 400)];
        let mut status = PoolStatus {
            advice: vec![advice],
            legs: Some(LegsView {
                legs,
                ..LegsView::default()
            }),
            ..PoolStatus::default()
        };
        let newest = |device: &str| (device == "sda").then_some(300);
        noticed.date(&mut status, &newest, now_ms);
        status.advice[0].since_ms
    }

    #[test]
    fn advice_has_the_start_of_its_cause() {
        let mut noticed = Noticed::default();
        let early = Advice::new(Severity::Info, "wait", "the scrub runs");
        dated(&mut noticed, early, 0);
        let full = |percent| warning(&format!("tank is {percent} % full"));
        assert_eq!(dated(&mut noticed, full(80), 11_000), Some(11_000));
        assert_eq!(dated(&mut noticed, full(81), 12_000), Some(11_000));
        let late = 12_000 + DROPPED_AFTER_MS;
        let other = warning("of another fault");
        assert_eq!(dated(&mut noticed, other, late), Some(late));
        assert_eq!(dated(&mut noticed, full(82), late), Some(late));
        let lost = warning("b is lost").caused_by("b");
        assert_eq!(dated(&mut noticed, lost, late), Some(400));
        let leg = warning("b:/y is missing writes").about("b:/y");
        assert_eq!(dated(&mut noticed, leg, late), Some(500));
        let device = warning("sda is FAULTED").about("sda");
        assert_eq!(dated(&mut noticed, device, late), Some(300));
        let scrub = Advice::new(Severity::Info, "wait", "the scrub runs");
        assert_eq!(dated(&mut noticed, scrub, late), None);
    }

    /// The pool was moved: the server that noticed the fault first is on the other head.
    #[test]
    fn fault_that_is_older_than_the_server_has_its_stored_time_or_none() {
        let mut noticed = Noticed::default();
        let full = || warning("tank is 81 % full");
        assert_eq!(dated(&mut noticed, full(), 1000), None);
        let later = 1000 + STARTED_BEFORE_MS;
        assert_eq!(dated(&mut noticed, full(), later), None, "the same fault");
        let new = warning("of another fault");
        assert_eq!(dated(&mut noticed, new, later), Some(later));
        let mut moved = Noticed::default();
        let device = warning("sda is FAULTED").about("sda");
        assert_eq!(dated(&mut moved, device, 1000), Some(300));
        let leg = warning("b:/y is missing writes").about("b:/y");
        assert_eq!(dated(&mut moved, leg, 1000), Some(500));
    }
}
