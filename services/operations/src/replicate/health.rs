//! Evaluates the replication rules from the stored documents alone, so that a server reports their state even while the
//! pool, the peer or a run is not responding. Pure: the caller supplies the documents and the clock.

use std::collections::BTreeMap;

use control::answer::PoolStatus;
use control::calendar::utc;
use control::replication::{
    REPLICATE_PROPERTY, REPLICATE_STATE_PROPERTY, ReplicateDocument, ReplicateState,
    ReplicationGlance, ReplicationTrouble,
};
use control::{Advice, Severity};
use units::VolumeName;

use super::documents::load;
use crate::documents::All;
use crate::events::NewEvent;

/// A copy is late if it is older than two intervals plus this time, which allows for the duration of a run.
const LATE_GRACE_S: u64 = 300;
/// Clocks of two heads of a pool may differ by so much.
pub const CLOCK_SLACK_S: u64 = 60;
/// Maximum number of rules with separate advice; the rest is counted.
const ADVICE_MAX: usize = 3;

/// Returns the state of each rule at `now`, in order of the datasets.
pub fn glances(all: &All, now: u64) -> Vec<ReplicationGlance> {
    let datasets = all.with_property(REPLICATE_PROPERTY);
    datasets.filter_map(|name| glance(all, name, now)).collect()
}

fn glance(all: &All, name: &str, now: u64) -> Option<ReplicationGlance> {
    let dataset: VolumeName = name.parse().ok()?;
    let document = match load::<ReplicateDocument>(all, name, REPLICATE_PROPERTY) {
        Ok(document) => document?,
        Err(failure) => {
            return Some(ReplicationGlance {
                dataset,
                to: String::new(),
                every_s: None,
                lag_s: None,
                trouble: Some(ReplicationTrouble::Unreadable),
                why: Some(failure.message),
            });
        }
    };
    let state = load(all, name, REPLICATE_STATE_PROPERTY);
    let state: ReplicateState = state.ok().flatten().unwrap_or_default();
    let trouble = trouble(&document, &state, now);
    Some(ReplicationGlance {
        why: trouble.map(|trouble| why(trouble, name, &document, &state, now)),
        dataset,
        lag_s: lag_s(&state, now),
        every_s: document.every_s,
        to: document.to,
        trouble,
    })
}

/// Returns the age in seconds of the last replicated state. Returns none if there is none, or if its timestamp is in
/// the future by this clock.
pub fn lag_s(state: &ReplicateState, now: u64) -> Option<u64> {
    age_s(state.succeeded_unix_s, now).filter(|_| state.succeeded_unix_s > 0)
}

/// Returns the seconds since `then`, or none for a time in the future.
pub fn age_s(then: u64, now: u64) -> Option<u64> {
    (then <= now.saturating_add(CLOCK_SLACK_S)).then(|| now.saturating_sub(then))
}

fn trouble(
    document: &ReplicateDocument,
    state: &ReplicateState,
    now: u64,
) -> Option<ReplicationTrouble> {
    if state.failure.is_some() {
        return Some(ReplicationTrouble::Failing);
    }
    if age_s(state.succeeded_unix_s, now).is_none() {
        return Some(ReplicationTrouble::ClockAhead);
    }
    // The state of a rule that was created by an older version has no start time.
    let since = state.succeeded_unix_s.max(state.since_unix_s);
    let is_late = since > 0 && is_late(document.every_s?, now.saturating_sub(since));
    is_late.then_some(ReplicationTrouble::Late)
}

/// Returns whether a copy that is due every `every_s` seconds is late after `lag_s`.
pub fn is_late(every_s: u64, lag_s: u64) -> bool {
    lag_s > every_s.saturating_mul(2).saturating_add(LATE_GRACE_S)
}

