//! The retention of a receiver, independent of the sender's requests. A compromised sender must not be able to destroy
//! the copies: neither by a low count, nor by sending so many snapshots that the good ones expire. The decision uses
//! the day of arrival by the receiver's clock, which a sender cannot fake.

use std::collections::BTreeSet;

use control::Failure;
use control::replication::{ARRIVED_PROPERTY, Peer, Retention};
use engine::dataset::{PropertySource, Snapshots, Value};
use units::{SnapshotName, VolumeName};

use super::bases::destroy;
use super::now_unix_s;
use super::sender::TAG_PREFIX;
use crate::Context;

const DAY_S: u64 = 24 * 3600;

/// Returns the maximum retention of the rules of `peers`.
pub fn of(peers: &[Peer], volume: &VolumeName) -> Retention {
    let rules = peers
        .iter()
        .filter(|peer| volume.is_at_or_below(&peer.below));
    rules.fold(Retention { newest: 1, days: 0 }, |most, peer| Retention {
        newest: most.newest.max(peer.retention.newest),
        days: most.days.max(peer.retention.days),
    })
}

/// Stores that `snapshot` has arrived now.
pub fn arrived(context: &Context<'_>, snapshot: &SnapshotName) -> Result<(), Failure> {
    let now = Value::Text(now_unix_s().to_string());
    let noted = [(ARRIVED_PROPERTY.to_owned(), now)];
    let _alone = context.hooks.alone();
    let done = context.pool.set_dataset_properties(snapshot.into(), &noted);
    done.map_err(crate::dataset_failure)
}

/// Destroys the oldest replicated snapshots beyond the retention.
pub fn prune(
    context: &Context<'_>,
    volume: &VolumeName,
    wanted: u32,
    least: Retention,
) -> Result<(), Failure> {
    let all = context.pool.datasets(volume.into(), Snapshots::Include);
    let mut made = all.map_err(crate::dataset_failure)?;
    let prefix = format!("{volume}@{TAG_PREFIX}");
    made.retain(|info| info.name.starts_with(&prefix));
    if made.len() <= wanted.max(least.newest) as usize {
        return Ok(());
    }
    made.sort_by_key(|info| info.creation_txg);
    let mut arrivals = Vec::with_capacity(made.len());
    for info in &made {
        arrivals.push(arrival_of(context, &info.name)?);
    }
    for index in expendable(&days_of(&arrivals), wanted, least) {
        destroy(context, &made[index].name);
    }
    Ok(())
}

/// When a snapshot arrived, in seconds since 1970.
#[derive(Clone, Copy)]
enum Arrival {
    /// The arrival as recorded by this side.
    Noted(u64),
    /// The arrival was not recorded. The timestamp is from the name, which the sender chose.
    Claimed(u64),
}

fn arrival_of(context: &Context<'_>, name: &str) -> Result<Arrival, Failure> {
    let name: SnapshotName = name
        .parse()
        .map_err(|error: units::NameError| Failure::usage(error.to_string()))?;
    let all = context.pool.dataset_properties((&name).into());
    let mut all = all.map_err(crate::dataset_failure)?;
    let noted = all.remove(ARRIVED_PROPERTY);
    // Snapshots do not inherit the volume's properties here.
    let noted = noted.filter(|found| found.source == PropertySource::Local);
    let noted = noted.and_then(|found| found.value.to_string().parse().ok());
    let taken = name.tag().strip_prefix(TAG_PREFIX).unwrap_or_default();
    let claimed = || Arrival::Claimed(taken.parse().unwrap_or_default());
    Ok(noted.map_or_else(claimed, Arrival::Noted))
}

/// Returns the days of these arrivals, the oldest first. A claimed day counts only for arrivals before the first
/// recorded one. A later claimed arrival was on the day of the one before it, or after, and does not count as a
/// separate day.
fn days_of(arrivals: &[Arrival]) -> Vec<u64> {
    let mut noted_last = None;
    let days = arrivals.iter().map(|arrival| match arrival {
        Arrival::Noted(at_s) => *noted_last.insert(at_s / DAY_S),
        Arrival::Claimed(at_s) => noted_last.unwrap_or(at_s / DAY_S),
    });
    days.collect()
}

