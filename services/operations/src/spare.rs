//! Spares, and the sizes of devices: a spare that is smaller than a device cannot replace it, and a group uses the size of
//! its smallest device.

use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use control::operations::pool::{DeviceGroup, GroupRole};
use control::words::bytes;
use control::{Failure, FailureKind};
use engine::pool::{DeviceStatus, GroupSpec, PoolSpec, PoolStatus, Role};

/// A group rounds its size down to whole metaslabs, the largest of which is an eighth of it. Before the pool exists, the
/// size that a replacement needs is known to that accuracy only.
const METASLABS_MIN: u64 = 8;

/// Refuses a spare of `new` that is smaller than every data device of the pool.
pub fn refuse_small(status: &PoolStatus, new: &[GroupSpec]) -> Result<(), Failure> {
    let data = status.leaves().into_iter();
    let data = data.filter(|leaf| leaf.role == Role::Data && leaf.needed_bytes > 0);
    match data.map(|leaf| leaf.needed_bytes).min() {
        Some(needed) => refuse_smaller_than(needed, new).map_err(|failure| {
            Failure::new(FailureKind::NeedsConfirmation, failure.message).advise(
                "choose a spare of at least that size; if you intend to add this one, add --mismatched",
            )
        }),
        None => Ok(()),
    }
}

/// The same for a pool that is about to be created.
pub fn refuse_small_of_new(spec: &PoolSpec) -> Result<(), Failure> {
    let data = spec.groups.iter();
    let data = data.filter(|group| group.role == engine::pool::GroupRole::Data);
    let sizes = data
        .flat_map(|group| &group.devices)
        .filter_map(|path| size_of(path));
    match sizes.min() {
        Some(size) => refuse_smaller_than(size - size / METASLABS_MIN, &spec.groups)
            .map_err(|failure| failure.advise("choose a spare of the size of the other devices")),
        None => Ok(()),
    }
}

