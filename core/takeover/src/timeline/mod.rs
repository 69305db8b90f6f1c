//! When the steps of a takeover happened, by the logs of Corosync, Pacemaker and the pool's server: which
//! line tells which step, when it was written, and which steps belong to one takeover. The API, the console and the drills
//! read the same lines with this code.
//!
//! Each head reads the last 1 MiB of its own logs, and the head that is asked adds what the other online heads tell: a
//! hand-over begins on one head and ends on the other, and after a crash only the survivor can tell. The logs are written
//! anyway and cost nothing while a pool moves. Corosync and Pacemaker write neither year nor time zone;
//! the moment at which the file was last written tells both. A new version of either may change its words:
//! then steps are missing, and the drills fail. Steps of two heads are ordered by their clocks, which must agree.

mod account;
mod clock;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use account::{Account, Kind, account};
pub use clock::{FileClock, minutes_and_seconds};

/// A step of a takeover, in the order in which they should come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Somebody noticed: the token was lost, or a monitor failed.
    Detected,
    /// The heads that are left agree.
    Membership,
    /// A power-off was asked for.
    FenceAsked,
    /// It is confirmed.
    Fenced,
    /// The agent was told to stop the pool.
    PoolStop,
    /// The agent has stopped it.
    Stopped,
    /// The agent was told to start the pool.
    PoolStart,
    /// Its disks are the new owner's: the addresses come, and clients may wait for it.
    Claimed,
    /// The pool is imported.
    Imported,
    /// The server answers.
    Listening,
    /// Pacemaker has found the first of the pool's addresses up.
    Address,
    /// The last one is.
    AllAddresses,
    /// A client has an answer.
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

/// The resources of the pool, as Pacemaker calls them.
#[derive(Clone, Debug)]
pub struct Resources {
    /// The pool's server.
    pub pool: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// What a log tells of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Which.
    pub step: Step,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The head that it happened to, where the line says so.
    pub head: Option<String>,
}

/// What a line tells, if it tells a step.
pub fn step_of(line: &str, resources: &Resources) -> Option<Step> {
    let has = |words: &[&str]| words.iter().all(|word| line.contains(word));
    let pool = resources.pool.as_str();
    if has(&["[TOTEM ]", "A processor failed"]) || has(&["[TOTEM ]", "Token has not been received"])
    {
        return Some(Step::Detected);
    }
    if has(&["[TOTEM ]", "A new membership"]) {
        return Some(Step::Membership);
    }
    if has(&["Result of monitor operation for", pool]) && !is_success(line) && !has(&["Cancelled"])
    {
        return Some(Step::Detected);
    }
    // A failure that the cluster was told of.
    if has(&["Result of asyncmon operation for", pool]) {
        return Some(Step::Detected);
    }
    if has(&["Requesting local execution of stop operation for", pool]) {
        return Some(Step::PoolStop);
    }
    if has(&["Result of stop operation for", pool]) && is_success(line) {
        return Some(Step::Stopped);
    }
    if has(&["Requesting fencing"]) {
        return Some(Step::FenceAsked);
    }
    if is_fence_confirmed(line) {
        return Some(Step::Fenced);
    }
    if has(&["Requesting local execution of start operation for", pool]) {
        return Some(Step::PoolStart);
    }
    if has(&["the pool is ours", "after_ms="]) {
        return Some(Step::Claimed);
    }
    if has(&["pool imported", "after_ms="]) {
        return Some(Step::Imported);
    }
    if has(&["listening", "after_ms="]) {
        return Some(Step::Listening);
    }
    let is_address = |id: &String| line.contains(id.as_str());
    let is_up = has(&["Result of start operation for"]) && is_success(line);
    (is_up && resources.addresses.iter().any(is_address)).then_some(Step::Address)
}

/// Whether an operation went well, in the words of Pacemaker 2 and of Pacemaker 3.
fn is_success(line: &str) -> bool {
    line.contains(": ok") || line.contains(": OK")
}

