//! The promise for each kind of fault, and whether a round, and all rounds, kept it.

use serde::Serialize;
use units::{HeadName, PoolName};

use crate::expectation::{Expectation, Fencing, Kind, Notice, Place};
use crate::other_pool::OtherPoolRound;
use crate::round::Round;

/// Bounds on the pause that a client sees, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Of the median of all rounds.
    pub median_s: f64,
    /// Of each.
    pub worst_s: f64,
}

/// Which bounds count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Those that the project publishes, for the profile `fast`.
    Published,
    /// The appliance file's own `takeover_budget_s`, or one given by hand.
    Budget {
        /// In seconds.
        budget_s: u32,
        /// Added where only a monitor operation of the pool detects the fault, in seconds: its interval.
        monitor_s: u32,
        /// Added to that where the monitor operation times out, in seconds.
        monitor_timeout_s: u32,
        /// Added where the fault is detected by the time-out of a disk, in seconds.
        disk_answer_s: u32,
        /// Added where a BMC must time out, in seconds.
        fence_s: u32,
    },
}

/// Longest pause from a fault that redundancy hides, in seconds: initiators notice a lost path by a
/// ping that is not answered.
const HIDDEN_WORST_S: f64 = takeover::budget::PROMISED_HIDDEN.as_millis() as f64 / 1e3;

impl Promise {
    /// The bounds for a fault of that kind; none where only the return is promised.
    pub fn bounds(self, expectation: &Expectation) -> Option<Bounds> {
        let mut added_s = f64::from(expectation.added_ms) / 1e3;
        if self == Self::Published {
            let times = appliance::Profile::Fast.timeouts();
            added_s += f64::from(match expectation.notice {
                Notice::Disk => times.disk_answer_s,
                Notice::DeadBmc => times.fence_s,
                Notice::Cluster | Notice::Monitor | Notice::MonitorTimeout => 0,
            });
        }
        let bounds = |median_s: f64, worst_s: f64| {
            Some(Bounds {
                median_s: median_s + added_s,
                worst_s: worst_s + added_s,
            })
        };
        match (self, expectation.kind) {
            (_, Kind::Unbounded) => None,
            (Self::Published, Kind::Hidden) => bounds(HIDDEN_WORST_S, HIDDEN_WORST_S),
            (Self::Published, Kind::Crash) => bounds(1.0, 3.0),
            (Self::Published, Kind::CutOff) => bounds(1.5, 4.0),
            (Self::Published, Kind::Move) => bounds(0.3, 1.0),
            (
                Self::Budget {
                    budget_s,
                    monitor_s,
                    monitor_timeout_s,
                    disk_answer_s,
                    fence_s,
                },
                _,
            ) => {
                let noticed_s = match expectation.notice {
                    Notice::Cluster => 0,
                    Notice::Monitor => monitor_s,
                    Notice::MonitorTimeout => monitor_s + monitor_timeout_s,
                    Notice::Disk => disk_answer_s,
                    Notice::DeadBmc => fence_s,
                };
                let all_s = f64::from(budget_s + noticed_s);
                bounds(all_s, all_s)
            }
        }
    }
}

/// How a promise was broken.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Broken {
    /// One pause was too long.
    #[error("a pause of {pause_s:.2} s; at most {worst_s:.1} s are promised")]
    Worst {
        /// The measured pause.
        pause_s: f64,
        /// The bound.
        worst_s: f64,
    },
    /// Most pauses were too long.
    #[error("a median pause of {pause_s:.2} s; {median_s:.1} s are promised")]
    Median {
        /// The measured pause.
        pause_s: f64,
        /// The bound.
        median_s: f64,
    },
    /// I/O did not resume.
    #[error("no I/O again within {waited_s:.0} s")]
    NoReturn {
        /// How long was waited.
        waited_s: f64,
    },
    /// An application saw errors.
    #[error("{count} errors seen by a client, such as {example}")]
    Errors {
        /// How many.
        count: usize,
        /// One of them.
        example: String,
    },
    /// Acknowledged data is lost.
    #[error("{count} acknowledged writes lost, such as {example}")]
    Lost {
        /// How many places.
        count: usize,
        /// One of them.
        example: String,
    },
    /// The contents could not be read back at all.
    #[error("the volumes could not be read back: {why}")]
    NotVerified {
        /// The evidence.
        why: String,
    },
    /// Two servers had the pool at once.
    #[error("the pool was open twice at once: {evidence}")]
    DoubleImport {
        /// Which processes.
        evidence: String,
    },
    /// The pool should be elsewhere.
    #[error("no takeover: {head} still serves the pool")]
    NoTakeover {
        /// The head.
        head: HeadName,
    },
    /// The pool should be where it was.
    #[error("a takeover by {head}, and there should be none")]
    Takeover {
        /// The head that took it over.
        head: HeadName,
    },
    /// A head was powered off without need.
    #[error("{head} was powered off, and nothing should be")]
    Fenced {
        /// The head.
        head: HeadName,
    },
    /// A head was not powered off.
    #[error("no head was powered off, and one must be")]
    NotFenced,
    /// A condition of this drill.
    #[error("{complaint}")]
    Other {
        /// The condition that was violated.
        complaint: String,
    },
    /// The clients of a pool that the drill is not about.
    #[error("pool {pool}: {broken}")]
    Beside {
        /// The pool.
        pool: PoolName,
        /// The effects that they saw.
        broken: Box<Broken>,
    },
}

