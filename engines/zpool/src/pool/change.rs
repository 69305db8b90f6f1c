//! Changes to an open pool: its devices, its properties, its maintenance.

use std::path::{Path, PathBuf};

use engine::capabilities::{Devices, Health, PoolProperties, Upkeep};
use engine::dataset::Damage;
use engine::pool::{
    DeviceState, DeviceStatus, GroupSpec, PoolProperty, PoolSpec, PoolStatus, ReadBalancing,
    Resumption, Role, ScrubCommand, TrimCommand,
};
use labels::{DEVICE_BYTES_MIN, Label, LabelState, are_same_device, in_use_as};
use rustix::io::Errno;
use zpool_sys as sys;

use super::import::unusable;
use super::spec::{self, add_property, features};
use super::{Pool, c_text};
use crate::HostId;
use crate::device;
use crate::error::{PoolError, PoolErrorKind, SystemError, errno, static_text};
use crate::nvlist::{NvList, NvValue};

/// The owners that are known to have stopped using a device before it is overwritten.
pub(super) struct Overwriter {
    /// Whether it may be overwritten at all.
    pub(super) is_asked: bool,
    /// The host that overwrites: no process of it holds the lock of a device that it claimed.
    pub(super) host: HostId,
    /// The pool that is open here, so that no other process uses its devices.
    pub(super) pool: Option<OwnPool>,
}

/// An open pool, as the labels of its devices name it.
pub(super) struct OwnPool {
    guid: u64,
    /// Its devices, by their numbers, with their paths.
    devices: Vec<(u64, String)>,
}

impl Overwriter {
    /// Whether the host that wrote this label has certainly stopped.
    fn outlived(&self, label: &Label) -> bool {
        let is_ours = |host: u32| {
            // Without a configured number, the host has a different one for each pool.
            let of_pool = HostId::of_this_host(&label.pool_name);
            [self.host, of_pool].iter().any(|own| own.0.get() == host)
        };
        self.has_pool_of(label) || label.host_id.is_some_and(is_ours)
    }

    fn has_pool_of(&self, label: &Label) -> bool {
        let pool = self.pool.as_ref();
        pool.is_some_and(|pool| pool.guid == label.pool_guid)
    }

    /// The device of the open pool that this label claims to be.
    fn own_device(&self, label: &Label) -> Option<&str> {
        let pool = self.pool.as_ref().filter(|_| self.has_pool_of(label))?;
        let mut devices = pool.devices.iter();
        let (_, name) = devices.find(|(guid, _)| *guid == label.guid)?;
        Some(name)
    }
}

/// Refuses devices that a command must not overwrite.
pub(super) fn check_new_devices<'a>(
    doing: &'static str,
    pool: &str,
    devices: impl Iterator<Item = &'a PathBuf>,
    overwriter: &Overwriter,
) -> Result<(), PoolError> {
    let mut seen: Vec<&PathBuf> = Vec::new();
    for path in devices {
        let twin = seen
            .iter()
            .find(|one| **one == path || are_same_device(one, path));
        let checked = match twin {
            Some(twin) => Err(PoolErrorKind::DeviceUnusable {
                path: path.clone(),
                why: match *twin == path {
                    true => "it is named twice".to_owned(),
                    false => format!("it is the same device as {}", twin.display()),
                },
            }),
            None => check_new_device(path, overwriter),
        };
        seen.push(path);
        checked.map_err(|kind| PoolError::new(doing, pool, kind))?;
    }
    Ok(())
}

/// The library uses labels that `wipefs -a` left: a copy of a disk of this pool would be used as that disk.
fn forget_wiped<'a>(
    doing: &'static str,
    pool: &str,
    devices: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), PoolError> {
    for path in devices {
        labels::forget_wiped(path).map_err(|errno| {
            let kind = PoolErrorKind::DeviceUnusable {
                path: path.clone(),
                why: errno.to_string(),
            };
            PoolError::new(doing, pool, kind)
        })?;
    }
    Ok(())
}

/// Erases foreign signatures once the pool has the devices: they must not require a flag after the pool is destroyed.
pub(super) fn erase_other_contents<'a>(devices: impl Iterator<Item = &'a PathBuf>) {
    for path in devices {
        let forgotten = labels::other_contents(path).and_then(|found| match found {
            Some(_) => labels::erase_other_contents(path),
            None => Ok(()),
        });
        if let Err(error) = forgotten {
            tracing::warn!(path = %path.display(), %error, "an old mark is left on the device");
        }
    }
}

