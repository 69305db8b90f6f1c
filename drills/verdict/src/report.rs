//! The report of the drills: for each drill the pauses, the broken promises, and the time of each
//! step.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::catalogue::Drill;
use crate::clients::Clients;
use crate::expectation::Expectation;
use crate::promise::{Bounds, Broken, Promise, judge_median, judge_round, median};
use crate::round::Round;
use crate::timeline::Step;

/// All rounds of one drill, judged.
#[derive(Clone, Debug, Serialize)]
pub struct DrillReport {
    /// Which.
    pub drill: Drill,
    /// Its expectation.
    pub expectation: Expectation,
    /// The bounds on its pauses.
    pub bounds: Option<Bounds>,
    /// Why it was not run.
    pub skipped: Option<String>,
    /// The rounds.
    pub rounds: Vec<JudgedRound>,
    /// The middle of the pauses, in seconds.
    pub median_s: Option<f64>,
    /// The longest, in seconds.
    pub worst_s: Option<f64>,
    /// The middle of each step's time after the fault, in seconds.
    pub steps_s: BTreeMap<Step, f64>,
    /// How the median broke its promise.
    pub broken: Option<Broken>,
}

/// A round and the promises that it broke.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedRound {
    /// The observations.
    #[serde(flatten)]
    pub round: Round,
    /// The broken promises.
    pub broken: Vec<Broken>,
}

impl JudgedRound {
    /// Judges a round.
    pub fn new(round: Round, expectation: &Expectation, promise: Promise) -> Self {
        let broken = judge_round(&round, expectation, promise);
        Self { round, broken }
    }
}

impl DrillReport {
    /// Judges the rounds of a drill together.
    pub fn new(drill: Drill, promise: Promise, rounds: Vec<JudgedRound>) -> Self {
        let expectation = drill.expectation();
        let pauses_s: Vec<f64> = rounds
            .iter()
            .filter_map(|one| one.round.pause_s())
            .collect();
        let mut steps: BTreeMap<Step, Vec<f64>> = BTreeMap::new();
        for mark in rounds.iter().flat_map(|one| &one.round.timeline) {
            steps.entry(mark.step).or_default().push(mark.after_s);
        }
        let steps_s = steps
            .into_iter()
            .filter_map(|(step, times)| Some((step, median(&times)?)))
            .collect();
        Self {
            drill,
            expectation,
            bounds: promise.bounds(&expectation),
            skipped: None,
            median_s: median(&pauses_s),
            worst_s: pauses_s.iter().copied().max_by(f64::total_cmp),
            steps_s,
            broken: judge_median(&pauses_s, &expectation, promise),
            rounds,
        }
    }

    /// A drill that could not be run.
    pub fn skipped(drill: Drill, promise: Promise, why: impl Into<String>) -> Self {
        Self {
            skipped: Some(why.into()),
            ..Self::new(drill, promise, Vec::new())
        }
    }

    /// Whether all promises were kept.
    pub fn is_kept(&self) -> bool {
        self.broken.is_none() && self.rounds.iter().all(|round| round.broken.is_empty())
    }

    fn count(&self, of: impl Fn(&Round) -> usize) -> usize {
        self.rounds.iter().map(|one| of(&one.round)).sum()
    }
}

/// All drills.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The appliance.
    pub appliance: String,
    /// The profile of its time-outs.
    pub profile: String,
    /// Which bounds count.
    pub promise: Promise,
    /// Whether all CPUs were kept busy.
    pub load: bool,
    /// How the clients found out that a connection was dead.
    pub clients: Clients,
    /// The number of additional volumes of the pool.
    pub more_volumes: u32,
    /// The seed of all random choices: the same seed repeats them.
    pub seed: u64,
    /// The drills.
    pub drills: Vec<DrillReport>,
}

impl Report {
    /// Whether all promises were kept.
    pub fn is_kept(&self) -> bool {
        self.drills.iter().all(DrillReport::is_kept)
    }

    /// The report for people, without its table: broken promises, the time of each step, the
    /// distribution of pauses, and the last line.
    pub fn details(&self) -> String {
        let mut text = String::new();
        for drill in self.drills.iter().filter(|drill| !drill.steps_s.is_empty()) {
            let mut steps: Vec<(&Step, &f64)> = drill.steps_s.iter().collect();
            steps.sort_by(|a, b| a.1.total_cmp(b.1));
            let steps: Vec<String> = steps
                .iter()
                .map(|(step, after_s)| format!("{} {after_s:.2}", step.name()))
                .collect();
            let _ = writeln!(text, "{}: {}", drill.drill, steps.join(", "));
        }
        for drill in self.drills.iter().filter(|drill| drill.rounds.len() > 2) {
            text.push_str(&histogram(drill));
        }
        for drill in &self.drills {
            for JudgedRound { round, broken } in &drill.rounds {
                for one in broken {
                    let _ = writeln!(text, "broken: {} (seed {}): {one}", drill.drill, round.seed);
                }
            }
            if let Some(broken) = &drill.broken {
                let _ = writeln!(text, "broken: {}: {broken}", drill.drill);
            }
            if let Some(why) = &drill.skipped {
                let _ = writeln!(text, "skipped: {}: {why}", drill.drill);
            }
        }
        text.push_str(&self.last_line());
        text
    }

    /// The cells of the table: heading first, then a row a drill.
    pub fn table(&self) -> Vec<[String; 9]> {
        let heading = [
            "DRILL",
            ">ROUNDS",
            ">MEDIAN",
            ">WORST",
            ">PROMISED",
            ">ERRORS",
            ">LOST",
            ">DOUBLE",
            "VERDICT",
        ];
        let mut rows = vec![heading.map(str::to_owned)];
        rows.extend(self.drills.iter().map(row));
        rows
    }

