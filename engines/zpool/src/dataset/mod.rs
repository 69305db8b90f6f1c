//! Datasets of a pool: volumes, their snapshots and clones, and properties.
//!
//! All operations here block on the disks (most changes for a whole transaction group) unless noted otherwise.

mod damage;
mod file_system;
pub(crate) mod property;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_void};
use std::ops::ControlFlow;
use std::sync::Arc;

use engine::Volume as _;
use engine::capabilities::{Datasets, Keys, Promotion, Properties, Sending, Snapshotting, Volumes};
use engine::dataset::{
    Change, DatasetError, DatasetErrorKind, DatasetInfo, DatasetKind, DatasetRef, Depth, Snapshots,
    SpaceUse, Value, VolumeShape, VolumeSpec, adjusted,
};
use engine::volume::OpenOptions;
use units::{ByteCount, Extent, SnapshotName, VolumeName};
use zpool_sys as sys;

use crate::error::{SystemError, rollback_error};
use crate::keys::RawKey;
use crate::nvlist::{NvList, NvValue, text};
use crate::pool::{Pool, c_text};
use crate::volume::Volume;

/// Room for a name that the library returns, with its NUL.
const NAME_BYTES: usize = 256;

/// The library's own "the parent is not a file system" (`ZFS_ERR_WRONG_PARENT`).
const WRONG_PARENT: i32 = 1033;

/// Collects the items that a walk visits.
///
/// # Safety
/// `arg` is a `&mut Vec<DatasetInfo>` and `dataset` a valid structure.
unsafe extern "C" fn collect_dataset(arg: *mut c_void, dataset: *const sys::bh_dataset) {
    // SAFETY: promised by the caller.
    let (found, raw) = unsafe { (&mut *arg.cast::<Vec<DatasetInfo>>(), &*dataset) };
    // SAFETY: the shim sets both to NUL-terminated text.
    let (name, origin) = unsafe { (text(raw.bd_name), text(raw.bd_origin)) };
    let kind = match raw.bd_kind {
        sys::BH_KIND_FILESYSTEM => DatasetKind::Filesystem,
        sys::BH_KIND_VOLUME => DatasetKind::Volume,
        _ => DatasetKind::Other,
    };
    found.push(DatasetInfo {
        name,
        kind,
        snapshot: raw.bd_is_snapshot != 0,
        origin: (!origin.is_empty()).then_some(origin),
        guid: raw.bd_guid,
        creation_txg: raw.bd_creation_txg,
        creation_time_s: raw.bd_creation_time_s,
        used: ByteCount(raw.bd_used),
        referenced: ByteCount(raw.bd_referenced),
        available: ByteCount(raw.bd_available),
        logical_referenced: ByteCount(raw.bd_logical_referenced),
        refreservation: ByteCount(raw.bd_refreservation),
        space: SpaceUse {
            by_data: ByteCount(raw.bd_used_by_data),
            by_snapshots: ByteCount(raw.bd_used_by_snapshots),
            by_children: ByteCount(raw.bd_used_by_children),
            by_reservation: ByteCount(raw.bd_used_by_reservation),
            logical: ByteCount(raw.bd_logical_used),
            quota: ByteCount(raw.bd_quota),
            reservation: ByteCount(raw.bd_reservation),
            ref_quota: ByteCount(raw.bd_ref_quota),
            written: ByteCount(raw.bd_written),
            compress_percent: raw.bd_compress_percent,
        },
        objects: raw.bd_objects,
        volume: (kind == DatasetKind::Volume).then_some(VolumeShape {
            size: ByteCount(raw.bd_volume_size),
            block_size: ByteCount(raw.bd_volume_block_size),
        }),
    });
}

/// The set of names that the snapshot functions take.
fn name_set<'a>(names: impl IntoIterator<Item = &'a str>) -> NvList {
    let mut list = NvList::new();
    for name in names {
        list.set_present(name);
    }
    list
}