/// The promises that one round broke.
pub fn judge_round(round: &Round, expectation: &Expectation, promise: Promise) -> Vec<Broken> {
    let mut broken = Vec::new();
    match (round.pause_s(), promise.bounds(expectation)) {
        (None, _) => broken.push(Broken::NoReturn {
            waited_s: round.waited_s,
        }),
        (Some(pause_s), Some(Bounds { worst_s, .. })) if pause_s > worst_s => {
            broken.push(Broken::Worst { pause_s, worst_s });
        }
        _ => {}
    }
    judge_acts(round, expectation, promise, &mut broken);
    if let Some(example) = round.errors.first() {
        broken.push(Broken::Errors {
            count: round.errors.len(),
            example: example.clone(),
        });
    }
    if let Some(example) = round.violations.first() {
        broken.push(Broken::Lost {
            count: round.violations.len(),
            example: example.clone(),
        });
    }
    if let Some(why) = &round.not_verified {
        broken.push(Broken::NotVerified { why: why.clone() });
    }
    let double = round.double_imports.iter();
    broken.extend(double.map(|evidence| Broken::DoubleImport {
        evidence: evidence.clone(),
    }));
    judge_location(round, expectation, &mut broken);
    for (pool, beside) in &round.beside {
        let told = judge_other_pools(beside, expectation, promise).into_iter();
        broken.extend(told.map(|what| Broken::Beside {
            pool: pool.clone(),
            broken: Box::new(what),
        }));
    }
    broken.extend(round.complaints.iter().map(|complaint| Broken::Other {
        complaint: complaint.clone(),
    }));
    broken
}

fn judge_acts(
    round: &Round,
    expectation: &Expectation,
    promise: Promise,
    broken: &mut Vec<Broken>,
) {
    for act in &round.acts {
        let expectation = Expectation {
            kind: act.kind,
            ..*expectation
        };
        let why = match (act.pause_s, promise.bounds(&expectation)) {
            (None, _) => "no I/O again".to_owned(),
            (Some(pause_s), Some(Bounds { worst_s, .. })) if pause_s > worst_s => {
                Broken::Worst { pause_s, worst_s }.to_string()
            }
            _ => continue,
        };
        broken.push(Broken::Other {
            complaint: format!("{}: {why}", act.what),
        });
    }
}

fn judge_location(round: &Round, expectation: &Expectation, broken: &mut Vec<Broken>) {
    let stayed = round.served_after.as_ref() == Some(&round.served_before);
    match (expectation.place, &round.served_after) {
        (Place::Elsewhere, Some(head)) if stayed => {
            broken.push(Broken::NoTakeover { head: head.clone() });
        }
        (Place::Same, Some(head)) if !stayed => {
            broken.push(Broken::Takeover { head: head.clone() });
        }
        _ => {}
    }
    match (expectation.fencing, round.fenced.first()) {
        (Fencing::Required, None) => broken.push(Broken::NotFenced),
        (Fencing::Forbidden, Some(head)) => broken.push(Broken::Fenced { head: head.clone() }),
        _ => {}
    }
}

