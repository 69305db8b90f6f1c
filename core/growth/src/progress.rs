//! A growth while it runs: samples of the disks' fill, compared with a saved plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chart::{Chart, Kind, Line};
use crate::plan::{Disk, FORMAT};
use crate::stored::DiskUse;
use crate::{GrowthError, OsdId};

/// Most samples that are held; of more, every second one is dropped.
pub const SAMPLES_MAX: usize = 5_000;

/// A change of the share below which a sample counts as unchanged.
const SETTLED: f64 = 0.001;

/// Unchanged samples after which the movement counts as complete.
const SETTLED_SAMPLES: usize = 3;

/// The part of a plan document that is compared.
#[derive(Clone, Debug, Deserialize)]
pub struct SavedPlan {
    /// Version of the document.
    pub format: u32,
    /// The cluster.
    pub fsid: String,
    /// The disks.
    pub disks: Vec<Disk>,
}

impl SavedPlan {
    /// Reads a plan that `growth plan --json` printed.
    ///
    /// # Errors
    ///
    /// It is no such document, or has no such stage.
    pub fn parse(json: &[u8]) -> Result<Self, GrowthError> {
        let plan: Self = serde_json::from_slice(json).map_err(|error| {
            GrowthError::usage(format!("the plan is not valid: {error}"))
                .advise("save it with `bulkhead growth plan … --json > plan.json`")
        })?;
        let stages = plan.stages();
        if plan.format != FORMAT || plan.disks.iter().any(|disk| disk.stages.len() != stages) {
            let message = format!("the plan has the format {}, not {FORMAT}", plan.format);
            return Err(GrowthError::usage(message).advise("make it again with this version"));
        }
        Ok(plan)
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.disks.first().map_or(0, |disk| disk.stages.len())
    }
}

/// The use of all disks at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since 1970.
    pub time_s: u64,
    /// The disks.
    pub disks: BTreeMap<OsdId, DiskUse>,
}

/// Reads saved samples, one JSON document a line.
///
/// # Errors
///
/// A line is none, or earlier than the line before.
pub fn parse_samples(text: &str) -> Result<Vec<Sample>, GrowthError> {
    let mut samples: Vec<Sample> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let sample: Sample = serde_json::from_str(line).map_err(|error| {
            GrowthError::usage(format!(
                "line {number} of the samples is not valid: {error}"
            ))
        })?;
        if samples
            .last()
            .is_some_and(|last| last.time_s > sample.time_s)
        {
            let message = format!("line {number} of the samples is earlier than the line before");
            return Err(GrowthError::usage(message));
        }
        push(&mut samples, sample);
    }
    Ok(samples)
}

/// Appends a sample, within the bound.
pub fn push(samples: &mut Vec<Sample>, sample: Sample) {
    if samples.len() >= SAMPLES_MAX {
        let mut index = 0;
        samples.retain(|_| {
            index += 1;
            // The first remains: it is the base of the comparison.
            index % 2 == 1
        });
    }
    samples.push(sample);
}

/// A disk, predicted and actual.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskProgress {
    /// Its number.
    pub osd: OsdId,
    /// Its host.
    pub host: String,
    /// Whether the growth adds it.
    pub is_new: bool,
    /// Fraction before the stage.
    pub fill_before: f64,
    /// Fraction now.
    pub fill_now: f64,
    /// Predicted fraction after the stage.
    pub fill_predicted: f64,
}

/// A stage while it runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// Seconds from the first sample to the last.
    pub elapsed_s: u64,
    /// Bytes that disks gained which gain by the plan.
    pub bytes_gained: u64,
    /// Bytes that they gain by the plan.
    pub bytes_predicted: u64,
    /// Their ratio.
    pub share: f64,
    /// Bytes per second that one receiving disk gains.
    pub rate_per_disk: Option<u64>,
    /// Seconds until all is moved, at the rate until now.
    pub remaining_s: Option<u64>,
    /// Whether the last samples are equal.
    pub is_settled: bool,
    /// The largest difference of a disk's fraction from the plan.
    pub largest_difference: f64,
    /// The disks.
    pub disks: Vec<DiskProgress>,
}

