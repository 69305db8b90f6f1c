//! When the steps of a takeover happened, as programs of the heads wrote them down, and by the logs of Corosync and Pacemaker.

use serde::Serialize;

pub use takeover::timeline::{Resources, Step, fenced};
use takeover::timeline::{recorded, step_of};

use crate::timestamp::{LogClock, Timestamp};

/// A step, and when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Which.
    pub step: Step,
    /// Seconds after the fault.
    pub after_s: f64,
}

/// The first occurrence of each step after `fault`; of the addresses also the last.
pub fn marks(lines: &str, resources: &Resources, clock: &LogClock, fault: Timestamp) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    let mut last_address = None;
    let mut addresses = 0;
    for line in lines.lines() {
        let told = match recorded(line, resources) {
            Some(told) => Some((told.step, clock.timestamp_of_ms(told.at_ms))),
            None => step_of(line).zip(clock.place(line)),
        };
        let Some((step, timestamp)) = told else {
            continue;
        };
        let after_s = timestamp.since(fault);
        // Logs with whole seconds would put effects before their cause.
        if after_s < 0.0 {
            continue;
        }
        if step == Step::Address {
            addresses += 1;
            last_address = Some(after_s);
        }
        if !marks.iter().any(|mark| mark.step == step) {
            marks.push(Mark { step, after_s });
        }
    }
    if let Some(after_s) = last_address.filter(|_| addresses > 1) {
        let step = Step::AllAddresses;
        marks.push(Mark { step, after_s });
    }
    marks
}

/// Marks from several logs: the earliest of each step, in order of time.
pub fn merge(mut marks: Vec<Mark>) -> Vec<Mark> {
    marks.sort_by(|a, b| a.after_s.total_cmp(&b.after_s));
    let mut merged: Vec<Mark> = Vec::new();
    for mark in marks {
        let known = merged.iter_mut().find(|known| known.step == mark.step);
        match known {
            // Of the last addresses the latest counts.
            Some(known) if mark.step == Step::AllAddresses => known.after_s = mark.after_s,
            Some(_) => {}
            None => merged.push(mark),
        }
    }
    merged.sort_by(|a, b| a.after_s.total_cmp(&b.after_s));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
Nov 21 05:49:30.300 [7] right corosync notice  [TOTEM ] A processor failed, forming new configuration: token timed out (300ms), waiting 100ms for consensus.
Nov 21 05:49:30.410 [7] right corosync notice  [TOTEM ] A new membership (2.1d) was formed. Members left: 1
Nov 21 05:49:30.480 right pacemaker-controld  [41] (te_fence_node) \tnotice: Requesting fencing (off) of node left | action=1 timeout=60000
Nov 21 05:49:30.690 right pacemaker-fenced    [37] (log_async_result) \tnotice: Operation 'off' [99] targeting left using fence-left-bmc returned 0 (OK) | call 2 from pacemaker-controld.41
{\"resource\":\"pool-tank\",\"step\":\"pool-start\",\"at_ms\":1795240170760,\"head\":\"right\"}
{\"resource\":\"pool-tank\",\"step\":\"imported\",\"at_ms\":1795240170910,\"head\":\"right\"}
{\"resource\":\"pool-tank\",\"step\":\"listening\",\"at_ms\":1795240170930,\"head\":\"right\"}
{\"resource\":\"address-10.77.1.100\",\"step\":\"address\",\"at_ms\":1795240171000,\"head\":\"right\"}
{\"resource\":\"address-10.77.2.100\",\"step\":\"address\",\"at_ms\":1795240171050,\"head\":\"right\"}
";

    fn resources() -> Resources {
        Resources {
            pool: "pool-tank".to_owned(),
            addresses: vec!["address-10.77.1.100".into(), "address-10.77.2.100".into()],
        }
    }

    #[test]
    fn the_steps_of_a_takeover_are_found() {
        let clock = LogClock::at(Timestamp(100.0), 1_795_240_170.0);
        let marks = merge(marks(LOG, &resources(), &clock, Timestamp(100.0)));
        let shown: Vec<String> = marks
            .iter()
            .map(|mark| format!("{} {:.2}", mark.step.name(), mark.after_s))
            .collect();
        assert_eq!(
            shown,
            [
                "detected 0.30",
                "membership 0.41",
                "fence asked 0.48",
                "fenced 0.69",
                "pool start 0.76",
                "imported 0.91",
                "listening 0.93",
                "address 1.00",
                "all addresses 1.05"
            ]
        );
    }

    #[test]
    fn the_earliest_of_two_heads_counts_and_the_latest_last_address() {
        let mark = |step, after_s| Mark { step, after_s };
        let merged = merge(vec![
            mark(Step::AllAddresses, 1.0),
            mark(Step::Detected, 0.5),
            mark(Step::Detected, 0.3),
            mark(Step::AllAddresses, 1.2),
        ]);
        let expected = [mark(Step::Detected, 0.3), mark(Step::AllAddresses, 1.2)];
        assert_eq!(merged, expected);
    }
}