/// Which of the snapshots that arrived on these days, the oldest first, may go. The newest never does.
fn expendable(days: &[u64], wanted: u32, least: Retention) -> Vec<usize> {
    let newest = wanted.max(least.newest).max(1) as usize;
    let distinct: BTreeSet<u64> = days.iter().copied().collect();
    let kept: BTreeSet<u64> = distinct
        .into_iter()
        .rev()
        .take(least.days as usize)
        .collect();
    let excess = days.len().saturating_sub(newest);
    let is_first_of_its_day = |index: usize| !days[..index].contains(&days[index]);
    (0..excess)
        .filter(|index| !(kept.contains(&days[*index]) && is_first_of_its_day(*index)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Retention = Retention { newest: 3, days: 4 };

    /// Returns the remaining days.
    fn left(days: &[u64], wanted: u32, least: Retention) -> Vec<u64> {
        let gone = expendable(days, wanted, least);
        let kept = (0..days.len()).filter(|index| !gone.contains(index));
        kept.map(|index| days[index]).collect()
    }

    #[test]
    fn sender_cannot_reduce_the_receivers_retention() {
        let days = [1, 1, 2, 2, 3, 3, 3, 4, 4, 4];
        for wanted in [0, 1, 3] {
            assert_eq!(left(&days, wanted, LEAST), [1, 2, 3, 4, 4, 4], "{wanted}");
        }
        assert_eq!(left(&days, 5, LEAST), [1, 2, 3, 3, 3, 4, 4, 4]);
        assert_eq!(left(&days, 100, LEAST), days);
    }

    /// A compromised sender sends a thousand snapshots in one day: the snapshots of earlier days
    /// remain.
    #[test]
    fn snapshot_flood_does_not_evict_earlier_days() {
        let mut days = vec![10, 11, 12];
        for _ in 0..1000 {
            days.push(13);
            days = left(&days, 1, LEAST);
        }
        assert_eq!(days, [10, 11, 12, 13, 13, 13, 13]);
    }

    /// A compromised sender prevents the arrivals from being recorded, and claims a different day in each name.
    #[test]
    fn claimed_days_do_not_evict_recorded_days() {
        use Arrival::{Claimed, Noted};
        let at = |day: u64| day * DAY_S + 1;
        let good = [10, 17, 24, 31].map(|day| Noted(at(day)));
        for claims in [[32, 33, 34, 35], [14, 18, 25, 30], [500, 501, 502, 503]] {
            let mut arrivals = good.to_vec();
            arrivals.extend(claims.map(|day| Claimed(at(day))));
            arrivals.push(Noted(at(31)));
            let days = days_of(&arrivals);
            assert_eq!(left(&days, 1, LEAST)[..4], [10, 17, 24, 31], "{claims:?}");
        }
        // For snapshots from before arrivals were recorded, the day in the name is the only one.
        let older = [Claimed(at(1)), Claimed(at(2)), Noted(at(9))];
        assert_eq!(days_of(&older), [1, 2, 9]);
    }

    /// Nothing arrives for a year: existing snapshots do not expire because of that.
    #[test]
    fn days_without_an_arrival_are_ignored() {
        assert_eq!(
            left(&[1, 2, 3, 400, 400, 400, 400], 1, LEAST),
            [1, 2, 3, 400, 400, 400, 400]
        );
    }

    #[test]
    fn expendable_snapshots_are_destroyed_oldest_first() {
        let least = Retention { newest: 2, days: 0 };
        assert_eq!(expendable(&[1, 1, 2, 3], 1, least), [0, 1]);
        assert_eq!(expendable(&[], 1, least), [0; 0]);
        assert_eq!(
            expendable(&[7], 0, Retention { newest: 0, days: 0 }),
            [0; 0]
        );
    }
}
