//! Selects the steps that belong to one takeover, and classifies it.

use serde::{Deserialize, Serialize};

use super::{Step, TimedStep};

/// Longest time between two steps before the start, in milliseconds: a fence device may be slow.
const GAP_BEFORE_MS_MAX: u64 = 60_000;
/// Longest time from the start of a pool to its consequences, in milliseconds.
const AFTER_MS_MAX: u64 = 120_000;
/// Largest difference between the timestamps of an import from the server and from the cluster, in
/// milliseconds.
const IMPORT_MS_MAX: u64 = 120_000;

/// The kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A head failed, or was believed to have failed; another head started its pool.
    Takeover,
    /// A head handed the pool over to a different head.
    HandOver,
    /// The server failed and was started again on the same head.
    Restart,
    /// The pool was not served before.
    Start,
}

impl Kind {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Takeover => "takeover",
            Self::HandOver => "hand-over",
            Self::Restart => "restart",
            Self::Start => "start",
        }
    }
}

/// The account of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its kind.
    pub kind: Kind,
    /// The head that served the pool before.
    pub from: Option<String>,
    /// The time of the first step, in milliseconds since 1970.
    pub began_ms: u64,
    /// Time until clients could reach the pool again, in milliseconds.
    pub duration_ms: u64,
    /// Each step once, with milliseconds since the first one.
    pub steps: Vec<(Step, u64)>,
}

/// Returns the account of the import of the pool by `to` at about `imported_ms`: its causes and
/// consequences. `reported` may contain steps of other takeovers, in any order, from several heads.
pub fn account(mut reported: Vec<TimedStep>, to: &str, imported_ms: u64) -> Option<Account> {
    reported.sort_by_key(|one| (one.at_ms, one.step));
    let start = reported.iter().rposition(|one| {
        let is_here = one.head.as_deref().is_none_or(|head| head == to);
        one.step == Step::PoolStart
            && is_here
            && one.at_ms <= imported_ms
            && imported_ms - one.at_ms <= IMPORT_MS_MAX
    })?;
    let first = start - before(&reported[..start], reported[start].at_ms);
    let past = reported[start + 1..].iter().take_while(|one| {
        let is_other = matches!(
            one.step,
            Step::PoolStart | Step::PoolStop | Step::FenceAsked
        );
        !is_other && one.at_ms - reported[start].at_ms <= AFTER_MS_MAX
    });
    let last = start + 1 + past.count();
    let chain = &reported[first..last];
    let began_ms = chain[0].at_ms;
    let mut steps: Vec<(Step, u64)> = Vec::new();
    let mut last_address = None;
    for (place, one) in (first..).zip(chain) {
        // Detections after the start belong to the following event.
        if place > start && one.step < Step::PoolStart {
            continue;
        }
        let after_ms = one.at_ms - began_ms;
        if steps.iter().any(|(step, _)| *step == one.step) {
            last_address = (one.step == Step::Address)
                .then_some(after_ms)
                .or(last_address);
        } else {
            steps.push((one.step, after_ms));
        }
    }
    steps.extend(last_address.map(|after_ms| (Step::AllAddresses, after_ms)));
    steps.sort_by_key(|(step, after_ms)| (*after_ms, *step));
    let served = steps.iter().map(|(_, after_ms)| *after_ms).max();
    let (kind, from) = judge(&reported[first..start], to);
    Some(Account {
        kind,
        from,
        began_ms,
        duration_ms: served.unwrap_or_default(),
        steps,
    })
}

/// Returns how many of the last steps before a start at `start_ms` led to it.
fn before(reported: &[TimedStep], start_ms: u64) -> usize {
    let mut next_ms = start_ms;
    let mut is_failure = false;
    let leads = reported.iter().rev().take_while(|one| {
        let is_near = next_ms - one.at_ms <= GAP_BEFORE_MS_MAX;
        next_ms = one.at_ms;
        // After a successful stop no failure and fence of this pool can follow: that stop belongs to another start.
        let is_other = is_failure && one.step == Step::Stopped;
        is_failure |= one.step < Step::PoolStop;
        is_near && !is_other && one.step < Step::PoolStart
    });
    let count = leads.count();
    // A head that joins forms a membership, too: the account begins with the cause.
    let causes = &reported[reported.len() - count..];
    let cause = causes
        .iter()
        .position(|one| one.step != Step::Membership && one.step != Step::Stopped);
    cause.map_or(0, |cause| count - cause)
}

fn judge(causes: &[TimedStep], to: &str) -> (Kind, Option<String>) {
    let reported = |step: Step| causes.iter().find(|one| one.step == step);
    let lost = reported(Step::Fenced).or(reported(Step::FenceAsked));
    let stopped = reported(Step::PoolStop).or(reported(Step::Stopped));
    let from = lost.or(stopped).and_then(|one| one.head.clone());
    let kind = match (lost, stopped, reported(Step::Detected)) {
        (Some(_), ..) => Kind::Takeover,
        (None, Some(_), _) if from.as_deref() == Some(to) => Kind::Restart,
        (None, Some(_), None) => Kind::HandOver,
        (None, _, Some(_)) => Kind::Takeover,
        (None, None, None) => Kind::Start,
    };
    (kind, from)
}

