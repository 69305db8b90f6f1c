//! The observations of one round of a drill.

use std::collections::BTreeMap;

use serde::Serialize;
use units::{HeadName, PoolName};

use crate::expectation::Kind;
use crate::other_pool::OtherPoolRound;
use crate::timeline::Mark;

/// One act of a drill that has several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Act {
    /// The fault.
    pub what: String,
    /// Which promise counts.
    pub kind: Kind,
    /// The longest pause, in seconds; `None` if I/O did not resume.
    pub pause_s: Option<f64>,
}

/// One fault and its effects.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// The drill.
    pub drill: String,
    /// The seed that chose its moments.
    pub seed: u64,
    /// The exact fault.
    pub fault: String,
    /// The head that served the pool before.
    pub served_before: HeadName,
    /// The head that served it afterwards.
    pub served_after: Option<HeadName>,
    /// Heads that the cluster powered off.
    pub fenced: Vec<HeadName>,
    /// The longest pause of each initiator that had its I/O back, in seconds.
    pub pauses_s: BTreeMap<String, f64>,
    /// Time until I/O had resumed, in seconds.
    pub waited_s: f64,
    /// The slowest request, in seconds.
    pub slowest_s: f64,
    /// Other faults of the round, before or after the main one, each with the longest pause of an initiator.
    pub acts: Vec<Act>,
    /// Errors that an application saw.
    pub errors: Vec<String>,
    /// Acknowledged writes that are lost, or contents that no client wrote.
    pub violations: Vec<String>,
    /// Why the volumes could not be read back.
    pub not_verified: Option<String>,
    /// Writes that were acknowledged to the clients since their start.
    pub acknowledged: u64,
    /// Requests that were sent again.
    pub repeated: u64,
    /// Logins that a target refused.
    pub refused_logins: u32,
    /// Moments at which the pool was open in two processes.
    pub double_imports: Vec<String>,
    /// Violated conditions of this drill.
    pub complaints: Vec<String>,
    /// The effects on the other pools of the appliance.
    pub beside: BTreeMap<PoolName, OtherPoolRound>,
    /// The steps after the fault, with their times.
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

    /// The longest pause of any initiator; `None` if I/O did not resume.
    pub fn pause_s(&self) -> Option<f64> {
        self.pauses_s.values().copied().max_by(f64::total_cmp)
    }
}