fn why(
    trouble: ReplicationTrouble,
    name: &str,
    document: &ReplicateDocument,
    state: &ReplicateState,
    now: u64,
) -> String {
    let to = &document.to;
    let contents = match (state.succeeded_unix_s, age_s(state.succeeded_unix_s, now)) {
        (0, _) => "nothing of it is there yet".to_owned(),
        (then, None) => format!("its copy is dated {}, which is in the future", utc(then)),
        (then, Some(_)) => format!("its copy has the contents of {}", utc(then)),
    };
    match trouble {
        ReplicationTrouble::Failing => {
            let failure = state.failure.as_deref().unwrap_or_default();
            format!("{name} is not replicated to {to}: {failure}; {contents}")
        }
        ReplicationTrouble::Late => format!(
            "the replication of {name} to {to} is late: it is due every {} s, and {contents}",
            document.every_s.unwrap_or_default()
        ),
        ReplicationTrouble::ClockAhead => format!(
            "how old the copy of {name} at {to} is is not known: {contents}: the clock of a head was, or is, wrong"
        ),
        ReplicationTrouble::Unreadable => String::new(),
    }
}

fn what(glance: &ReplicationGlance) -> (&'static str, String) {
    let pool = glance.dataset.pool();
    let list = format!("bulkhead replicate list {pool}");
    let run = format!("bulkhead replicate run {}", glance.dataset);
    match glance.trouble {
        Some(ReplicationTrouble::Unreadable) => (
            "set its replication again with `bulkhead replicate set`; the rules are shown by",
            list,
        ),
        Some(ReplicationTrouble::ClockAhead) => {
            ("set the clocks of the heads right, then replicate", run)
        }
        Some(ReplicationTrouble::Failing) => (
            "mend the cause, and replicate; it is also tried again by itself if it has a time",
            run,
        ),
        Some(ReplicationTrouble::Late) | None => (
            "find the cause of the delay: the progress is shown by",
            list,
        ),
    }
}

/// Adds the states of the rules to `status`, and advice for those with problems.
pub fn add_to(status: &mut PoolStatus, glances: Vec<ReplicationGlance>) {
    status.replication = glances;
    let bad = status.replication.iter().filter(|one| one.why.is_some());
    let count = bad.clone().count();
    let mut advice: Vec<Advice> = Vec::new();
    for glance in bad.take(ADVICE_MAX) {
        let (what, command) = what(glance);
        let why = glance.why.clone().unwrap_or_default();
        advice.push(Advice::new(Severity::Warning, what, why).by(command));
    }
    if count > ADVICE_MAX {
        let why = format!("{} more replications do not go well", count - ADVICE_MAX);
        let more = Advice::new(Severity::Warning, "look at all of them", why);
        advice.push(more.by(format!("bulkhead replicate list {}", status.name)));
    }
    status.advice.extend(advice);
}

/// The last reported trouble of each rule, so that each trouble is reported once.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<VolumeName, ReplicationTrouble>);