/// Compares samples with a stage of a plan, from 1. The first sample is the base.
///
/// # Errors
///
/// There is no such stage, or no sample, or a disk of the plan has no sample.
pub fn compare(
    plan: &SavedPlan,
    stage: usize,
    samples: &[Sample],
) -> Result<Progress, GrowthError> {
    let stages = plan.stages();
    if !(1..=stages).contains(&stage) {
        let message = format!("the plan has no stage {stage}: it has {stages}");
        return Err(GrowthError::usage(message));
    }
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Err(GrowthError::usage("there are no samples"));
    };
    let gained = |sample: &Sample| gains(plan, stage, first, sample);
    let (bytes_gained, bytes_predicted, receiving) = gained(last);
    let share = |bytes: u64| match bytes_predicted {
        0 => 1.0,
        predicted => bytes as f64 / predicted as f64,
    };
    let history: Vec<(u64, u64)> = samples
        .iter()
        .map(|sample| (sample.time_s, gained(sample).0))
        .collect();
    let rate = rate_of(&history, bytes_predicted);
    let recent = history.iter().rev().take(SETTLED_SAMPLES);
    let recent: Vec<f64> = recent.map(|&(_, bytes)| share(bytes)).collect();
    let spread = recent.iter().copied().fold(f64::MIN, f64::max)
        - recent.iter().copied().fold(f64::MAX, f64::min);
    let disks = disks(plan, stage, first, last)?;
    let differences = disks
        .iter()
        .map(|disk| (disk.fill_now - disk.fill_predicted).abs());
    Ok(Progress {
        elapsed_s: last.time_s - first.time_s,
        bytes_gained,
        bytes_predicted,
        share: share(bytes_gained),
        rate_per_disk: (rate > 0.0 && receiving > 0).then(|| (rate / receiving as f64) as u64),
        remaining_s: (rate > 0.0)
            .then(|| (bytes_predicted.saturating_sub(bytes_gained) as f64 / rate) as u64),
        is_settled: recent.len() == SETTLED_SAMPLES
            && spread < SETTLED
            && share(bytes_gained) > 0.5,
        largest_difference: differences.fold(0.0, f64::max),
        disks,
    })
}

/// Bytes per second between the first and the last per cent: the administrator starts the watch before the stage, and the
/// end is slow. `history` has the times and the bytes gained.
fn rate_of(history: &[(u64, u64)], predicted: u64) -> f64 {
    let idle = history
        .iter()
        .rposition(|&(_, bytes)| bytes <= predicted / 100);
    let begun = &history[idle.unwrap_or(0)..];
    let (Some(&(start_s, before)), Some(&(_, now))) = (begun.first(), begun.last()) else {
        return 0.0;
    };
    let done = begun.iter().find(|&&(_, bytes)| bytes >= now - now / 100);
    let &(stop_s, after) = done.unwrap_or(&history[history.len() - 1]);
    match stop_s > start_s && after > before {
        true => (after - before) as f64 / (stop_s - start_s) as f64,
        false => 0.0,
    }
}

/// Bytes gained and predicted of the disks that gain by the plan, and their number.
fn gains(plan: &SavedPlan, stage: usize, first: &Sample, now: &Sample) -> (u64, u64, usize) {
    let (mut gained, mut predicted, mut count) = (0_u64, 0_u64, 0);
    for disk in &plan.disks {
        let Some(gain) = disk
            .used_after(stage)
            .checked_sub(disk.used_after(stage - 1))
        else {
            continue;
        };
        let used = |sample: &Sample| sample.disks.get(&disk.osd).map_or(0, |disk| disk.used);
        if gain > 0 {
            gained = gained.saturating_add(used(now).saturating_sub(used(first)));
            predicted = predicted.saturating_add(gain);
            count += 1;
        }
    }
    (gained, predicted, count)
}

fn disks(
    plan: &SavedPlan,
    stage: usize,
    first: &Sample,
    last: &Sample,
) -> Result<Vec<DiskProgress>, GrowthError> {
    let mut disks = Vec::new();
    for disk in &plan.disks {
        let Some(now) = last.disks.get(&disk.osd) else {
            // A disk of a later stage need not exist yet.
            if disk.is_new {
                continue;
            }
            let message = format!("the samples have no osd.{}, which the plan has", disk.osd);
            return Err(
                GrowthError::usage(message).advise("compare samples and plan of one cluster")
            );
        };
        let before = first.disks.get(&disk.osd).map_or(0, |disk| disk.used);
        let change = disk.used_after(stage) as f64 - disk.used_after(stage - 1) as f64;
        let fill = |used: f64| used.max(0.0) / now.size.max(1) as f64;
        disks.push(DiskProgress {
            osd: disk.osd,
            host: disk.host.clone(),
            is_new: disk.is_new,
            fill_before: fill(before as f64),
            fill_now: fill(now.used as f64),
            fill_predicted: fill(before as f64 + change),
        });
    }
    Ok(disks)
}

