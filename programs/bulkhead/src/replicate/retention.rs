//! What a receiver keeps of a volume, whatever its sender asks for. A sender that was broken into must not be
//! able to destroy the copies: neither by asking for few, nor by sending so many that the good ones fall out.
//! What decides is the day on which a snapshot arrived, by the receiver's clock, which no sender can fake.

use std::collections::BTreeSet;

use control::Failure;
use control::replication::{ARRIVED_PROPERTY, Peer, Retention};
use units::{SnapshotName, VolumeName};
use zpool::dataset::{PropertySource, Snapshots, Value};

use super::now_unix_s;
use super::sender::{TAG_PREFIX, destroy};
use crate::operations::{self, Context};

const DAY_S: u64 = 24 * 3600;

/// The most that any rule of `peers` keeps.
pub fn of(peers: &[Peer], volume: &VolumeName) -> Retention {
    let rules = peers
        .iter()
        .filter(|peer| volume.is_at_or_below(&peer.below));
    rules.fold(Retention { newest: 1, days: 0 }, |most, peer| Retention {
        newest: most.newest.max(peer.retention.newest),
        days: most.days.max(peer.retention.days),
    })
}

/// Notes that `snapshot` has arrived now.
pub fn arrived(context: &Context<'_>, snapshot: &SnapshotName) -> Result<(), Failure> {
    let now = Value::Text(now_unix_s().to_string());
    let noted = [(ARRIVED_PROPERTY.to_owned(), now)];
    let _alone = context.live.alone();
    let done = context.pool.set_dataset_properties(snapshot, &noted);
    done.map_err(operations::dataset_failure)
}

/// Destroys the oldest snapshots of replication that nobody wants to be kept.
pub fn prune(
    context: &Context<'_>,
    volume: &VolumeName,
    wanted: u32,
    least: Retention,
) -> Result<(), Failure> {
    let all = context.pool.datasets(volume, Snapshots::Include);
    let mut made = all.map_err(operations::dataset_failure)?;
    let prefix = format!("{volume}@{TAG_PREFIX}");
    made.retain(|info| info.name.starts_with(&prefix));
    if made.len() <= wanted.max(least.newest) as usize {
        return Ok(());
    }
    made.sort_by_key(|info| info.creation_txg);
    let mut days = Vec::with_capacity(made.len());
    for info in &made {
        days.push(arrival_of(context, &info.name)? / DAY_S);
    }
    for index in expendable(&days, wanted, least) {
        destroy(context, &made[index].name);
    }
    Ok(())
}

/// When it arrived, in seconds since 1970; of one that came before that was noted, when it was taken.
fn arrival_of(context: &Context<'_>, name: &str) -> Result<u64, Failure> {
    let name: SnapshotName = name
        .parse()
        .map_err(|error: units::NameError| Failure::usage(error.to_string()))?;
    let all = context.pool.dataset_properties(&name);
    let mut all = all.map_err(operations::dataset_failure)?;
    let noted = all.remove(ARRIVED_PROPERTY);
    // What the volume has says nothing of its snapshots.
    let noted = noted.filter(|found| found.source == PropertySource::Local);
    let taken = name.tag().strip_prefix(TAG_PREFIX).unwrap_or_default();
    let seconds = noted.and_then(|found| found.value.to_string().parse().ok());
    Ok(seconds.or_else(|| taken.parse().ok()).unwrap_or_default())
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

    /// The days of what is left.
    fn left(days: &[u64], wanted: u32, least: Retention) -> Vec<u64> {
        let gone = expendable(days, wanted, least);
        let kept = (0..days.len()).filter(|index| !gone.contains(index));
        kept.map(|index| days[index]).collect()
    }

    #[test]
    fn a_sender_that_wants_few_or_none_does_not_get_below_what_the_receiver_keeps() {
        let days = [1, 1, 2, 2, 3, 3, 3, 4, 4, 4];
        for wanted in [0, 1, 3] {
            assert_eq!(left(&days, wanted, LEAST), [1, 2, 3, 4, 4, 4], "{wanted}");
        }
        assert_eq!(left(&days, 5, LEAST), [1, 2, 3, 3, 3, 4, 4, 4]);
        assert_eq!(left(&days, 100, LEAST), days);
    }

    /// Whoever has the sender pushes a thousand in a day: those of the days before stay.
    #[test]
    fn no_flood_of_snapshots_pushes_out_those_of_the_days_before() {
        let mut days = vec![10, 11, 12];
        for _ in 0..1000 {
            days.push(13);
            days = left(&days, 1, LEAST);
        }
        assert_eq!(days, [10, 11, 12, 13, 13, 13, 13]);
    }

    /// Nothing arrives for a year: what is there is not old because of that.
    #[test]
    fn days_without_an_arrival_do_not_count() {
        assert_eq!(
            left(&[1, 2, 3, 400, 400, 400, 400], 1, LEAST),
            [1, 2, 3, 400, 400, 400, 400]
        );
    }

    #[test]
    fn what_no_rule_keeps_goes_oldest_first() {
        let least = Retention { newest: 2, days: 0 };
        assert_eq!(expendable(&[1, 1, 2, 3], 1, least), [0, 1]);
        assert_eq!(expendable(&[], 1, least), [0; 0]);
        assert_eq!(
            expendable(&[7], 0, Retention { newest: 0, days: 0 }),
            [0; 0]
        );
    }
}