/// The promises that a round broke for another pool: on the struck head it pauses as in a crash, on other heads there
/// is no effect.
fn judge_other_pools(
    round: &OtherPoolRound,
    expectation: &Expectation,
    promise: Promise,
) -> Vec<Broken> {
    let mut broken = Vec::new();
    let kind = match (expectation.kind, round.was_struck) {
        (Kind::Unbounded, _) => Kind::Unbounded,
        (_, false) => Kind::Hidden,
        // Redundancy that hides a fault from the drilled pool does not hide the loss of a head from the pools that it
        // served.
        (Kind::Hidden | Kind::Move, true) => Kind::Crash,
        (kind, true) => kind,
    };
    let bounds = promise.bounds(&Expectation {
        kind,
        ..*expectation
    });
    match (round.pause_s, bounds) {
        (None, _) => broken.push(Broken::NoReturn { waited_s: 0.0 }),
        (Some(pause_s), Some(Bounds { worst_s, .. })) if pause_s > worst_s => {
            broken.push(Broken::Worst { pause_s, worst_s });
        }
        _ => {}
    }
    let counted = |all: &[String]| Some((all.len(), all.first()?.clone()));
    broken.extend(counted(&round.errors).map(|(count, example)| Broken::Errors { count, example }));
    broken
        .extend(counted(&round.violations).map(|(count, example)| Broken::Lost { count, example }));
    if !round.is_verified {
        let why = "its clients did not end in time".to_owned();
        broken.push(Broken::NotVerified { why });
    }
    let double = round.double_imports.iter().cloned();
    broken.extend(double.map(|evidence| Broken::DoubleImport { evidence }));
    match &round.served_after {
        Some(head) if kind == Kind::Hidden && round.served_before.as_ref() != Some(head) => {
            broken.push(Broken::Takeover { head: head.clone() });
        }
        _ => {}
    }
    broken
}

/// Whether the median of all rounds is as promised; judged where there are enough of them.
pub fn judge_median(
    pauses_s: &[f64],
    expectation: &Expectation,
    promise: Promise,
) -> Option<Broken> {
    /// With fewer rounds the median adds nothing to the worst pause.
    const ROUNDS_MIN: usize = 3;
    let median_s = promise.bounds(expectation)?.median_s;
    if pauses_s.len() < ROUNDS_MIN {
        return None;
    }
    let pause_s = median(pauses_s)?;
    (pause_s > median_s).then_some(Broken::Median { pause_s, median_s })
}

