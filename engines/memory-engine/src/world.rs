//! The disks, their labels, and the hosts that have pools open.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use engine::HostId;
use engine::pool::{GroupRole, PoolErrorKind};

use crate::vdevs::Vdevs;

/// Smallest device, in bytes.
const DEVICE_BYTES_MIN: u64 = 64 << 20;

/// How a disk is used, by its label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelState {
    Active,
    Exported,
    Destroyed,
    Spare,
    Cache,
}

/// The label of a disk: its current or former pool.
#[derive(Clone)]
pub(crate) struct Label {
    pub(crate) pool_guid: u64,
    pub(crate) pool_name: String,
    pub(crate) state: LabelState,
    pub(crate) host: HostId,
    pub(crate) host_name: String,
}

/// A disk.
pub(crate) struct Disk {
    pub(crate) size: u64,
    pub(crate) is_present: bool,
    pub(crate) label: Option<Label>,
    /// Foreign contents.
    pub(crate) holds: Option<&'static str>,
}

/// All that hosts share.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) disks: Mutex<BTreeMap<PathBuf, Disk>>,
    /// The host that has each pool open, by its GUID.
    open: Mutex<BTreeMap<u64, HostId>>,
    /// Whether pools have none of the optional capabilities.
    pub(crate) is_volumes_only: bool,
}

impl World {
    /// One in which pools have no optional capability.
    pub(crate) fn volumes_only() -> Self {
        Self {
            is_volumes_only: true,
            ..Self::default()
        }
    }

    pub(crate) fn disks(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Disk>> {
        self.disks.lock().expect("no holder panics")
    }

    /// Returns the host of each open pool.
    pub(crate) fn open(&self) -> MutexGuard<'_, BTreeMap<u64, HostId>> {
        self.open.lock().expect("no holder panics")
    }

    /// Paths of the disks that are there.
    pub(crate) fn present(&self) -> BTreeSet<PathBuf> {
        let disks = self.disks();
        let present = disks.iter().filter(|(_, disk)| disk.is_present);
        present.map(|(path, _)| path.clone()).collect()
    }

    pub(crate) fn size_of(&self, path: &Path) -> Option<u64> {
        self.disks().get(path).map(|disk| disk.size)
    }

    /// Whether the disk at `path` is none of that pool.
    pub(crate) fn is_strange(&self, pool_guid: u64, path: &Path) -> bool {
        let disks = self.disks();
        let disk = disks.get(path).filter(|disk| disk.is_present);
        let label = disk.map(|disk| disk.label.as_ref());
        label.is_some_and(|label| label.is_none_or(|label| label.pool_guid != pool_guid))
    }

    /// Refuses a device that a command must not overwrite.
    pub(crate) fn check_new(
        &self,
        path: &Path,
        pool: Option<u64>,
        overwrite: bool,
    ) -> Result<(), PoolErrorKind> {
        let owned = path.to_owned();
        if !path.is_absolute() {
            let why = "write its absolute path".to_owned();
            return Err(PoolErrorKind::DeviceUnusable { path: owned, why });
        }
        let disks = self.disks();
        let Some(disk) = disks.get(path).filter(|disk| disk.is_present) else {
            return Err(PoolErrorKind::DeviceMissing { path: owned });
        };
        if disk.size < DEVICE_BYTES_MIN {
            let needed = "at least 64M".to_owned();
            return Err(PoolErrorKind::DeviceTooSmall {
                path: owned,
                needed,
            });
        }
        let label = disk
            .label
            .as_ref()
            .filter(|label| label.state != LabelState::Destroyed);
        let Some(label) = label else {
            return match disk.holds {
                Some(what) if !overwrite => Err(PoolErrorKind::DeviceHolds { path: owned, what }),
                _ => Ok(()),
            };
        };
        let is_open = self.open().contains_key(&label.pool_guid);
        if overwrite && (is_open || pool == Some(label.pool_guid)) {
            return Err(PoolErrorKind::Busy);
        }
        let state = match label.state {
            _ if overwrite => return Ok(()),
            LabelState::Active if pool == Some(label.pool_guid) => {
                return Err(PoolErrorKind::DeviceUnusable {
                    path: owned,
                    why: "it is this pool's own device".to_owned(),
                });
            }
            LabelState::Spare => {
                return Err(PoolErrorKind::DeviceKept {
                    path: owned,
                    word: "spare",
                });
            }
            LabelState::Cache => {
                return Err(PoolErrorKind::DeviceKept {
                    path: owned,
                    word: "cache",
                });
            }
            LabelState::Exported => "exported",
            LabelState::Active | LabelState::Destroyed => "not exported",
        };
        let (pool, state) = (label.pool_name.clone(), state.to_owned());
        Err(PoolErrorKind::DeviceInPool {
            path: owned,
            pool,
            state,
        })
    }

    /// As [`Self::check_new`], of several.
    pub(crate) fn check_all<'a>(
        &self,
        devices: impl Iterator<Item = &'a PathBuf>,
        pool: Option<u64>,
        overwrite: bool,
    ) -> Result<(), PoolErrorKind> {
        let mut seen = HashSet::new();
        for path in devices {
            if !seen.insert(path) {
                let (path, why) = (path.clone(), "it is named twice".to_owned());
                return Err(PoolErrorKind::DeviceUnusable { path, why });
            }
            self.check_new(path, pool, overwrite)?;
        }
        Ok(())
    }

    /// Rewrites the labels of a pool with the former devices `before`.
    pub(crate) fn relabel(&self, vdevs: &Vdevs, before: &[PathBuf]) {
        let mut disks = self.disks();
        let some = before
            .iter()
            .find_map(|path| disks.get(path)?.label.clone());
        for path in before {
            if let Some(disk) = disks.get_mut(path) {
                disk.label = None;
            }
        }
        if let Some(label) = some {
            write_labels(&mut disks, vdevs, &label);
        }
    }

    /// Writes the same to all disks of a pool.
    pub(crate) fn label(&self, vdevs: &Vdevs, label: &Label) {
        write_labels(&mut self.disks(), vdevs, label);
    }
}

fn write_labels(disks: &mut BTreeMap<PathBuf, Disk>, vdevs: &Vdevs, label: &Label) {
    for group in &vdevs.groups {
        let kept = match group.role {
            GroupRole::Spare => LabelState::Spare,
            GroupRole::Cache => LabelState::Cache,
            GroupRole::Data | GroupRole::Log => label.state,
        };
        for leaf in group.members.iter().flat_map(|member| &member.leaves) {
            if let Some(disk) = disks.get_mut(&leaf.path).filter(|disk| disk.is_present) {
                disk.holds = None;
                disk.label = Some(Label {
                    state: kept,
                    ..label.clone()
                });
            }
        }
    }
}
