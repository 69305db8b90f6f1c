//! `native/zfs-shim/shim_files.h`, declaration for declaration. Meaning, ownership and errors are documented there.

use std::ffi::{c_char, c_int, c_void};

use crate::bh_part;

/// An open file system.
#[repr(C)]
pub struct bh_files {
    _opaque: [u8; 0],
}

/// Blocks of a file that are pinned for reading.
#[repr(C)]
pub struct bh_files_loan {
    _opaque: [u8; 0],
}

/// The attributes of a file system.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_files_facts {
    pub version: u64,
    pub identity: u64,
    pub objset: u64,
    pub root: u64,
    pub unlinked: u64,
    pub receipts: u64,
    pub normalization: u64,
    pub utf8only: u64,
    pub casesensitivity: u64,
    pub acltype: u64,
    pub system_attributes: u64,
    pub read_only: u32,
    pub fixed: u32,
    pub log_waits: u32,
    pub log_is_foreign: u32,
}

/// Attributes of an object.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_node {
    pub mode: u64,
    pub size: u64,
    pub generation: u64,
    pub uid: u64,
    pub gid: u64,
    pub parent: u64,
    pub flags: u64,
    pub atime_s: u64,
    pub atime_ns: u64,
    pub mtime_s: u64,
    pub mtime_ns: u64,
    pub ctime_s: u64,
    pub ctime_ns: u64,
    pub crtime_s: u64,
    pub crtime_ns: u64,
    pub links: u64,
    pub project: u64,
    pub device: u64,
    pub extended: u64,
    pub has: u64,
    pub block_size: u64,
    pub space: u64,
    pub slots: u64,
    pub last_block: u64,
}

/// An entry of a directory, before its name.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_entry {
    pub cursor: u64,
    pub value: u64,
    pub name_length: u64,
}

/// A step of a change.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_step {
    pub kind: u32,
    pub flags: u32,
    pub object: u64,
    pub value: u64,
    pub block_size: u64,
    pub node: *const bh_node,
    pub name: *const c_char,
    pub data: *const u8,
    pub length: u64,
}

/// The result of a change.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_changed {
    pub object: u64,
    pub group: u64,
}

/// An entry of a list of quotas.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_quota {
    pub list: *const c_char,
    pub key: *const c_char,
    pub limit: u64,
}

/// Called for each record of a log.
pub type bh_record_visitor_t =
    unsafe extern "C" fn(arg: *mut c_void, kind: u64, data: *const u8, length: u64) -> i32;

