//! Legs of an open pool, by their GUIDs: their missing data, and the progress of their return.
//!
//! By the name of the pool rather than a [`Pool`](super::Pool): the owner of the legs' record calls this independently
//! of the pool's holder.

use std::path::Path;
use std::time::{Duration, SystemTime};

use engine::pool::GroupSpec;
use units::PoolName;
use zpool_sys as sys;

use super::{c_text, label, spec};
use crate::device::write_labels;
use crate::error::{PoolError, PoolErrorKind, SystemError};
use crate::nvlist::NvList;

/// The progress of a leg's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegProgress {
    /// The last synced transaction group of the pool.
    pub synced_group: u64,
    /// How often a read of it failed or returned wrong data since the pool was opened, or since its errors were
    /// cleared.
    pub damaged_reads: u64,
    /// Whether it is in use and complete, and no copy is active.
    pub is_whole: bool,
    /// Whether the library reads from it and writes to it.
    pub is_written: bool,
}

/// The newest uberblocks on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestRoots {
    /// The transaction group of the newest one.
    pub group: u64,
    /// That of the previous one; 0 if there is none.
    pub before: u64,
    /// When the newest one was written.
    pub time: SystemTime,
}

/// The newest uberblocks on the device at `path`; `None` if none can be read.
pub fn newest_roots(path: &Path) -> Option<NewestRoots> {
    let (root, before) = label::newest_uberblocks(path)?;
    Some(NewestRoots {
        group: root.txg,
        before,
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(root.time_s),
    })
}

/// Records in the pool that the leg misses the writes since the group `since`. On disk on return if `waits`, otherwise
/// with the open transaction group.
///
/// # Errors
///
/// The pool is not open.
pub fn note_missing_data(
    pool: &PoolName,
    leg: u64,
    since: u64,
    waits: bool,
) -> Result<(), PoolError> {
    let name = c_text(pool.as_str());
    // SAFETY: the library runs; the name is valid for the call.
    let code = unsafe { sys::bh_pool_leg_missing_data(name.as_ptr(), leg, since, waits.into()) };
    checked("record the missing data of a leg", pool, code)
}

/// The progress of the leg's return.
///
/// # Errors
///
/// The pool is not open.
pub fn progress(pool: &PoolName, leg: u64) -> Result<LegProgress, PoolError> {
    let name = c_text(pool.as_str());
    let (mut synced_group, mut damaged_reads) = (0, 0);
    let (mut is_whole, mut is_written) = (0, 0);
    // SAFETY: the library runs; the name and each result pointer are valid for the call.
    let code = unsafe {
        sys::bh_pool_leg_progress(
            name.as_ptr(),
            leg,
            &mut synced_group,
            &mut damaged_reads,
            &mut is_whole,
            &mut is_written,
        )
    };
    checked("look at a leg", pool, code)?;
    Ok(LegProgress {
        synced_group,
        damaged_reads,
        is_whole: is_whole != 0,
        is_written: is_written != 0,
    })
}

/// Reopens the leg in the library, and copies its missing data.
///
/// # Errors
///
/// The pool is not open, or is suspended.
pub fn bring_back(pool: &PoolName, leg: u64) -> Result<(), PoolError> {
    let name = c_text(pool.as_str());
    // SAFETY: as above.
    let code = unsafe { sys::bh_pool_clear(name.as_ptr(), leg, 0) };
    checked("bring a leg back", pool, code)
}

/// Reopens the last leg in the library, which is complete, and resumes the pool if it is suspended.
///
/// # Errors
///
/// The pool is not open, or it is suspended again at once.
pub fn resume_with_leg(pool: &PoolName, leg: u64) -> Result<(), PoolError> {
    let name = c_text(pool.as_str());
    // SAFETY: as above.
    let code = unsafe { sys::bh_pool_clear(name.as_ptr(), leg, 1) };
    checked("resume with the last leg", pool, code)
}

/// Writes a transaction group, with labels: on return it is on all devices that are in use, and they were flushed.
///
/// # Errors
///
/// The pool is not open.
pub fn write_group(pool: &PoolName) -> Result<(), PoolError> {
    let name = c_text(pool.as_str());
    // SAFETY: as above.
    let code = unsafe { sys::bh_pool_write_group(name.as_ptr()) };
    checked("write a transaction group", pool, code)
}