    fn last_line(&self) -> String {
        let rounds: usize = self.drills.iter().map(|drill| drill.rounds.len()).sum();
        let broken = self.drills.iter().filter(|drill| !drill.is_kept()).count();
        let skipped = self
            .drills
            .iter()
            .filter(|drill| drill.skipped.is_some())
            .count();
        let sum = |of: fn(&Round) -> usize| -> usize {
            self.drills.iter().map(|drill| drill.count(of)).sum()
        };
        format!(
            "drills: {} drills, {rounds} rounds, {} errors seen, {} lost, {} double imports, {broken} broken, {skipped} skipped\n",
            self.drills.len() - skipped,
            sum(|round| round.errors.len()),
            sum(|round| round.violations.len()),
            sum(|round| round.double_imports.len()),
        )
    }
}

fn row(drill: &DrillReport) -> [String; 9] {
    let seconds =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |s| format!("{s:.2} s"));
    let promised = match drill.bounds {
        Some(bounds) => format!("{:.1} ({:.1}) s", bounds.median_s, bounds.worst_s),
        None => "-".to_owned(),
    };
    let verdict = match (&drill.skipped, drill.is_kept()) {
        (Some(_), _) => "skipped",
        (None, true) => "kept",
        (None, false) => "BROKEN",
    };
    [
        drill.drill.to_string(),
        drill.rounds.len().to_string(),
        seconds(drill.median_s),
        seconds(drill.worst_s),
        promised,
        drill.count(|round| round.errors.len()).to_string(),
        drill.count(|round| round.violations.len()).to_string(),
        drill.count(|round| round.double_imports.len()).to_string(),
        verdict.to_owned(),
    ]
}

/// Upper bounds of the classes of the histogram, in seconds.
const CLASSES_S: &[f64] = &[
    0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0,
];

fn histogram(drill: &DrillReport) -> String {
    let mut counts = vec![0_usize; CLASSES_S.len() + 1];
    for pause_s in drill.rounds.iter().filter_map(|one| one.round.pause_s()) {
        let class = CLASSES_S.iter().position(|end| pause_s <= *end);
        counts[class.unwrap_or(CLASSES_S.len())] += 1;
    }
    let mut text = format!("{}: pauses\n", drill.drill);
    let filled = |count: &usize| *count > 0;
    let (first, last) = (
        counts.iter().position(filled),
        counts.iter().rposition(filled),
    );
    let (Some(first), Some(last)) = (first, last) else {
        return text;
    };
    for (class, count) in counts.iter().enumerate().take(last + 1).skip(first) {
        let name = match CLASSES_S.get(class) {
            Some(end) => format!("<= {end:.2} s"),
            None => "longer".to_owned(),
        };
        let line = format!("  {name:>10}  {count:>4}  {}", "#".repeat(*count));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Mark;

    fn round(pause_s: f64) -> JudgedRound {
        let mut round = Round::new("active-power", 7, "left".parse().expect("a name"));
        round.served_after = Some("right".parse().expect("a name"));
        round.pauses_s.insert("iscsi".to_owned(), pause_s);
        round.timeline.push(Mark {
            step: Step::Fenced,
            after_s: pause_s / 2.0,
        });
        let expectation = Drill::ActivePower.expectation();
        JudgedRound::new(round, &expectation, Promise::Published)
    }

    fn report(pauses_s: &[f64]) -> Report {
        let rounds = pauses_s.iter().copied().map(round).collect();
        Report {
            appliance: "attic".to_owned(),
            profile: "fast".to_owned(),
            promise: Promise::Published,
            clients: Clients::default(),
            more_volumes: 0,
            load: false,
            seed: 7,
            drills: vec![
                DrillReport::new(Drill::ActivePower, Promise::Published, rounds),
                DrillReport::skipped(Drill::ClockJump, Promise::Published, "no libfaketime"),
            ],
        }
    }

    #[test]
    fn met_promises_are_reported_with_figures() {
        let report = report(&[0.8, 0.9, 1.6]);
        assert!(report.is_kept());
        let rows = report.table();
        assert_eq!(rows[1][2..5], ["0.90 s", "1.60 s", "1.0 (3.0) s"]);
        let details = report.details();
        assert!(details.contains("active-power: fenced 0.45"), "{details}");
        assert!(details.contains("  <= 1.00 s     2  ##"), "{details}");
        assert!(
            details.contains("skipped: clock-jump: no libfaketime"),
            "{details}"
        );
        assert!(details.ends_with(
            "1 drills, 3 rounds, 0 errors seen, 0 lost, 0 double imports, 0 broken, 1 skipped\n"
        ));
    }

    #[test]
    fn broken_promise_is_reported_with_replay_seed() {
        let report = report(&[0.8, 1.2, 3.6]);
        assert!(!report.is_kept());
        let details = report.details();
        assert!(
            details.contains("broken: active-power (seed 7): a pause of 3.60 s"),
            "{details}"
        );
        assert!(details.contains("a median pause of 1.20 s"), "{details}");
        assert_eq!(report.table()[1][8], "BROKEN");
    }

    #[test]
    fn a_report_is_json() {
        let value = serde_json::to_value(report(&[0.8])).expect("JSON");
        assert_eq!(
            value["drills"][0]["rounds"][0]["timeline"][0]["step"],
            "fenced"
        );
        assert_eq!(value["drills"][0]["steps_s"]["fenced"], 0.4);
    }
}
