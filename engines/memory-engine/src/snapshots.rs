//! Snapshots and clones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use engine::capabilities::Snapshotting;
use engine::dataset::{Change, DatasetError, DatasetErrorKind, DatasetRef, Value};
use engine::error::SystemError;
use file_system::memory::MemoryFileSystem;
use units::{Extent, SnapshotName, VolumeName};

use crate::encryption::Encryption;
use crate::image::Image;
use crate::native::{check_users, with_cause};
use crate::numbers::{new_guid, now_s};
use crate::state::{MemoryPool, State};
use crate::tree::{Dataset, Found, Snapshot, Tree};

/// `EINTR`.
const INTERRUPTED: SystemError = SystemError(4);

/// The files as they are now, for a dataset of that number.
fn copy_of(files: &Option<Arc<MemoryFileSystem>>, guid: u64) -> Option<Arc<MemoryFileSystem>> {
    files.as_ref().map(|files| Arc::new(files.copy(guid)))
}

impl Tree {
    /// Adds a snapshot of the dataset's current contents.
    pub(crate) fn add_snapshot(
        &mut self,
        dataset: &str,
        tag: &str,
        marks: &BTreeMap<String, Value>,
    ) {
        let txg = self.txg;
        let Some(dataset) = self.datasets.get_mut(dataset) else {
            return;
        };
        let snapshot = Snapshot {
            guid: new_guid(),
            tag: tag.to_owned(),
            txg,
            time_s: now_s(),
            image: Arc::new(dataset.contents()),
            files: copy_of(&dataset.files, dataset.guid),
            properties: marks.clone(),
            holds: BTreeMap::new(),
        };
        dataset.snapshots.push(snapshot);
    }

    /// Returns the contents to roll back to, if there are no newer snapshots.
    fn check_newest(&self, name: &SnapshotName) -> Result<Arc<Image>, DatasetErrorKind> {
        let dataset = self.get(name.volume().as_str())?;
        let wanted = dataset.snapshot(name.tag());
        let wanted = wanted.ok_or(DatasetErrorKind::NotFound)?;
        let newest = dataset.snapshots.last().map(|last| last.guid);
        let mut marks = dataset.bookmarks.values();
        let is_newest = newest == Some(wanted.guid) && !marks.any(|mark| mark.txg > wanted.txg);
        match is_newest {
            true => Ok(Arc::clone(&wanted.image)),
            false => Err(DatasetErrorKind::NotNewest),
        }
    }

    /// Rolls an unused volume back to its newest snapshot.
    pub(crate) fn roll_back(&mut self, name: &SnapshotName) -> Result<(), DatasetErrorKind> {
        let image = self.check_newest(name)?;
        let dataset = self.get_mut(name.volume().as_str())?;
        if let Some(mut contents) = dataset.image() {
            *contents = (*image).clone();
        }
        let then = dataset.snapshot(name.tag());
        dataset.files = then.and_then(|one| copy_of(&one.files, dataset.guid));
        self.next_txg();
        Ok(())
    }

    fn check_destroy(&self, names: &[SnapshotName]) -> Result<(), DatasetErrorKind> {
        let mut guids = BTreeSet::new();
        for name in names {
            let Found::Snapshot(_, snapshot) = self.find(name.as_str())? else {
                return Err(DatasetErrorKind::NotFound);
            };
            if !snapshot.holds.is_empty() {
                return Err(DatasetErrorKind::Busy);
            }
            guids.insert(snapshot.guid);
        }
        let mut clones = guids.iter().flat_map(|guid| self.clones_of(*guid));
        match clones.next() {
            Some(_) => Err(DatasetErrorKind::HasClones),
            None => Ok(()),
        }
    }
}

impl State {
    /// Checks the space for a snapshot: the reservation is needed again for the blocks that it holds.
    fn check_room(&self, dataset: &str) -> Result<(), DatasetErrorKind> {
        let charge = self.tree.charge(dataset);
        let reserved = self.tree.get(dataset)?.number("refreservation");
        match charge.written.min(reserved) > self.available(dataset) {
            true => Err(DatasetErrorKind::NoSpace),
            false => Ok(()),
        }
    }

