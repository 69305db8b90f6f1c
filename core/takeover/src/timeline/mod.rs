//! The steps of a takeover with their timestamps, and the assignment of steps to takeovers. The API, the console and
//! the drills read them with this code.
//!
//! Bulkhead's own processes record their steps themselves ([`Recorded`]; `docs/formats/steps.md`). The loss of a head,
//! the new membership and the fence are read from the logs of Corosync and Pacemaker. The head that receives a query
//! adds the steps of the other online heads: a hand-over involves both heads, and after a crash only the survivor can
//! report. Corosync and Pacemaker write neither year nor time zone; the modification time of the file determines both.
//! A new version of either may change its messages: then those steps are missing. Steps of two heads are ordered by
//! their clocks, which must agree.

mod account;
mod clock;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use account::{Account, Kind, account};
pub use clock::{FileClock, minutes_and_seconds};

/// A step of a takeover, in the expected order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The fault was detected: the token was lost, or a monitor failed.
    Detected,
    /// The remaining heads agree.
    Membership,
    /// A fence was requested.
    FenceAsked,
    /// It is confirmed.
    Fenced,
    /// The agent began to stop the pool.
    PoolStop,
    /// The agent has stopped it.
    Stopped,
    /// The agent began to start the pool.
    PoolStart,
    /// The pool is claimed: the addresses are set, and clients may wait for it.
    Claimed,
    /// The pool is imported.
    Imported,
    /// The server responds.
    Listening,
    /// The first of the pool's addresses is up.
    Address,
    /// The last one is.
    AllAddresses,
    /// The first request of a client is complete.
    FirstIo,
}

impl Step {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Detected => "detected",
            Self::Membership => "membership",
            Self::FenceAsked => "fence asked",
            Self::Fenced => "fenced",
            Self::PoolStop => "pool stop",
            Self::Stopped => "stopped",
            Self::PoolStart => "pool start",
            Self::Claimed => "claimed",
            Self::Imported => "imported",
            Self::Listening => "listening",
            Self::Address => "address",
            Self::AllAddresses => "all addresses",
            Self::FirstIo => "first I/O",
        }
    }
}

/// The names of the pool's resources in Pacemaker.
#[derive(Clone, Debug)]
pub struct Resources {
    /// The pool's server.
    pub pool: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// A step with its timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedStep {
    /// Which.
    pub step: Step,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The head concerned, if known.
    pub head: Option<String>,
}

/// A step that one of our processes recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The name of the resource in Pacemaker.
    pub resource: String,
    /// The step.
    #[serde(flatten)]
    pub reported: TimedStep,
}

impl Resources {
    fn has(&self, resource: &str) -> bool {
        self.pool == resource || self.addresses.iter().any(|one| one == resource)
    }
}

/// Parses a line that one of our processes recorded about one of the resources.
pub fn recorded(line: &str, resources: &Resources) -> Option<TimedStep> {
    let recorded: Recorded = serde_json::from_str(line).ok()?;
    resources
        .has(&recorded.resource)
        .then_some(recorded.reported)
}

/// Parses a line of Corosync or Pacemaker; none if it is no step.
pub fn step_of(line: &str) -> Option<Step> {
    let has = |words: &[&str]| words.iter().all(|word| line.contains(word));
    if has(&["[TOTEM ]", "A processor failed"]) || has(&["[TOTEM ]", "Token has not been received"])
    {
        return Some(Step::Detected);
    }
    if has(&["[TOTEM ]", "A new membership"]) {
        return Some(Step::Membership);
    }
    if has(&["Requesting fencing"]) {
        return Some(Step::FenceAsked);
    }
    is_fence_confirmed(line).then_some(Step::Fenced)
}

/// Pacemaker's messages for a fence that a device, or an administrator, confirmed.
fn is_fence_confirmed(line: &str) -> bool {
    let is_told = line.contains("pacemaker-fenced") && line.contains("Operation");
    is_told && line.contains("OK") && (line.contains("'off'") || line.contains("'reboot'"))
}