/// The middle of some values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::Act;

    const TAKEOVER: Expectation = Expectation {
        kind: Kind::Crash,
        place: Place::Elsewhere,
        fencing: Fencing::Required,
        notice: Notice::Cluster,
        added_ms: 0,
    };
    const HIDDEN: Expectation = Expectation {
        kind: Kind::Hidden,
        place: Place::Same,
        fencing: Fencing::Forbidden,
        notice: Notice::Cluster,
        added_ms: 0,
    };

    fn head(name: &str) -> HeadName {
        name.parse().expect("a name")
    }

    fn passing_takeover() -> Round {
        let mut round = Round::new("active-power", 1, head("left"));
        round.served_after = Some(head("right"));
        round.fenced = vec![head("left")];
        round.pauses_s.insert("iscsi".to_owned(), 0.9);
        round
    }

    fn judged(change: impl FnOnce(&mut Round), expectation: &Expectation) -> Vec<Broken> {
        let mut round = passing_takeover();
        change(&mut round);
        judge_round(&round, expectation, Promise::Published)
    }

    #[test]
    fn round_that_meets_all_promises_passes() {
        assert_eq!(judged(|_| (), &TAKEOVER), []);
    }

    #[test]
    fn each_broken_promise_is_named() {
        type Change = fn(&mut Round);
        let cases: [(Change, &str); 8] = [
            (
                |r| r.pauses_s = [("nbd".to_owned(), 3.5)].into(),
                "a pause of 3.50 s",
            ),
            (|r| r.pauses_s.clear(), "no I/O again"),
            (
                |r| r.errors.push("write: medium error".into()),
                "1 errors seen",
            ),
            (
                |r| r.violations.push("sector 9".into()),
                "1 acknowledged writes lost",
            ),
            (
                |r| r.not_verified = Some("silence".into()),
                "read back: silence",
            ),
            (|r| r.double_imports.push("7 and 9".into()), "open twice"),
            (|r| r.served_after = Some(head("left")), "left still serves"),
            (|r| r.fenced.clear(), "no head was powered off"),
        ];
        for (change, words) in cases {
            let broken = judged(change, &TAKEOVER);
            assert_eq!(broken.len(), 1, "{broken:?}");
            assert!(broken[0].to_string().contains(words), "{words}: {broken:?}");
        }
    }

    #[test]
    fn every_broken_promise_has_a_json_form() {
        let words = judged(|r| r.complaints.push("a disk stays out".into()), &TAKEOVER);
        let json = serde_json::to_string(&words).expect("JSON");
        let expected = r#"[{"what":"other","complaint":"a disk stays out"}]"#;
        assert_eq!(json, expected);
        let beside = Broken::Beside {
            pool: "bell".parse().expect("a name"),
            broken: Box::new(Broken::NotFenced),
        };
        let json = serde_json::to_string(&beside).expect("JSON");
        assert!(json.contains(r#""broken":{"what":"not-fenced"}"#), "{json}");
    }

    #[test]
    fn each_act_of_a_drill_has_its_own_promise() {
        let act = |kind, pause_s| {
            let what = "the pool is moved".to_owned();
            let act = Act {
                what,
                kind,
                pause_s,
            };
            let broken = judged(|round| round.acts.push(act), &TAKEOVER);
            broken.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(act(Kind::Crash, Some(2.9)).is_empty());
        let slow = "the pool is moved: a pause of 2.90 s; at most 1.0 s are promised";
        assert_eq!(act(Kind::Move, Some(2.9)), [slow]);
        assert_eq!(act(Kind::Hidden, None), ["the pool is moved: no I/O again"]);
    }

    #[test]
    fn unneeded_takeover_fails_the_round() {
        let words: Vec<String> = judged(|_| (), &HIDDEN)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(words[0].contains("takeover by right"), "{words:?}");
        assert!(words[1].contains("left was powered off"), "{words:?}");
    }

    #[test]
    fn clients_of_other_pools_are_affected_only_on_failed_head() {
        let beside = |was_struck, pause_s, change: fn(&mut OtherPoolRound)| {
            let mut beside = OtherPoolRound {
                served_before: Some(head("left")),
                served_after: Some(head("left")),
                was_struck,
                pause_s,
                errors: Vec::new(),
                violations: Vec::new(),
                is_verified: true,
                double_imports: Vec::new(),
            };
            change(&mut beside);
            let pool: PoolName = "bell".parse().expect("a name");
            let into = |round: &mut Round| drop(round.beside.insert(pool.clone(), beside.clone()));
            let mut round = passing_takeover();
            into(&mut round);
            let broken = judge_round(&round, &TAKEOVER, Promise::Published);
            broken.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let elsewhere: fn(&mut OtherPoolRound) = |round| round.served_after = Some(head("right"));
        assert!(beside(false, Some(0.2), |_| ()).is_empty());
        assert!(beside(true, Some(2.9), elsewhere).is_empty());
        let cases = [
            (
                beside(false, Some(3.1), |_| ()),
                "pool bell: a pause of 3.10 s",
            ),
            (
                beside(true, Some(3.1), elsewhere),
                "pool bell: a pause of 3.10 s",
            ),
            (beside(false, None, |_| ()), "pool bell: no I/O again"),
            (
                beside(false, Some(0.2), elsewhere),
                "pool bell: a takeover by right",
            ),
            (
                beside(true, Some(0.2), |round| {
                    round.errors.push("write: EIO".into())
                }),
                "pool bell: 1 errors seen",
            ),
            (
                beside(true, Some(0.2), |round| {
                    round.violations.push("sector 7".into())
                }),
                "pool bell: 1 acknowledged writes lost",
            ),
            (
                beside(true, Some(0.2), |round| {
                    round.double_imports.push("7 and 9".into())
                }),
                "pool bell: the pool was open twice",
            ),
            (
                beside(true, Some(0.2), |round| round.is_verified = false),
                "pool bell: the volumes could not be read back",
            ),
        ];
        for (broken, words) in cases {
            assert_eq!(broken.len(), 1, "{words}: {broken:?}");
            assert!(broken[0].starts_with(words), "{words}: {broken:?}");
        }
    }

    #[test]
    fn slow_fence_device_does_not_count_as_takeover_time() {
        let slow = Expectation {
            added_ms: 2000,
            ..TAKEOVER
        };
        let pause = |r: &mut Round| r.pauses_s = [("iscsi".to_owned(), 4.5)].into();
        assert_eq!(judged(pause, &slow), []);
        assert_eq!(judged(pause, &TAKEOVER).len(), 1);
    }

    #[test]
    fn median_is_judged_after_three_rounds() {
        let judge = |pauses: &[f64]| judge_median(pauses, &TAKEOVER, Promise::Published);
        assert_eq!(judge(&[2.0, 2.0]), None);
        assert!(judge(&[0.5, 1.2, 1.3]).is_some());
        assert_eq!(judge(&[0.5, 0.9, 2.9]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
    }

    #[test]
    fn other_profiles_have_their_own_budget() {
        let budget = Promise::Budget {
            budget_s: 5,
            monitor_s: 5,
            monitor_timeout_s: 10,
            disk_answer_s: 15,
            fence_s: 20,
        };
        for (notice, worst_s) in [
            (Notice::Cluster, 5.0),
            (Notice::Monitor, 10.0),
            (Notice::MonitorTimeout, 20.0),
            (Notice::Disk, 20.0),
            (Notice::DeadBmc, 25.0),
        ] {
            let expectation = Expectation { notice, ..TAKEOVER };
            let bounds = budget.bounds(&expectation);
            assert_eq!(bounds.map(|bounds| bounds.worst_s), Some(worst_s));
        }
    }
}