impl Pool {
    /// Creates a volume with its properties in one transaction.
    fn create_with(
        &self,
        name: &VolumeName,
        (size, block): (u64, u64),
        properties: &[(String, Value)],
        key: Option<&RawKey>,
    ) -> Result<(), DatasetError> {
        let list = property::to_list("create", name.as_str(), properties)?;
        let c_name = c_text(name.as_str());
        let mut bad = [0 as c_char; NAME_BYTES];
        // SAFETY: the pool is open; name, lists and key are valid for the call; `bad` has the stated room.
        let code = unsafe {
            sys::bh_volume_create(
                c_name.as_ptr(),
                size,
                block,
                list.as_raw(),
                key.map_or(std::ptr::null(), RawKey::as_ptr),
                bad.as_mut_ptr(),
                bad.len() as u64,
            )
        };
        SystemError::check(code).map_err(|cause| match bad[0] {
            0 => self.create_error(name, cause),
            _ => property::refused("create", name.as_str(), cause, &bad),
        })
    }

    pub(crate) fn create_error(&self, name: &VolumeName, cause: SystemError) -> DatasetError {
        use rustix::io::Errno;
        let kind = match Errno::from_raw_os_error(cause.0) {
            Errno::NOENT => DatasetErrorKind::ParentMissing,
            _ if cause.0 == WRONG_PARENT => DatasetErrorKind::ParentUnsuitable,
            Errno::DOM => DatasetErrorKind::BlockSize,
            _ => return DatasetError::common("create", name.as_str(), cause),
        };
        DatasetError::because("create", name.as_str(), kind, cause)
    }

    /// Bytes to reserve so that every block can be written.
    fn reservation(&self, size: u64, block: u64, copies: u64) -> Result<u64, DatasetError> {
        let mut bytes = 0;
        // Without its key, the shape of a volume is unknown and shown as zeros.
        if block == 0 {
            let kind = DatasetErrorKind::KeyMissing;
            return Err(DatasetError::new("reserve", self.name().as_str(), kind));
        }
        // SAFETY: the pool is open; `bytes` outlives the call.
        let code = unsafe {
            sys::bh_volume_reservation(self.c_name().as_ptr(), size, block, copies, &mut bytes)
        };
        SystemError::check(code)
            .map(|()| bytes)
            .map_err(|cause| DatasetError::common("create", self.name().as_str(), cause))
    }

    fn open_any(
        &self,
        doing: &'static str,
        name: DatasetRef<'_>,
        options: OpenOptions,
    ) -> Result<Volume, DatasetError> {
        let name = self.own(doing, name)?;
        Volume::open(name.as_str(), options).map_err(|error| {
            let wrong_kind = error
                .cause
                .is_some_and(|cause| cause.is(rustix::io::Errno::INVAL));
            if wrong_kind {
                DatasetError {
                    kind: DatasetErrorKind::NotAVolume,
                    ..error
                }
            } else {
                self.with_outdated_key_error(name, error)
            }
        })
    }

    /// A loaded key that does not open the dataset is not a missing key.
    fn with_outdated_key_error(&self, name: DatasetRef<'_>, error: DatasetError) -> DatasetError {
        let of = name.as_str().split('@').next().unwrap_or_default();
        let is_loaded = || {
            let info = self.key_info(DatasetRef::from_checked(of));
            info.is_ok_and(|info| info.loaded)
        };
        match error.kind {
            DatasetErrorKind::KeyMissing if is_loaded() => DatasetError {
                kind: DatasetErrorKind::KeyOutdated,
                ..error
            },
            _ => error,
        }
    }

    fn destroy_one(&self, name: &VolumeName) -> Result<(), DatasetError> {
        self.destroy_name(name.as_str())
    }

