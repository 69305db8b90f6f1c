//! `native/zfs-shim/shim_volume.h`, declaration for declaration. Units, ownership and errors are
//! documented there.

use std::ffi::{c_char, c_int, c_void};

/// An open volume.
#[repr(C)]
pub struct bh_volume {
    _opaque: [u8; 0],
}

/// Blocks pinned for reading.
#[repr(C)]
pub struct bh_read {
    _opaque: [u8; 0],
}

/// Buffers lent for a write.
#[repr(C)]
pub struct bh_write {
    _opaque: [u8; 0],
}

/// An extent locked for a read and a write.
#[repr(C)]
pub struct bh_update {
    _opaque: [u8; 0],
}

/// Contiguous bytes of a loan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_part {
    pub bp_data: *mut u8,
    pub bp_length: u64,
}

/// A run of blocks in one state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_run {
    pub br_length: u64,
    pub br_allocated: u32,
    pub br_reserved: u32,
}

/// Called at the end of a read that was begun.
pub type bh_read_done_t = unsafe extern "C" fn(arg: *mut c_void, read: *mut bh_read, error: i32);

/// Whether a change may still take effect.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_permit {
    pub bp_begin: bh_permit_begin_t,
    pub bp_arg: *const c_void,
}

/// The largest number of bytes that one call reads or lends.
pub const BH_LOAN_BYTES_MAX: u64 = 32 << 20;
/// Flag of `bh_volume_open`.
pub const BH_OPEN_READ_ONLY: u32 = 0x1;
/// The call returns `EAGAIN` instead of blocking.
pub const BH_NO_WAIT: u32 = 0;
/// The call may wait.
pub const BH_MAY_WAIT: u32 = 1;

/// Called to check whether a change may take effect.
pub type bh_permit_begin_t = unsafe extern "C" fn(arg: *const c_void) -> u32;
/// Called with the name of a volume.
pub type bh_name_visitor_t = unsafe extern "C" fn(arg: *mut c_void, name: *const c_char);

/// Called with the name and identity of a file system.
pub type bh_identity_visitor_t =
    unsafe extern "C" fn(arg: *mut c_void, name: *const c_char, identity: u64);

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn bh_file_systems(
        pool: *const c_char,
        visit: bh_identity_visitor_t,
        arg: *mut c_void,
    ) -> c_int;
    pub fn bh_unreplayed_volumes(
        pool: *const c_char,
        visit: bh_name_visitor_t,
        arg: *mut c_void,
    ) -> c_int;
    pub fn bh_volume_count(pool: *const c_char, out: *mut u64) -> c_int;
    pub fn bh_volume_count_at_import(pool: *const c_char, out: *mut u64) -> c_int;
    pub fn bh_volume_is_unreplayed(name: *const c_char, out: *mut u32) -> c_int;
    pub fn bh_volume_open(name: *const c_char, flags: u32, out: *mut *mut bh_volume) -> i32;
    pub fn bh_volume_discard_log(name: *const c_char) -> c_int;
    pub fn bh_volume_close(volume: *mut bh_volume);
    pub fn bh_volume_size(volume: *const bh_volume) -> u64;
    pub fn bh_volume_block_size(volume: *const bh_volume) -> u32;
    pub fn bh_volume_is_read_only(volume: *const bh_volume) -> u32;
    pub fn bh_volume_resize(volume: *mut bh_volume, size: u64) -> i32;

    pub fn bh_volume_rollback(volume: *mut bh_volume, snapshot: *const c_char) -> i32;

    pub fn bh_read_hold(
        volume: *mut bh_volume,
        offset: u64,
        length: u64,
        wait: u32,
        out: *mut *mut bh_read,
    ) -> i32;
    pub fn bh_read_begin(
        volume: *mut bh_volume,
        offset: u64,
        length: u64,
        out: *mut *mut bh_read,
    ) -> i32;
    pub fn bh_read_finish(read: *mut bh_read, done: bh_read_done_t, arg: *mut c_void);
    pub fn bh_read_abandon(read: *mut bh_read);
    pub fn bh_read_parts(read: *const bh_read, count: *mut u64) -> *const bh_part;
    pub fn bh_read_release(read: *mut bh_read);

    pub fn bh_write_lend(
        volume: *mut bh_volume,
        offset: u64,
        length: u64,
        out: *mut *mut bh_write,
    ) -> i32;
    pub fn bh_write_parts(write: *const bh_write, count: *mut u64) -> *const bh_part;
    pub fn bh_write_commit(write: *mut bh_write, wait: u32, permit: *const bh_permit) -> i32;
    pub fn bh_write_discard(write: *mut bh_write);

    pub fn bh_write_copy(
        volume: *mut bh_volume,
        offset: u64,
        data: *const u8,
        length: u64,
        wait: u32,
        permit: *const bh_permit,
    ) -> i32;
    pub fn bh_write_zeroes(
        volume: *mut bh_volume,
        offset: u64,
        length: u64,
        permit: *const bh_permit,
    ) -> i32;
    pub fn bh_free(
        volume: *mut bh_volume,
        offset: u64,
        length: u64,
        permit: *const bh_permit,
    ) -> i32;

    pub fn bh_update_begin(
        volume: *mut bh_volume,
        offset: u64,
        length: u64,
        data: *mut u8,
        out: *mut *mut bh_update,
    ) -> i32;
    pub fn bh_update_end(update: *mut bh_update, data: *const u8) -> i32;

    pub fn bh_flush(volume: *mut bh_volume) -> i32;
    pub fn bh_log_begin(volume: *mut bh_volume) -> i32;
    pub fn bh_status(
        volume: *mut bh_volume,
        offset: u64,
        length: u64,
        runs: *mut bh_run,
        runs_max: u64,
        count: *mut u64,
    ) -> i32;
}
