//! Events of the clients: lines of JSON (`proof/drill/events.py`), collected into the state that a
//! verdict needs.

use drill_verdict::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// A pause belongs to a fault when it begins at most so long after it, in seconds.
const BEGINS_WITHIN_S: f64 = 0.15;

/// One line of a client.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// All initiators work.
    Ready {
        /// When.
        at: Timestamp,
    },
    /// The client is alive.
    Tick {
        /// When.
        at: Timestamp,
        /// Replies so far, by initiator.
        answers: BTreeMap<String, u64>,
        /// The last reply of each.
        last: BTreeMap<String, Timestamp>,
    },
    /// A path came up, was lost, or does not come up.
    Path {
        /// When.
        at: Timestamp,
        /// The initiator.
        initiator: String,
        /// Which.
        path: String,
        /// `up`, `lost` or `refused`.
        state: String,
        /// Why it is not up.
        #[serde(default)]
        why: String,
        /// Whether a target was reached that did not let us in.
        #[serde(default)]
        by_target: bool,
    },
    /// A pause between two replies.
    Gap {
        /// The initiator.
        initiator: String,
        /// The last reply before it.
        from: Timestamp,
        /// The first one after it.
        to: Timestamp,
    },
    /// A request took long.
    Slow {
        /// When it was answered.
        at: Timestamp,
        /// The initiator.
        initiator: String,
        /// From its first transmission to the reply, in seconds.
        seconds: f64,
    },
    /// A request was answered with an error that an application sees.
    Error {
        /// When.
        at: Timestamp,
        /// The initiator.
        initiator: String,
        /// The request.
        what: String,
        /// The reply.
        words: String,
    },
    /// Data differs from the acknowledged data.
    Violation {
        /// The initiator.
        initiator: String,
        /// The difference.
        words: String,
    },
    /// All data was read back.
    Verified {
        /// When.
        at: Timestamp,
        /// The counts since the start, by initiator.
        #[serde(flatten)]
        initiators: BTreeMap<String, Counts>,
    },
    /// The client terminates.
    Ended {
        /// When.
        at: Timestamp,
    },
}

/// Counts of an initiator since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Requests that were answered.
    pub answers: u64,
    /// With an error.
    pub errors: u64,
    /// Requests that were sent again.
    pub repeated: u64,
    /// Writes that were answered.
    pub acknowledged: u64,
    /// Broken promises about contents.
    pub violations: u64,
}

/// The effect of the fault of one round on the clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientEvents {
    /// The timestamp of the newest line.
    pub heard: Option<Timestamp>,
    /// Whether the initiators have begun to work.
    pub is_ready: bool,
    /// The last reply of each initiator.
    pub last_answer: BTreeMap<String, Timestamp>,
    /// Silences that ended, by initiator.
    pub gaps: Vec<(String, Timestamp, Timestamp)>,
    /// The slowest request, in seconds.
    pub slowest_s: f64,
    /// Errors that an application saw.
    pub errors: Vec<String>,
    /// Broken promises about contents.
    pub violations: Vec<String>,
    /// Logins that a target refused.
    pub refused_logins: u32,
    /// Why the newest attempts failed.
    pub refusals: BTreeMap<String, String>,
    /// Paths that are up, by initiator and name.
    pub paths_up: BTreeSet<(String, String)>,
    /// Paths that were lost.
    pub lost_paths: u32,
    /// The newest counts of a verification, with their timestamp.
    pub verified: Option<(Timestamp, BTreeMap<String, Counts>)>,
    /// Whether the client has ended.
    pub ended: bool,
}