    fn clone_of(
        &mut self,
        snapshot: &SnapshotName,
        clone: &VolumeName,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetErrorKind> {
        let Found::Snapshot(of, wanted) = self.tree.find(snapshot.as_str())? else {
            return Err(DatasetErrorKind::NotFound);
        };
        let is_volume = of.volume.is_some();
        let missing = |kind| match kind {
            DatasetErrorKind::ParentMissing => DatasetErrorKind::ParentOfMissing,
            kind => kind,
        };
        let bytes = wanted.image.bytes();
        let checked = self.checked_new(clone.as_str(), properties, bytes, is_volume);
        let checked = checked.map_err(missing)?;
        self.tree.place(clone.as_str()).map_err(missing)?;
        let encryption = of.encryption.as_ref().map(Encryption::shared);
        let image = is_volume.then(|| (*wanted.image).clone());
        let mut dataset = Dataset::new(self.tree.txg + 1, image);
        dataset.files = copy_of(&wanted.files, dataset.guid);
        dataset.origin = Some(wanted.guid);
        dataset.encryption = encryption;
        dataset.properties = checked;
        self.tree.next_txg();
        self.tree
            .datasets
            .insert(clone.as_str().to_owned(), dataset);
        Ok(())
    }

    fn take(
        &mut self,
        names: &[SnapshotName],
        marks: &[(String, Value)],
    ) -> Result<(), (usize, DatasetErrorKind)> {
        let mut checked = BTreeMap::new();
        for (name, value) in marks {
            check_users(name, Some(&value.to_string())).map_err(|kind| (0, kind))?;
            checked.insert(name.clone(), value.clone());
        }
        for (index, name) in names.iter().enumerate() {
            let volume = name.volume();
            let of_it = |kind| (index, kind);
            let dataset = self.tree.get(volume.as_str()).map_err(of_it)?;
            if dataset.snapshot(name.tag()).is_some() {
                return Err(of_it(DatasetErrorKind::Exists));
            }
            self.check_room(volume.as_str()).map_err(of_it)?;
        }
        self.tree.next_txg();
        for name in names {
            self.tree
                .add_snapshot(name.volume().as_str(), name.tag(), &checked);
        }
        Ok(())
    }
}

/// Changes the holds of a snapshot, or only tests whether that is possible.
type HoldChange<'c> = dyn Fn(&mut BTreeMap<String, u64>, bool) -> Result<(), DatasetErrorKind> + 'c;

impl MemoryPool {
    /// Changes the holds of all snapshots, or of none.
    fn change_holds(
        &self,
        doing: &'static str,
        names: &[SnapshotName],
        change: &HoldChange<'_>,
    ) -> Result<(), DatasetError> {
        let Some(first) = names.first() else {
            return Ok(());
        };
        let mut state = self.begin_change("change_holds", doing, first.into())?;
        for is_test in [true, false] {
            for name in names {
                let fail = |kind| DatasetError::new(doing, name.as_str(), kind);
                let dataset = state.tree.get_mut(name.volume().as_str()).map_err(fail)?;
                let mut all = dataset.snapshots.iter_mut();
                let found = all.find(|one| one.tag == name.tag());
                let found = found.ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
                change(&mut found.holds, is_test).map_err(fail)?;
            }
        }
        Ok(())
    }
}

impl Snapshotting for MemoryPool {
    fn destroy_snapshots(&self, names: &[SnapshotName]) -> Result<(), DatasetError> {
        const DOING: &str = "destroy";
        let whose = names
            .first()
            .map_or(self.name.as_str(), SnapshotName::as_str);
        let mut state =
            self.begin_change("destroy_snapshots", DOING, DatasetRef::from_checked(whose))?;
        let fail = |kind| DatasetError::new(DOING, whose, kind);
        state.tree.check_destroy(names).map_err(fail)?;
        for name in names {
            let dataset = state.tree.get_mut(name.volume().as_str()).map_err(fail)?;
            dataset.snapshots.retain(|one| one.tag != name.tag());
        }
        state.tree.next_txg();
        Ok(())
    }

    fn hold_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError> {
        self.change_holds("hold", names, &|holds, is_test| {
            match (holds.contains_key(tag), is_test) {
                (true, _) => return Err(DatasetErrorKind::Exists),
                (false, true) => {}
                (false, false) => drop(holds.insert(tag.to_owned(), now_s())),
            }
            Ok(())
        })
    }

    fn release_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError> {
        self.change_holds("release", names, &|holds, is_test| {
            match (holds.contains_key(tag), is_test) {
                (false, _) => return Err(DatasetErrorKind::NotFound),
                (true, true) => {}
                (true, false) => drop(holds.remove(tag)),
            }
            Ok(())
        })
    }