fn check_new_device(path: &Path, overwriter: &Overwriter) -> Result<(), PoolErrorKind> {
    if !path.is_absolute() {
        return Err(PoolErrorKind::DeviceUnusable {
            path: path.to_owned(),
            why: "write its absolute path".to_owned(),
        });
    }
    drop(device::claim(path).map_err(|failure| unusable(path, failure))?);
    if let Some(other) = in_use_as(path) {
        return Err(PoolErrorKind::DeviceInUse {
            path: path.to_owned(),
            by: format!("a process that has it open as {}", other.display()),
        });
    }
    let failed = |error: Errno| PoolErrorKind::DeviceUnusable {
        path: path.to_owned(),
        why: error.to_string(),
    };
    if size_of(path).map_err(failed)? < DEVICE_BYTES_MIN {
        return Err(PoolErrorKind::DeviceTooSmall {
            path: path.to_owned(),
            needed: "at least 64M".to_owned(),
        });
    }
    let label = Label::read_unless_wiped(path).map_err(failed)?;
    let label = label.filter(|label| !matches!(label.state, LabelState::Destroyed));
    let Some(label) = label else {
        let path = path.to_owned();
        return match labels::other_contents(&path).map_err(failed)? {
            Some(what) if !overwriter.is_asked => Err(PoolErrorKind::DeviceHolds { path, what }),
            _ => Ok(()),
        };
    };
    let path = path.to_owned();
    if let Some(own) = overwriter.own_device(&label) {
        if Path::new(own) == path {
            let why = "it is a device of this pool already: if it is offline, `bulkhead pool online` brings it back";
            return Err(PoolErrorKind::DeviceUnusable {
                path,
                why: why.to_owned(),
            });
        }
        let why = format!(
            "its label is that of {own}, which this pool has in use: it is a copy of that disk, or another path to it. If it is a copy, erase \
             it first: `wipefs -a {}`",
            path.display()
        );
        return Err(PoolErrorKind::DeviceUnusable { path, why });
    }
    let state = match label.state {
        LabelState::Destroyed => return Ok(()),
        LabelState::Active if overwriter.is_asked && !overwriter.outlived(&label) => {
            let unnamed = || "another host".to_owned();
            return Err(PoolErrorKind::DeviceActive {
                path,
                pool: label.pool_name.into(),
                host: label.host_name.unwrap_or_else(unnamed).into(),
            });
        }
        _ if overwriter.is_asked => return Ok(()),
        LabelState::Active => "not exported",
        LabelState::Exported => "exported",
        LabelState::Spare => {
            return Err(PoolErrorKind::DeviceKept {
                path,
                word: "spare",
            });
        }
        LabelState::Cache => {
            return Err(PoolErrorKind::DeviceKept {
                path,
                word: "cache",
            });
        }
    };
    Err(PoolErrorKind::DeviceInPool {
        path,
        pool: label.pool_name,
        state: state.to_owned(),
    })
}

/// Whether both paths refer to one device.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

fn size_of(path: &Path) -> rustix::io::Result<u64> {
    use rustix::fs::{OFlags, SeekFrom, seek};
    let fd = labels::open_disk(path, OFlags::RDONLY)?;
    seek(&fd, SeekFrom::End(0))
}

impl Pool {
    fn checked(&self, doing: &'static str, code: i32) -> Result<(), PoolError> {
        SystemError::check(code)
            .map_err(|cause| PoolError::common(doing, self.name().as_str(), cause))
    }

    fn refuse<T>(&self, doing: &'static str, kind: PoolErrorKind) -> Result<T, PoolError> {
        Err(PoolError::new(doing, self.name().as_str(), kind))
    }

    /// The device called `device`: a path, a name such as `mirror-0`, or a number.
    fn find(&self, doing: &'static str, device: &str) -> Result<DeviceStatus, PoolError> {
        let status = self.status()?;
        match status.find(device) {
            Some(found) => Ok(found.clone()),
            None => self.refuse(
                doing,
                PoolErrorKind::NoSuchDevice {
                    device: device.to_owned(),
                },
            ),
        }
    }

