//! Datasets and volumes.

use std::sync::Arc;

use engine::capabilities::{Datasets, Promotion, Properties as _, Volumes};
use engine::dataset::{
    DatasetError, DatasetErrorKind, DatasetInfo, DatasetRef, Depth, FileSystemSpec, Snapshots,
    Value, VolumeSpec, adjusted,
};
use engine::volume::OpenOptions;
use units::{ByteCount, SnapshotName, VolumeName};

use crate::encryption::Encryption;
use crate::files;
use crate::image::Image;
use crate::native::with_cause;
use crate::properties::copies;
use crate::state::{MemoryPool, Shared, State};
use crate::tree::{Dataset, Found, NAME_BYTES_MAX, Tree, WaitingLog, is_at_or_below, parent_of};
use crate::volume::{Home, MemoryVolume};

/// Largest block of a volume.
const BLOCK_BYTES_MAX: u64 = 16 << 20;

/// Bytes to set aside so that every block of a volume can be written.
fn whole(size: u64, block: u64, copies: u64) -> u64 {
    // Block pointers, and the number of copies of them.
    const POINTER_BYTES: u64 = 128;
    const OVERHEAD_BYTES: u64 = 2 << 20;
    size * copies + size / block * POINTER_BYTES * (copies + 1) + OVERHEAD_BYTES
}

impl State {
    /// Returns the encryption that a new dataset at `name` inherits, if any.
    pub(crate) fn inherited_encryption(
        &self,
        name: &str,
    ) -> Result<Option<Encryption>, DatasetErrorKind> {
        let parent = parent_of(name);
        let above = self
            .tree
            .datasets
            .get(parent)
            .and_then(|one| one.encryption.as_ref());
        match above {
            Some(_) if self.tree.is_locked(parent) => Err(DatasetErrorKind::KeyMissing),
            above => Ok(above.map(Encryption::shared)),
        }
    }

    fn create(&mut self, spec: &VolumeSpec) -> Result<(), DatasetErrorKind> {
        let (name, size, block) = (spec.name.as_str(), spec.size.get(), spec.block_size.get());
        if !block.is_power_of_two() || !(512..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(DatasetErrorKind::BlockSize);
        }
        if size == 0 || size % block != 0 {
            return Err(DatasetErrorKind::SizeNotMultiple { size, block });
        }
        let mut properties = spec.properties.clone();
        if !spec.sparse {
            let bytes = whole(size, block, copies(&properties));
            properties.push(("refreservation".to_owned(), Value::Number(bytes)));
        }
        let own = spec.key.as_ref().map(Encryption::of_new_key).transpose()?;
        let checked = self.checked_new(name, &properties, 0, true)?;
        self.tree.place(name)?;
        let mut dataset = Dataset::new(self.tree.next_txg(), Some(Image::new(size, block)));
        dataset.encryption = match own {
            Some(own) => Some(own.owned_by(dataset.guid)),
            None => self.inherited_encryption(name)?,
        };
        dataset.properties = checked;
        self.tree.datasets.insert(name.to_owned(), dataset);
        Ok(())
    }

    pub(crate) fn create_files(&mut self, spec: &FileSystemSpec) -> Result<(), DatasetErrorKind> {
        let name = spec.name.as_str();
        let own = spec.key.as_ref().map(Encryption::of_new_key).transpose()?;
        let mut checked = self.checked_new(name, &spec.properties, 0, false)?;
        self.tree.place(name)?;
        let mut dataset = Dataset::new(self.tree.next_txg(), None);
        dataset.encryption = match own {
            Some(own) => Some(own.owned_by(dataset.guid)),
            None => self.inherited_encryption(name)?,
        };
        let utf8_only = if spec.utf8_only { "on" } else { "off" };
        checked.insert("utf8only".to_owned(), Value::from(utf8_only));
        dataset.properties = checked;
        let root = (spec.owner, spec.group, spec.mode);
        dataset.files = Some(Arc::new(files::with_root(dataset.guid, root)));
        self.tree.datasets.insert(name.to_owned(), dataset);
        Ok(())
    }

