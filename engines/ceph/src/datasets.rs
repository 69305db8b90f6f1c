//! Volumes: created, listed, opened, resized, renamed and destroyed.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ceph_sys::{CephError, ImageOptions};
use engine::Volume as _;
use engine::capabilities::{Datasets, Volumes};
use engine::dataset::{
    DatasetError, DatasetErrorKind, DatasetInfo, DatasetRef, Depth, Snapshots, Value, VolumeSpec,
    adjusted,
};
use engine::volume::OpenOptions;
use units::{ByteCount, SnapshotName, VolumeName};

use crate::errors::{Missing, of_dataset, refused};
use crate::open::WHOLE;
use crate::pool::CephPool;
use crate::properties::{Checked, checked};
use crate::ranges::Mode;
use crate::records::{
    Edits, Number, Records, Volume, json, property_key, snapshot_key, volume_key,
};
use crate::shelf::{Changing, FEATURES, OBJECT_ORDER, OpenVolume, Shelf, failed};
use crate::volume::CephVolume;

/// Sizes of a block.
const BLOCK_BYTES_MIN: u64 = 512;
const BLOCK_BYTES_MAX: u64 = 16 << 20;
/// Largest size of a volume: librbd's limit for objects of 4 MiB is higher.
const SIZE_BYTES_MAX: u64 = 1 << 56;

pub(crate) fn image_options() -> ImageOptions {
    ImageOptions {
        features: FEATURES,
        order: OBJECT_ORDER,
    }
}

pub(crate) fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// A new number, as an error of a dataset.
pub(crate) fn new_number(doing: &'static str, dataset: &str) -> Result<Number, DatasetError> {
    let io = |error: std::io::Error| {
        of_dataset(doing, dataset, CephError(error.raw_os_error().unwrap_or(5)))
    };
    Number::random().map_err(io)
}

/// Whether a new volume may have this name.
pub(crate) fn check_new_name(records: &Records, local: &str) -> Result<(), DatasetErrorKind> {
    if records.volumes.contains_key(local) {
        return Err(DatasetErrorKind::Exists);
    }
    match local.rsplit_once('/') {
        None => Ok(()),
        Some((parent, _)) if records.volumes.contains_key(parent) => {
            Err(DatasetErrorKind::ParentUnsuitable)
        }
        Some(_) => Err(DatasetErrorKind::ParentMissing),
    }
}

impl Shelf {
    /// Stores a new volume with its properties. Its image exists, and is on record as discarded until now.
    pub(crate) fn add_volume(
        &self,
        changing: &Changing<'_>,
        local: &str,
        volume: &Volume,
        properties: &Checked,
    ) -> Result<(), CephError> {
        let mut edits = Edits::default();
        edits.set(volume_key(local), json(volume));
        for (name, value) in &properties.users {
            edits.set(property_key(volume.guid, name), value.clone().into_bytes());
        }
        edits.remove(crate::records::discarded_image_key(volume.image));
        changing.commit(edits)?;
        self.measure(volume)
    }

    /// Closes the image of a volume, and releases its lock.
    pub(crate) fn close_volume(self: &Arc<Self>, open: &Arc<OpenVolume>) {
        let changing = self.changing();
        // A read in progress has been completed by now: this is the last handle.
        drop(open.replace_image(None));
        let mut all = self.open_volumes();
        if all
            .get(&open.guid)
            .is_some_and(|registered| Arc::ptr_eq(registered, open))
        {
            all.remove(&open.guid);
        }
        drop(all);
        drop(changing);
    }

    /// Changes the size of an open volume, and stores it.
    pub(crate) fn resize(
        self: &Arc<Self>,
        open: &Arc<OpenVolume>,
        size: u64,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "resize";
        let (name, fail) = (open.name.as_str(), failed(DOING, &open.name));
        if size > SIZE_BYTES_MAX {
            return Err(of_dataset(DOING, name, TOO_LARGE));
        }
        // In this order, as snapshots acquire both, too.
        let changing = self.changing();
        let _locked = open.ranges.lock(WHOLE, Mode::Exclusive);
        let records = self.records();
        let mut all = records.volumes.iter();
        let found = all.find(|(_, volume)| volume.guid == open.guid);
        let Some((local, volume)) = found else {
            return Err(DatasetError::new(DOING, name, DatasetErrorKind::Closed));
        };
        let image = changing.image_to_write(volume.guid, volume.image);
        let image = image.map_err(&fail)?;
        self.step("resize an image");
        image.resize(size).map_err(&fail)?;
        open.set_size(size);
        let resized = Volume {
            size,
            ..volume.clone()
        };
        let mut edits = Edits::default();
        edits.set(volume_key(local), json(&resized));
        changing.commit(edits).map_err(&fail)
    }