#[cfg(test)]
mod tests {
    use super::super::reported;
    use super::super::tests::{FAULT_MS, LOG};
    use super::*;

    fn one(step: Step, at_ms: u64, head: &str) -> TimedStep {
        let head = (!head.is_empty()).then(|| head.to_owned());
        TimedStep { step, at_ms, head }
    }

    #[test]
    fn takeover_spans_detection_to_last_address() {
        let mut all = reported(LOG, FAULT_MS + 690);
        all.extend([
            one(Step::PoolStart, FAULT_MS + 760, "right"),
            one(Step::Address, FAULT_MS + 1000, "right"),
            one(Step::Address, FAULT_MS + 1050, "right"),
            one(Step::Imported, FAULT_MS + 910, ""),
            one(Step::Listening, FAULT_MS + 930, ""),
            // The head that was powered off rejoins.
            one(Step::Membership, FAULT_MS + 9_000, ""),
        ]);
        let account = account(all, "right", FAULT_MS + 900).expect("an account");
        assert_eq!(
            (account.kind, account.from.as_deref()),
            (Kind::Takeover, Some("left"))
        );
        assert_eq!(
            (account.began_ms, account.duration_ms),
            (FAULT_MS + 300, 750)
        );
        let steps: Vec<_> = account
            .steps
            .iter()
            .map(|(step, after)| (step.name(), *after))
            .collect();
        assert_eq!(
            steps,
            [
                ("detected", 0),
                ("membership", 110),
                ("fence asked", 180),
                ("fenced", 390),
                ("pool start", 460),
                ("imported", 610),
                ("listening", 630),
                ("address", 700),
                ("all addresses", 750),
            ]
        );
    }

    #[test]
    fn move_after_a_join_begins_with_the_stop() {
        let all = vec![
            one(Step::Membership, 1_000, ""),
            one(Step::PoolStop, 20_000, "left"),
            one(Step::Stopped, 20_200, "left"),
            one(Step::PoolStart, 20_250, "right"),
            one(Step::Imported, 20_400, ""),
            one(Step::Address, 20_500, "right"),
        ];
        let found = account(all.clone(), "right", 20_390).expect("an account");
        assert_eq!(
            (found.kind, found.from.as_deref()),
            (Kind::HandOver, Some("left"))
        );
        assert_eq!((found.began_ms, found.duration_ms), (20_000, 500));
        assert_eq!(
            account(all, "right", 900),
            None,
            "the import was before all of this"
        );
    }

    #[test]
    fn consecutive_takeovers_have_separate_steps() {
        let all = vec![
            one(Step::PoolStop, 1_000, "left"),
            one(Step::PoolStart, 1_200, "right"),
            one(Step::Imported, 1_300, ""),
            one(Step::Detected, 5_000, ""),
            one(Step::PoolStop, 5_010, "right"),
            one(Step::PoolStart, 5_100, "right"),
            one(Step::Imported, 5_200, ""),
        ];
        let first = account(all.clone(), "right", 1_310).expect("the first");
        assert_eq!((first.kind, first.duration_ms), (Kind::HandOver, 300));
        let second = account(all, "right", 5_210).expect("the second");
        assert_eq!((second.kind, second.began_ms), (Kind::Restart, 5_000));
    }

    /// The new owner has recorded its own stop before, and the lost head reports nothing.
    #[test]
    fn takeover_after_a_move_begins_with_detection() {
        let all = vec![
            one(Step::PoolStop, 1_000, "left"),
            one(Step::Stopped, 1_700, "left"),
            one(Step::Detected, 12_800, ""),
            one(Step::Fenced, 15_100, "right"),
            one(Step::PoolStart, 15_150, "left"),
            one(Step::Imported, 16_200, ""),
        ];
        let found = account(all, "left", 16_190).expect("an account");
        assert_eq!((found.kind, found.began_ms), (Kind::Takeover, 12_800));
        assert_eq!(found.from.as_deref(), Some("right"));
    }

    #[test]
    fn addresses_up_before_the_import_are_listed_before_it() {
        let all = vec![
            one(Step::PoolStart, 10, "left"),
            one(Step::Claimed, 20, "left"),
            one(Step::Address, 21, "left"),
            one(Step::Address, 22, "left"),
            one(Step::Imported, 30, "left"),
        ];
        let found = account(all, "left", 30).expect("an account");
        let steps: Vec<Step> = found.steps.iter().map(|(step, _)| *step).collect();
        let (first, last) = (Step::Address, Step::AllAddresses);
        assert_eq!(
            steps,
            [Step::PoolStart, Step::Claimed, first, last, Step::Imported]
        );
    }

    #[test]
    fn start_without_fence_or_stop_is_a_plain_start() {
        let all = vec![
            one(Step::PoolStart, 10, "left"),
            one(Step::Imported, 30, ""),
        ];
        let found = account(all, "left", 30).expect("an account");
        assert_eq!((found.kind, found.from), (Kind::Start, None));
    }
}