    /// Like `clear`, and retries failed I/O where the pool `resumes`. Blocks on devices that are probed.
    pub(super) fn clear_and(&self, device: Option<&str>, resumes: bool) -> Result<(), PoolError> {
        const DOING: &str = "clear";
        let guid = match device {
            Some(device) => {
                let found = self.find(DOING, device)?;
                let devices = self.status()?.devices;
                self.admit(DOING, &devices, Some(&found), false)?;
                if !resumes {
                    self.note_older_images(&devices, &found);
                }
                found.guid
            }
            None => {
                // The devices of a suspended pool may be unknown.
                let listed = (!self.abandoned.is_empty()).then(|| self.status());
                if let Some(Ok(status)) = listed {
                    self.admit(DOING, &status.devices, None, false)?;
                }
                0
            }
        };
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_pool_clear(self.c_name().as_ptr(), guid, u32::from(resumes)) };
        match errno(code) {
            Errno::IO => self.refuse(DOING, PoolErrorKind::Suspended),
            _ => self.checked(DOING, code),
        }
    }

    fn overwriter(&self, is_asked: bool, status: &PoolStatus) -> Overwriter {
        let mut devices = Vec::new();
        let mut queue: Vec<&DeviceStatus> = status.devices.iter().collect();
        while let Some(device) = queue.pop() {
            devices.push((device.guid, device.name.clone()));
            queue.extend(&device.children);
        }
        Overwriter {
            is_asked,
            host: self.engine.host_id(),
            pool: Some(OwnPool {
                guid: status.guid,
                devices,
            }),
        }
    }

    /// The property, if it is set: the default for new groups.
    fn ashift(&self) -> Option<u64> {
        let properties = self.properties().ok()?;
        let found = properties
            .iter()
            .find(|property| property.name == "ashift")?;
        let shift = found.value.parse().ok()?;
        // Other software may have stored arbitrary values.
        spec::ASHIFT_RANGE.contains(&shift).then_some(shift)
    }

    /// Checks a device before it joins a group. Returns whether it is new to the pool.
    fn check_joining(
        &self,
        doing: &'static str,
        new: &Path,
        overwrite: bool,
        replacing: bool,
    ) -> Result<bool, PoolError> {
        let path = new.to_owned();
        let status = self.status()?;
        let is_own = |role: Role| {
            let mut kept = status.devices.iter().filter(|device| device.role == role);
            kept.any(|device| is_same(Path::new(&device.name), new))
        };
        // The library adds it twice, and aborts the process at the next write.
        if is_own(Role::Cache) {
            let why = "it is a cache of this pool: remove it there first".to_owned();
            return self.refuse(doing, PoolErrorKind::DeviceUnusable { path, why });
        }
        if replacing && is_own(Role::Spare) {
            return Ok(false);
        }
        let overwriter = self.overwriter(overwrite, &status);
        check_new_devices(
            doing,
            self.name().as_str(),
            std::iter::once(&path),
            &overwriter,
        )?;
        Ok(true)
    }

    fn attach_as(
        &self,
        doing: &'static str,
        device: &str,
        new: &Path,
        overwrite: bool,
        replacing: bool,
    ) -> Result<(), PoolError> {
        let old = self.find(doing, device)?;
        let path = new.to_owned();
        if self.check_joining(doing, new, overwrite, replacing)? {
            forget_wiped(doing, self.name().as_str(), std::iter::once(&path))?;
        }
        let mut tree = NvList::new();
        tree.set_text("type", "root");
        tree.set_lists("children", &[spec::leaf(new, None)]);
        // SAFETY: the library runs; name and list are valid for the call and are copied.
        let code = unsafe {
            sys::bh_vdev_attach(
                self.c_name().as_ptr(),
                old.guid,
                tree.as_raw(),
                replacing.into(),
            )
        };
        self.device_result(doing, code, Some(&path))?;
        erase_other_contents(std::iter::once(&path));
        Ok(())
    }

    /// Translates the errno of an operation on devices.
    fn device_result(
        &self,
        doing: &'static str,
        code: i32,
        path: Option<&PathBuf>,
    ) -> Result<(), PoolError> {
        let Err(cause) = SystemError::check(code) else {
            return Ok(());
        };
        let path = path.cloned().unwrap_or_default();
        let shape = |why: &str| PoolErrorKind::Shape { why: why.into() };
        let kind = match errno(code) {
            Errno::OVERFLOW => PoolErrorKind::DeviceTooSmall {
                path,
                needed: "at least the size of the devices it joins".into(),
            },
            Errno::NOTSUP => shape("only single devices and mirrors can be joined or parted"),
            Errno::INVAL => shape("the devices do not fit together"),
            Errno::DOM => shape(
                "the sectors of the device are larger than the smallest write of the group (ashift), which cannot change: use \
                 a device with smaller sectors; or create a pool with `-o ashift=12` and move the data there (`bulkhead snapshot send`)",
            ),
            Errno::BUSY => PoolErrorKind::Busy,
            Errno::NODEV => PoolErrorKind::NoSuchDevice {
                device: path.display().to_string(),
            },
            Errno::NXIO | Errno::NOTBLK => match device::open_failure(&path) {
                Some(failure) => unusable(&path, failure),
                None => PoolErrorKind::DeviceUnusable {
                    path,
                    why: "it cannot be opened".into(),
                },
            },
            _ => return Err(PoolError::common(doing, self.name().as_str(), cause)),
        };
        Err(PoolError::because(doing, self.name().as_str(), kind, cause))
    }
}