    fn destroy(&mut self, name: &str, depth: Depth) -> Result<(), DatasetErrorKind> {
        let has_snapshots = !self.tree.get(name)?.snapshots.is_empty();
        let dependents = match (has_snapshots, self.tree.has_children(name)) {
            (true, _) => Some("snapshots"),
            (false, true) => Some("datasets below it"),
            (false, false) => None,
        };
        if let (Depth::One, Some(what)) = (depth, dependents) {
            let what = what.to_owned();
            return Err(DatasetErrorKind::HasDependents { what });
        }
        let mut names = self.tree.names(name);
        names.reverse();
        for name in names {
            let dataset = self.tree.get(&name)?;
            let mut snapshots = dataset.snapshots.iter();
            if snapshots.any(|one| !self.tree.clones_of(one.guid).is_empty()) {
                return Err(DatasetErrorKind::HasClones);
            }
            if dataset.is_open {
                return Err(DatasetErrorKind::Busy);
            }
            self.tree.datasets.remove(&name);
        }
        self.tree.next_txg();
        Ok(())
    }
}

impl Tree {
    fn check_rename(&self, from: &str, to: &str) -> Result<(), DatasetErrorKind> {
        let moved = self.get(from)?;
        if self.datasets.contains_key(to) {
            return Err(DatasetErrorKind::Exists);
        }
        let Some(parent) = self.datasets.get(parent_of(to)) else {
            return Err(DatasetErrorKind::ParentOfMissing);
        };
        if parent.volume.is_some() || is_at_or_below(to, from) {
            return Err(DatasetErrorKind::LocationUnsuitable);
        }
        let longest = self.names(from).iter().map(String::len).max();
        if longest.unwrap_or(0) - from.len() + to.len() > NAME_BYTES_MAX {
            return Err(DatasetErrorKind::NameTooLong);
        }
        let root = |dataset: &Dataset| dataset.encryption.as_ref().map(|key| key.root);
        let is_held = root(moved).is_some_and(|own| own != moved.guid && root(parent) != Some(own));
        match is_held {
            true => Err(DatasetErrorKind::KeyHoldsIt),
            false => Ok(()),
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        for name in self.names(from) {
            let dataset = self.datasets.remove(&name).expect("just listed");
            let name = format!("{to}{}", &name[from.len()..]);
            self.datasets.insert(name, dataset);
        }
        self.next_txg();
    }

    /// Transfers the snapshots that a clone shares with its origin to the clone.
    fn promote(&mut self, clone: &str) -> Result<(), DatasetErrorKind> {
        let origin = self.get(clone)?.origin.ok_or(DatasetErrorKind::NotAClone)?;
        let (owner, snapshot) = self
            .snapshot_by_guid(origin)
            .ok_or(DatasetErrorKind::Library)?;
        let (owner, until) = (owner.clone(), snapshot.txg);
        self.check_promote(clone, &owner, until)?;
        self.pass_key(&owner, clone);
        let from = self.get_mut(&owner)?;
        let moves = |txg: u64| txg <= until;
        let (mut moved, kept) = from.snapshots.drain(..).partition(|one| moves(one.txg));
        from.snapshots = kept;
        let marks = std::mem::take(&mut from.bookmarks);
        let (marks, kept) = marks.into_iter().partition(|(_, mark)| moves(mark.txg));
        from.bookmarks = kept;
        let before = from.origin.replace(origin);
        let to = self.get_mut(clone)?;
        std::mem::swap(&mut moved, &mut to.snapshots);
        to.snapshots.append(&mut moved);
        let marks: std::collections::BTreeMap<_, _> = marks;
        to.bookmarks.extend(marks);
        to.origin = before;
        self.next_txg();
        Ok(())
    }

    fn check_promote(&self, clone: &str, owner: &str, until: u64) -> Result<(), DatasetErrorKind> {
        let (ours, theirs) = (self.get(clone)?, self.get(owner)?);
        let conflict = |what: String| Err(DatasetErrorKind::Conflict { what });
        for snapshot in theirs.snapshots.iter().filter(|one| one.txg <= until) {
            if ours.snapshot(&snapshot.tag).is_some() {
                return conflict(format!("a snapshot {}", snapshot.tag));
            }
        }
        for (tag, _) in theirs
            .bookmarks
            .iter()
            .filter(|(_, mark)| mark.txg <= until)
        {
            if ours.bookmarks.contains_key(tag) {
                return conflict(format!("a bookmark {tag}"));
            }
        }
        self.check_key_of_origin(clone, owner)
    }
}

impl MemoryPool {
    fn open(
        &self,
        call: &'static str,
        name: DatasetRef<'_>,
        options: OpenOptions,
    ) -> Result<MemoryVolume, DatasetError> {
        let mut state = self.begin(call, "open", name)?;
        let fail = |kind| DatasetError::new("open", name.as_str(), kind);
        let name = name.as_str();
        let head = name.split('@').next().unwrap_or_default();
        let (image, guid, options) = match state.tree.find(name).map_err(fail)? {
            Found::Head(one) => {
                let options = OpenOptions {
                    read_only: options.read_only || state.is_read_only,
                    ..options
                };
                (one.volume.clone(), one.guid, options)
            }
            Found::Snapshot(of, one) => {
                let image = of
                    .volume
                    .is_some()
                    .then(|| Arc::new(std::sync::Mutex::new((*one.image).clone())));
                let read_only = OpenOptions {
                    read_only: true,
                    ..options
                };
                (image, one.guid, read_only)
            }
        };
        let image = image.ok_or_else(|| fail(DatasetErrorKind::NotAVolume))?;
        if state.tree.is_locked(head) {
            return Err(fail(DatasetErrorKind::KeyMissing));
        }
        let dataset = state.tree.get_mut(head).map_err(fail)?;
        if !name.contains('@') {
            match (dataset.is_open || dataset.is_partial(), dataset.log) {
                (true, _) => return Err(fail(DatasetErrorKind::Busy)),
                (false, WaitingLog::Unreadable) => {
                    return Err(fail(DatasetErrorKind::LogUnreadable));
                }
                (false, _) => {}
            }
            let home = Arc::clone(&self.shared) as Arc<dyn Home>;
            let volume = MemoryVolume::open(name, guid, image, Some(home), options)?;
            dataset.log = WaitingLog::None;
            dataset.is_open = true;
            return Ok(volume);
        }
        MemoryVolume::open(name, guid, image, None, options)
    }
}

impl Datasets for MemoryPool {
    fn dataset(&self, dataset: DatasetRef<'_>) -> Result<DatasetInfo, DatasetError> {
        const DOING: &str = "look at";
        let state = self.begin("dataset", DOING, dataset)?;
        let info = state.info(dataset.as_str());
        info.map_err(|kind| DatasetError::new(DOING, dataset.as_str(), kind))
    }