    fn holds(&self, name: &SnapshotName) -> Result<BTreeMap<String, u64>, DatasetError> {
        const DOING: &str = "read the holds of";
        let state = self.begin("holds", DOING, name.into())?;
        let fail = |kind| DatasetError::new(DOING, name.as_str(), kind);
        let dataset = state.tree.get(name.volume().as_str()).map_err(fail)?;
        let found = dataset.snapshot(name.tag());
        let found = found.ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
        Ok(found.holds.clone())
    }

    fn changes(
        &self,
        from: &SnapshotName,
        to: &SnapshotName,
        visit: &mut dyn FnMut(Option<Change>) -> ControlFlow<()>,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "compare";
        let state = self.begin("changes", DOING, to.into())?;
        let image = |name: &SnapshotName| {
            let fail = |kind| DatasetError::new(DOING, name.as_str(), kind);
            let dataset = state.tree.get(name.volume().as_str()).map_err(fail)?;
            let found = dataset.snapshot(name.tag());
            let found = found.ok_or_else(|| fail(DatasetErrorKind::NotFound))?;
            Ok::<_, DatasetError>(Arc::clone(&found.image))
        };
        let (before, after) = (image(from)?, image(to)?);
        let numbers: BTreeSet<&u64> = before.blocks.keys().chain(after.blocks.keys()).collect();
        for number in numbers {
            let freed = match after.blocks.get(number) {
                Some(block) if before.has(*number, block) => continue,
                found => found.is_none(),
            };
            let extent = Extent::new(number * after.block_size, after.block_size);
            if visit(Some(Change { extent, freed })).is_break() {
                return Err(DatasetError::common(DOING, to.as_str(), INTERRUPTED));
            }
        }
        Ok(())
    }

    fn snapshot(&self, names: &[SnapshotName]) -> Result<(), DatasetError> {
        self.snapshot_marked(names, &[])
    }

    fn snapshot_marked(
        &self,
        names: &[SnapshotName],
        marks: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        const DOING: &str = "snapshot";
        let Some(first) = names.first() else {
            return Ok(());
        };
        let mut state = self.begin_change("snapshot", DOING, first.into())?;
        let mut datasets = BTreeSet::new();
        for name in names {
            let fail = |kind| Err(DatasetError::new(DOING, name.as_str(), kind));
            if name.volume().pool() != self.name {
                return fail(DatasetErrorKind::OtherPool);
            }
            if !datasets.insert(name.volume()) {
                return fail(DatasetErrorKind::SnapshotTwice);
            }
        }
        let taken = state.take(names, marks);
        taken.map_err(|(index, kind)| DatasetError::new(DOING, names[index].as_str(), kind))
    }

    fn rename_snapshot(&self, from: &SnapshotName, tag: &str) -> Result<(), DatasetError> {
        const DOING: &str = "rename";
        let mut state = self.begin_change("rename_snapshot", DOING, from.into())?;
        let fail = |kind| DatasetError::new(DOING, from.as_str(), kind);
        let to: Result<SnapshotName, _> = format!("{}@{tag}", from.volume()).parse();
        let to = to.map_err(|_| fail(DatasetErrorKind::NameTooLong))?;
        let volume = from.volume();
        let dataset = state.tree.get_mut(volume.as_str()).map_err(fail)?;
        let is_taken = dataset.snapshot(to.tag()).is_some();
        let found = dataset
            .snapshots
            .iter_mut()
            .find(|one| one.tag == from.tag());
        match found {
            None => Err(fail(DatasetErrorKind::NotFound)),
            Some(_) if is_taken => Err(fail(DatasetErrorKind::Exists)),
            Some(found) => {
                found.tag = to.tag().to_owned();
                Ok(())
            }
        }
    }

    fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        clone: &VolumeName,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        const DOING: &str = "clone";
        let mut state = self.begin_change("clone_snapshot", DOING, snapshot.into())?;
        if clone.pool() != self.name {
            let kind = DatasetErrorKind::OtherPool;
            return Err(DatasetError::new(DOING, clone.as_str(), kind));
        }
        let cloned = state.clone_of(snapshot, clone, properties);
        cloned.map_err(|kind| with_cause(DOING, snapshot.as_str(), kind))
    }

    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        const DOING: &str = "roll back to";
        let mut state = self.begin_change("rollback", DOING, snapshot.into())?;
        let fail = |kind| DatasetError::new(DOING, snapshot.as_str(), kind);
        let dataset = state.tree.get(snapshot.volume().as_str()).map_err(fail)?;
        let is_open = dataset.is_open;
        state.tree.check_newest(snapshot).map_err(fail)?;
        match is_open {
            true => Err(fail(DatasetErrorKind::Busy)),
            false => state.tree.roll_back(snapshot).map_err(fail),
        }
    }
}