impl Upkeep for Pool {
    fn scrub(&self, command: ScrubCommand) -> Result<(), PoolError> {
        const DOING: &str = "scrub";
        let raw = match command {
            ScrubCommand::Start => sys::BH_SCRUB_START,
            ScrubCommand::Pause => sys::BH_SCRUB_PAUSE,
            ScrubCommand::Cancel => sys::BH_SCRUB_CANCEL,
        };
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_pool_scrub(self.c_name().as_ptr(), raw) };
        let why = match errno(code) {
            Errno::BUSY => "a scrub or resilver is under way",
            Errno::NOENT if command != ScrubCommand::Start => "no scrub is under way",
            Errno::CANCELED => return Ok(()),
            _ => return self.checked(DOING, code),
        };
        self.refuse(DOING, PoolErrorKind::NothingToDo { why: why.into() })
    }

    fn bound_copies(&self, bytes_per_s_max: Option<u64>) {
        device::bound_copies(bytes_per_s_max);
    }

    fn balance_reads(&self, mode: ReadBalancing) {
        device::balance_reads(mode);
    }

    fn trim(&self, command: TrimCommand) -> Result<(), PoolError> {
        let status = self.status()?;
        let guids: Vec<u64> = status
            .leaves()
            .into_iter()
            .filter(|leaf| !matches!(leaf.role, Role::Spare | Role::Cache))
            .filter(|leaf| leaf.state == DeviceState::Online)
            .map(|leaf| leaf.guid)
            .collect();
        let raw = match command {
            TrimCommand::Start => sys::BH_TRIM_START,
            TrimCommand::Pause => sys::BH_TRIM_SUSPEND,
            TrimCommand::Cancel => sys::BH_TRIM_CANCEL,
        };
        // SAFETY: the library runs; the name is copied, the numbers are read during the call.
        let code = unsafe {
            sys::bh_pool_trim(
                self.c_name().as_ptr(),
                guids.as_ptr(),
                guids.len() as u32,
                raw,
            )
        };
        self.checked("trim", code)
    }

    fn clear(&self, device: Option<&str>) -> Result<(), PoolError> {
        self.clear_and(device, false)
    }

    fn damage(&self) -> Result<Vec<Damage>, PoolError> {
        self.damaged_ranges()
    }

    fn resume_pool(
        &self,
        device: Option<&str>,
        missing_are_not_newer: bool,
    ) -> Result<Resumption, PoolError> {
        self.resume_if_proven(device, missing_are_not_newer)
    }
}

impl Devices for Pool {
    fn add(&self, groups: &[GroupSpec], overwrite: bool) -> Result<(), PoolError> {
        const DOING: &str = "add devices to";
        let name = self.name().as_str();
        let devices = || groups.iter().flat_map(|group| &group.devices);
        let overwriter = self.overwriter(overwrite, &self.status()?);
        check_new_devices(DOING, name, devices(), &overwriter)?;
        forget_wiped(DOING, name, devices())?;
        let tree = spec::vdev_tree(groups, self.ashift())
            .map_err(|kind| PoolError::new(DOING, name, kind))?;
        // SAFETY: the library runs; name and list are valid for the call and are copied.
        let code = unsafe { sys::bh_vdev_add(self.c_name().as_ptr(), tree.as_raw()) };
        self.device_result(DOING, code, groups.first().and_then(|g| g.devices.first()))?;
        erase_other_contents(groups.iter().flat_map(|group| &group.devices));
        Ok(())
    }