    /// Opens a volume. The stored size is corrected if the process was killed during a resize.
    fn open_volume(
        self: &Arc<Self>,
        name: &VolumeName,
        options: OpenOptions,
    ) -> Result<CephVolume, DatasetError> {
        const DOING: &str = "open";
        let fail = |kind| DatasetError::new(DOING, name.as_str(), kind);
        let in_cluster = failed(DOING, name.as_str());
        let local = self.local(DOING, name.into())?;
        let changing = self.changing();
        let records = self.records();
        let volume = records
            .volumes
            .get(local)
            .ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
        if self.open_volumes().contains_key(&volume.guid) {
            return Err(fail(DatasetErrorKind::Busy));
        }
        let options = OpenOptions {
            read_only: options.read_only || self.is_read_only,
            ..options
        };
        let image = match options.read_only {
            true => self.image_to_read(volume.image, None),
            false => changing.locked_image(volume.image),
        };
        let image = image.map_err(&in_cluster)?;
        let size = image.size().map_err(&in_cluster)?;
        check_logical_block(size, options).map_err(fail)?;
        if size != volume.size && !self.is_read_only {
            let corrected = Volume {
                size,
                ..volume.clone()
            };
            let mut edits = Edits::default();
            edits.set(volume_key(local), json(&corrected));
            changing.commit(edits).map_err(&in_cluster)?;
        }
        let open = OpenVolume::new(
            self,
            name.as_str(),
            volume.guid,
            options,
            (size, volume.block),
            image,
        );
        let open = Arc::new(open);
        self.open_volumes().insert(volume.guid, Arc::clone(&open));
        Ok(CephVolume(open))
    }

    fn open_snapshot(
        self: &Arc<Self>,
        name: &SnapshotName,
        options: OpenOptions,
    ) -> Result<CephVolume, DatasetError> {
        const DOING: &str = "open";
        let fail = |kind| DatasetError::new(DOING, name.as_str(), kind);
        let local = self.local(DOING, name.into())?;
        let records = self.records();
        let (head, tag) = local.split_once('@').unwrap_or((local, ""));
        let volume = records
            .volumes
            .get(head)
            .ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
        let snapshot = records.snapshot(volume.guid, tag);
        let snapshot = snapshot.ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
        let options = OpenOptions {
            read_only: true,
            ..options
        };
        check_logical_block(snapshot.size, options).map_err(fail)?;
        let image = self.image_to_read(snapshot.image, Some(snapshot.guid));
        let image = image.map_err(failed(DOING, name.as_str()))?;
        let shape = (snapshot.size, volume.block);
        let open = OpenVolume::new(self, name.as_str(), snapshot.guid, options, shape, image);
        Ok(CephVolume(Arc::new(open)))
    }

    /// Removes a volume with its snapshots from the entries. Its images are discarded.
    fn destroy(self: &Arc<Self>, local: &str, depth: Depth) -> Result<(), Missing> {
        let changing = self.changing();
        let records = self.records();
        let missing = Missing::Kind(DatasetErrorKind::NotFound);
        let volume = records.volumes.get(local).ok_or(missing)?;
        let snapshots = records.snapshots_of(volume.guid);
        if depth == Depth::One && !snapshots.is_empty() {
            let what = "snapshots".to_owned();
            return Err(Missing::Kind(DatasetErrorKind::HasDependents { what }));
        }
        if snapshots
            .iter()
            .any(|(_, one)| records.has_clones(one.guid))
        {
            return Err(Missing::Kind(DatasetErrorKind::HasClones));
        }
        let is_held = snapshots.iter().any(|(_, one)| !one.holds.is_empty());
        if is_held || self.open_volumes().contains_key(&volume.guid) {
            return Err(Missing::Kind(DatasetErrorKind::Busy));
        }
        let mut edits = Edits::default();
        edits.remove(volume_key(local)).discard_image(volume.image);
        records.remove_properties(volume.guid, &mut edits);
        for (tag, one) in snapshots {
            edits
                .remove(snapshot_key(volume.guid, tag))
                .discard_image(one.image);
            records.remove_properties(one.guid, &mut edits);
        }
        changing.commit(edits)?;
        self.space.set_unused(volume.guid, None);
        self.collector.wake();
        Ok(())
    }