/// Returns the name that follows `mark`.
fn name_after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(mark)?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    rest.get(..end.unwrap_or(rest.len()))
        .filter(|name| !name.is_empty())
}

/// Returns the heads with a confirmed fence in these lines.
pub fn fenced(lines: &str) -> BTreeSet<String> {
    let confirmed = lines.lines().filter(|line| is_fence_confirmed(line));
    let targets = confirmed.filter_map(|line| name_after(line, "targeting "));
    targets.map(str::to_owned).collect()
}

/// Returns the head of a line.
fn head_of(line: &str, step: Step) -> Option<&str> {
    match step {
        Step::FenceAsked => name_after(line, " of node "),
        Step::Fenced => name_after(line, "targeting "),
        _ => None,
    }
}

/// Returns every step in the tail of a log of Corosync or Pacemaker. The log was last written at `written_ms`.
pub fn reported(text: &str, written_ms: u64) -> Vec<TimedStep> {
    let Some(clock) = FileClock::of(text, written_ms) else {
        return Vec::new();
    };
    let lines = text.lines();
    lines
        .filter_map(|line| {
            let step = step_of(line)?;
            Some(TimedStep {
                step,
                at_ms: clock.at_ms(line)?,
                head: head_of(line, step).map(str::to_owned),
            })
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const LOG: &str = "\
Nov 21 05:49:30.300 [7] right corosync notice  [TOTEM ] A processor failed, forming new configuration: token timed out (300ms), waiting 100ms for consensus.
Nov 21 05:49:30.410 [7] right corosync notice  [TOTEM ] A new membership (2.1d) was formed. Members left: 1
Nov 21 05:49:30.480 right pacemaker-controld  [41] (te_fence_node) \tnotice: Requesting fencing (off) of node left | action=1 timeout=60000
Nov 21 05:49:30.690 right pacemaker-fenced    [37] (log_async_result) \tnotice: Operation 'off' [99] targeting left using fence-left-bmc returned 0 (OK) | call 2 from pacemaker-controld.41
";

    pub(crate) fn resources() -> Resources {
        Resources {
            pool: "pool-tank".to_owned(),
            addresses: vec!["address-10.77.1.100".into(), "address-10.77.2.100".into()],
        }
    }

    /// 2026-11-21 05:49:30 UTC.
    pub(crate) const FAULT_MS: u64 = 1_795_240_170_000;

    #[test]
    fn confirmed_fence_names_the_head() {
        assert_eq!(fenced(LOG), BTreeSet::from(["left".to_owned()]));
        let failed = LOG.replace("returned 0 (OK)", "returned 1 (No such device)");
        assert!(fenced(&failed).is_empty());
    }

    #[test]
    fn recorded_steps_parse_and_other_lines_are_ignored() {
        let one = Recorded {
            resource: "pool-tank".to_owned(),
            reported: TimedStep {
                step: Step::PoolStart,
                at_ms: FAULT_MS,
                head: Some("right".to_owned()),
            },
        };
        let line = serde_json::to_string(&one).expect("JSON");
        assert_eq!(
            line,
            r#"{"resource":"pool-tank","step":"pool-start","at_ms":1795240170000,"head":"right"}"#
        );
        assert_eq!(recorded(&line, &resources()), Some(one.reported));
        for other in ["", "{}", &line.replace("tank", "attic"), &line[..40]] {
            assert_eq!(recorded(other, &resources()), None, "{other}");
        }
    }

    #[test]
    fn steps_have_timestamp_and_head() {
        // The log's clock is in another zone than UTC: its end determines the offset.
        let five_hours_ahead = FAULT_MS + 690 - 5 * 3_600_000;
        let steps = reported(LOG, five_hours_ahead);
        let shown: Vec<_> = steps
            .iter()
            .map(|one| {
                (
                    one.step,
                    one.at_ms + 5 * 3_600_000 - FAULT_MS,
                    one.head.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (Step::Detected, 300, None),
                (Step::Membership, 410, None),
                (Step::FenceAsked, 480, Some("left")),
                (Step::Fenced, 690, Some("left")),
            ]
        );
    }
}