/// Pacemaker's words for a power-off that a device confirmed, or a person.
fn is_fence_confirmed(line: &str) -> bool {
    let is_told = line.contains("pacemaker-fenced") && line.contains("Operation");
    is_told && line.contains("OK") && (line.contains("'off'") || line.contains("'reboot'"))
}

/// The name that stands after `mark`.
fn name_after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(mark)?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    rest.get(..end.unwrap_or(rest.len()))
        .filter(|name| !name.is_empty())
}

/// The heads whose power-off some lines confirm.
pub fn fenced(lines: &str) -> BTreeSet<String> {
    let confirmed = lines.lines().filter(|line| is_fence_confirmed(line));
    let targets = confirmed.filter_map(|line| name_after(line, "targeting "));
    targets.map(str::to_owned).collect()
}

/// The head that a line is about.
fn head_of(line: &str, step: Step) -> Option<&str> {
    match step {
        Step::FenceAsked => name_after(line, " of node "),
        Step::Fenced => name_after(line, "targeting "),
        Step::PoolStop | Step::Stopped | Step::PoolStart | Step::Address => {
            let (_, rest) = line.split_once("operation for ")?;
            name_after(rest, " on ")
        }
        _ => None,
    }
}

/// Every step that the end of a log tells. The log was last written at `written_ms`.
pub fn told(text: &str, resources: &Resources, written_ms: u64) -> Vec<Told> {
    let Some(clock) = FileClock::of(text, written_ms) else {
        return Vec::new();
    };
    let lines = text.lines();
    lines
        .filter_map(|line| {
            let step = step_of(line, resources)?;
            Some(Told {
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
Nov 21 05:49:30.760 right pacemaker-controld  [41] (execute_rsc_action) \tnotice: Requesting local execution of start operation for pool-tank on right | transition_key=x op_key=pool-tank_start_0
Nov 21 05:49:31.000 right pacemaker-controld  [41] (log_executor_event) \tnotice: Result of start operation for address-10.77.1.100 on right: ok | rc=0
Nov 21 05:49:31.050 right pacemaker-controld  [41] (log_executor_event) \tnotice: Result of start operation for address-10.77.2.100 on right: ok | rc=0
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
    fn a_confirmed_power_off_names_its_head() {
        assert_eq!(fenced(LOG), BTreeSet::from(["left".to_owned()]));
        let failed = LOG.replace("returned 0 (OK)", "returned 1 (No such device)");
        assert!(fenced(&failed).is_empty());
    }

    #[test]
    fn a_monitor_that_fails_is_a_detection_and_one_that_succeeds_is_not() {
        let line = |result: &str| {
            format!(
                "Nov 21 05:49:30 left pacemaker-controld [4] (x) notice: Result of monitor operation for pool-tank on left: {result}"
            )
        };
        assert_eq!(
            step_of(&line("not running | rc=7"), &resources()),
            Some(Step::Detected)
        );
        for other in [
            "ok | rc=0",
            "OK | graph action confirmed; rc=0",
            "Cancelled | call=7",
        ] {
            assert_eq!(step_of(&line(other), &resources()), None);
        }
    }

    #[test]
    fn pacemaker_3_tells_the_same_steps_as_pacemaker_2() {
        let newer = LOG.replace(": ok |", ": OK | graph action confirmed;");
        assert_ne!(newer, LOG);
        let steps = |log: &str| told(log, &resources(), FAULT_MS + 1050);
        assert_eq!(steps(&newer), steps(LOG));
    }

    #[test]
    fn steps_have_their_moment_and_their_head() {
        // The log's clock shows another zone than UTC: its end tells how far away it is.
        let five_hours_ahead = FAULT_MS + 1050 - 5 * 3_600_000;
        let steps = told(LOG, &resources(), five_hours_ahead);
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
                (Step::PoolStart, 760, Some("right")),
                (Step::Address, 1000, Some("right")),
                (Step::Address, 1050, Some("right")),
            ]
        );
    }
}