    fn attach(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError> {
        self.attach_as("attach a device to", device, new, overwrite, false)
    }

    fn replace(&self, device: &str, new: &Path, overwrite: bool) -> Result<(), PoolError> {
        self.attach_as("replace a device of", device, new, overwrite, true)
    }

    fn check_new(&self, new: &[PathBuf]) -> Result<(), PoolError> {
        let overwriter = self.overwriter(false, &self.status()?);
        let name = self.name().as_str();
        check_new_devices("add devices to", name, new.iter(), &overwriter)
    }

    fn check_replace(
        &self,
        device: &str,
        new: &Path,
        needed_bytes: u64,
        overwrite: bool,
    ) -> Result<(), PoolError> {
        const DOING: &str = "replace a device of";
        self.find(DOING, device)?;
        self.check_joining(DOING, new, overwrite, true)?;
        let path = new.to_owned();
        match size_of(new) {
            Ok(size) if size < needed_bytes => {
                let needed = format!("{needed_bytes} bytes, and it has {size}");
                self.refuse(DOING, PoolErrorKind::DeviceTooSmall { path, needed })
            }
            Ok(_) => Ok(()),
            Err(error) => {
                let why = error.to_string();
                self.refuse(DOING, PoolErrorKind::DeviceUnusable { path, why })
            }
        }
    }

    fn detach(&self, device: &str) -> Result<(), PoolError> {
        const DOING: &str = "detach a device from";
        let found = self.find(DOING, device)?;
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_vdev_detach(self.c_name().as_ptr(), found.guid) };
        match errno(code) {
            Errno::BUSY => self.refuse(DOING, PoolErrorKind::NoReplicas),
            Errno::NOTSUP => self.refuse(
                DOING,
                PoolErrorKind::Shape {
                    why: "only devices of mirrors can be detached".into(),
                },
            ),
            _ => self.checked(DOING, code),
        }
    }

    fn remove(&self, device: &str) -> Result<(), PoolError> {
        const DOING: &str = "remove a device from";
        let found = self.find(DOING, device)?;
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_vdev_remove(self.c_name().as_ptr(), found.guid) };
        let why = match errno(code) {
            Errno::NOTSUP | Errno::INVAL => {
                "only caches, spares, logs and groups in a pool without raidz can be removed"
            }
            Errno::NOSPC => "the other groups have no room for its data",
            Errno::BUSY => return self.refuse(DOING, PoolErrorKind::Busy),
            _ => return self.checked(DOING, code),
        };
        self.refuse(DOING, PoolErrorKind::Shape { why: why.into() })
    }

    fn online(&self, device: &str, expand: bool) -> Result<DeviceState, PoolError> {
        const DOING: &str = "bring online a device of";
        let found = self.find(DOING, device)?;
        let status = self.status()?;
        self.admit(DOING, &status.devices, Some(&found), true)?;
        self.note_older_images(&status.devices, &found);
        let mut state = 0;
        // SAFETY: the library runs; the name is copied; `state` is valid for the result.
        let code = unsafe {
            sys::bh_vdev_online(
                self.c_name().as_ptr(),
                found.guid,
                expand.into(),
                &mut state,
            )
        };
        self.device_result(DOING, code, Some(&PathBuf::from(device)))?;
        let status = self.find(DOING, device)?;
        Ok(status.state)
    }

    fn offline(&self, device: &str, temporary: bool) -> Result<(), PoolError> {
        const DOING: &str = "take offline a device of";
        let found = self.find(DOING, device)?;
        // SAFETY: the library runs; the name is copied.
        let code =
            unsafe { sys::bh_vdev_offline(self.c_name().as_ptr(), found.guid, temporary.into()) };
        match errno(code) {
            Errno::BUSY => self.refuse(DOING, PoolErrorKind::NoReplicas),
            _ => self.device_result(DOING, code, Some(&PathBuf::from(device))),
        }
    }

    fn fault(&self, device: &str) -> Result<(), PoolError> {
        const DOING: &str = "stop to use a device of";
        let found = self.find(DOING, device)?;
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_vdev_fault(self.c_name().as_ptr(), found.guid) };
        match errno(code) {
            Errno::BUSY => self.refuse(DOING, PoolErrorKind::NoReplicas),
            _ => self.device_result(DOING, code, Some(&PathBuf::from(device))),
        }
    }

    fn change_number(&self) -> Result<(), PoolError> {
        const DOING: &str = "change the number of";
        let name = self.name.as_str();
        // SAFETY: the library runs; the name is copied.
        let code = unsafe { sys::bh_pool_change_guid(self.c_name.as_ptr()) };
        match errno(code) {
            Errno::NXIO => Err(PoolError::new(DOING, name, PoolErrorKind::NoReplicas)),
            _ => SystemError::check(code).map_err(|cause| PoolError::common(DOING, name, cause)),
        }
    }
}

