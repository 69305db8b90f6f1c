//! Snapshots, clones and rollback.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use ceph_sys::CephError;
use engine::capabilities::Snapshotting;
use engine::dataset::{Change, DatasetError, DatasetErrorKind, DatasetRef, Value};
use units::{SnapshotName, VolumeName};

use crate::datasets::{check_new_name, image_options, new_number, now_s};
use crate::errors::{Missing, refused};
use crate::open::WHOLE;
use crate::pool::CephPool;
use crate::properties::checked;
use crate::ranges::Mode;
use crate::records::{
    Edits, Number, Records, Snapshot, Volume, discarded_image_key, discarded_snapshot_key, json,
    property_key, snapshot_key, volume_key,
};
use crate::shelf::{Changing, OpenVolume, Shelf, failed};

/// Snapshots that are created at the same time: each needs one round of the monitors, which serves several.
const SNAPSHOTS_AT_ONCE: usize = 16;

/// A snapshot to be created.
struct New<'a> {
    name: &'a SnapshotName,
    volume: Volume,
    snapshot: Snapshot,
}

fn find<'r>(records: &'r Records, name: &SnapshotName) -> Option<(&'r Volume, &'r Snapshot)> {
    let of = name.volume();
    let local = of.as_str().split_once('/').map_or("", |(_, local)| local);
    let volume = records.volumes.get(local)?;
    Some((volume, records.snapshot(volume.guid, name.tag())?))
}

