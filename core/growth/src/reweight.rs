//! Proposals for disks that would be over-full: a lower reweight, which sends some of their groups elsewhere.

use std::collections::BTreeMap;

use crate::OsdId;

/// A reweight of 1.0 in the map.
pub const REWEIGHT_ONE: u32 = 1 << 16;

/// Rounds of proposals: each needs a run of CRUSH over all placement groups.
pub const ROUNDS_MAX: usize = 4;

/// Least reweight that is proposed, of [`REWEIGHT_ONE`].
const REWEIGHT_MIN: u32 = REWEIGHT_ONE / 2;

/// Returns the disks with a fill above `over` times the mean, the fullest first. `fills` are fractions.
pub fn over_full(fills: &BTreeMap<OsdId, f64>, mean: f64, over: f64) -> Vec<OsdId> {
    let mut found: Vec<(OsdId, f64)> = fills
        .iter()
        .map(|(&osd, &fill)| (osd, fill))
        .filter(|(_, fill)| *fill > mean * over)
        .collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1));
    found.into_iter().map(|(osd, _)| osd).collect()
}

/// Returns lower reweights for the disks that are over-full: in proportion to the mean.
pub fn next_reweights(
    fills: &BTreeMap<OsdId, f64>,
    mean: f64,
    over: f64,
    current: &BTreeMap<OsdId, u32>,
) -> BTreeMap<OsdId, u32> {
    let mut next = current.clone();
    for osd in over_full(fills, mean, over) {
        let old = current.get(&osd).copied().unwrap_or(REWEIGHT_ONE);
        let fill = fills.get(&osd).copied().unwrap_or(mean);
        let wanted = (f64::from(old) * mean / fill).round() as u32;
        // No proposal raises a reweight that an administrator lowered further.
        next.insert(osd, as_typed(wanted.max(REWEIGHT_MIN)).min(old));
    }
    next
}

/// A reweight as `ceph osd reweight` expects it.
pub fn reweight_text(reweight: u32) -> String {
    format!("{:.4}", f64::from(reweight) / f64::from(REWEIGHT_ONE))
}

/// The reweight that Ceph reads from the text: it rounds down.
fn as_typed(reweight: u32) -> u32 {
    let typed: f64 = reweight_text(reweight).parse().unwrap_or(1.0);
    (typed * f64::from(REWEIGHT_ONE)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disks_far_above_the_mean_are_lowered() {
        let fills = BTreeMap::from([(0, 0.5), (1, 0.52), (2, 0.7), (3, 2.0)]);
        assert_eq!(over_full(&fills, 0.5, 1.15), [3, 2]);
        let next = next_reweights(&fills, 0.5, 1.15, &BTreeMap::from([(1, 60_000)]));
        assert_eq!(next[&1], 60_000);
        assert_eq!(reweight_text(next[&2]), "0.7143");
        assert_eq!(next[&2], 46_812);
        assert_eq!(next[&3], REWEIGHT_MIN);
        assert!(!next.contains_key(&0));
    }
}
