//! Checks an appliance file for known mistakes, each with the reason and the remedy. Pure: the
//! state of the heads is passed in as [`Facts`].

mod alerts;
mod codes;
mod fencing;
mod hosts;
mod interfaces;
mod legs;
mod names;
mod networks;
mod paths;
mod placement;
mod pools;
mod quorum;
mod services;
#[cfg(test)]
mod tests;
mod times;
mod tuning;
mod ups;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use units::HeadName;

pub use codes::{Code, Severity};

use crate::facts::Facts;
use crate::file::{Appliance, Leg, Pool};
use crate::key::{Key, SourceMap};
use crate::parse::Parsed;

/// The position of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// The key, such as `heads.left.fencing.delay_s`; empty for the file as a whole.
    pub key: String,
    /// Its line, from 1, or that of the table where it is missing.
    pub line: Option<u32>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Its kind.
    #[schemars(with = "String")]
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// Where it is.
    #[serde(rename = "where")]
    pub place: Place,
    /// The mistake.
    pub what: String,
    /// The consequence of the mistake.
    pub why: &'static str,
    /// The remedy.
    pub mend: String,
}

impl fmt::Display for Finding {
    /// Formats the finding in four lines, as the command line prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Hint => "hint",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}[{}]", self.code)?;
        if let Some(line) = self.place.line {
            write!(f, " line {line}")?;
        }
        if !self.place.key.is_empty() {
            write!(f, " {}", self.place.key)?;
        }
        write!(
            f,
            ": {}\n  why:  {}\n  mend: {}",
            self.what, self.why, self.mend
        )
    }
}

/// The result of checking a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckReport {
    /// The file.
    pub file: PathBuf,
    /// The severity of the worst finding.
    pub worst: Option<Severity>,
    /// The mistakes.
    pub findings: Vec<Finding>,
    /// The outcome of gathering facts, by head.
    #[schemars(with = "BTreeMap<String, HeadAsked>")]
    pub heads: BTreeMap<HeadName, HeadAsked>,
}

/// Whether the facts of a head were gathered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeadAsked {
    /// Whether it responded.
    pub asked: bool,
    /// Why the facts were not gathered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Facts that are missing, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Vec<&'static str>>,
    /// Addresses over which it was not reached, each with the reason; it was reached over a further one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
}

/// The input of the single checks, and their findings.
struct Checker<'a> {
    appliance: &'a Appliance,
    source: &'a SourceMap,
    facts: &'a Facts,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn find(&mut self, code: Code, key: &Key, what: impl Into<String>, mend: impl Into<String>) {
        self.findings.push(Finding {
            code,
            severity: code.severity(),
            place: Place {
                key: key.to_string(),
                line: self.source.line(key),
            },
            what: what.into(),
            why: code.why(),
            mend: mend.into(),
        });
    }
}

/// Returns every finding, in the order of the file, the worst of a line first.
pub fn check(parsed: &Parsed, facts: &Facts) -> Vec<Finding> {
    let mut checker = Checker {
        appliance: &parsed.appliance,
        source: &parsed.source,
        facts,
        findings: Vec::new(),
    };
    names::check(&mut checker);
    networks::check(&mut checker);
    interfaces::check(&mut checker);
    quorum::check(&mut checker);
    fencing::check(&mut checker);
    pools::check(&mut checker);
    legs::check(&mut checker);
    services::check(&mut checker);
    paths::check(&mut checker);
    times::check(&mut checker);
    hosts::check(&mut checker);
    tuning::check(&mut checker);
    placement::check(&mut checker);
    ups::check(&mut checker);
    alerts::check(&mut checker);
    let mut findings = checker.findings;
    findings.sort_by(|a, b| {
        let place = |finding: &Finding| finding.place.line.unwrap_or(0);
        (place(a), b.severity, &a.place.key).cmp(&(place(b), a.severity, &b.place.key))
    });
    findings
}

/// The severity of the worst finding.
pub fn worst(findings: &[Finding]) -> Option<Severity> {
    findings.iter().map(|finding| finding.severity).max()
}

fn head_key(name: &units::HeadName) -> Key {
    Key::of("heads").field(name)
}

fn network_key(name: &units::NetworkName) -> Key {
    Key::of("networks").field(name)
}

fn pool_key(name: &units::PoolName) -> Key {
    Key::of("pools").field(name)
}

/// Returns the pool's disks on a head, each with its key.
fn legs_of<'a>(name: &units::PoolName, pool: &'a Pool) -> Vec<(Key, &'a Leg)> {
    let mut legs = Vec::new();
    for (field, index, group) in pool.all_groups() {
        let key = pool_key(name).field(field).item(index).field("legs");
        let of_group = group.legs.iter().enumerate();
        legs.extend(of_group.map(|(index, leg)| (key.item(index), leg)));
    }
    let cache = pool.cache.iter().enumerate();
    legs.extend(cache.map(|(index, leg)| (pool_key(name).field("cache").item(index), leg)));
    legs
}
