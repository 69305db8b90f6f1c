//! Volumes and snapshots as listings show them, with their space.

use std::sync::Arc;

use ceph_sys::{CephError, Diff, Image};
use engine::dataset::{DatasetErrorKind, DatasetInfo, DatasetKind, SpaceUse, VolumeShape};
use units::ByteCount;

use crate::errors::Missing;
use crate::records::{Number, Records, Snapshot, Volume};
use crate::shelf::Shelf;

/// Bytes of the objects that exist, or with `from` of those that differ from that snapshot.
pub(crate) fn allocated(
    image: &Arc<Image>,
    from: Option<Number>,
    size: u64,
    with_parent: bool,
) -> Result<u64, CephError> {
    let from = from.map(Number::name);
    let mut bytes = 0;
    let mut visit = |diff: Diff| {
        // Without `from` only an existing range counts; with it a range that was freed since does, too.
        bytes += match from.is_some() || diff.exists {
            true => diff.length,
            false => 0,
        };
        true
    };
    image.visit_diff(from.as_deref(), (0, size), with_parent, true, &mut visit)?;
    Ok(bytes)
}

impl Shelf {
    /// The shelf, or one volume or snapshot of it, by its name in the shelf.
    pub(crate) fn info(&self, records: &Records, local: &str) -> Result<DatasetInfo, Missing> {
        let missing = || Missing::Kind(DatasetErrorKind::NotFound);
        match local.split_once('@') {
            None if local.is_empty() => Ok(self.root_info(records)),
            None => {
                let volume = records.volumes.get(local).ok_or_else(missing)?;
                self.volume_info(records, local, volume)
            }
            Some((head, tag)) => {
                let volume = records.volumes.get(head).ok_or_else(missing)?;
                let snapshot = records.snapshot(volume.guid, tag).ok_or_else(missing)?;
                self.snapshot_info(records, local, volume, snapshot)
            }
        }
    }

    fn full_name(&self, local: &str) -> String {
        match local.is_empty() || local.starts_with('@') {
            true => format!("{}{local}", self.name()),
            false => format!("{}/{local}", self.name()),
        }
    }

    fn root_info(&self, records: &Records) -> DatasetInfo {
        let statistics = self.space.statistics();
        DatasetInfo {
            name: self.full_name(""),
            kind: DatasetKind::Filesystem,
            snapshot: false,
            origin: None,
            guid: records.identity.guid.0,
            creation_txg: 0,
            creation_time_s: 0,
            used: ByteCount(statistics.stored),
            referenced: ByteCount(0),
            available: ByteCount(self.space.available(None)),
            logical_referenced: ByteCount(0),
            refreservation: ByteCount(0),
            space: SpaceUse {
                by_children: ByteCount(statistics.stored),
                logical: ByteCount(statistics.stored),
                compress_percent: 100,
                ..SpaceUse::default()
            },
            objects: 0,
            volume: None,
        }
    }

    fn volume_info(
        &self,
        records: &Records,
        local: &str,
        volume: &Volume,
    ) -> Result<DatasetInfo, Missing> {
        let image = self.image_to_read(volume.image, None)?;
        let size = image.size()?;
        let referenced = allocated(&image, None, size, true)?;
        let by_data = allocated(&image, None, size, false)?;
        let snapshots = records.snapshots_of(volume.guid);
        let newest = snapshots
            .last()
            .map(|(_, one)| *one)
            .filter(|one| one.image == volume.image);
        let written = match newest {
            Some(newest) => allocated(&image, Some(newest.guid), size, false)?,
            None => by_data,
        };
        let mut by_snapshots = 0;
        for (index, (_, one)) in snapshots.iter().enumerate() {
            let next = snapshots.get(index + 1).map(|(_, next)| *next);
            by_snapshots += self.held_by(one, next, volume)?;
        }
        let unused = volume.reserved.saturating_sub(by_data);
        Ok(DatasetInfo {
            name: self.full_name(local),
            kind: DatasetKind::Volume,
            snapshot: false,
            origin: volume
                .origin
                .and_then(|origin| records.snapshot_name(origin))
                .map(|name| self.full_name(&name)),
            guid: volume.guid.0,
            creation_txg: volume.txg,
            creation_time_s: volume.time_s,
            used: ByteCount(by_data + by_snapshots + unused),
            referenced: ByteCount(referenced),
            available: ByteCount(self.space.available(Some(volume.guid))),
            logical_referenced: ByteCount(referenced),
            refreservation: ByteCount(volume.reserved),
            space: SpaceUse {
                by_data: ByteCount(by_data),
                by_snapshots: ByteCount(by_snapshots),
                by_reservation: ByteCount(unused),
                logical: ByteCount(by_data + by_snapshots),
                written: ByteCount(written),
                compress_percent: 100,
                ..SpaceUse::default()
            },
            objects: 0,
            volume: Some(shape(size, volume)),
        })
    }

    fn snapshot_info(
        &self,
        records: &Records,
        local: &str,
        volume: &Volume,
        snapshot: &Snapshot,
    ) -> Result<DatasetInfo, Missing> {
        let all = records.snapshots_of(volume.guid);
        let index = all
            .iter()
            .position(|(_, one)| one.guid == snapshot.guid)
            .unwrap_or(0);
        let next = all.get(index + 1).map(|(_, next)| *next);
        let before = index.checked_sub(1).map(|before| all[before].1);
        let image = self.image_to_read(snapshot.image, Some(snapshot.guid))?;
        let referenced = allocated(&image, None, snapshot.size, true)?;
        let written = match before.filter(|before| before.image == snapshot.image) {
            Some(before) => allocated(&image, Some(before.guid), snapshot.size, false)?,
            None => allocated(&image, None, snapshot.size, false)?,
        };
        Ok(DatasetInfo {
            name: self.full_name(local),
            kind: DatasetKind::Volume,
            snapshot: true,
            origin: None,
            guid: snapshot.guid.0,
            creation_txg: snapshot.txg,
            creation_time_s: snapshot.time_s,
            used: ByteCount(self.held_by(snapshot, next, volume)?),
            referenced: ByteCount(referenced),
            available: ByteCount(0),
            logical_referenced: ByteCount(referenced),
            refreservation: ByteCount(0),
            space: SpaceUse {
                written: ByteCount(written),
                compress_percent: 100,
                ..SpaceUse::default()
            },
            objects: 0,
            volume: Some(shape(snapshot.size, volume)),
        })
    }

    /// Bytes that a snapshot has and its successor, or the volume, does not: at most those of the objects that changed
    /// since.
    fn held_by(
        &self,
        snapshot: &Snapshot,
        next: Option<&Snapshot>,
        volume: &Volume,
    ) -> Result<u64, CephError> {
        let at = self.image_to_read(snapshot.image, Some(snapshot.guid))?;
        let own = allocated(&at, None, snapshot.size, false)?;
        let later = match next.filter(|next| next.image == snapshot.image) {
            Some(next) => self.image_to_read(next.image, Some(next.guid))?,
            None if next.is_none() && snapshot.image == volume.image => {
                self.image_to_read(volume.image, None)?
            }
            // A rollback lies between: the clone shares all that it has not overwritten.
            _ => return Ok(0),
        };
        let size = later.size()?.max(snapshot.size);
        Ok(allocated(&later, Some(snapshot.guid), size, false)?.min(own))
    }
}

fn shape(size: u64, volume: &Volume) -> VolumeShape {
    VolumeShape {
        size: ByteCount(size),
        block_size: ByteCount(volume.block),
    }
}
