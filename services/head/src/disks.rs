//! Whole disks of this host, by persistent names, and their users.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use api::view::DiskView;
use control::answer::PoolSummary;
use operations::block_class::{BLOCK_CLASS, SECTOR_BYTES, is_disk, is_of};

/// Persistent names.
const BY_ID: &str = "/dev/disk/by-id";

/// All disks; `pools` determines which are in use.
pub fn all(pools: &[PoolSummary]) -> Vec<DiskView> {
    let names = names();
    let mut disks: Vec<DiskView> = Vec::new();
    let entries = fs::read_dir(BLOCK_CLASS).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !is_disk(&name) {
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
