//! Names of devices for completions: the disks of this host by their lasting names, and the devices of a pool.

use std::path::Path;

use control::answer::{DeviceView, PoolStatus};
use control::request::PoolRequest;
use control::{Answer, Request};

use crate::common::Common;

/// Verbs of `pool` with devices as arguments.
pub const VERBS: [&str; 10] = [
    "create",
    "add",
    "attach",
    "replace",
    "replace-disk",
    "detach",
    "remove",
    "online",
    "offline",
    "clear",
];
/// Those of them that add a disk to a pool.
const WITH_NEW_DISK: [&str; 5] = ["create", "add", "attach", "replace", "replace-disk"];
/// Those of them without a device of the pool as an argument.
const WITHOUT_OWN: [&str; 2] = ["create", "add"];
/// The names of disks that do not change when disks are moved to other slots.
const BY_ID: &str = "/dev/disk/by-id";
/// Maximum number of names of disks.
const DISKS_MAX: usize = 4096;

/// Returns the devices that start with `word` and that the verb accepts: fast, and without error messages.
pub fn of_verb(common: &Common, verb: &str, pool: &str, word: &str) -> Vec<String> {
    let mut names = Vec::new();
    if !WITHOUT_OWN.contains(&verb) {
        let request = Request::Pool(PoolRequest::Status);
        let answer = pool
            .parse()
            .ok()
            .map(|pool| crate::ask_server(common, &pool, request));
        if let Some(Ok(Answer::Pool(status))) = answer {
            names.extend(devices_of(*status));
        }
    }
    if WITH_NEW_DISK.contains(&verb) {
        let disks = disks_in(Path::new(BY_ID));
        let new: Vec<String> = disks
            .into_iter()
            .filter(|disk| !names.contains(disk))
            .collect();
        names.extend(new);
    }
    names.retain(|name| name.starts_with(word));
    names
}

/// The leaf devices of a pool, under the names that its verbs accept.
fn devices_of(mut status: PoolStatus) -> Vec<String> {
    fn collect(device: &DeviceView, found: &mut Vec<String>) {
        match device.members.is_empty() {
            true => found.push(device.name.clone()),
            false => device.members.iter().for_each(|one| collect(one, found)),
        }
    }
    status.name_legs();
    let mut found = Vec::new();
    status
        .devices
        .iter()
        .for_each(|one| collect(one, &mut found));
    found.sort();
    found.dedup();
    found
}

/// The disks and partitions in a directory of links.
fn disks_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned());
    let mut paths: Vec<String> = paths.take(DISKS_MAX).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_devices_and_links_are_listed_in_order() {
        let device = |name: &str, members: Vec<DeviceView>| DeviceView {
            name: name.to_owned(),
            members,
            ..DeviceView::default()
        };
        let leaves = vec![device("/b", Vec::new()), device("/a", Vec::new())];
        let status = PoolStatus {
            devices: vec![device("mirror-0", leaves), device("/s", Vec::new())],
            ..PoolStatus::default()
        };
        assert_eq!(devices_of(status), ["/a", "/b", "/s"]);
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["scsi-b", "scsi-a"] {
            std::fs::write(directory.path().join(name), "").expect("written");
        }
        let found = disks_in(directory.path());
        assert!(
            found[0].ends_with("scsi-a") && found[1].ends_with("scsi-b"),
            "{found:?}"
        );
        assert!(disks_in(Path::new("/nonexistent")).is_empty());
    }
}