    fn destroy_name(&self, name: &str) -> Result<(), DatasetError> {
        let _closed = self.snapshots.keep_closed([name]);
        let c_name = c_text(name);
        // SAFETY: the pool is open; the name is copied.
        SystemError::check(unsafe { sys::bh_dataset_destroy(c_name.as_ptr()) }).map_err(|cause| {
            let kind = if cause.is(rustix::io::Errno::EXIST) {
                DatasetErrorKind::HasDependents {
                    what: "snapshots or datasets below it".to_owned(),
                }
            } else {
                return DatasetError::common("destroy", name, cause);
            };
            DatasetError::because("destroy", name, kind, cause)
        })
    }

    fn destroy_snapshot_names(&self, whose: &str, names: &[&str]) -> Result<(), DatasetError> {
        if names.is_empty() {
            return Ok(());
        }
        let _closed = self.snapshots.keep_closed(names);
        let list = name_set(names.iter().copied());
        // SAFETY: the pool is open; the list is valid for the call.
        SystemError::check(unsafe { sys::bh_snapshots_destroy(list.as_raw()) }).map_err(|cause| {
            if cause.is(rustix::io::Errno::EXIST) {
                DatasetError::because("destroy", whose, DatasetErrorKind::HasClones, cause)
            } else {
                DatasetError::common("destroy", whose, cause)
            }
        })
    }

    fn not_renamed(&self, from: &VolumeName, to: &VolumeName, cause: SystemError) -> DatasetError {
        const DOING: &str = "rename";
        let kind = match cause.0 {
            WRONG_PARENT => DatasetErrorKind::LocationUnsuitable,
            _ if cause.is(rustix::io::Errno::INVAL) => DatasetErrorKind::LocationUnsuitable,
            _ if cause.is(rustix::io::Errno::ACCESS) => DatasetErrorKind::KeyHoldsIt,
            _ if cause.is(rustix::io::Errno::NOENT) && self.dataset(from.into()).is_ok() => {
                let kind = DatasetErrorKind::ParentOfMissing;
                return DatasetError::because(DOING, to.as_str(), kind, cause);
            }
            _ => return DatasetError::common(DOING, from.as_str(), cause),
        };
        DatasetError::because(DOING, from.as_str(), kind, cause)
    }

    /// A promotion moves the bookmarks up to the origin together with the snapshots. The library checks the wrong
    /// dataset for conflicts, and aborts the process when it meets one.
    fn check_moved_bookmarks(
        &self,
        doing: &'static str,
        clone: &VolumeName,
    ) -> Result<(), DatasetError> {
        let refuse = |kind| Err(DatasetError::new(doing, clone.as_str(), kind));
        let Some(origin) = self.dataset(clone.into())?.origin else {
            return Ok(());
        };
        let Ok(origin) = origin.parse::<SnapshotName>() else {
            return Ok(());
        };
        let until = self.dataset((&origin).into())?.creation_txg;
        let marks = |of: &VolumeName| {
            let marks = self.bookmarks(of);
            marks.map_err(|_| DatasetError::new(doing, of.as_str(), DatasetErrorKind::Library))
        };
        let (ours, theirs) = (marks(clone)?, marks(&origin.volume())?);
        for mark in theirs.iter().filter(|mark| mark.creation_txg <= until) {
            let moved = format!("{clone}#{}", mark.tag());
            if moved.len() >= NAME_BYTES {
                return refuse(DatasetErrorKind::NameTooLong);
            }
            if ours.iter().any(|own| own.name == moved) {
                let what = format!("a bookmark {}", mark.tag());
                return refuse(DatasetErrorKind::Conflict { what });
            }
        }
        Ok(())
    }

    /// Refuses names of other pools: the library would resolve them in any open pool.
    pub(crate) fn own<'a>(
        &self,
        doing: &'static str,
        dataset: DatasetRef<'a>,
    ) -> Result<DatasetRef<'a>, DatasetError> {
        if dataset.pool() == self.name().as_str() {
            Ok(dataset)
        } else {
            let kind = DatasetErrorKind::OtherPool;
            Err(DatasetError::new(doing, dataset.as_str(), kind))
        }
    }
}