/// Attaches the device at `path`, which has its labels overwritten, to the mirror of the leg `sibling`, or forms one
/// with it: all data is copied to it. Returns the GUID that the library assigned.
///
/// # Errors
///
/// The pool is not open, or the library rejects the device.
pub fn attach(pool: &PoolName, sibling: u64, path: &Path) -> Result<u64, PoolError> {
    const DOING: &str = "attach a leg";
    erase_labels(DOING, pool, path)?;
    let (name, text) = (c_text(pool.as_str()), c_text(&path.to_string_lossy()));
    let mut tree = NvList::new();
    tree.set_text("type", "root");
    tree.set_lists("children", &[spec::leaf(path, None)]);
    let mut leg = 0;
    // SAFETY: the library runs; names and list are valid for the call and are copied, and the result pointer is valid.
    let code = unsafe {
        sys::bh_pool_leg_attach(
            name.as_ptr(),
            sibling,
            text.as_ptr(),
            tree.as_raw(),
            &mut leg,
        )
    };
    checked(DOING, pool, code)?;
    Ok(leg)
}

/// Adds groups of new legs to the pool, with their labels overwritten. `sibling`: a leg of the pool, with the sector
/// size that they get.
///
/// # Errors
///
/// The pool is not open, or the library rejects a device.
pub fn add(pool: &PoolName, groups: &[GroupSpec], sibling: u64) -> Result<(), PoolError> {
    const DOING: &str = "add legs to";
    let (text, _) = label(pool, sibling, 0)?;
    let label = NvList::unpack(&text);
    let group = label
        .as_ref()
        .and_then(|list| list.view().list("vdev_tree"));
    let ashift = group.and_then(|group| group.u64("ashift"));
    for path in groups.iter().flat_map(|group| &group.devices) {
        erase_labels(DOING, pool, path)?;
    }
    let tree = spec::vdev_tree(groups, ashift)
        .map_err(|kind| PoolError::new(DOING, pool.as_str(), kind))?;
    let name = c_text(pool.as_str());
    // SAFETY: the library runs; name and list are valid for the call and are copied.
    let code = unsafe { sys::bh_vdev_add(name.as_ptr(), tree.as_raw()) };
    checked(DOING, pool, code)
}

/// Overwrites the labels of a device, so that no pool is found on it.
///
/// # Errors
///
/// It cannot be written.
pub fn erase_labels(doing: &'static str, pool: &PoolName, path: &Path) -> Result<(), PoolError> {
    write_labels(path, 0, |_| Ok(vec![0; sys::BH_LABEL_BYTES as usize])).map_err(|why| {
        PoolError::new(
            doing,
            pool.as_str(),
            PoolErrorKind::DeviceUnusable {
                path: path.to_owned(),
                why,
            },
        )
    })
}

/// Whether the library has a device with that number in the pool.
pub fn is_part(pool: &PoolName, leg: u64) -> bool {
    label(pool, leg, 0).is_ok()
}

/// The label of a leg without any data, for `offset` of its device, and the minimum bytes of a device that can replace
/// the leg.
///
/// # Errors
///
/// The pool is not open.
pub fn label(pool: &PoolName, leg: u64, offset: u64) -> Result<(Vec<u8>, u64), PoolError> {
    let name = c_text(pool.as_str());
    let (mut text, mut least) = (vec![0; sys::BH_LABEL_BYTES as usize], 0);
    // SAFETY: the library runs; the name and each result pointer are valid for the call, with the lengths in the
    // header.
    let code = unsafe {
        sys::bh_pool_leg_label(
            name.as_ptr(),
            leg,
            offset,
            text.as_mut_ptr().cast(),
            &mut least,
        )
    };
    checked("make the label of a leg", pool, code)?;
    Ok((text, least))
}

fn checked(doing: &'static str, pool: &PoolName, code: i32) -> Result<(), PoolError> {
    SystemError::check(code).map_err(|cause| PoolError::common(doing, pool.as_str(), cause))
}
