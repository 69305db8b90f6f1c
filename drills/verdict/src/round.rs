//! What was seen in one round of a drill.

use std::collections::BTreeMap;

use serde::Serialize;
use units::{HeadName, PoolName};

use crate::expectation::Kind;
use crate::other_pool::BesideRound;
use crate::timeline::Mark;

/// One act of a drill that has several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Act {
    /// What was done.
    pub what: String,
    /// Which promise counts.
    pub kind: Kind,
    /// The longest pause, in seconds; none when I/O did not come back.
    pub pause_s: Option<f64>,
}

/// One fault and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// The drill.
    pub drill: String,
    /// The seed that chose its moments.
    pub seed: u64,
    /// What exactly was done.
    pub fault: String,
    /// Who served the pool before.
    pub served_before: HeadName,
    /// Who served it afterwards.
    pub served_after: Option<HeadName>,
    /// Heads that the cluster powered off.
    pub fenced: Vec<HeadName>,
    /// The longest pause of each initiator that had its I/O back, in seconds.
    pub pauses_s: BTreeMap<String, f64>,
    /// How long was waited for I/O to come back, in seconds.
    pub waited_s: f64,
    /// The slowest request, in seconds.
    pub slowest_s: f64,
    /// What was done besides the fault, before it or after it, with the longest pause that an initiator saw then.
    pub acts: Vec<Act>,
    /// Errors that an application saw.
    pub errors: Vec<String>,
    /// Acknowledged writes that are not there, or contents that nobody wrote.
    pub violations: Vec<String>,
    /// Why the volumes could not be read back.
    pub not_verified: Option<String>,
    /// Writes that the clients have been told are done, since their start.
    pub acknowledged: u64,
    /// Requests that were sent again.
    pub repeated: u64,
    /// Logins that a target refused.
    pub refused_logins: u32,
    /// Moments at which the pool was open in two processes.
    pub double_imports: Vec<String>,
    /// What this very drill asks for, and was not so.
    pub complaints: Vec<String>,
    /// What it did to the other pools of the appliance.
    pub beside: BTreeMap<PoolName, BesideRound>,
    /// What happened when, after the fault.
    pub timeline: Vec<Mark>,
}

impl Round {
    /// A round of which nothing is known yet.
    pub fn new(drill: &str, seed: u64, served_before: HeadName) -> Self {
        Self {
            drill: drill.to_owned(),
            seed,
            fault: String::new(),
            served_before,
            served_after: None,
            fenced: Vec::new(),
            pauses_s: BTreeMap::new(),
            waited_s: 0.0,
            slowest_s: 0.0,
            acts: Vec::new(),
            errors: Vec::new(),
            violations: Vec::new(),
            not_verified: None,
            acknowledged: 0,
            repeated: 0,
            refused_logins: 0,
            double_imports: Vec::new(),
            complaints: Vec::new(),
            beside: BTreeMap::new(),
            timeline: Vec::new(),
        }
    }

    /// The longest pause that any initiator saw; none when I/O did not come back.
    pub fn pause_s(&self) -> Option<f64> {
        self.pauses_s.values().copied().max_by(f64::total_cmp)
    }
}