impl Datasets for Pool {
    fn dataset(&self, dataset: DatasetRef<'_>) -> Result<DatasetInfo, DatasetError> {
        const DOING: &str = "look at";
        let dataset = self.own(DOING, dataset)?;
        let mut found: Vec<DatasetInfo> = Vec::new();
        let name = c_text(dataset.as_str());
        // SAFETY: the pool is open; `found` outlives the call, which is when the visitor runs.
        let code = unsafe {
            sys::bh_dataset_stat(name.as_ptr(), collect_dataset, (&raw mut found).cast())
        };
        SystemError::check(code).map_err(|c| DatasetError::common(DOING, dataset.as_str(), c))?;
        found
            .pop()
            .ok_or_else(|| DatasetError::new(DOING, dataset.as_str(), DatasetErrorKind::NotFound))
    }

    fn datasets(
        &self,
        below: DatasetRef<'_>,
        snapshots: Snapshots,
    ) -> Result<Vec<DatasetInfo>, DatasetError> {
        const DOING: &str = "list";
        let below = self.own(DOING, below)?;
        let mut found: Vec<DatasetInfo> = Vec::new();
        let name = c_text(below.as_str());
        let visited = match snapshots {
            Snapshots::Skip => sys::BH_SNAPSHOTS_SKIPPED,
            Snapshots::Include => sys::BH_SNAPSHOTS_TOO,
            Snapshots::Only => sys::BH_SNAPSHOTS_ONLY,
        };
        // SAFETY: as in `dataset`.
        let code = unsafe {
            sys::bh_dataset_walk(
                name.as_ptr(),
                visited,
                collect_dataset,
                (&raw mut found).cast(),
            )
        };
        SystemError::check(code).map_err(|c| DatasetError::common(DOING, below.as_str(), c))?;
        let depth_first = |info: &DatasetInfo| info.name.replace('@', "\0").replace('/', "\u{1}");
        found.sort_by_cached_key(depth_first);
        Ok(found)
    }

    fn volume_count(&self) -> Result<u64, DatasetError> {
        let mut count = 0;
        // SAFETY: the pool is open; the result is ours.
        let code = unsafe { sys::bh_volume_count(self.c_name().as_ptr(), &mut count) };
        let failed = |c| DatasetError::common("count the volumes of", self.name().as_str(), c);
        SystemError::check(code).map_err(failed)?;
        Ok(count)
    }

    fn volume_count_at_import(&self) -> Option<u64> {
        let mut count = 0;
        // SAFETY: as in `volume_count`.
        let code = unsafe { sys::bh_volume_count_at_import(self.c_name().as_ptr(), &mut count) };
        (code == 0).then_some(count)
    }

