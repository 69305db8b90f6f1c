//! The legs of a pool as seen by its owner: the disks and heads, which legs are current, resynchronization, and the
//! members of the record.

pub mod reports;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Part of the reason why a head that boots alone starts no pool: the current legs are on another head.
pub const STALE_HERE: &str = "legs of this head are not current";

/// The state of a leg.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LegState {
    /// All data.
    #[default]
    Current,
    /// It failed, and that is not on record yet: writes are paused.
    Failing,
    /// Data is missing, and it is not being resynchronized.
    Stale,
    /// It is being resynchronized.
    Copying,
    /// Data is missing, and it returned and failed too often; it is not retried for a while.
    Faulted,
    /// Its history is not the pool's. Nothing is written to it.
    Divergent,
}

impl LegState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Current,
        Self::Failing,
        Self::Stale,
        Self::Copying,
        Self::Faulted,
        Self::Divergent,
    ];

    /// Returns the name, as in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Failing => "failing",
            Self::Stale => "stale",
            Self::Copying => "copying",
            Self::Faulted => "faulted",
            Self::Divergent => "divergent",
        }
    }
}

impl fmt::Display for LegState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The legs of a pool, and the members of their record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolLegs")]
pub struct LegsView {
    /// The epoch of the newest record: it grows with every owner.
    pub epoch: u64,
    /// Whether writes are paused until the failure of a leg is on record, or until the last leg
    /// returns.
    pub writes_wait: bool,
    /// In the order of `legs.toml`.
    pub legs: Vec<LegView>,
    /// Those of the record, by name.
    pub members: Vec<LegMemberView>,
    /// Members that `legs.toml` names but the record does not: they have no vote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_on_record: Vec<String>,
    /// The failures that the pool survives now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survives: Option<Survives>,
}

/// The failures that a pool survives now, by its current legs and the members that respond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolSurvives")]
pub struct Survives {
    /// Any so many disks may fail.
    pub disks: usize,
    /// Each of these heads may be lost alone, with all of its disks.
    pub heads: Vec<String>,
    /// The loss of any of these heads stops the pool.
    pub not_heads: Vec<String>,
    /// When one of `heads` is lost, any so many disks may fail in addition.
    pub disks_without_head: usize,
    /// Heads that could not serve the pool, each with the reason: the cluster would not start it there, or too few members
    /// respond to the head.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cannot_serve: BTreeMap<String, String>,
    /// It is unknown whether the pool survives the loss of any of these heads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain_heads: Vec<String>,
    /// Heads of which it is unknown whether they could serve the pool, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

impl Survives {
    /// Excludes heads that could not serve the pool, in addition to those that are excluded already: the loss of a head
    /// stops the pool if no other head can serve it. `server`: the head that serves it now.
    pub fn exclude(&mut self, server: Option<&str>, cannot_serve: BTreeMap<String, String>) {
        self.cannot_serve.extend(cannot_serve);
        let cannot_serve = &self.cannot_serve;
        let all = self.heads.iter().chain(&self.not_heads);
        let all: Vec<String> = all.chain(&self.uncertain_heads).cloned().collect();
        let is_survived = |lost: &String| {
            let is_served_elsewhere = server.is_some_and(|server| server != lost);
            let mut rest = all.iter().filter(|head| *head != lost);
            is_served_elsewhere || rest.any(|head| !cannot_serve.contains_key(head))
        };
        let (heads, stopping): (Vec<_>, Vec<_>) = std::mem::take(&mut self.heads)
            .into_iter()
            .partition(is_survived);
        let (uncertain, more): (Vec<_>, Vec<_>) = std::mem::take(&mut self.uncertain_heads)
            .into_iter()
            .partition(is_survived);
        self.not_heads.extend(stopping.into_iter().chain(more));
        if heads.is_empty() && uncertain.is_empty() {
            self.disks_without_head = 0;
        }
        (self.heads, self.uncertain_heads) = (heads, uncertain);
    }

    /// The consequence of a further failure; `None` if the pool survives the loss of any disk and of any head.
    pub fn risk(&self, pool: &str) -> Option<String> {
        let heads = self.not_heads.join(" or ");
        let certain = match (self.disks, &*heads) {
            (0, "") => Some(format!(
                "one copy only: if one more disk fails, {pool} is down"
            )),
            (0, heads) => Some(format!(
                "one copy only: if one more disk or {heads} fails, {pool} is down"
            )),
            (_, "") => None,
            (_, heads) => Some(format!("if {heads} is lost, {pool} is down")),
        };
        let uncertain = match self.uncertain_heads.join(" or ") {
            none if none.is_empty() => None,
            heads => Some(format!(
                "it is unknown whether {pool} survives the loss of {heads}"
            )),
        };
        match (certain, uncertain) {
            (Some(certain), Some(uncertain)) => Some(format!("{certain}; {uncertain}")),
            (certain, uncertain) => certain.or(uncertain),
        }
    }
}

impl LegsView {
    /// Returns the leg's name for the device of that name, if it is a leg.
    pub fn name_of(&self, device: &str) -> Option<&str> {
        let leg = self.legs.iter().find(|leg| leg.device == device)?;
        Some(&leg.name)
    }

