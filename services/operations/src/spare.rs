//! Sizes of spares. A spare that is smaller than a device cannot replace it.

use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use control::operations::pool::{DeviceGroup, GroupRole};
use control::words::bytes;
use control::{Failure, FailureKind};
use engine::pool::{GroupSpec, PoolSpec, PoolStatus, Role};

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

/// The size of a file or block device. `None` for other paths: the engine refuses them.
pub fn size_of(path: &Path) -> Option<u64> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    let has_size = kind.is_file() || kind.is_block_device();
    let mut file = has_size.then(|| std::fs::File::open(path).ok())??;
    file.seek(SeekFrom::End(0)).ok()
}