impl Shelf {
    /// Checks that the snapshots can be created, and prepares them.
    fn prepare<'a>(&self, names: &'a [SnapshotName]) -> Result<Vec<New<'a>>, DatasetError> {
        const DOING: &str = "snapshot";
        let records = self.records();
        let mut volumes = BTreeSet::new();
        for name in names {
            let fail = |kind| Err(DatasetError::new(DOING, name.as_str(), kind));
            if name.volume().pool() != *self.name() {
                return fail(DatasetErrorKind::OtherPool);
            }
            if !volumes.insert(name.volume()) {
                return fail(DatasetErrorKind::SnapshotTwice);
            }
        }
        let prepare = |name: &'a SnapshotName| {
            let fail = |kind| DatasetError::new(DOING, name.as_str(), kind);
            let of = name.volume();
            let local = self.local(DOING, (&of).into())?;
            let volume = records
                .volumes
                .get(local)
                .ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
            if records.snapshot(volume.guid, name.tag()).is_some() {
                return Err(fail(DatasetErrorKind::Exists));
            }
            let snapshot = Snapshot {
                guid: new_number(DOING, name.as_str())?,
                image: volume.image,
                size: volume.size,
                txg: records.txg + 1,
                time_s: now_s(),
                holds: BTreeMap::new(),
            };
            Ok(New {
                name,
                volume: volume.clone(),
                snapshot,
            })
        };
        names.iter().map(prepare).collect()
    }

    /// Creates the RBD snapshots while no change of any of the volumes is in progress.
    fn create_snapshots(&self, changing: &Changing<'_>, new: &[New<'_>]) -> Result<(), CephError> {
        let open = self.open_volumes().clone();
        let of = |one: &New<'_>| open.get(&one.volume.guid).cloned();
        let paused: Vec<Arc<OpenVolume>> = new.iter().filter_map(of).collect();
        // In one order, so that two calls cannot block each other.
        let mut paused: Vec<_> = paused.iter().map(|open| (open.guid, open)).collect();
        paused.sort_by_key(|(guid, _)| *guid);
        let _locked: Vec<_> = paused
            .iter()
            .map(|(_, open)| open.ranges.lock(WHOLE, Mode::Shared))
            .collect();
        let create = |one: &New<'_>| {
            let image = changing.image_to_write(one.volume.guid, one.volume.image)?;
            self.step("create a snapshot");
            image.create_snapshot(&one.snapshot.guid.name())
        };
        for together in new.chunks(SNAPSHOTS_AT_ONCE) {
            let created: Vec<Result<(), CephError>> = std::thread::scope(|scope| {
                let threads: Vec<_> = together
                    .iter()
                    .map(|one| scope.spawn(move || create(one)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or(Err(CephError::INVALID)))
                    .collect()
            });
            created.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    fn take(
        self: &Arc<Self>,
        names: &[SnapshotName],
        marks: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        const DOING: &str = "snapshot";
        let Some(first) = names.first() else {
            return Ok(());
        };
        self.local_to_change(DOING, first.into())?;
        let texts: Vec<_> = marks
            .iter()
            .map(|(name, value)| (name.clone(), Value::Text(value.to_string())))
            .collect();
        let marks = checked(&texts, None);
        let marks = marks.map_err(|kind| DatasetError::new(DOING, first.as_str(), kind))?;
        let changing = self.changing();
        let new = self.prepare(names)?;
        let fail = failed(DOING, first.as_str());
        let mut begun = Edits::default();
        for one in &new {
            begun.discard_snapshot(one.snapshot.image, one.snapshot.guid);
        }
        changing.commit(begun).map_err(&fail)?;
        let created = self.create_snapshots(&changing, &new);
        if let Err(error) = created {
            self.collector.wake();
            return Err(fail(error));
        }
        let mut edits = Edits::default();
        for New {
            name,
            volume,
            snapshot,
        } in &new
        {
            edits.set(snapshot_key(volume.guid, name.tag()), json(snapshot));
            edits.remove(discarded_snapshot_key(snapshot.image, snapshot.guid));
            for (mark, value) in &marks.users {
                edits.set(
                    property_key(snapshot.guid, mark),
                    value.clone().into_bytes(),
                );
            }
        }
        changing.commit(edits).map_err(&fail)
    }

    fn destroy_snapshots(self: &Arc<Self>, names: &[SnapshotName]) -> Result<(), Missing> {
        let changing = self.changing();
        let records = self.records();
        let refuse = |kind| Err(Missing::Kind(kind));
        let mut edits = Edits::default();
        let mut has_clones = false;
        for name in names {
            let Some((volume, snapshot)) = find(&records, name) else {
                return refuse(DatasetErrorKind::NotFound);
            };
            if !snapshot.holds.is_empty() {
                return refuse(DatasetErrorKind::Busy);
            }
            has_clones |= records.has_clones(snapshot.guid);
            edits.remove(snapshot_key(volume.guid, name.tag()));
            edits.discard_snapshot(snapshot.image, snapshot.guid);
            records.remove_properties(snapshot.guid, &mut edits);
        }
        if has_clones {
            return refuse(DatasetErrorKind::HasClones);
        }
        changing.commit(edits)?;
        self.collector.wake();
        Ok(())
    }

    fn clone_of(
        self: &Arc<Self>,
        name: &SnapshotName,
        local: &str,
        properties: &[(String, Value)],
    ) -> Result<(), Missing> {
        let changing = self.changing();
        let records = self.records();
        let Some((of, snapshot)) = find(&records, name) else {
            return Err(Missing::Kind(DatasetErrorKind::NotFound));
        };
        let room = self.space.available(None);
        let properties = checked(properties, Some(room)).map_err(Missing::Kind)?;
        check_new_name(&records, local).map_err(|kind| {
            Missing::Kind(match kind {
                DatasetErrorKind::ParentMissing => DatasetErrorKind::ParentOfMissing,
                kind => kind,
            })
        })?;
        let random = |error: std::io::Error| CephError(error.raw_os_error().unwrap_or(5));
        let clone = Volume {
            guid: Number::random().map_err(random)?,
            image: Number::random().map_err(random)?,
            size: snapshot.size,
            block: of.block,
            txg: records.txg + 1,
            time_s: now_s(),
            origin: Some(snapshot.guid),
            reserved: properties.reserved.unwrap_or(0),
        };
        self.clone_image(&changing, snapshot, clone.image)?;
        self.add_volume(&changing, local, &clone, &properties)?;
        Ok(())
    }

    /// Creates an image with the contents of a snapshot. It is on record as discarded.
    fn clone_image(
        &self,
        changing: &Changing<'_>,
        of: &Snapshot,
        image: Number,
    ) -> Result<(), CephError> {
        let mut begun = Edits::default();
        begun.discard_image(image);
        changing.commit(begun)?;
        self.step("clone an image");
        self.namespace.clone_image(
            &of.image.name(),
            &of.guid.name(),
            &image.name(),
            image_options(),
        )
    }

    /// Rolls a volume back to its newest snapshot: a clone of the snapshot replaces the image, by one change of the
    /// entries. `open` is the volume if it is open and paused.
    pub(crate) fn roll_back(
        self: &Arc<Self>,
        name: &SnapshotName,
        open: Option<&Arc<OpenVolume>>,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "roll back to";
        let fail = |kind| DatasetError::new(DOING, name.as_str(), kind);
        let in_cluster = failed(DOING, name.as_str());
        self.local_to_change(DOING, name.into())?;
        let changing = self.changing();
        let records = self.records();
        let (volume, snapshot) =
            find(&records, name).ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
        let newest = records
            .snapshots_of(volume.guid)
            .last()
            .map(|(_, one)| one.guid);
        match open {
            Some(open) if open.guid != volume.guid => return Err(fail(DatasetErrorKind::NotFound)),
            _ if newest != Some(snapshot.guid) => return Err(fail(DatasetErrorKind::NotNewest)),
            None if self.open_volumes().contains_key(&volume.guid) => {
                return Err(fail(DatasetErrorKind::Busy));
            }
            _ => {}
        }
        let image = new_number(DOING, name.as_str())?;
        self.clone_image(&changing, snapshot, image)
            .map_err(&in_cluster)?;
        // Opened before the change, so that nothing can fail after it.
        self.step("open the clone");
        let opened = match open {
            Some(_) => Some(changing.locked_image(image).map_err(&in_cluster)?),
            None => None,
        };
        let changed = Volume {
            image,
            size: snapshot.size,
            txg: volume.txg,
            ..volume.clone()
        };
        let of = name.volume();
        let local = self.local(DOING, (&of).into())?;
        let mut edits = Edits::default();
        edits.set(volume_key(local), json(&changed));
        edits
            .remove(discarded_image_key(image))
            .discard_image(volume.image);
        changing.commit(edits).map_err(&in_cluster)?;
        self.step("replace the image of the open volume");
        if let Some(open) = open {
            open.set_size(snapshot.size);
            drop(open.replace_image(opened));
        }
        drop(changing);
        self.collector.wake();
        Ok(())
    }

    /// Changes the holds of all snapshots, or of none.
    fn change_holds(
        self: &Arc<Self>,
        doing: &'static str,
        names: &[SnapshotName],
        change: impl Fn(&mut BTreeMap<String, u64>) -> Result<(), DatasetErrorKind>,
    ) -> Result<(), DatasetError> {
        let Some(first) = names.first() else {
            return Ok(());
        };
        self.local_to_change(doing, first.into())?;
        let changing = self.changing();
        let records = self.records();
        let mut changed = BTreeMap::new();
        for name in names {
            let fail = |kind| DatasetError::new(doing, name.as_str(), kind);
            let (volume, snapshot) =
                find(&records, name).ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
            let key = snapshot_key(volume.guid, name.tag());
            let snapshot = changed.entry(key).or_insert_with(|| snapshot.clone());
            change(&mut snapshot.holds).map_err(fail)?;
        }
        let mut edits = Edits::default();
        for (key, snapshot) in &changed {
            edits.set(key.clone(), json(snapshot));
        }
        changing
            .commit(edits)
            .map_err(failed(doing, first.as_str()))
    }
}

impl Snapshotting for CephPool {
    fn destroy_snapshots(&self, names: &[SnapshotName]) -> Result<(), DatasetError> {
        const DOING: &str = "destroy";
        let Some(first) = names.first() else {
            return Ok(());
        };
        self.shelf.local_to_change(DOING, first.into())?;
        self.shelf
            .destroy_snapshots(names)
            .map_err(refused(DOING, first.as_str()))
    }

    fn snapshot(&self, names: &[SnapshotName]) -> Result<(), DatasetError> {
        self.shelf.take(names, &[])
    }

    fn snapshot_marked(
        &self,
        names: &[SnapshotName],
        marks: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        self.shelf.take(names, marks)
    }

    fn rename_snapshot(&self, from: &SnapshotName, tag: &str) -> Result<(), DatasetError> {
        const DOING: &str = "rename";
        let fail = |kind| DatasetError::new(DOING, from.as_str(), kind);
        self.shelf.local_to_change(DOING, from.into())?;
        let to: Result<SnapshotName, _> = format!("{}@{tag}", from.volume()).parse();
        let to = to.map_err(|_| fail(DatasetErrorKind::NameTooLong))?;
        let changing = self.shelf.changing();
        let records = self.shelf.records();
        let (volume, snapshot) =
            find(&records, from).ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
        if records.snapshot(volume.guid, to.tag()).is_some() {
            return Err(fail(DatasetErrorKind::Exists));
        }
        let mut edits = Edits::default();
        edits.remove(snapshot_key(volume.guid, from.tag()));
        edits.set(snapshot_key(volume.guid, to.tag()), json(snapshot));
        changing.commit(edits).map_err(failed(DOING, from.as_str()))
    }

    fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        clone: &VolumeName,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        const DOING: &str = "clone";
        self.shelf.local_to_change(DOING, snapshot.into())?;
        let local = self.shelf.local_to_change(DOING, clone.into())?;
        let cloned = self.shelf.clone_of(snapshot, local, properties);
        self.shelf.collector.wake();
        cloned.map_err(refused(DOING, snapshot.as_str()))
    }

    fn hold_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError> {
        self.shelf
            .change_holds("hold", names, |holds| match holds.contains_key(tag) {
                true => Err(DatasetErrorKind::Exists),
                false => {
                    holds.insert(tag.to_owned(), now_s());
                    Ok(())
                }
            })
    }

    fn release_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError> {
        self.shelf
            .change_holds("release", names, |holds| match holds.remove(tag) {
                Some(_) => Ok(()),
                None => Err(DatasetErrorKind::NotFound),
            })
    }

    fn holds(&self, name: &SnapshotName) -> Result<BTreeMap<String, u64>, DatasetError> {
        const DOING: &str = "read the holds of";
        self.shelf.local(DOING, name.into())?;
        let records = self.shelf.records();
        let found = find(&records, name);
        let found = found.map(|(_, snapshot)| snapshot.holds.clone());
        found.ok_or_else(|| DatasetError::new(DOING, name.as_str(), DatasetErrorKind::NotFound))
    }

    fn changes(
        &self,
        from: &SnapshotName,
        to: &SnapshotName,
        visit: &mut dyn FnMut(Option<Change>) -> ControlFlow<()>,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "compare";
        let records = self.shelf.records();
        let snapshot = |name: &SnapshotName| {
            self.shelf.local(DOING, DatasetRef::from(name))?;
            let found =
                find(&records, name).map(|(volume, snapshot)| (volume.block, snapshot.clone()));
            found.ok_or_else(|| DatasetError::new(DOING, name.as_str(), DatasetErrorKind::NotFound))
        };
        let (before, after) = (snapshot(from)?, snapshot(to)?);
        self.shelf
            .changes(&before.1, &after.1, after.0, visit)
            .map_err(failed(DOING, to.as_str()))
    }

    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        self.shelf.roll_back(snapshot, None)
    }
}
