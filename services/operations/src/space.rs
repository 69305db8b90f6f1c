//! The space of a pool: used, promised to volumes, and available.

use control::Failure;
use control::answer::PoolSpace;
use control::words::bytes;
use engine::Pool;
use engine::dataset::{DatasetInfo, DatasetKind, DatasetRef, FileSystemSpec, Snapshots};

use units::ByteCount;

use super::failures;

/// The quota at or above `name` that leaves it the least space, with the dataset that has it; none if it is the pool
/// itself that has no more space.
pub fn reached_limit(pool: &dyn Pool, name: &str) -> Option<String> {
    let own = name.split('@').next().unwrap_or_default();
    let available = pool.dataset(pool.name().into()).ok()?.available.get();
    let above = std::iter::successors(Some(own), |at| Some(at.rsplit_once('/')?.0));
    let limits = above.flat_map(|at| {
        let info = pool.dataset(DatasetRef::from_checked(at)).ok();
        let limits = info.map_or([None, None], |info| {
            let of = |property, quota: ByteCount, used: ByteCount| {
                let left = quota.get().saturating_sub(used.get());
                (quota.get() > 0).then_some((left, property, at, quota))
            };
            [
                of("quota", info.space.quota, info.used),
                of("refquota", info.space.ref_quota, info.referenced).filter(|_| at == own),
            ]
        });
        limits.into_iter().flatten()
    });
    let (left, property, dataset, quota) = limits.min_by_key(|limit| limit.0)?;
    (left < available).then(|| {
        format!(
            "the {property} of {dataset} is {}, of which {} are left",
            bytes(quota.get()),
            bytes(left)
        )
    })
}

/// The space promised to the datasets of a pool. Computing it reads every dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Set aside and not written yet.
    reserved: u64,
    /// The sizes of all volumes.
    promised: u64,
    /// Bytes that clients can still write beyond reservations.
    unreserved: u64,
    /// Whether a volume or a file system depends on the unreserved space.
    has_sparse: bool,
    /// Whether a quota limits any dataset.
    has_quota: bool,
}

impl Promises {
    /// Reads all datasets of `pool`.
    pub fn of(pool: &dyn Pool) -> Result<Self, Failure> {
        let all = pool.datasets(pool.name().into(), Snapshots::Skip);
        Ok(Self::sum(&all.map_err(failures::dataset)?))
    }

    fn sum(all: &[DatasetInfo]) -> Self {
        let mut sum = Self::default();
        for info in all {
            // The reservation of a subtree is charged to its parent.
            let own = info.space.reservation.get().saturating_sub(info.used.get());
            sum.has_quota |= info.space.quota.get() > 0 || info.space.ref_quota.get() > 0;
            let set_aside = info.space.by_reservation.get().saturating_add(own);
            sum.reserved = sum.reserved.saturating_add(set_aside);
            let Some(shape) = info.volume else {
                sum.has_sparse |= info.kind == DatasetKind::Filesystem
                    && info.objects > FileSystemSpec::OBJECTS_EMPTY
                    && info.space.reservation.get() == 0;
                continue;
            };
            let size = shape.size.get();
            // Sparse volumes may be of any size, all together more than a number holds.
            sum.promised = sum.promised.saturating_add(size);
            if info.refreservation.get() < size {
                sum.has_sparse = true;
                let held = info.referenced.get().saturating_add(set_aside);
                sum.unreserved = sum.unreserved.saturating_add(size.saturating_sub(held));
            }
        }
        sum
    }
}

/// Returns the space of the pool with a root dataset of `used` and `available` bytes.
pub fn pool_space(used: u64, available: u64, promises: &Promises) -> PoolSpace {
    let reserved = promises.reserved.min(used);
    let written = used - reserved;
    let usable = used.saturating_add(available);
    let taken = if promises.has_sparse { used } else { written };
    let percent = u128::from(taken) * 100 / u128::from(usable.max(1));
    PoolSpace {
        usable,
        written,
        reserved,
        available,
        promised: promises.promised,
        overcommitted: promises.unreserved.saturating_sub(available),
        has_quota: promises.has_quota,
        full_percent: u64::try_from(percent).unwrap_or(u64::MAX),
        ..PoolSpace::default()
    }
}

