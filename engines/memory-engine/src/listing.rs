//! Datasets and snapshots as listings show them.

use engine::dataset::{DatasetErrorKind, DatasetInfo, DatasetKind, SpaceUse, VolumeShape};
use units::ByteCount;

use crate::image::Image;
use crate::state::State;
use crate::tree::{Dataset, Found, Snapshot};

/// Objects of an empty file system in addition to its root directory.
const LISTS: u64 = 5;

fn files_of(dataset: &Dataset) -> u64 {
    let files = dataset.files.as_ref().map_or(1, |files| files.objects());
    match dataset.volume {
        Some(_) => 0,
        None => LISTS + files,
    }
}

impl State {
    fn kind_of(dataset: &Dataset) -> DatasetKind {
        match (dataset.is_partial(), &dataset.volume) {
            (true, _) => DatasetKind::Other,
            (false, Some(_)) => DatasetKind::Volume,
            (false, None) => DatasetKind::Filesystem,
        }
    }

    fn shape(&self, name: &str, image: &Image) -> VolumeShape {
        let is_locked = self.tree.is_locked(name);
        let shown = |bytes: u64| ByteCount(if is_locked { 0 } else { bytes });
        VolumeShape {
            size: shown(image.size),
            block_size: shown(image.block_size),
        }
    }

    fn origin_of(&self, dataset: &Dataset) -> Option<String> {
        let (of, snapshot) = self.tree.snapshot_by_guid(dataset.origin?)?;
        Some(format!("{of}@{}", snapshot.tag))
    }

    /// As a listing shows it.
    pub(crate) fn info(&self, name: &str) -> Result<DatasetInfo, DatasetErrorKind> {
        let Found::Head(dataset) = self.tree.find(name)? else {
            return self.snapshot_info(name);
        };
        let (charge, kind) = (self.tree.charge(name), Self::kind_of(dataset));
        let image = dataset.image().map(|image| image.clone());
        Ok(DatasetInfo {
            name: name.to_owned(),
            kind,
            snapshot: false,
            origin: self.origin_of(dataset),
            guid: dataset.guid,
            creation_txg: dataset.txg,
            creation_time_s: dataset.time_s,
            used: ByteCount(charge.used()),
            referenced: ByteCount(charge.referenced),
            available: ByteCount(self.available(name)),
            logical_referenced: ByteCount(charge.referenced),
            refreservation: ByteCount(dataset.number("refreservation")),
            space: self.tree.space_of(name, dataset),
            objects: files_of(dataset),
            volume: image
                .filter(|_| kind == DatasetKind::Volume)
                .map(|image| self.shape(name, &image)),
        })
    }

    fn snapshot_info(&self, name: &str) -> Result<DatasetInfo, DatasetErrorKind> {
        let head = name.split('@').next().unwrap_or_default();
        let Found::Snapshot(dataset, snapshot) = self.tree.find(name)? else {
            return Err(DatasetErrorKind::NotFound);
        };
        let is_it = |one: &Snapshot| one.guid == snapshot.guid;
        let index = dataset.snapshots.iter().position(is_it).unwrap_or(0);
        let is_volume = dataset.volume.is_some();
        Ok(DatasetInfo {
            name: name.to_owned(),
            kind: if is_volume {
                DatasetKind::Volume
            } else {
                DatasetKind::Filesystem
            },
            snapshot: true,
            origin: None,
            guid: snapshot.guid,
            creation_txg: snapshot.txg,
            creation_time_s: snapshot.time_s,
            used: ByteCount(self.tree.unique_to_snapshot(dataset, index)),
            referenced: ByteCount(snapshot.image.bytes()),
            available: ByteCount(0),
            logical_referenced: ByteCount(snapshot.image.bytes()),
            refreservation: ByteCount(0),
            space: SpaceUse {
                written: ByteCount(self.tree.written_in_snapshot(dataset, index)),
                compress_percent: 100,
                ..SpaceUse::default()
            },
            objects: 0,
            volume: is_volume.then(|| self.shape(head, &snapshot.image)),
        })
    }
}