    fn create(self: &Arc<Self>, local: &str, spec: &VolumeSpec) -> Result<(), Missing> {
        let (size, block) = (spec.size.get(), spec.block_size.get());
        let refuse = |kind| Err(Missing::Kind(kind));
        if !block.is_power_of_two() || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block) {
            return refuse(DatasetErrorKind::BlockSize);
        }
        if size == 0 || size % block != 0 || size > SIZE_BYTES_MAX {
            return refuse(DatasetErrorKind::SizeNotMultiple { size, block });
        }
        if spec.key.is_some() {
            return refuse(DatasetErrorKind::KeyUnchangeable);
        }
        let mut properties = spec.properties.clone();
        if !spec.sparse {
            properties.push(("refreservation".to_owned(), Value::Number(size)));
        }
        let changing = self.changing();
        let records = self.records();
        let available = self.space.available(None);
        let properties = checked(&properties, Some(available)).map_err(Missing::Kind)?;
        check_new_name(&records, local).map_err(Missing::Kind)?;
        let random = |error: std::io::Error| CephError(error.raw_os_error().unwrap_or(5));
        let volume = Volume {
            guid: Number::random().map_err(random)?,
            image: Number::random().map_err(random)?,
            size,
            block,
            txg: records.txg + 1,
            time_s: now_s(),
            origin: None,
            reserved: properties.reserved.unwrap_or(0),
        };
        let mut begun = Edits::default();
        begun.discard_image(volume.image);
        changing.commit(begun)?;
        self.step("create an image");
        self.namespace
            .create_image(&volume.image.name(), size, image_options())?;
        self.add_volume(&changing, local, &volume, &properties)?;
        Ok(())
    }
}

/// EFBIG.
const TOO_LARGE: CephError = CephError(27);

fn check_logical_block(size: u64, options: OpenOptions) -> Result<(), DatasetErrorKind> {
    let block = u64::from(options.logical_block);
    match matches!(block, 512 | 4096) && size % block == 0 {
        true => Ok(()),
        false => Err(DatasetErrorKind::LogicalBlock { size, block }),
    }
}

impl Datasets for CephPool {
    fn dataset(&self, dataset: DatasetRef<'_>) -> Result<DatasetInfo, DatasetError> {
        const DOING: &str = "look at";
        let local = self.shelf.local(DOING, dataset)?;
        let info = self.shelf.info(&self.shelf.records(), local);
        info.map_err(refused(DOING, dataset.as_str()))
    }

    fn datasets(
        &self,
        below: DatasetRef<'_>,
        snapshots: Snapshots,
    ) -> Result<Vec<DatasetInfo>, DatasetError> {
        const DOING: &str = "list";
        let fail = refused(DOING, below.as_str());
        let at = self.shelf.local(DOING, below)?;
        let records = self.shelf.records();
        let is_root = at.is_empty();
        if !is_root && !records.volumes.contains_key(at) {
            return Err(fail(Missing::Kind(DatasetErrorKind::NotFound)));
        }
        let mut found = Vec::new();
        if is_root && snapshots != Snapshots::Only {
            found.push(self.shelf.info(&records, "").map_err(&fail)?);
        }
        for (name, volume) in records
            .volumes
            .iter()
            .filter(|(name, _)| is_root || *name == at)
        {
            if snapshots != Snapshots::Only {
                found.push(self.shelf.info(&records, name).map_err(&fail)?);
            }
            if snapshots == Snapshots::Skip {
                continue;
            }
            let mut tags: Vec<&str> = records
                .snapshots_of(volume.guid)
                .into_iter()
                .map(|(tag, _)| tag)
                .collect();
            tags.sort_unstable();
            for tag in tags {
                let name = format!("{name}@{tag}");
                found.push(self.shelf.info(&records, &name).map_err(&fail)?);
            }
        }
        Ok(found)
    }