/// Returns the space of `pool`, from its root dataset and `promises`.
pub fn look(pool: &dyn Pool, promises: &Promises) -> Result<PoolSpace, Failure> {
    let root = pool
        .dataset(pool.name().into())
        .map_err(failures::dataset)?;
    let (used, available) = (root.used.get(), root.available.get());
    Ok(pool_space(used, available, promises))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::dataset::{SpaceUse, VolumeShape};
    use units::ByteCount;

    const GIB: u64 = 1 << 30;

    fn volume(size: u64, referenced: u64, refreservation: u64) -> DatasetInfo {
        DatasetInfo {
            name: "tank/v".to_owned(),
            kind: DatasetKind::Volume,
            snapshot: false,
            origin: None,
            guid: 1,
            creation_txg: 1,
            creation_time_s: 0,
            used: ByteCount(referenced.max(refreservation)),
            referenced: ByteCount(referenced),
            available: ByteCount(0),
            logical_referenced: ByteCount(referenced),
            refreservation: ByteCount(refreservation),
            space: SpaceUse {
                by_data: ByteCount(referenced),
                by_reservation: ByteCount(refreservation.saturating_sub(referenced)),
                ..SpaceUse::default()
            },
            objects: 0,
            volume: Some(VolumeShape {
                size: ByteCount(size),
                block_size: ByteCount(16_384),
            }),
        }
    }

    #[test]
    fn fully_reserved_pool_is_not_overcommitted() {
        let promises = Promises::sum(&[volume(9 * GIB, GIB, 9 * GIB)]);
        let space = pool_space(9 * GIB, GIB, &promises);
        assert_eq!((space.written, space.reserved), (GIB, 8 * GIB));
        assert_eq!((space.promised, space.overcommitted), (9 * GIB, 0));
        assert_eq!(space.full_percent, 10);
    }

    #[test]
    fn sparse_volume_uses_unreserved_space_only() {
        let all = [volume(8 * GIB, GIB, 8 * GIB), volume(4 * GIB, GIB, 0)];
        let space = pool_space(9 * GIB, GIB, &Promises::sum(&all));
        assert_eq!(space.usable, 10 * GIB);
        assert_eq!((space.written, space.reserved), (2 * GIB, 7 * GIB));
        assert_eq!(space.overcommitted, 2 * GIB);
        assert_eq!(space.full_percent, 90);
    }

    #[test]
    fn files_use_unreserved_space_only() {
        let mut files = volume(GIB, GIB, 0);
        files.volume = None;
        files.kind = DatasetKind::Filesystem;
        files.objects = FileSystemSpec::OBJECTS_EMPTY;
        let reserved = volume(8 * GIB, 0, 8 * GIB);
        let full = |files: &DatasetInfo| {
            let all = [files.clone(), reserved.clone()];
            pool_space(9 * GIB, GIB, &Promises::sum(&all)).full_percent
        };
        assert_eq!(full(&files), 10, "nothing is in it");
        files.objects += 1;
        assert_eq!(full(&files), 90);
    }

    #[test]
    fn reservation_of_a_subtree_counts_as_reserved() {
        let mut tree = volume(0, 0, 0);
        tree.volume = None;
        tree.used = ByteCount(GIB);
        tree.space.reservation = ByteCount(3 * GIB);
        assert_eq!(Promises::sum(&[tree]).reserved, 2 * GIB);
    }

    #[test]
    fn overflowing_sizes_saturate() {
        let huge = volume(1 << 63, 0, 0);
        let promises = Promises::sum(&[huge.clone(), huge.clone(), huge]);
        let space = pool_space(0, GIB, &promises);
        assert_eq!(space.promised, u64::MAX);
        assert_eq!(space.overcommitted, u64::MAX - GIB);
    }

    #[test]
    fn pool_of_size_zero_is_not_full() {
        assert_eq!(pool_space(0, 0, &Promises::default()).full_percent, 0);
    }
}