    fn datasets(
        &self,
        below: DatasetRef<'_>,
        snapshots: Snapshots,
    ) -> Result<Vec<DatasetInfo>, DatasetError> {
        const DOING: &str = "list";
        let state = self.begin("datasets", DOING, below)?;
        let fail = |kind| DatasetError::new(DOING, below.as_str(), kind);
        state.tree.get(below.as_str()).map_err(fail)?;
        let mut found = Vec::new();
        for name in state.tree.names(below.as_str()) {
            if snapshots != Snapshots::Only {
                found.push(state.info(&name).map_err(fail)?);
            }
            if snapshots != Snapshots::Skip {
                let mut own: Vec<_> = state
                    .tree
                    .get(&name)
                    .map_err(fail)?
                    .snapshots
                    .iter()
                    .collect();
                own.sort_by(|a, b| a.tag.cmp(&b.tag));
                for snapshot in own {
                    let name = format!("{name}@{}", snapshot.tag);
                    found.push(state.info(&name).map_err(fail)?);
                }
            }
        }
        Ok(found)
    }

    fn volume_count(&self) -> Result<u64, DatasetError> {
        let state = self.begin("volume_count", "count the volumes of", (&self.name).into())?;
        let volumes = state
            .tree
            .datasets
            .values()
            .filter(|one| one.volume.is_some());
        Ok(volumes.count() as u64)
    }

    fn volume_count_at_import(&self) -> Option<u64> {
        None
    }

