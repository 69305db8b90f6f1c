//! The usable space of a pool: after parity and the pool's own overhead, and with reservations. The free space of the
//! devices is no measure of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Levels of use that are reported, in percent; the last is an error, the lower ones are warnings.
pub const FULL_PERCENTS: [u64; 3] = [80, 90, 95];
/// A level is reported as left when the use has dropped this far below it.
const HYSTERESIS_PERCENT: u64 = 2;

/// Space of a pool. In bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolSpace {
    /// The capacity of its datasets.
    pub usable: u64,
    /// Used space: contents of volumes, and blocks that only snapshots refer to.
    pub written: u64,
    /// Space that is reserved, but not written yet.
    pub reserved: u64,
    /// Space that is available for snapshots, and for volumes beyond their reservations.
    pub available: u64,
    /// The sizes of all volumes.
    pub promised: u64,
    /// Bytes that clients may still write to volumes, but that neither a reservation nor the available space covers.
    pub overcommitted: u64,
    /// How full it is: including reservations, if a volume depends on the available space, else by the used space.
    pub full_percent: u64,
    /// Whether a quota limits any of its datasets.
    #[serde(default)]
    pub has_quota: bool,
    /// Writes of clients that were refused for lack of space since the server started.
    #[serde(default)]
    pub refused_writes: u64,
    /// Whether some were refused recently.
    #[serde(default)]
    pub refuses: bool,
}

/// Returns the highest reached level of [`FULL_PERCENTS`]; 0 if none is.
pub fn full_level(percent: u64) -> u64 {
    let reached = FULL_PERCENTS.into_iter().filter(|level| percent >= *level);
    reached.max().unwrap_or(0)
}

/// The last reported level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullLevel(u64);

/// The change to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullChange {
    /// It reached this of [`FULL_PERCENTS`].
    Reached(u64),
    /// It is well below the reported level.
    Eased,
}

impl FullLevel {
    /// Returns the change to report for the present use: each level once, until the use has dropped some points below
    /// it.
    pub fn update(&mut self, percent: u64) -> Option<FullChange> {
        let now = full_level(percent);
        let eased = percent + HYSTERESIS_PERCENT < self.0;
        let change = match now > self.0 {
            true => FullChange::Reached(now),
            false if eased => FullChange::Eased,
            false => return None,
        };
        self.0 = now;
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fill_level_is_reported_once_with_hysteresis() {
        let mut level = FullLevel::default();
        let mut told = |percents: &[u64]| -> Vec<Option<FullChange>> {
            percents
                .iter()
                .map(|percent| level.update(*percent))
                .collect()
        };
        use FullChange::{Eased, Reached};
        assert_eq!(told(&[0, 79]), [None, None]);
        assert_eq!(
            told(&[80, 79, 80, 78, 80]),
            [Some(Reached(80)), None, None, None, None]
        );
        assert_eq!(
            told(&[99, 99, 94, 93]),
            [Some(Reached(95)), None, None, None]
        );
        assert_eq!(
            told(&[92, 95, 10, 10]),
            [Some(Eased), Some(Reached(95)), Some(Eased), None]
        );
    }
}