impl Memory {
    /// Returns the changes since the last call.
    pub fn look(&mut self, glances: &[ReplicationGlance]) -> Vec<NewEvent> {
        let mut news = Vec::new();
        let mut known = BTreeMap::new();
        for glance in glances {
            let before = self.0.remove(&glance.dataset);
            match (glance.trouble, &glance.why) {
                (Some(trouble), Some(why)) => {
                    if before != Some(trouble) {
                        let (what, command) = what(glance);
                        let message = format!("{why}; {what}: `{command}`");
                        news.push(NewEvent::of_pool("replication", message, true));
                    }
                    known.insert(glance.dataset.clone(), trouble);
                }
                _ if before.is_some() => {
                    let message =
                        format!("{} is replicated to {} again", glance.dataset, glance.to);
                    news.push(NewEvent::of_pool("replication", message, false));
                }
                _ => {}
            }
        }
        self.0 = known;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000;

    fn all(every_s: Option<u64>, state: &ReplicateState) -> All {
        let document = ReplicateDocument {
            version: 1,
            to: "there:8873".to_owned(),
            peer: "0".repeat(64).parse().expect("a fingerprint"),
            into: "vault/v".parse().expect("a name"),
            every_s,
            keep: 1,
            raw: false,
            decrypt: false,
        };
        let text = |value: Result<String, _>| value.expect("JSON");
        let own = [
            (
                REPLICATE_PROPERTY.to_owned(),
                text(serde_json::to_string(&document)),
            ),
            (
                REPLICATE_STATE_PROPERTY.to_owned(),
                text(serde_json::to_string(state)),
            ),
        ];
        [("tank/v".to_owned(), own.into())].into_iter().collect()
    }

    fn state(succeeded_unix_s: u64, failure: Option<&str>) -> ReplicateState {
        ReplicateState {
            version: 1,
            succeeded_unix_s,
            failure: failure.map(str::to_owned),
            ..ReplicateState::default()
        }
    }

    #[test]
    fn failed_late_or_future_copies_are_reported() {
        use ReplicationTrouble::{ClockAhead, Failing, Late};
        let set_long_ago = ReplicateState {
            since_unix_s: NOW - 10_000,
            ..state(0, None)
        };
        for (every_s, state, lag_s, trouble) in [
            (Some(900), state(NOW - 900, None), Some(900), None),
            (Some(900), state(NOW - 2100, None), Some(2100), None),
            (Some(900), state(NOW - 2101, None), Some(2101), Some(Late)),
            (None, state(NOW - 1_000_000, None), Some(1_000_000), None),
            (
                None,
                state(NOW - 5, Some("refused")),
                Some(5),
                Some(Failing),
            ),
            (Some(900), state(0, Some("refused")), None, Some(Failing)),
            (Some(900), state(0, None), None, None),
            (Some(900), set_long_ago, None, Some(Late)),
            (Some(900), state(NOW + CLOCK_SLACK_S, None), Some(0), None),
            (Some(900), state(NOW + 61, None), None, Some(ClockAhead)),
            (None, state(u64::MAX, None), None, Some(ClockAhead)),
        ] {
            let found = glances(&all(every_s, &state), NOW);
            assert_eq!(found.len(), 1);
            assert_eq!(
                (found[0].lag_s, found[0].trouble),
                (lag_s, trouble),
                "{state:?}"
            );
            assert_eq!(found[0].why.is_some(), trouble.is_some());
        }
    }

    #[test]
    fn replication_trouble_is_steady_advice_and_one_event() {
        let failing = all(Some(900), &state(NOW - 5000, Some("connection refused")));
        let mut status = PoolStatus::default();
        add_to(&mut status, glances(&failing, NOW));
        assert_eq!(status.advice.len(), 1);
        let text = status.advice[0].to_string();
        for part in [
            "connection refused",
            "tank/v",
            "there:8873",
            "`bulkhead replicate run tank/v`",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let mut memory = Memory::default();
        let first = memory.look(&glances(&failing, NOW));
        assert!(first.len() == 1 && first[0].is_bad && first[0].kind == "replication");
        assert!(memory.look(&glances(&failing, NOW + 60)).is_empty());
        let well = all(Some(900), &state(NOW, None));
        let back = memory.look(&glances(&well, NOW + 90));
        assert!(back.len() == 1 && !back[0].is_bad);
        assert!(memory.look(&glances(&well, NOW + 91)).is_empty());
        assert_eq!(
            memory.look(&glances(&well, NOW + 91 + 3000)).len(),
            1,
            "it is late"
        );
        // A removed rule is not reported.
        assert!(memory.look(&[]).is_empty());
    }

    /// A document of a newer version.
    #[test]
    fn unreadable_replication_rule_is_reported() {
        let own = [(
            REPLICATE_PROPERTY.to_owned(),
            r#"{"version":9,"new":1}"#.to_owned(),
        )];
        let all: All = [("tank/v".to_owned(), own.into())].into_iter().collect();
        let found = glances(&all, NOW);
        assert_eq!(found[0].trouble, Some(ReplicationTrouble::Unreadable));
        let mut status = PoolStatus::default();
        add_to(&mut status, glances(&all, NOW));
        assert!(status.advice[0].what.contains("replicate set"));
    }
}