    fn create_volume(&self, spec: &VolumeSpec) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        let name = spec.name.as_str();
        self.own(DOING, (&spec.name).into())?;
        let (size, block) = (spec.size.get(), spec.block_size.get());
        if !block.is_power_of_two() || !(512..=16 << 20).contains(&block) {
            return Err(DatasetError::new(DOING, name, DatasetErrorKind::BlockSize));
        }
        if size == 0 || size % block != 0 {
            let kind = DatasetErrorKind::SizeNotMultiple { size, block };
            return Err(DatasetError::new(DOING, name, kind));
        }
        let mut properties = spec.properties.clone();
        if !spec.sparse {
            let bytes = self.reservation(size, block, property::copies(&properties))?;
            properties.push(("refreservation".to_owned(), Value::Number(bytes)));
        }
        let key = spec.key.as_ref().map(RawKey::new).transpose();
        let key = key.map_err(|kind| DatasetError::new(DOING, name, kind))?;
        self.create_with(&spec.name, (size, block), &properties, key.as_ref())
    }

    fn resize_volume(&self, name: &VolumeName, size: ByteCount) -> Result<(), DatasetError> {
        let before = self.dataset(name.into())?;
        let volume = self.open_volume(name, OpenOptions::default())?;
        let grows = before.volume.is_some_and(|old| size > old.size);
        if grows {
            self.adjust_reservation(&before, size)?;
        }
        let resized = volume.resize(size.get());
        drop(volume);
        match (resized, grows) {
            (Ok(()), true) => Ok(()),
            (Ok(()), false) => self.adjust_reservation(&before, size),
            (Err(error), _) => {
                self.reserve(name, before.refreservation.get())?;
                Err(error)
            }
        }
    }

    fn adjust_reservation(
        &self,
        before: &DatasetInfo,
        size: ByteCount,
    ) -> Result<(), DatasetError> {
        let Some(old) = before.volume else {
            return Ok(());
        };
        let name: VolumeName = before
            .name
            .parse()
            .map_err(|_| DatasetError::new("resize", &before.name, DatasetErrorKind::NotAVolume))?;
        let properties = self.dataset_properties((&name).into())?;
        let copies = match properties.get("copies").map(|p| &p.value) {
            Some(Value::Number(copies)) => *copies,
            Some(Value::Text(copies)) => copies.parse().unwrap_or(1),
            None => 1,
        };
        let block = old.block_size.get();
        let whole = self.reservation(old.size.get(), block, copies)?;
        let bytes = self.reservation(size.get(), block, copies)?;
        match adjusted(before.refreservation.get(), whole, bytes) {
            Some(bytes) => self.reserve(&name, bytes),
            None => Ok(()),
        }
    }

    fn destroy_dataset(&self, name: &VolumeName, depth: Depth) -> Result<(), DatasetError> {
        const DOING: &str = "destroy";
        self.own(DOING, name.into())?;
        let all = self.datasets(name.into(), Snapshots::Include)?;
        if depth == Depth::One {
            if let Some(dependent) = all.iter().find(|info| info.name != name.as_str()) {
                let what = if dependent.snapshot {
                    "snapshots"
                } else {
                    "datasets below it"
                };
                let kind = DatasetErrorKind::HasDependents {
                    what: what.to_owned(),
                };
                return Err(DatasetError::new(DOING, name.as_str(), kind));
            }
            return self.destroy_one(name);
        }
        // Children before parents; the snapshots of each before the dataset itself.
        let mut heads: Vec<_> = all.iter().filter(|info| !info.snapshot).collect();
        heads.reverse();
        for head in heads {
            let prefix = format!("{}@", head.name);
            let snapshots: Vec<&str> = all
                .iter()
                .filter(|info| info.name.starts_with(&prefix))
                .map(|info| info.name.as_str())
                .collect();
            self.destroy_snapshot_names(&head.name, &snapshots)?;
            self.destroy_name(&head.name)?;
        }
        Ok(())
    }

    fn rename(&self, from: &VolumeName, to: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "rename";
        self.own(DOING, from.into())?;
        self.own(DOING, to.into())?;
        let _closed = self.snapshots.keep_closed([from.as_str()]);
        let (from_c, to_c) = (c_text(from.as_str()), c_text(to.as_str()));
        // SAFETY: the pool is open; the names are copied.
        SystemError::check(unsafe { sys::bh_dataset_rename(from_c.as_ptr(), to_c.as_ptr()) })
            .map_err(|cause| self.not_renamed(from, to, cause))
    }
}

