//! Whole disks of this machine, by names that stay, and who uses them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use api::view::DiskView;
use control::answer::PoolSummary;

/// Names that stay.
const BY_ID: &str = "/dev/disk/by-id";
/// Bytes of the unit that the kernel counts a disk's size in.
const SECTOR_BYTES: u64 = 512;
/// Kinds of devices that are no disks.
const NO_DISKS: &[&str] = &["loop", "ram", "zram", "dm-", "md", "sr", "nbd", "zd"];

/// All of them; `pools` tells which are in use.
pub fn all(pools: &[PoolSummary]) -> Vec<DiskView> {
    let names = names();
    let mut disks: Vec<DiskView> = Vec::new();
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if NO_DISKS.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let folder = entry.path();
        let text = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let sectors: u64 = text("size").and_then(|text| text.parse().ok()).unwrap_or(0);
        if sectors == 0 {
            continue;
        }
        let device = PathBuf::from("/dev").join(&name);
        let path = names.get(&device).cloned().unwrap_or(device.clone());
        disks.push(DiskView {
            used_by: user(&device, &folder, pools),
            path: path.display().to_string(),
            size: sectors * SECTOR_BYTES,
            model: text("device/model"),
        });
    }
    disks.sort_by(|a, b| a.path.cmp(&b.path));
    disks
}

/// Names that stay, by what they lead to.
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
        found == device
            || found
                .to_string_lossy()
                .starts_with(&*device.to_string_lossy())
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