/// A bit of `has`.
pub const BH_HAS_MODE: u64 = 1 << 0;
/// A bit of `has`.
pub const BH_HAS_SIZE: u64 = 1 << 1;
/// A bit of `has`.
pub const BH_HAS_GENERATION: u64 = 1 << 2;
/// A bit of `has`.
pub const BH_HAS_UID: u64 = 1 << 3;
/// A bit of `has`.
pub const BH_HAS_GID: u64 = 1 << 4;
/// A bit of `has`.
pub const BH_HAS_PARENT: u64 = 1 << 5;
/// A bit of `has`.
pub const BH_HAS_FLAGS: u64 = 1 << 6;
/// A bit of `has`.
pub const BH_HAS_ATIME: u64 = 1 << 7;
/// A bit of `has`.
pub const BH_HAS_MTIME: u64 = 1 << 8;
/// A bit of `has`.
pub const BH_HAS_CTIME: u64 = 1 << 9;
/// A bit of `has`.
pub const BH_HAS_CRTIME: u64 = 1 << 10;
/// A bit of `has`.
pub const BH_HAS_LINKS: u64 = 1 << 11;
/// A bit of `has`.
pub const BH_HAS_PROJECT: u64 = 1 << 12;
/// A bit of `has`.
pub const BH_HAS_DEVICE: u64 = 1 << 13;
/// A bit of `has`.
pub const BH_HAS_EXTENDED: u64 = 1 << 14;
/// An attribute of variable length.
pub const BH_TEXT_LINK: u32 = 0;
/// An attribute of variable length.
pub const BH_TEXT_ACL: u32 = 1;
/// An attribute of variable length.
pub const BH_TEXT_EXTENDED: u32 = 2;
/// A property.
pub const BH_SETTING_SNAPDIR: u32 = 0;
/// A property.
pub const BH_SETTING_ACLMODE: u32 = 1;
/// A property.
pub const BH_SETTING_ACLINHERIT: u32 = 2;
/// A property.
pub const BH_SETTING_ACLTYPE: u32 = 3;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_MAKE: u32 = 0;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_SET: u32 = 1;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_ENTER: u32 = 2;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_LEAVE: u32 = 3;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_UNLINK: u32 = 4;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_FORGET: u32 = 5;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_FREE: u32 = 6;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_WRITE: u32 = 7;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_LOG: u32 = 8;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_EXTEND: u32 = 9;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_CLONE: u32 = 10;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_HOLE: u32 = 11;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_OF_NEW: u32 = 1;
/// Value of `kind`, or a bit of `flags`.
pub const BH_STEP_REPLACES: u32 = 2;
/// A bit of `flags`.
pub const BH_CHANGE_FREES: u32 = 1;
/// A bit of the result of [`bh_files_counted`].
pub const BH_COUNTED_BYTES: u32 = 1;
/// A bit of the result of [`bh_files_counted`].
pub const BH_COUNTED_OBJECTS: u32 = 2;
/// A bit of the result of [`bh_files_counted`].
pub const BH_COUNTED_PROJECTS: u32 = 4;

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn bh_files_open(
        name: *const c_char,
        read_only: u32,
        out: *mut *mut bh_files,
        facts: *mut bh_files_facts,
    ) -> c_int;
    pub fn bh_files_close(files: *mut bh_files);
    pub fn bh_files_node(files: *mut bh_files, object: u64, out: *mut bh_node) -> c_int;
    pub fn bh_files_text(
        files: *mut bh_files,
        object: u64,
        which: u32,
        data: *mut u8,
        length: *mut u64,
    ) -> c_int;
    pub fn bh_files_look_up(
        files: *mut bh_files,
        directory: u64,
        name: *const c_char,
        value: *mut u64,
    ) -> c_int;
    pub fn bh_files_list(
        files: *mut bh_files,
        directory: u64,
        cursor: u64,
        data: *mut u8,
        bytes_max: u64,
        bytes: *mut u64,
        end: *mut u32,
    ) -> c_int;
    pub fn bh_files_count(files: *mut bh_files, directory: u64, count: *mut u64) -> c_int;
    pub fn bh_files_read(
        files: *mut bh_files,
        object: u64,
        offset: u64,
        data: *mut u8,
        length: u64,
    ) -> c_int;
    pub fn bh_files_lend(
        files: *mut bh_files,
        object: u64,
        offset: u64,
        length: u64,
        out: *mut *mut bh_files_loan,
    ) -> c_int;
    pub fn bh_files_loan_parts(loan: *const bh_files_loan, count: *mut u64) -> *const bh_part;
    pub fn bh_files_loan_release(loan: *mut bh_files_loan);
    pub fn bh_files_next(files: *mut bh_files, object: u64, hole: u32, offset: *mut u64) -> c_int;
    pub fn bh_files_next_object(files: *mut bh_files, object: *mut u64) -> c_int;
    pub fn bh_files_space(
        files: *mut bh_files,
        used: *mut u64,
        available: *mut u64,
        objects: *mut u64,
        objects_available: *mut u64,
    );
    pub fn bh_files_record_size(files: *mut bh_files) -> u64;
    pub fn bh_files_setting(files: *mut bh_files, which: u32) -> u64;
    pub fn bh_files_snapshots(
        files: *mut bh_files,
        cursor: u64,
        data: *mut u8,
        bytes_max: u64,
        bytes: *mut u64,
        end: *mut u32,
    ) -> c_int;
    pub fn bh_files_find_snapshot(
        files: *mut bh_files,
        name: *const c_char,
        number: *mut u64,
    ) -> c_int;
    pub fn bh_files_snapshot_name(files: *mut bh_files, number: u64, name: *mut c_char) -> c_int;
    pub fn bh_files_snapshots_changed(
        files: *mut bh_files,
        seconds: *mut u64,
        nanoseconds: *mut u64,
    );
    pub fn bh_files_change(
        files: *mut bh_files,
        steps: *const bh_step,
        count: u32,
        flags: u32,
        out: *mut bh_changed,
    ) -> c_int;
    pub fn bh_files_free(files: *mut bh_files, object: u64, offset: u64, length: u64) -> c_int;
    pub fn bh_files_commit(files: *mut bh_files) -> c_int;
    pub fn bh_files_make_receipts(files: *mut bh_files, object: *mut u64) -> c_int;
    pub fn bh_files_settle(files: *mut bh_files);
    pub fn bh_files_set_quotas(files: *mut bh_files, quotas: *const bh_quota, count: u32) -> c_int;
    pub fn bh_files_counted(files: *mut bh_files) -> u32;
    pub fn bh_files_log_walk(
        files: *mut bh_files,
        visit: bh_record_visitor_t,
        arg: *mut c_void,
    ) -> c_int;
    pub fn bh_files_log_replay(
        files: *mut bh_files,
        visit: bh_record_visitor_t,
        arg: *mut c_void,
    ) -> c_int;
}
