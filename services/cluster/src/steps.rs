//! The steps of takeovers on this head, recorded when they happen: `docs/formats/steps.md`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use appliance::render::pool_id;
use takeover::timeline::{Recorded, Resources, Step, TimedStep, recorded};
use units::PoolName;

/// The file, in the state directory.
const FILE: &str = "steps.jsonl";
/// A longer file is rotated before the next step, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The recorded steps of this head.
#[derive(Clone, Debug)]
pub struct Steps {
    path: PathBuf,
}

impl Steps {
    /// In this state directory.
    pub fn of(state_dir: &Path) -> Self {
        Self {
            path: state_dir.join(FILE),
        }
    }

    /// Records a step of the server of `pool`.
    pub fn record_step(&self, pool: &PoolName, step: Step) {
        self.took(&pool_id(pool), step);
    }

    /// Records that `step` of `resource` happens now. After a failed write the step is missing in the report of a
    /// takeover; the takeover itself continues.
    pub fn took(&self, resource: &str, step: Step) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_ms = now.map_or(0, |since| since.as_millis() as u64);
        let reported = TimedStep {
            step,
            at_ms,
            head: Some(units::host_name()),
        };
        let recorded = Recorded {
            resource: resource.to_owned(),
            reported,
        };
        let line = serde_json::to_string(&recorded).expect("steps are JSON") + "\n";
        if let Err(error) = self.append(&line) {
            tracing::warn!(%error, path = %self.path.display(), "a step cannot be recorded");
        }
    }

    /// In one write, so that lines of concurrent processes stay whole.
    fn append(&self, line: &str) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        if std::fs::metadata(&self.path).is_ok_and(|found| found.len() > FILE_BYTES_MAX) {
            std::fs::rename(&self.path, self.move_aside())?;
        }
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        file.write_all(line.as_bytes())
    }

    fn move_aside(&self) -> PathBuf {
        self.path.with_extension("jsonl.1")
    }

    /// The steps of `resources`; invalid lines are left out.
    pub fn reported(&self, resources: &Resources) -> Vec<TimedStep> {
        let texts = [self.move_aside(), self.path.clone()]
            .map(|path| std::fs::read(path).unwrap_or_default());
        let lines = texts
            .iter()
            .flat_map(|text| text.split(|byte| *byte == b'\n'));
        lines
            .filter_map(|line| recorded(std::str::from_utf8(line).ok()?, resources))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_round_trip_and_their_file_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let steps = Steps::of(&folder.path().join("state"));
        let pool = "tank".parse().expect("a name");
        let resources = Resources {
            pool: pool_id(&pool),
            addresses: vec!["address-10.77.1.100".to_owned()],
        };
        assert!(steps.reported(&resources).is_empty());
        steps.record_step(&pool, Step::Imported);
        steps.append("no step\n").expect("written");
        steps.took("address-10.77.1.100", Step::Address);
        steps.took("pool-attic", Step::PoolStop);
        let reported = steps.reported(&resources);
        let found: Vec<Step> = reported.iter().map(|one| one.step).collect();
        assert_eq!(found, [Step::Imported, Step::Address]);
        assert_eq!(reported[0].head, Some(units::host_name()));
        let long = "x".repeat(FILE_BYTES_MAX as usize) + "\n";
        for _ in 0..3 {
            steps.append(&long).expect("written");
            steps.record_step(&pool, Step::Listening);
        }
        let files = std::fs::read_dir(folder.path().join("state")).expect("a folder");
        assert_eq!(files.count(), 2, "a file, and the one before it");
        let last = steps.reported(&resources).pop().expect("the newest");
        assert_eq!(last.step, Step::Listening);
    }
}
