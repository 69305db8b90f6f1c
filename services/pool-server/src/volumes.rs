//! The exported volumes: one lazily opened device for each, which persists over renames, resizes and changes of the
//! exports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use block_device::{BlockDevice, DeviceError, ErrorKind, Extent};
use control::answer::{FrozenView, VolumeActivity};
use control::{Failure, FailureKind};
use engine::Volume;
use engine::dataset::DatasetErrorKind;
use engine::volume::OpenOptions;
use units::VolumeName;

use super::lazy::{LOGICAL_BLOCK, LazyVolume, Opener, Shape};
use super::shared_pool::SharedPool;

/// Volumes that are closed concurrently.
pub const CLOSERS_MAX: usize = 8;

/// All devices by the name of their volume.
pub struct Volumes {
    opener: Arc<PoolOpener>,
    devices: Mutex<BTreeMap<VolumeName, Arc<LazyVolume>>>,
}

impl Volumes {
    /// An empty set. `started` is the start of the process.
    pub fn new(pool: Arc<SharedPool>, started: Instant) -> Self {
        let opener = PoolOpener {
            pool,
            started,
            first_read_ms: OnceLock::new(),
            open: Mutex::new(BTreeMap::new()),
        };
        Self {
            opener: Arc::new(opener),
            devices: Mutex::new(BTreeMap::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeName, Arc<LazyVolume>>> {
        self.devices.lock().expect("no holder panics")
    }

    /// Returns the device of a volume; the same object for as long as the volume exists.
    pub fn device(&self, name: &VolumeName) -> Arc<LazyVolume> {
        let mut devices = self.lock();
        let device = devices.entry(name.clone()).or_insert_with(|| {
            let opener = Arc::clone(&self.opener) as Arc<dyn Opener>;
            Arc::new(LazyVolume::new(opener, name.clone()))
        });
        Arc::clone(device)
    }

    /// Closes the volumes that are not `wanted` any more. May block.
    pub fn keep_only(&self, wanted: &BTreeSet<&VolumeName>) {
        let unwanted: Vec<VolumeName> = {
            let devices = self.lock();
            let names = devices.keys().filter(|name| !wanted.contains(name));
            names.cloned().collect()
        };
        // Each close blocks for a commit of the pool, and concurrent ones share it.
        let share = unwanted.len().div_ceil(CLOSERS_MAX).max(1);
        std::thread::scope(|scope| {
            for names in unwanted.chunks(share) {
                scope.spawn(move || names.iter().for_each(|name| self.close_one(name)));
            }
        });
    }

    /// Closes `name` and all below it. May block.
    pub fn close(&self, name: &VolumeName) {
        let closing: Vec<(VolumeName, Arc<LazyVolume>)> = {
            let mut devices = self.lock();
            let names: Vec<_> = devices
                .keys()
                .filter(|n| n.is_at_or_below(name))
                .cloned()
                .collect();
            let removed = names.into_iter();
            removed
                .filter_map(|name| devices.remove(&name).map(|device| (name, device)))
                .collect()
        };
        for (name, device) in closing {
            device.close();
            self.opener.forget(&name);
        }
    }

    /// Closes `name`. May block.
    fn close_one(&self, name: &VolumeName) {
        let device = self.lock().remove(name);
        if let Some(device) = device {
            device.close();
            self.opener.forget(name);
        }
    }

    /// Closes all volumes. May block.
    pub fn close_all(&self) {
        self.keep_only(&BTreeSet::new());
    }

    /// Renames `from` and all below it.
    pub fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        let mut devices = self.lock();
        let names = devices.keys();
        let moved: Vec<_> = names
            .filter_map(|old| Some((old.clone(), old.moved(from, to)?)))
            .collect();
        for (old, new) in moved {
            if let Some(device) = devices.remove(&old) {
                device.renamed(new.clone());
                self.opener.renamed(&old, &new);
                devices.insert(new, device);
            }
        }
    }

    /// Opens `name`, which replays its log, if it is exported; else returns `false`. May block.
    pub fn open(&self, name: &VolumeName) -> Result<bool, Failure> {
        let device = self.lock().get(name).cloned();
        match device {
            None => Ok(false),
            Some(device) => {
                let opened = device.open();
                opened.map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
                Ok(true)
            }
        }
    }

    /// The first exported volumes, by name.
    pub fn first_shown(&self, count: usize) -> Vec<VolumeName> {
        self.lock().keys().take(count).cloned().collect()
    }

    /// The open volume of that name.
    pub fn open_volume(&self, name: &VolumeName) -> Option<Arc<dyn Volume>> {
        self.opener.lock().get(name).cloned()
    }

    /// The devices of these volumes; `None` for one that is not exported.
    pub fn shown<'a>(
        &self,
        names: &'a [VolumeName],
    ) -> Vec<(&'a VolumeName, Option<Arc<LazyVolume>>)> {
        let devices = self.lock();
        let names = names.iter();
        names
            .map(|name| (name, devices.get(name).cloned()))
            .collect()
    }

    /// The freeze of a volume.
    pub fn frozen(&self, name: &VolumeName) -> Option<FrozenView> {
        let device = self.lock().get(name).cloned()?;
        device.freeze_gate().frozen().map(|(view, _)| view)
    }

    /// A volume at or below `name` that is frozen.
    pub fn frozen_below(&self, name: &VolumeName) -> Option<(VolumeName, FrozenView)> {
        let devices = self.lock();
        let mut below = devices.iter().filter(|(one, _)| one.is_at_or_below(name));
        below.find_map(|(one, device)| {
            let (view, _) = device.freeze_gate().frozen()?;
            Some((one.clone(), view))
        })
    }

    /// Freezes that expired since the last call.
    pub fn expired_freezes(&self) -> Vec<(VolumeName, FrozenView)> {
        let devices = self.lock();
        let expired = devices.iter().filter_map(|(name, device)| {
            Some((name.clone(), device.freeze_gate().newly_expired()?))
        });
        expired.collect()
    }

    /// Removes all freezes.
    pub fn thaw_all(&self) {
        for device in self.lock().values() {
            device.freeze_gate().thaw();
        }
    }

    /// Updates the size of a volume.
    pub fn resized(&self, name: &VolumeName) {
        if let Some(device) = self.lock().get(name) {
            device.resized();
        }
    }

    /// The activity of clients on each exported volume.
    pub fn activity(&self) -> Vec<VolumeActivity> {
        let devices = self.lock();
        let all = devices.iter().filter_map(|(name, device)| {
            let activity = device.activity()?;
            let (reads, writes) = (activity.reads.snapshot(), activity.writes.snapshot());
            Some(VolumeActivity {
                name: name.clone(),
                reads: reads.count(),
                read_bytes: reads.bytes,
                read_us: reads.us,
                read_times: reads.times.to_vec(),
                writes: writes.count(),
                write_bytes: writes.bytes,
                write_us: writes.us,
                write_times: writes.times.to_vec(),
                errors: activity.errors(),
                refused_for_space: activity.refused_for_space(),
                frozen: device.freeze_gate().frozen().map(|(view, _)| view),
            })
        });
        all.collect()
    }

    /// Writes refused for lack of space, by volume.
    pub fn refused_for_space(&self) -> BTreeMap<VolumeName, u64> {
        let devices = self.lock();
        let refused = devices.iter().filter_map(|(name, device)| {
            let count = device.activity()?.refused_for_space();
            (count > 0).then(|| (name.clone(), count))
        });
        refused.collect()
    }

    /// Completed reads and writes of clients.
    pub fn completed_requests(&self) -> u64 {
        let devices = self.lock();
        let activities = devices.values().filter_map(|device| device.activity());
        let counts =
            activities.map(|one| one.reads.snapshot().count() + one.writes.snapshot().count());
        counts.sum()
    }

    /// Number of open volumes.
    pub fn open_count(&self) -> u64 {
        self.lock()
            .values()
            .filter(|device| device.is_open())
            .count() as u64
    }

    /// Milliseconds from the start of the process to the first read served.
    pub fn first_read_ms(&self) -> Option<u64> {
        self.opener.first_read_ms.get().copied()
    }
}

/// Opens volumes of the pool and tracks which are open.
struct PoolOpener {
    pool: Arc<SharedPool>,
    started: Instant,
    first_read_ms: OnceLock<u64>,
    open: Mutex<BTreeMap<VolumeName, Arc<dyn Volume>>>,
}

impl PoolOpener {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeName, Arc<dyn Volume>>> {
        self.open.lock().expect("no holder panics")
    }

