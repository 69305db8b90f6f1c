//! `native/zfs-shim/shim_dataset.h`, declaration for declaration. Units, ownership and errors
//! are documented there.

use crate::keys::bh_new_key;
use crate::nvlist;
use std::ffi::{c_char, c_void};

/// Value of `bd_kind`.
pub const BH_KIND_FILESYSTEM: u32 = 1;
/// Value of `bd_kind`.
pub const BH_KIND_VOLUME: u32 = 2;
/// Value of `bd_kind`.
pub const BH_KIND_OTHER: u32 = 3;
/// What a walk visits: datasets.
pub const BH_SNAPSHOTS_SKIPPED: u32 = 0;
/// Datasets and snapshots.
pub const BH_SNAPSHOTS_TOO: u32 = 1;
/// Snapshots, without the kind and shape of their datasets.
pub const BH_SNAPSHOTS_ONLY: u32 = 2;

/// One dataset or snapshot; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_dataset {
    pub bd_name: *const c_char,
    pub bd_origin: *const c_char,
    pub bd_guid: u64,
    pub bd_creation_txg: u64,
    pub bd_creation_time_s: u64,
    pub bd_used: u64,
    pub bd_referenced: u64,
    pub bd_available: u64,
    pub bd_logical_referenced: u64,
    pub bd_refreservation: u64,
    pub bd_used_by_data: u64,
    pub bd_used_by_snapshots: u64,
    pub bd_used_by_children: u64,
    pub bd_used_by_reservation: u64,
    pub bd_logical_used: u64,
    pub bd_quota: u64,
    pub bd_reservation: u64,
    pub bd_ref_quota: u64,
    pub bd_written: u64,
    pub bd_compress_percent: u64,
    pub bd_objects: u64,
    pub bd_volume_size: u64,
    pub bd_volume_block_size: u64,
    pub bd_kind: u32,
    pub bd_is_snapshot: u32,
}

/// The root directory of a new file system; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_new_root {
    pub bn_owner: u64,
    pub bn_group: u64,
    pub bn_mode: u64,
    pub bn_access: *const c_void,
    pub bn_access_bytes: u64,
    pub bn_utf8_only: u64,
}

/// Data that is damaged beyond repair; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_damage {
    pub bd_dataset: *const c_char,
    pub bd_offset: u64,
    pub bd_length: u64,
    pub bd_birth_txg: u64,
}

/// Called for each damaged range.
pub type bh_damage_visitor_t = unsafe extern "C" fn(arg: *mut c_void, damage: *const bh_damage);
/// Called for each dataset of a walk.
pub type bh_dataset_visitor_t = unsafe extern "C" fn(arg: *mut c_void, dataset: *const bh_dataset);
/// Called for each changed range of a volume; a result other than 0 ends the comparison.
pub type bh_change_visitor_t =
    unsafe extern "C" fn(arg: *mut c_void, offset: u64, length: u64, freed: i32) -> i32;
/// Called for each property of a walk.
pub type bh_property_visitor_t = unsafe extern "C" fn(
    arg: *mut c_void,
    dataset: *const c_char,
    property: *const c_char,
    value: *const c_char,
);

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn bh_dataset_stat(
        name: *const c_char,
        visit: bh_dataset_visitor_t,
        arg: *mut c_void,
    ) -> i32;
    pub fn bh_dataset_walk(
        name: *const c_char,
        snapshots: u32,
        visit: bh_dataset_visitor_t,
        arg: *mut c_void,
    ) -> i32;
    pub fn bh_user_properties(
        pool: *const c_char,
        prefix: *const c_char,
        visit: bh_property_visitor_t,
        arg: *mut c_void,
    ) -> i32;
    pub fn bh_own_user_properties(
        name: *const c_char,
        prefix: *const c_char,
        visit: bh_property_visitor_t,
        arg: *mut c_void,
    ) -> i32;
    pub fn bh_dataset_properties(name: *const c_char, out: *mut *mut nvlist) -> i32;
    pub fn bh_dataset_set(
        name: *const c_char,
        properties: *mut nvlist,
        bad: *mut c_char,
        bad_size: u64,
    ) -> i32;
    pub fn bh_properties_edit(
        pool: *const c_char,
        datasets: *mut nvlist,
        bad: *mut c_char,
        bad_size: u64,
    ) -> i32;
    pub fn bh_dataset_inherit(name: *const c_char, property: *const c_char) -> i32;
    pub fn bh_property_text(property: *const c_char, value: u64) -> *const c_char;
    pub fn bh_property_values(property: *const c_char) -> *const c_char;
    pub fn bh_filesystem_create(name: *const c_char) -> i32;
    pub fn bh_filesystem_make(
        name: *const c_char,
        root: *const bh_new_root,
        properties: *mut nvlist,
        key: *const bh_new_key,
        bad: *mut c_char,
        bad_size: u64,
    ) -> i32;
    pub fn bh_filesystem_complete(name: *const c_char) -> i32;
    pub fn bh_volume_create(
        name: *const c_char,
        size: u64,
        block_size: u64,
        properties: *mut nvlist,
        key: *const bh_new_key,
        bad: *mut c_char,
        bad_size: u64,
    ) -> i32;
    pub fn bh_volume_reservation(
        pool: *const c_char,
        size: u64,
        block_size: u64,
        copies: u64,
        out: *mut u64,
    ) -> i32;
    pub fn bh_dataset_destroy(name: *const c_char) -> i32;
    pub fn bh_snapshots_destroy(names: *mut nvlist) -> i32;
    pub fn bh_snapshots_create(names: *mut nvlist, properties: *mut nvlist) -> i32;
    pub fn bh_snapshots_hold(holds: *mut nvlist) -> i32;
    pub fn bh_snapshots_release(holds: *mut nvlist) -> i32;
    pub fn bh_snapshot_holds(name: *const c_char, out: *mut *mut nvlist) -> i32;
    pub fn bh_snapshot_changes(
        from: *const c_char,
        to: *const c_char,
        visit: bh_change_visitor_t,
        arg: *mut c_void,
    ) -> i32;
    pub fn bh_dataset_rename(from: *const c_char, to: *const c_char) -> i32;
    pub fn bh_snapshot_rename(
        dataset: *const c_char,
        from: *const c_char,
        to: *const c_char,
    ) -> i32;
    pub fn bh_dataset_clone(
        name: *const c_char,
        snapshot: *const c_char,
        properties: *mut nvlist,
        bad: *mut c_char,
        bad_size: u64,
    ) -> i32;
    pub fn bh_dataset_promote(name: *const c_char, conflict: *mut c_char) -> i32;
    pub fn bh_pool_damage(
        name: *const c_char,
        max: u32,
        visit: bh_damage_visitor_t,
        arg: *mut c_void,
    ) -> i32;
    pub fn bh_dataset_rollback(name: *const c_char, snapshot: *const c_char) -> i32;
}
