//! The space of a pool as its volumes have it: after parity, after what the pool keeps for itself, and
//! with what is set aside. What the devices have left says little of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool is told to be this full, in percent; the last is an error, the others are warnings.
pub const FULL_PERCENTS: [u64; 3] = [80, 90, 95];
/// So many points below what was told it is told again that there is room.
const HYSTERESIS_PERCENT: u64 = 2;

/// Space of a pool. In bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolSpace {
    /// What its datasets can hold in all.
    pub usable: u64,
    /// What is written: contents of volumes, and what only snapshots hold.
    pub written: u64,
    /// Set aside by reservations, and not written yet.
    pub reserved: u64,
    /// What is left for snapshots, and for volumes beyond their reservations.
    pub available: u64,
    /// The sizes of all volumes.
    pub promised: u64,
    /// What clients may still write to volumes, and neither a reservation nor what is left has room for.
    pub overcommitted: u64,
    /// How full it is: with what is set aside, if a volume lives of what is left, else by what is written.
    pub full_percent: u64,
    /// Whether a quota limits any of its datasets.
    #[serde(default)]
    pub has_quota: bool,
    /// Writes of clients that were refused for lack of space since the server began.
    #[serde(default)]
    pub refused_writes: u64,
    /// Whether some were refused lately.
    #[serde(default)]
    pub refuses: bool,
}

/// The highest of [`FULL_PERCENTS`] that is reached; 0 if none is.
pub fn full_level(percent: u64) -> u64 {
    let reached = FULL_PERCENTS.into_iter().filter(|level| percent >= *level);
    reached.max().unwrap_or(0)
}

/// What was told last of how full a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullLevel(u64);

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullChange {
    /// It reached this of [`FULL_PERCENTS`].
    Reached(u64),
    /// It is well below what was told.
    Eased,
}

impl FullLevel {
    /// What is to be told of a pool that is so full now: each level once, until it was left by some points.
    pub fn look(&mut self, percent: u64) -> Option<FullChange> {
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
    fn each_level_is_told_once_and_a_pool_that_wavers_is_not_told_again() {
        let mut level = FullLevel::default();
        let mut told = |percents: &[u64]| -> Vec<Option<FullChange>> {
            percents
                .iter()
                .map(|percent| level.look(*percent))
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