fn refuse_smaller_than(needed: u64, groups: &[GroupSpec]) -> Result<(), Failure> {
    let spares = groups.iter();
    let spares = spares.filter(|group| group.role == engine::pool::GroupRole::Spare);
    for path in spares.flat_map(|group| &group.devices) {
        let Some(size) = size_of(path).filter(|size| *size < needed) else {
            continue;
        };
        let message = format!(
            "spare {} has {} and can replace no device of the pool: the smallest needs {}",
            path.display(),
            bytes(size),
            bytes(needed)
        );
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// A sentence about the new spares that cannot replace some device of the pool.
pub fn too_small_for_some(status: &PoolStatus, new: &[DeviceGroup]) -> Option<String> {
    let spares = new.iter().filter(|group| group.role == GroupRole::Spare);
    let spares = spares.flat_map(|group| &group.devices);
    let notes = spares.filter_map(|path| {
        let spare = status.find(&path.to_string_lossy())?;
        let small_for = status.too_large_for(spare.needed_bytes);
        let is_small = spare.needed_bytes > 0 && !small_for.is_empty();
        is_small.then(|| {
            format!(
                "warning: {} is too small for {}",
                spare.name,
                small_for.join(", ")
            )
        })
    });
    let notes: Vec<String> = notes.collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Refuses a replacement by a spare that is in use, and one by a second spare: the library reports no reason for either.
pub fn refuse_second(status: &PoolStatus, old: &str, new: &str) -> Result<(), Failure> {
    let mut spares = status.devices.iter();
    if !spares.any(|one| one.role == Role::Spare && one.name == new) {
        return Ok(());
    }
    let pool = &status.name;
    let groups: Vec<&DeviceStatus> = status.devices.iter().flat_map(groups_of_spares).collect();
    let old_guid = status.find(old).map(|found| found.guid);
    for group in groups {
        let [replaced, spare] = group.children.as_slice() else {
            continue;
        };
        let message = if spare.name == new {
            format!("spare {new} is in use for {} already", replaced.name)
        } else if Some(replaced.guid) == old_guid {
            format!(
                "spare {} is in use for {} already",
                spare.name, replaced.name
            )
        } else {
            continue;
        };
        return Err(Failure::new(FailureKind::Busy, message).advise(format!(
            "`bulkhead pool detach {pool} {0}` lets {1} replace it for good; `bulkhead pool replace-disk {pool} {0} --with NEW` \
             replaces it by another disk, and releases the spare",
            replaced.name, spare.name
        )));
    }
    Ok(())
}

/// The groups in `device` of a device and the spare that replaces it.
fn groups_of_spares(device: &DeviceStatus) -> Vec<&DeviceStatus> {
    match device.kind.as_str() {
        "spare" => vec![device],
        _ => device.children.iter().flat_map(groups_of_spares).collect(),
    }
}

/// A sentence about the space of larger devices in new mirrors and raidz groups that is not used; none if the devices of
/// each have about the same size.
pub fn unused_space(groups: &[GroupSpec]) -> Option<String> {
    use engine::pool::GroupKind::Stripe;
    let redundant = groups.iter().filter(|group| group.kind != Stripe);
    let notes = redundant.filter_map(|group| {
        let sizes = group.devices.iter().map(|path| size_of(path));
        unused_in(&group.devices, &sizes.collect::<Option<Vec<u64>>>()?)
    });
    let notes: Vec<String> = notes.collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// The same for one group of devices with these sizes.
fn unused_in(devices: &[PathBuf], sizes: &[u64]) -> Option<String> {
    let all = || devices.iter().zip(sizes);
    let (smallest, least) = all().min_by_key(|(_, size)| **size)?;
    let larger = all().filter(|(_, size)| **size - least > least / METASLABS_MIN);
    let unused: Vec<String> = larger
        .map(|(path, size)| format!("{} of {}", bytes(size - least), path.display()))
        .collect();
    (!unused.is_empty()).then(|| {
        format!(
            "{} stay unused, because {} has {} only and each device of its group is used up to that size",
            unused.join(" and "),
            smallest.display(),
            bytes(*least)
        )
    })
}

/// The size of a file or block device. `None` for other paths: the engine refuses them.
pub fn size_of(path: &Path) -> Option<u64> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    let has_size = kind.is_file() || kind.is_block_device();
    let mut file = has_size.then(|| std::fs::File::open(path).ok())??;
    file.seek(SeekFrom::End(0)).ok()
}

#[cfg(test)]
mod tests {
    use engine::pool::DeviceState;

    use super::*;
    use crate::replace::tests::{device, mirror};

    #[test]
    fn second_spare_is_refused_with_the_first_one_and_the_way_out() {
        let leaf = |name: &str, state| device(name, "file", state);
        let (up, down) = (DeviceState::Online, DeviceState::Faulted);
        let spared = DeviceStatus {
            children: vec![leaf("/b", down), leaf("/s", up)],
            ..device("spare-1", "spare", DeviceState::Degraded)
        };
        let mut pool = mirror(vec![leaf("/a", up), spared]);
        pool.devices.push(DeviceStatus {
            role: Role::Spare,
            ..leaf("/t", DeviceState::Available)
        });
        let refused = |old: &str, new: &str| {
            let failure = refuse_second(&pool, old, new).err()?;
            Some((failure.message, failure.advice.unwrap_or_default()))
        };
        let in_use = "spare /s is in use for /b already";
        for (old, new) in [("/b", "/t"), ("/a", "/s"), ("/b", "/s")] {
            let (message, advice) = refused(old, new).expect("a refusal");
            assert_eq!(message, in_use, "{old} by {new}");
            for part in [
                "`bulkhead pool detach tank /b`",
                "replace-disk tank /b --with",
            ] {
                assert!(advice.contains(part), "{advice}");
            }
        }
        assert_eq!(refused("/a", "/t"), None);
        assert_eq!(refused("/b", "/new"), None);
    }

    #[test]
    fn space_beyond_the_smallest_device_of_a_group_is_named() {
        const MIB: u64 = 1 << 20;
        let devices: Vec<PathBuf> = ["/a", "/b", "/c"].map(PathBuf::from).into();
        let note = |sizes: [u64; 3]| unused_in(&devices, &sizes.map(|size| size * MIB));
        assert_eq!(
            note([1024, 100, 100]).as_deref(),
            Some(
                "924M of /a stay unused, because /b has 100M only and each device of its group is used up to that size"
            )
        );
        let both = note([300, 100, 200]).expect("unused space");
        assert!(
            both.starts_with("200M of /a and 100M of /c stay unused"),
            "{both}"
        );
        assert_eq!(note([100, 100, 100]), None);
        assert_eq!(
            note([110, 100, 112]),
            None,
            "the difference of two models of a disk"
        );
    }
}