impl PoolProperties for Pool {
    fn set_properties(&self, properties: &[(String, String)]) -> Result<(), PoolError> {
        const DOING: &str = "set properties of";
        let mut list = NvList::new();
        for (name, value) in properties {
            add_property(&mut list, name, value, false)
                .map_err(|kind| PoolError::new(DOING, self.name().as_str(), kind))?;
        }
        // SAFETY: the library runs; name and list are valid for the call and are copied.
        let code = unsafe { sys::bh_pool_set_properties(self.c_name().as_ptr(), list.as_raw()) };
        match errno(code) {
            Errno::INVAL | Errno::NOTSUP => self.refuse(
                DOING,
                PoolErrorKind::Property {
                    property: properties
                        .iter()
                        .map(|(name, _)| name.as_str())
                        .collect::<Vec<_>>()
                        .join(", "),
                    why: "the pool does not take this value".into(),
                },
            ),
            _ => self.checked(DOING, code),
        }
    }

    fn properties(&self) -> Result<Vec<PoolProperty>, PoolError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library runs; the name is copied; `raw` is valid for the result.
        let code = unsafe { sys::bh_pool_properties(self.c_name().as_ptr(), &mut raw) };
        self.checked("read properties of", code)?;
        // SAFETY: the library returns the list.
        let list = unsafe { NvList::from_raw(raw) }.unwrap_or_default();
        let entries = list.view().entries().into_iter();
        Ok(entries
            .filter_map(|(name, entry)| property_of(name, entry))
            .collect())
    }

    fn property_values(&self, property: &str) -> Option<String> {
        let name = c_text(property);
        // SAFETY: the name is only read; the result is a constant of the library or NULL.
        let values = unsafe { static_text(sys::bh_pool_property_values(name.as_ptr())) };
        values.map(str::to_owned)
    }

    fn upgrade(&self) -> Result<(), PoolError> {
        let allowed = spec::allowed(&self.properties()?)
            .map_err(|kind| PoolError::new("upgrade", self.name().as_str(), kind))?;
        let all: Vec<(String, String)> = features()
            .filter(|feature| allowed.has(feature))
            .map(|feature| (format!("feature@{feature}"), "enabled".to_owned()))
            .collect();
        self.set_properties(&all)
    }
}

/// An entry is a list of a value and its source.
fn property_of(name: String, entry: NvValue<'_>) -> Option<PoolProperty> {
    /// `ZPROP_SRC_DEFAULT` and `ZPROP_SRC_NONE` of the library.
    const NOT_SET: [u64; 2] = [1, 2];
    let NvValue::List(entry) = entry else {
        return None;
    };
    let value = match entry.get("value")? {
        NvValue::Text(text) => text,
        NvValue::Unsigned(number) => {
            let c_name = c_text(&name);
            // SAFETY: the name is only read; the result is a constant of the library.
            let word = unsafe { static_text(sys::bh_pool_property_word(c_name.as_ptr(), number)) };
            word.map_or_else(|| number.to_string(), str::to_owned)
        }
        _ => return None,
    };
    let is_set = entry
        .u64("source")
        .is_some_and(|source| !NOT_SET.contains(&source));
    Some(PoolProperty {
        name,
        value,
        is_set,
    })
}

/// Refuses devices of `spec` that are missing, too small, in use, or in a pool already.
pub(super) fn check_devices(spec: &PoolSpec, host: HostId) -> Result<(), PoolError> {
    let overwriter = Overwriter {
        is_asked: spec.overwrite,
        host,
        pool: None,
    };
    check_new_devices("create", spec.name.as_str(), spec.devices(), &overwriter)
}