impl Promotion for Pool {
    fn promote(&self, clone: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "promote";
        self.own(DOING, clone.into())?;
        self.check_moved_bookmarks(DOING, clone)?;
        // Those of its origin become its own.
        let _closed = self.snapshots.keep_closed([self.name().as_str()]);
        let name = c_text(clone.as_str());
        let mut conflict = [0 as c_char; NAME_BYTES];
        // SAFETY: the pool is open; the name is copied; `conflict` has the room the shim needs.
        let code = unsafe { sys::bh_dataset_promote(name.as_ptr(), conflict.as_mut_ptr()) };
        SystemError::check(code).map_err(|cause| {
            // SAFETY: the shim leaves NUL-terminated text in it.
            let snapshot = unsafe { text(conflict.as_ptr()) };
            if cause.is(rustix::io::Errno::EXIST) && !snapshot.is_empty() {
                let what = format!("a snapshot {snapshot}");
                let kind = DatasetErrorKind::Conflict { what };
                return DatasetError::because(DOING, clone.as_str(), kind, cause);
            }
            let kind = match rustix::io::Errno::from_raw_os_error(cause.0) {
                rustix::io::Errno::ACCESS => DatasetErrorKind::KeyOfOrigin,
                rustix::io::Errno::LOOP => DatasetErrorKind::CloneBelowOrigin,
                rustix::io::Errno::INVAL => DatasetErrorKind::NotAClone,
                _ => return DatasetError::common(DOING, clone.as_str(), cause),
            };
            DatasetError::because(DOING, clone.as_str(), kind, cause)
        })
    }
}

impl Pool {
    fn reserve(&self, name: &VolumeName, bytes: u64) -> Result<(), DatasetError> {
        let reserved = [("refreservation".to_owned(), Value::Number(bytes))];
        self.set_dataset_properties(name.into(), &reserved)
    }

    /// As [`Volumes::open_volume`].
    pub fn open_volume(
        &self,
        name: &VolumeName,
        options: OpenOptions,
    ) -> Result<Volume, DatasetError> {
        self.open_any("open", name.into(), options)
    }

    /// As [`Volumes::open_snapshot`].
    pub fn open_snapshot(
        &self,
        name: &SnapshotName,
        options: OpenOptions,
    ) -> Result<Volume, DatasetError> {
        self.open_any("open", name.into(), options)
    }
}

impl Volumes for Pool {
    fn open_volume(
        &self,
        name: &VolumeName,
        options: OpenOptions,
    ) -> Result<Arc<dyn engine::Volume>, DatasetError> {
        let opened = Self::open_volume(self, name, options)?;
        Ok(Arc::new(opened))
    }

    fn open_snapshot(
        &self,
        name: &SnapshotName,
        options: OpenOptions,
    ) -> Result<Arc<dyn engine::Volume>, DatasetError> {
        let opened = Self::open_snapshot(self, name, options)?;
        Ok(Arc::new(opened))
    }
}

/// A visitor of changes.
type Visit<'v> = &'v mut dyn FnMut(Option<Change>) -> ControlFlow<()>;