    fn forget(&self, name: &VolumeName) {
        self.lock().remove(name);
    }

    fn renamed(&self, old: &VolumeName, new: &VolumeName) {
        let mut open = self.lock();
        if let Some(volume) = open.remove(old) {
            open.insert(new.clone(), volume);
        }
    }
}

impl Opener for PoolOpener {
    fn shape(&self, name: &VolumeName) -> Option<Shape> {
        let info = self.pool.get()?.dataset(name.into());
        let info = info.inspect_err(|error| {
            tracing::error!(volume = %name, %error, "read the size of a volume");
        });
        let shape = info.ok()?.volume?;
        // Encrypted, and its key is not loaded.
        if shape.size.get() == 0 {
            return None;
        }
        Some(Shape {
            size: shape.size.get(),
            block_size: u32::try_from(shape.block_size.get()).ok()?,
        })
    }

    fn open(&self, name: &VolumeName) -> Result<Arc<dyn Volume>, DeviceError> {
        let options = OpenOptions {
            read_only: false,
            logical_block: LOGICAL_BLOCK,
        };
        let gone = || DeviceError::new(ErrorKind::Gone, "open", Extent::new(0, 0));
        let pool = self.pool.get().ok_or_else(gone)?;
        let volume = pool.open_volume(name, options).map_err(|error| {
            let kind = match error.kind {
                DatasetErrorKind::NotFound | DatasetErrorKind::Closed => ErrorKind::Gone,
                DatasetErrorKind::KeyMissing
                | DatasetErrorKind::KeyOutdated
                | DatasetErrorKind::LogUnreadable => ErrorKind::NotReady,
                _ => ErrorKind::Failed,
            };
            // A missing key or an unreadable log is reported once, by the code that retries.
            if kind != ErrorKind::NotReady {
                let error = control::failure::chain(&error);
                tracing::error!(volume = %name, error, "open a volume");
            }
            DeviceError {
                cause: Some(Box::new(error)),
                ..DeviceError::new(kind, "open", Extent::new(0, 0))
            }
        })?;
        self.lock().insert(name.clone(), Arc::clone(&volume));
        Ok(volume)
    }

    fn first_read(&self) {
        let after_ms = self.started.elapsed().as_millis() as u64;
        if self.first_read_ms.set(after_ms).is_ok() {
            tracing::info!(after_ms, "first read served");
        }
    }
}