    /// Replaces the engine's names of legs in a text by the names of the legs.
    pub fn with_names(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let legs = self.legs.iter().filter(|leg| !leg.device.is_empty());
            let found = legs.filter_map(|leg| Some((position_of(rest, &leg.device)?, leg)));
            let Some((at, leg)) = found.min_by_key(|(at, _)| *at) else {
                break;
            };
            named.push_str(&rest[..at]);
            named.push_str(&leg.name);
            rest = &rest[at + leg.device.len()..];
        }
        named + rest
    }
}

/// The position of a leg's number in a text: `legs/tank/2` is not in `legs/tank/21`.
fn position_of(text: &str, device: &str) -> Option<usize> {
    let is_whole = |at: &usize| {
        let next = text[at + device.len()..].chars().next();
        !next.is_some_and(|next| next.is_ascii_digit())
    };
    let mut found = text.match_indices(device).map(|(at, _)| at);
    found.find(is_whole)
}

/// A leg.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolLeg")]
pub struct LegView {
    /// Its head and its path there, such as `left:/dev/disk/by-id/x`.
    pub name: String,
    /// The head that has it.
    pub head: String,
    /// Where it is on that head.
    pub path: String,
    /// The number by which the members identify it.
    pub disk: u64,
    /// The index of its group, from 0.
    pub group: usize,
    /// The owner's name of it, as [`super::answer::DeviceView::name`].
    pub device: String,
    /// Its state.
    pub state: LegState,
    /// Since when, in milliseconds since 1970, if an owner observed the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// The first transaction group of which data is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks_since_group: Option<u64>,
    /// When a faulted one is retried, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_again_ms: Option<u64>,
    /// Bytes that were copied to it since it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<u64>,
    /// Bytes that are still missing, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// Remaining seconds of the resynchronization at its present speed, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_s: Option<u64>,
}

/// A member of the record: a head, or the witness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolLegMember")]
pub struct LegMemberView {
    /// Its name.
    pub name: String,
    /// Whether it stores the record only, without a disk.
    pub is_witness: bool,
    /// Whether its removal is pending: the other head has not agreed to it yet.
    #[serde(default)]
    pub is_leaving: bool,
    /// Whether it responds to the pool's owner.
    pub answers: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two heads with a witness, and all legs are current.
    fn whole() -> Survives {
        Survives {
            disks: 1,
            heads: vec!["left".to_owned(), "right".to_owned()],
            ..Survives::default()
        }
    }

    #[test]
    fn head_in_standby_or_banned_is_no_second_head() {
        let reasons = |heads: &[&str]| {
            let reasons = heads
                .iter()
                .map(|head| ((*head).to_owned(), "it is in standby".to_owned()));
            reasons.collect::<BTreeMap<_, _>>()
        };
        for (server, cannot_serve, survived, stopping, risk) in [
            (Some("left"), &[][..], &["left", "right"][..], &[][..], None),
            (
                Some("left"),
                &["right"],
                &["right"],
                &["left"],
                Some("if left is lost, tank is down"),
            ),
            // The server was started before the ban.
            (Some("left"), &["left"], &["left", "right"], &[], None),
            (
                None,
                &["left", "right"],
                &[],
                &["left", "right"],
                Some("if left or right is lost, tank is down"),
            ),
        ] {
            let mut survives = whole();
            survives.exclude(server, reasons(cannot_serve));
            assert_eq!(
                (&*survives.heads, &*survives.not_heads),
                (
                    &survived
                        .iter()
                        .map(|one| (*one).to_owned())
                        .collect::<Vec<_>>()[..],
                    &stopping
                        .iter()
                        .map(|one| (*one).to_owned())
                        .collect::<Vec<_>>()[..],
                ),
                "{cannot_serve:?}"
            );
            assert_eq!(survives.risk("tank").as_deref(), risk, "{cannot_serve:?}");
        }
    }

    #[test]
    fn texts_have_the_names_of_legs_instead_of_their_numbers() {
        let leg = |name: &str, disk: u64| LegView {
            name: name.to_owned(),
            device: format!("/run/bulkhead/legs/tank/{disk}"),
            ..LegView::default()
        };
        let view = LegsView {
            legs: vec![leg("a:/x", 2), leg("b:/y", 21)],
            ..LegsView::default()
        };
        for (text, named) in [
            (
                "/run/bulkhead/legs/tank/21 has 4 errors",
                "b:/y has 4 errors",
            ),
            (
                "open /run/bulkhead/legs/tank/2: no; /run/bulkhead/legs/tank/21, too",
                "open a:/x: no; b:/y, too",
            ),
            (
                "/run/bulkhead/legs/tank/23 left",
                "/run/bulkhead/legs/tank/23 left",
            ),
            ("", ""),
        ] {
            assert_eq!(view.with_names(text), named);
        }
    }
}