    fn create_volume(&self, spec: &VolumeSpec) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        let mut state = self.begin_change("create_volume", DOING, (&spec.name).into())?;
        let created = state.create(spec);
        created.map_err(|kind| with_cause(DOING, spec.name.as_str(), kind))
    }

    fn resize_volume(&self, name: &VolumeName, size: ByteCount) -> Result<(), DatasetError> {
        drop(self.begin_change("resize_volume", "resize", name.into())?);
        let before = self.dataset(name.into())?;
        let volume = self.open("open_volume", name.into(), OpenOptions::default())?;
        let grows = before.volume.is_some_and(|old| size > old.size);
        if grows {
            self.adjust_reservation(&before, size)?;
        }
        let resized = engine::Volume::resize(&volume, size.get());
        drop(volume);
        match (resized, grows) {
            (Ok(()), true) => Ok(()),
            (Ok(()), false) => self.adjust_reservation(&before, size),
            (Err(error), _) => {
                let bytes = Value::Number(before.refreservation.get());
                let reserved = [("refreservation".to_owned(), bytes)];
                self.set_dataset_properties(name.into(), &reserved)?;
                Err(error)
            }
        }
    }

    fn adjust_reservation(
        &self,
        before: &DatasetInfo,
        size: ByteCount,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "resize";
        let of = DatasetRef::from_checked(&before.name);
        let mut state = self.begin_change("adjust_reservation", DOING, of)?;
        let fail = |kind| with_cause(DOING, &before.name, kind);
        let Some(old) = before.volume else {
            return Ok(());
        };
        let block = old.block_size.get();
        if block == 0 {
            return Err(fail(DatasetErrorKind::KeyMissing));
        }
        let copies = state.copies(&before.name);
        let reserved = before.refreservation.get();
        let bytes = whole(size.get(), block, copies);
        let Some(bytes) = adjusted(reserved, whole(old.size.get(), block, copies), bytes) else {
            return Ok(());
        };
        let properties = [("refreservation".to_owned(), Value::Number(bytes))];
        state.set(&before.name, &properties).map_err(fail)
    }

    fn destroy_dataset(&self, name: &VolumeName, depth: Depth) -> Result<(), DatasetError> {
        const DOING: &str = "destroy";
        let mut state = self.begin_change("destroy_dataset", DOING, name.into())?;
        let destroyed = state.destroy(name.as_str(), depth);
        destroyed.map_err(|kind| DatasetError::new(DOING, name.as_str(), kind))
    }

    fn rename(&self, from: &VolumeName, to: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "rename";
        let mut state = self.begin_change("rename", DOING, from.into())?;
        let fail = |kind| DatasetError::new(DOING, from.as_str(), kind);
        if to.pool() != self.name {
            return Err(fail(DatasetErrorKind::OtherPool));
        }
        let checked = state.tree.check_rename(from.as_str(), to.as_str());
        checked.map_err(fail)?;
        state.tree.rename(from.as_str(), to.as_str());
        Ok(())
    }
}

impl Promotion for MemoryPool {
    fn promote(&self, clone: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "promote";
        let mut state = self.begin_change("promote", DOING, clone.into())?;
        let promoted = state.tree.promote(clone.as_str());
        promoted.map_err(|kind| DatasetError::new(DOING, clone.as_str(), kind))
    }
}

impl Volumes for MemoryPool {
    fn open_volume(
        &self,
        name: &VolumeName,
        options: OpenOptions,
    ) -> Result<Arc<dyn engine::Volume>, DatasetError> {
        Ok(Arc::new(self.open("open_volume", name.into(), options)?))
    }

    fn open_snapshot(
        &self,
        name: &SnapshotName,
        options: OpenOptions,
    ) -> Result<Arc<dyn engine::Volume>, DatasetError> {
        Ok(Arc::new(self.open(
            "open_snapshot",
            name.into(),
            options,
        )?))
    }
}

impl Shared {
    /// Whether any volume is open.
    pub(crate) fn is_in_use(&self) -> bool {
        self.lock().tree.datasets.values().any(|one| one.is_open)
    }
}