/// # Safety
/// `arg` is a `&mut Visit`.
unsafe extern "C" fn visit_change(arg: *mut c_void, offset: u64, length: u64, freed: i32) -> i32 {
    // SAFETY: promised by the caller.
    let visit = unsafe { &mut *arg.cast::<Visit<'_>>() };
    let change = Change {
        extent: Extent::new(offset, length),
        freed: freed != 0,
    };
    visit((length > 0).then_some(change)).is_break().into()
}

impl Snapshotting for Pool {
    fn destroy_snapshots(&self, names: &[SnapshotName]) -> Result<(), DatasetError> {
        let names: Vec<&str> = names.iter().map(SnapshotName::as_str).collect();
        for name in &names {
            self.own("destroy", DatasetRef::from_checked(name))?;
            // The library treats a missing snapshot as a destroyed one.
            self.dataset(DatasetRef::from_checked(name))?;
        }
        self.destroy_snapshot_names(names.first().copied().unwrap_or_default(), &names)
    }

    fn hold_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError> {
        const DOING: &str = "hold";
        let Some(first) = names.first() else {
            return Ok(());
        };
        let mut list = NvList::new();
        for name in names {
            self.own(DOING, name.into())?;
            // The library skips a missing snapshot.
            self.dataset(name.into())?;
            list.set_text(name.as_str(), tag);
        }
        // SAFETY: the pool is open; the list is valid for the call.
        SystemError::check(unsafe { sys::bh_snapshots_hold(list.as_raw()) })
            .map_err(|cause| DatasetError::common(DOING, first.as_str(), cause))
    }

    fn release_snapshots(&self, tag: &str, names: &[SnapshotName]) -> Result<(), DatasetError> {
        const DOING: &str = "release";
        let Some(first) = names.first() else {
            return Ok(());
        };
        let tags = name_set([tag]);
        let mut list = NvList::new();
        for name in names {
            self.own(DOING, name.into())?;
            self.dataset(name.into())?;
            list.set_list(name.as_str(), tags.view());
        }
        // SAFETY: the pool is open; the list is valid for the call.
        SystemError::check(unsafe { sys::bh_snapshots_release(list.as_raw()) })
            .map_err(|cause| DatasetError::common(DOING, first.as_str(), cause))
    }

    fn holds(&self, name: &SnapshotName) -> Result<BTreeMap<String, u64>, DatasetError> {
        const DOING: &str = "read the holds of";
        self.own(DOING, name.into())?;
        let c_name = c_text(name.as_str());
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pool is open; the name is copied; `raw` is valid for the result.
        let code = unsafe { sys::bh_snapshot_holds(c_name.as_ptr(), &mut raw) };
        SystemError::check(code)
            .map_err(|cause| DatasetError::common(DOING, name.as_str(), cause))?;
        // SAFETY: the shim hands over a list that is ours to free.
        let list = unsafe { NvList::from_raw(raw) }.expect("set when the call succeeds");
        let entries = list.view().entries().into_iter();
        let holds = entries.filter_map(|(tag, since)| match since {
            NvValue::Unsigned(since) => Some((tag, since)),
            _ => None,
        });
        Ok(holds.collect())
    }

    fn changes(
        &self,
        from: &SnapshotName,
        to: &SnapshotName,
        visit: &mut dyn FnMut(Option<Change>) -> ControlFlow<()>,
    ) -> Result<(), DatasetError> {
        const DOING: &str = "compare";
        self.own(DOING, from.into())?;
        self.own(DOING, to.into())?;
        let (c_from, c_to) = (c_text(from.as_str()), c_text(to.as_str()));
        let mut visit: Visit<'_> = visit;
        // SAFETY: the pool is open; the names are copied; `visit` outlives the call, which is when the visitor runs.
        let code = unsafe {
            sys::bh_snapshot_changes(
                c_from.as_ptr(),
                c_to.as_ptr(),
                visit_change,
                (&raw mut visit).cast(),
            )
        };
        SystemError::check(code).map_err(|cause| DatasetError::common(DOING, to.as_str(), cause))
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
        let mut datasets = BTreeSet::new();
        for name in names {
            self.own(DOING, name.into())?;
            // Kernel ZFS checks this above the library, and the library itself aborts the process.
            if !datasets.insert(name.volume()) {
                let kind = DatasetErrorKind::SnapshotTwice;
                return Err(DatasetError::new(DOING, name.as_str(), kind));
            }
        }
        let list = name_set(names.iter().map(SnapshotName::as_str));
        let properties = property::to_list(DOING, first.as_str(), marks)?;
        // SAFETY: the pool is open; the lists are valid for the call.
        let code = unsafe { sys::bh_snapshots_create(list.as_raw(), properties.as_raw()) };
        SystemError::check(code).map_err(|cause| {
            // The library does not report which of them it is.
            let is_there = |name: &&SnapshotName| self.dataset((*name).into()).is_ok();
            let whose = match cause.is(rustix::io::Errno::EXIST) {
                true => names.iter().find(is_there).unwrap_or(first),
                false => first,
            };
            DatasetError::common(DOING, whose.as_str(), cause)
        })
    }

    fn rename_snapshot(&self, from: &SnapshotName, tag: &str) -> Result<(), DatasetError> {
        const DOING: &str = "rename";
        self.own(DOING, from.into())?;
        // The library treats a missing snapshot as a renamed one.
        self.dataset(from.into())?;
        let to: SnapshotName = format!("{}@{tag}", from.volume())
            .parse()
            .map_err(|_| DatasetError::new(DOING, from.as_str(), DatasetErrorKind::NameTooLong))?;
        let _closed = self.snapshots.keep_closed([from.as_str()]);
        let volume = c_text(from.volume().as_str());
        let (from_c, to_c) = (c_text(from.tag()), c_text(to.tag()));
        // SAFETY: the pool is open; the names are copied.
        let code =
            unsafe { sys::bh_snapshot_rename(volume.as_ptr(), from_c.as_ptr(), to_c.as_ptr()) };
        SystemError::check(code).map_err(|cause| DatasetError::common(DOING, from.as_str(), cause))
    }

    fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        clone: &VolumeName,
        properties: &[(String, Value)],
    ) -> Result<(), DatasetError> {
        const DOING: &str = "clone";
        self.own(DOING, snapshot.into())?;
        self.own(DOING, clone.into())?;
        // Distinguishes a missing snapshot from a missing parent.
        self.dataset(snapshot.into())?;
        // The library changes the key of child datasets and of clones: for such a clone without termination.
        let origin = snapshot.volume();
        let below = clone.as_str().strip_prefix(origin.as_str());
        if below.is_some_and(|rest| rest.starts_with('/'))
            && self.key_info((&origin).into())?.root.is_some()
        {
            let kind = DatasetErrorKind::ParentUnsuitable;
            return Err(DatasetError::new(DOING, clone.as_str(), kind));
        }
        let (snapshot_c, clone_c) = (c_text(snapshot.as_str()), c_text(clone.as_str()));
        let list = property::to_list(DOING, clone.as_str(), properties)?;
        let mut bad = [0 as c_char; NAME_BYTES];
        // SAFETY: the pool is open; names and lists are valid for the call; `bad` has the stated room.
        let code = unsafe {
            sys::bh_dataset_clone(
                clone_c.as_ptr(),
                snapshot_c.as_ptr(),
                list.as_raw(),
                bad.as_mut_ptr(),
                bad.len() as u64,
            )
        };
        SystemError::check(code).map_err(|cause| match bad[0] {
            0 if cause.is(rustix::io::Errno::NOENT) && self.dataset(snapshot.into()).is_ok() => {
                let kind = DatasetErrorKind::ParentOfMissing;
                DatasetError::because(DOING, clone.as_str(), kind, cause)
            }
            0 if cause.0 == WRONG_PARENT => {
                let kind = DatasetErrorKind::ParentUnsuitable;
                DatasetError::because(DOING, clone.as_str(), kind, cause)
            }
            0 => DatasetError::common(DOING, snapshot.as_str(), cause),
            _ => property::refused(DOING, clone.as_str(), cause, &bad),
        })
    }

    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        const DOING: &str = "roll back to";
        self.own(DOING, snapshot.into())?;
        let _closed = self.snapshots.keep_closed([snapshot.volume().as_str()]);
        let (volume, name) = (
            c_text(snapshot.volume().as_str()),
            c_text(snapshot.as_str()),
        );
        // SAFETY: the pool is open; the names are copied.
        let code = unsafe { sys::bh_dataset_rollback(volume.as_ptr(), name.as_ptr()) };
        SystemError::check(code).map_err(|cause| rollback_error(DOING, snapshot, cause))
    }
}

/// Like [`c_text`], for user text, which may contain a NUL.
fn c_user_text(text: &str) -> Option<CString> {
    CString::new(text).ok()
}