impl ClientEvents {
    /// Handles one event.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Ready { at } => {
                self.is_ready = true;
                self.heard = Some(at);
            }
            Event::Tick { at, last, .. } => {
                self.heard = Some(at);
                self.last_answer = last;
            }
            Event::Path {
                initiator,
                path,
                state,
                why,
                by_target,
                ..
            } => match state.as_str() {
                "up" => {
                    self.refusals.remove(&path);
                    self.paths_up.insert((initiator, path));
                }
                "lost" => {
                    self.lost_paths += 1;
                    self.paths_up.remove(&(initiator, path));
                }
                _ => {
                    self.refused_logins += u32::from(by_target);
                    self.refusals.insert(path, why);
                }
            },
            Event::Gap {
                initiator,
                from,
                to,
            } => {
                self.last_answer.insert(initiator.clone(), to);
                self.gaps.push((initiator, from, to));
            }
            Event::Slow { seconds, .. } => self.slowest_s = self.slowest_s.max(seconds),
            Event::Error {
                initiator,
                what,
                words,
                ..
            } => self.errors.push(format!("{initiator} {what}: {words}")),
            Event::Violation { initiator, words } => {
                self.violations.push(format!("{initiator}: {words}"));
            }
            Event::Verified { at, initiators } => self.verified = Some((at, initiators)),
            Event::Ended { at } => {
                self.heard = Some(at);
                self.ended = true;
            }
        }
    }

    /// Discards the state of the previous round.
    pub fn begin_round(&mut self) {
        *self = Self {
            heard: self.heard,
            is_ready: self.is_ready,
            last_answer: std::mem::take(&mut self.last_answer),
            paths_up: std::mem::take(&mut self.paths_up),
            ended: self.ended,
            ..Self::default()
        };
    }

    /// Whether every initiator has received a reply after `timestamp`.
    pub fn all_responded_since(&self, timestamp: Timestamp) -> bool {
        !self.last_answer.is_empty() && self.last_answer.values().all(|last| *last > timestamp)
    }

    /// Whether every initiator has been through a pause that began with the fault.
    pub fn has_passed(&self, fault: Timestamp) -> bool {
        let begun = Timestamp(fault.0 + BEGINS_WITHIN_S);
        let passed = |initiator: &String| {
            let mut gaps = self.gaps.iter();
            gaps.any(|(whose, from, to)| whose == initiator && *from <= begun && *to > begun)
        };
        !self.last_answer.is_empty() && self.last_answer.keys().all(passed)
    }

    /// The longest silence of each initiator that ended after `fault`, or lasts still.
    pub fn pauses(&self, fault: Timestamp) -> BTreeMap<String, Pause> {
        let mut pauses: BTreeMap<String, Pause> = BTreeMap::new();
        let mut add = |initiator: &str, from: Timestamp, to: Timestamp| {
            let longest = pauses.entry(initiator.to_owned()).or_default();
            if to.since(from) > longest.seconds {
                *longest = Pause {
                    seconds: to.since(from),
                    until: Some(to),
                };
            }
        };
        for (initiator, last) in &self.last_answer {
            add(initiator, *last, self.heard.unwrap_or(*last));
        }
        for (initiator, from, to) in self.gaps.iter().filter(|(_, _, to)| *to > fault) {
            add(initiator, *from, *to);
        }
        pauses
    }
}

/// A silence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pause {
    /// How long.
    pub seconds: f64,
    /// The first reply after it; for a pause that still lasts, the time of the last event.
    pub until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> ClientEvents {
        let mut seen = ClientEvents::default();
        for line in lines {
            seen.take(serde_json::from_str(line).expect(line));
        }
        seen
    }

    const LINES: &[&str] = &[
        r#"{"event":"ready","at":10.0}"#,
        r#"{"event":"tick","at":20.0,"answers":{"iscsi":9,"nbd":9},"last":{"iscsi":19.9,"nbd":19.9}}"#,
        r#"{"event":"gap","at":15.0,"initiator":"iscsi","path":"p","from":12.0,"to":15.0}"#,
        r#"{"event":"path","at":21.0,"initiator":"iscsi","path":"p","state":"lost","why":"no answer"}"#,
        r#"{"event":"path","at":21.0,"initiator":"iscsi","path":"p","state":"refused","why":"x","by_target":true}"#,
        r#"{"event":"gap","at":21.5,"initiator":"iscsi","path":"p","from":20.5,"to":21.5}"#,
        r#"{"event":"slow","at":21.5,"initiator":"iscsi","what":"write","seconds":1.25}"#,
    ];

    #[test]
    fn pauses_that_end_after_the_fault_are_counted() {
        let seen = told(LINES);
        let pauses = seen.pauses(Timestamp(20.4));
        assert_eq!(pauses["iscsi"].until, Some(Timestamp(21.5)));
        assert!((pauses["iscsi"].seconds - 1.0).abs() < 1e-9);
        assert!((seen.slowest_s - 1.25).abs() < 1e-9);
        assert_eq!((seen.lost_paths, seen.refused_logins), (1, 1));
        assert!(!seen.all_responded_since(Timestamp(20.0)), "nbd has not");
    }

    #[test]
    fn ongoing_silence_is_a_pause() {
        let mut seen = told(LINES);
        let tick = r#"{"event":"tick","at":30.0,"answers":{},"last":{"iscsi":29.9,"nbd":19.9}}"#;
        seen.take(serde_json::from_str(tick).expect("a tick"));
        assert!((seen.pauses(Timestamp(20.4))["nbd"].seconds - 10.1).abs() < 1e-9);
    }

    #[test]
    fn errors_and_lost_writes_keep_their_messages() {
        let seen = told(&[
            r#"{"event":"error","at":1.0,"initiator":"nbd","path":"p","what":"write","words":"errno 5"}"#,
            r#"{"event":"violation","at":1.0,"initiator":"nbd","words":"lost: sector 7"}"#,
            r#"{"event":"verified","at":2.0,"nbd":{"answers":5,"errors":1,"repeated":0,"acknowledged":3,"durable":3,"violations":1,"told":[]}}"#,
        ]);
        assert_eq!(seen.errors, ["nbd write: errno 5"]);
        assert_eq!(seen.violations, ["nbd: lost: sector 7"]);
        let (_, counts) = seen.verified.expect("verified");
        assert_eq!(counts["nbd"].acknowledged, 3);
    }
}
