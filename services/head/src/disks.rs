//! Whole disks of this host, by persistent names, and their users.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use api::view::DiskView;
use control::answer::{Done, PoolSummary};
use control::{Answer, Failure, FailureKind};
use hardware::slots::{self, Slot};
use hardware::smart::DiskHealth;
use hardware::ways::MULTIPATH;
use operations::block_class::{BLOCK_CLASS, SECTOR_BYTES, is_disk, is_of};
use rendering::{Table, harmless};

/// Persistent names.
const BY_ID: &str = "/dev/disk/by-id";

/// The slots of PCI devices.
pub const PCI_SLOTS: &str = "/sys/bus/pci/slots";

/// A whole disk of this host, or a multipath device.
pub struct Disk {
    /// The kernel's name.
    pub name: String,
    /// Its persistent path.
    pub path: PathBuf,
    /// Its folder in sysfs.
    folder: PathBuf,
    /// The kernel's names of the disks below a multipath device.
    pub below: Vec<String>,
    size: u64,
}

impl Disk {
    /// The kernel's name of the device with the hardware: itself, or the first path of a multipath device.
    pub fn physical(&self) -> &str {
        self.below.first().unwrap_or(&self.name)
    }

    /// Its slot, if it is known.
    pub fn slot(&self) -> Option<Slot> {
        slots::of(
            &Path::new(BLOCK_CLASS).join(self.physical()),
            Path::new(PCI_SLOTS),
        )
    }

    fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

/// A slot as text.
pub fn slot_text(slot: &Slot) -> String {
    format!("{} {}", slot.enclosure, slot.name)
}

/// Finds the disks.
pub fn find() -> Vec<Disk> {
    let names = names();
    let entries = fs::read_dir(BLOCK_CLASS).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let mut disk = Disk {
            path: PathBuf::new(),
            folder: entry.path(),
            below: Vec::new(),
            size: 0,
            name,
        };
        let is_multipath = disk
            .text("dm/uuid")
            .is_some_and(|uuid| uuid.starts_with(MULTIPATH));
        if is_multipath {
            let below = fs::read_dir(disk.folder.join("slaves"))
                .into_iter()
                .flatten();
            let below = below
                .flatten()
                .filter_map(|path| path.file_name().into_string().ok());
            disk.below = below.collect();
            disk.below.sort();
        }
        let sectors: u64 = disk.text("size").and_then(|text| text.parse().ok())?;
        disk.size = sectors.saturating_mul(SECTOR_BYTES);
        let device = disk.device();
        disk.path = names.get(&device).cloned().unwrap_or(device);
        ((is_multipath || is_disk(&disk.name)) && sectors > 0).then_some(disk)
    });
    let mut disks: Vec<Disk> = found.collect();
    disks.sort_by(|a, b| a.path.cmp(&b.path));
    disks
}

/// All disks; `pools` determines which are in use. `health` is by the kernel's names.
pub fn all(pools: &[PoolSummary], health: &BTreeMap<String, DiskHealth>) -> Vec<DiskView> {
    let view = |disk: Disk| {
        let slot = disk.slot();
        let health = health.get(disk.physical()).cloned();
        let model = health.as_ref().and_then(|health| health.model.clone());
        DiskView {
            used_by: user(&disk.device(), &disk.folder, pools),
            path: disk.path.display().to_string(),
            size: disk.size,
            model: disk.text("device/model").or(model),
            slot: slot.as_ref().map(slot_text),
            has_light: slot.as_ref().is_some_and(Slot::has_light),
            paths: (!disk.below.is_empty()).then_some(disk.below.len()),
            health,
        }
    };
    find().into_iter().map(view).collect()
}

/// The disks as a table.
pub fn table(disks: &[DiskView]) -> String {
    let headings = [
        "DISK", ">SIZE", "MODEL", "SERIAL", "SLOT", ">TEMP", ">WEAR", "HEALTH", "USED BY",
    ];
    let mut table = Table::new(&headings);
    let or_dash =
        |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| harmless(text));
    for disk in disks {
        let health = disk.health.as_ref();
        let number = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row([
            disk.path.clone(),
            control::words::bytes(disk.size),
            or_dash(disk.model.as_ref()),
            or_dash(health.and_then(|health| health.serial.as_ref())),
            or_dash(disk.slot.as_ref()),
            number(health.and_then(|one| Some(format!("{} C", one.temperature_celsius?)))),
            number(health.and_then(|one| Some(format!("{} %", one.wear_percent?)))),
            number(health.map(|one| one.state.clone())),
            or_dash(disk.used_by.as_ref()),
        ]);
    }
    let mut text = table.render();
    for disk in disks {
        for fault in disk.health.iter().flat_map(|health| &health.faults) {
            text.push_str(&format!("{}: {fault}\n", disk.path));
        }
    }
    text
}

/// Switches the locate light of the slot of a disk, which is given by any of its paths.
///
/// # Errors
///
/// There is no such disk, its slot has no light, or the enclosure refuses.
pub fn locate(path: &str, is_on: bool) -> Result<Answer, Failure> {
    let device = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let mut disks = find().into_iter();
    let disk = disks
        .find(|disk| disk.device() == device || disk.path == Path::new(path))
        .ok_or_else(|| {
            Failure::not_found(format!("{path} is no disk of this head"))
                .advise("`bulkhead head disks` shows the disks")
        })?;
    let slot = disk.slot().filter(Slot::has_light).ok_or_else(|| {
        let message = format!("the slot of {path} has no locate light that the kernel knows");
        Failure::new(FailureKind::Unsupported, message).advise(
            "a disk in an enclosure needs the kernel module ses; else find it by its serial number",
        )
    })?;
    let switched = if is_on { "on" } else { "off" };
    slot.locate(is_on)
        .map_err(Failure::of(&format!("switch the light {switched}")))?;
    Ok(Done::changed(format!(
        "the locate light of {} is {switched}",
        slot_text(&slot)
    )))
}

/// Persistent names, by the device that each resolves to.
fn names() -> BTreeMap<PathBuf, PathBuf> {
    let entries = fs::read_dir(BY_ID).into_iter().flatten().flatten();
    let mut names = BTreeMap::new();
    for entry in entries {
        if let Ok(device) = fs::canonicalize(entry.path()) {
            names.entry(device).or_insert(entry.path());
        }
    }
    names
}

fn user(device: &Path, folder: &Path, pools: &[PoolSummary]) -> Option<String> {
    let is_this = |path: &str| {
        let found = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        is_of(device, &found)
    };
    let pool = pools
        .iter()
        .find(|pool| pool.devices.iter().any(|path| is_this(path)));
    if let Some(pool) = pool {
        return Some(format!("pool {}", pool.name));
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (what, place) = (words.next()?, words.next()?);
        (what.starts_with("/dev/") && is_this(what)).then(|| format!("mounted on {place}"))
    });
    mounted.or_else(|| {
        let held = fs::read_dir(folder.join("holders"))
            .ok()?
            .flatten()
            .next()?;
        Some(format!("held by {}", held.file_name().to_string_lossy()))
    })
}