/// The picture: the actual fill of each disk, and the predicted means.
pub fn chart(plan: &SavedPlan, stage: usize, samples: &[Sample]) -> Chart {
    let start = samples.first().map_or(0, |sample| sample.time_s);
    let hours = |sample: &Sample| sample.time_s.saturating_sub(start) as f64 / 3600.0;
    let fill = |sample: &Sample, osd: OsdId| {
        let disk = sample.disks.get(&osd).filter(|disk| disk.size > 0)?;
        Some((hours(sample), disk.used as f64 / disk.size as f64))
    };
    let mut lines: Vec<Line> = plan
        .disks
        .iter()
        .map(|disk| Line {
            kind: if disk.is_new { Kind::New } else { Kind::Old },
            points: samples
                .iter()
                .filter_map(|sample| fill(sample, disk.osd))
                .collect(),
        })
        .collect();
    lines.sort_by_key(|line| line.kind == Kind::New);
    for (is_new, kind) in [(false, Kind::MeanOld), (true, Kind::MeanNew)] {
        let disks = || plan.disks.iter().filter(|disk| disk.is_new == is_new);
        let mean = |sample: &Sample| {
            let found = disks().filter_map(|disk| sample.disks.get(&disk.osd));
            let (used, size) = found.fold((0.0, 0.0), |(used, size), disk| {
                (used + disk.used as f64, size + disk.size as f64)
            });
            (size > 0.0).then(|| (hours(sample), used / size))
        };
        let points: Vec<(f64, f64)> = samples.iter().filter_map(mean).collect();
        let size: f64 = disks().map(|disk| disk.size as f64).sum();
        if let (true, Some(&(end, _))) = (size > 0.0, points.last()) {
            let used: f64 = disks().map(|disk| disk.used_after(stage) as f64).sum();
            lines.push(Line { kind, points });
            lines.push(Line {
                kind: Kind::Predicted,
                points: vec![(0.0, used / size), (end, used / size)],
            });
        }
    }
    Chart {
        title: format!(
            "Fill of {} disks: actual, and predicted for the end of stage {stage}",
            plan.disks.len()
        ),
        unit: "hours".to_owned(),
        lines,
        levels: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::DiskStage;

    const GIB: u64 = 1 << 30;

    fn plan() -> SavedPlan {
        let disk = |osd, before: u64, after: u64| Disk {
            osd,
            host: format!("h{osd}"),
            class: None,
            size: 100 * GIB,
            is_new: osd == 2,
            is_removed: false,
            used_before: before * GIB,
            groups_after: 0,
            stages: vec![DiskStage {
                used_after: after * GIB,
                ..DiskStage::default()
            }],
        };
        SavedPlan {
            format: FORMAT,
            fsid: String::new(),
            disks: vec![disk(0, 60, 40), disk(1, 60, 40), disk(2, 0, 40)],
        }
    }

    fn sample(time_s: u64, used: [u64; 3]) -> Sample {
        let disk = |used| DiskUse {
            size: 100 * GIB,
            used: used * GIB,
            data: used * GIB,
        };
        Sample {
            time_s,
            disks: (0..).zip(used.map(disk)).collect(),
        }
    }

    #[test]
    fn rate_and_remaining_time_come_from_the_samples() {
        let samples = [sample(0, [61, 60, 1]), sample(1000, [51, 50, 21])];
        let progress = compare(&plan(), 1, &samples).expect("compared");
        assert!((progress.share - 0.5).abs() < 1e-9);
        assert_eq!(progress.rate_per_disk, Some(20 * GIB / 1000));
        assert_eq!(progress.remaining_s, Some(1000));
        assert!(!progress.is_settled);
        // The base is the first sample, not the plan.
        assert!((progress.disks[0].fill_predicted - 0.41).abs() < 1e-9);
    }

    #[test]
    fn idle_time_before_and_after_does_not_lower_the_rate() {
        let history = [(0, 0), (500, 0), (600, 10), (700, 40), (800, 40), (900, 40)];
        assert!((rate_of(&history, 40) - 40.0 / 200.0).abs() < 1e-9);
        assert_eq!(rate_of(&[(0, 0)], 40), 0.0);
        assert_eq!(rate_of(&[(0, 0), (10, 0)], 40), 0.0);
    }

    #[test]
    fn equal_samples_are_the_end() {
        let end = |time_s| sample(time_s, [40, 40, 40]);
        let samples = [sample(0, [60, 60, 0]), end(10), end(20), end(30)];
        let progress = compare(&plan(), 1, &samples).expect("compared");
        assert!(progress.is_settled);
        assert!(progress.largest_difference < 1e-9);
        let stalled = [
            sample(0, [60, 60, 0]),
            sample(10, [60, 60, 0]),
            sample(20, [60, 60, 0]),
        ];
        assert!(!compare(&plan(), 1, &stalled).expect("compared").is_settled);
    }

    #[test]
    fn wrong_inputs_are_refused() {
        let plan = plan();
        assert!(compare(&plan, 1, &[]).is_err());
        assert!(compare(&plan, 2, &[sample(0, [1, 1, 1])]).is_err());
        let mut lost = sample(0, [1, 1, 1]);
        lost.disks.remove(&0);
        assert!(compare(&plan, 1, &[lost]).is_err());
        assert!(parse_samples("{}").is_err());
        let lines = [sample(5, [1, 1, 1]), sample(4, [1, 1, 1])]
            .map(|sample| serde_json::to_string(&sample).expect("JSON"));
        assert!(parse_samples(&lines.join("\n")).is_err());
        assert_eq!(parse_samples(&lines[0]).expect("one").len(), 1);
    }

    #[test]
    fn samples_are_bounded_and_the_first_remains() {
        let mut samples = Vec::new();
        for time_s in 0..(SAMPLES_MAX as u64 + 10) {
            push(&mut samples, sample(time_s, [0, 0, 0]));
        }
        assert!(samples.len() <= SAMPLES_MAX);
        assert_eq!(samples[0].time_s, 0);
    }

    #[test]
    fn the_picture_has_all_disks_and_both_predictions() {
        let samples = [sample(0, [60, 60, 0]), sample(3600, [50, 50, 20])];
        let chart = chart(&plan(), 1, &samples);
        assert_eq!(chart.lines.len(), 3 + 4);
    }
}