    fn volume_count(&self) -> Result<u64, DatasetError> {
        Ok(self.shelf.records().volumes.len() as u64)
    }

    fn create_volume(&self, spec: &VolumeSpec) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        let local = self.shelf.local_to_change(DOING, (&spec.name).into())?;
        let created = self.shelf.create(local, spec);
        self.shelf.collector.wake();
        created.map_err(refused(DOING, spec.name.as_str()))
    }

    fn resize_volume(&self, name: &VolumeName, size: ByteCount) -> Result<(), DatasetError> {
        self.shelf.local_to_change("resize", name.into())?;
        let before = self.dataset(name.into())?;
        let volume = self.shelf.open_volume(name, OpenOptions::default())?;
        let grows = before.volume.is_some_and(|old| size > old.size);
        if grows {
            self.adjust_reservation(&before, size)?;
        }
        let resized = volume.resize(size.get());
        drop(volume);
        match (resized, grows) {
            (Ok(()), true) => Ok(()),
            (Ok(()), false) => self.adjust_reservation(&before, size),
            (Err(error), true) => {
                let bytes = Value::Number(before.refreservation.get());
                self.shelf
                    .set(name.into(), &[("refreservation".to_owned(), bytes)])?;
                Err(error)
            }
            (Err(error), false) => Err(error),
        }
    }

    fn adjust_reservation(
        &self,
        before: &DatasetInfo,
        size: ByteCount,
    ) -> Result<(), DatasetError> {
        let of = DatasetRef::from_checked(&before.name);
        self.shelf.local_to_change("resize", of)?;
        let Some(old) = before.volume else {
            return Ok(());
        };
        let reserved = before.refreservation.get();
        let Some(bytes) = adjusted(reserved, old.size.get(), size.get()) else {
            return Ok(());
        };
        self.shelf
            .set(of, &[("refreservation".to_owned(), Value::Number(bytes))])
    }

    fn destroy_dataset(&self, name: &VolumeName, depth: Depth) -> Result<(), DatasetError> {
        const DOING: &str = "destroy";
        let local = self.shelf.local_to_change(DOING, name.into())?;
        let destroyed = self.shelf.destroy(local, depth);
        destroyed.map_err(refused(DOING, name.as_str()))
    }

    fn rename(&self, from: &VolumeName, to: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "rename";
        let fail = |kind| DatasetError::new(DOING, from.as_str(), kind);
        let local = self.shelf.local_to_change(DOING, from.into())?;
        if to.pool() != *self.shelf.name() {
            return Err(fail(DatasetErrorKind::OtherPool));
        }
        let new = self.shelf.local(DOING, to.into())?;
        let changing = self.shelf.changing();
        let records = self.shelf.records();
        let volume = records
            .volumes
            .get(local)
            .ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
        check_new_name(&records, new).map_err(|kind| {
            fail(match kind {
                DatasetErrorKind::ParentMissing => DatasetErrorKind::ParentOfMissing,
                DatasetErrorKind::ParentUnsuitable => DatasetErrorKind::LocationUnsuitable,
                kind => kind,
            })
        })?;
        let mut edits = Edits::default();
        edits
            .remove(volume_key(local))
            .set(volume_key(new), json(volume));
        changing.commit(edits).map_err(failed(DOING, from.as_str()))
    }
}

impl Volumes for CephPool {
    fn open_volume(
        &self,
        name: &VolumeName,
        options: OpenOptions,
    ) -> Result<Arc<dyn engine::Volume>, DatasetError> {
        Ok(Arc::new(self.shelf.open_volume(name, options)?))
    }

    fn open_snapshot(
        &self,
        name: &SnapshotName,
        options: OpenOptions,
    ) -> Result<Arc<dyn engine::Volume>, DatasetError> {
        Ok(Arc::new(self.shelf.open_snapshot(name, options)?))
    }
}
