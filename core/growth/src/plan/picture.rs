//! The picture of a plan: the predicted fill of each disk.

use super::{Disk, Plan};
use crate::chart::{Chart, Kind, Line};

impl Plan {
    /// Hours at which each stage is complete, or the numbers of the stages if no rate is known.
    fn times(&self) -> (Vec<f64>, &'static str) {
        let hours = self.stages.iter().map(|stage| {
            let hours = &stage.figures.hours;
            hours.expected.or_else(|| hours.bound())
        });
        let (hours, unit) = match hours.collect::<Option<Vec<f64>>>() {
            Some(hours)
                if self
                    .stages
                    .iter()
                    .all(|stage| stage.figures.hours.expected.is_some()) =>
            {
                (hours, "hours at the measured rate")
            }
            Some(hours) => (hours, "hours, at least"),
            None => (vec![1.0; self.stages.len()], "stages"),
        };
        let mut times = vec![0.0];
        let mut sum = 0.0;
        for hours in hours {
            sum += hours;
            times.push(sum);
        }
        (times, unit)
    }

    /// The picture.
    pub fn chart(&self) -> Chart {
        let (times, unit) = self.times();
        let points = |disk: &Disk| -> Vec<(f64, f64)> {
            let stages = times.iter().enumerate();
            stages
                .map(|(stage, &time)| (time, disk.fill(disk.used_after(stage))))
                .collect()
        };
        let kind = |is_new| if is_new { Kind::New } else { Kind::Old };
        let mut lines: Vec<Line> = self
            .disks
            .iter()
            .map(|disk| Line {
                kind: kind(disk.is_new),
                points: points(disk),
            })
            .collect();
        lines.sort_by_key(|line| line.kind == Kind::New);
        for (is_new, kind) in [(false, Kind::MeanOld), (true, Kind::MeanNew)] {
            let disks = || self.disks.iter().filter(|disk| disk.is_new == is_new);
            let size: f64 = disks().map(|disk| disk.size as f64).sum();
            if size > 0.0 {
                let mean = |stage| {
                    disks()
                        .map(|disk| disk.used_after(stage) as f64)
                        .sum::<f64>()
                        / size
                };
                let points = times.iter().enumerate();
                lines.push(Line {
                    kind,
                    points: points.map(|(stage, &time)| (time, mean(stage))).collect(),
                });
            }
        }
        Chart {
            title: format!(
                "Fill of {} disks that grow to {}: predicted",
                self.disks_before, self.disks_after
            ),
            unit: unit.to_owned(),
            lines,
            levels: vec![
                ("nearfull".to_owned(), self.ratios.nearfull),
                ("backfillfull".to_owned(), self.ratios.backfillfull),
            ],
        }
    }
}
