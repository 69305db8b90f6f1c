//! `native/zfs-shim/shim.h`, declaration for declaration. Units, ownership and errors are
//! documented there.

use crate::nvlist;
use std::ffi::{c_char, c_void};

/// Settings of the engine; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_engine_options {
    pub arc_bytes_min: u64,
    pub arc_bytes_max: u64,
    pub dirty_bytes_max: u64,
    pub host_id: u32,
    pub txg_timeout_s: u32,
    pub scatter_buffers: u32,
    pub debug_flags: u32,
    pub debug_messages: u32,
    pub library_walks: u32,
    pub multihost_interval_ms: u32,
    pub multihost_fail_intervals: u32,
    pub reason_fd: i32,
}

/// Shape of a device; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_device_shape {
    pub bytes: u64,
    pub logical_block: u32,
    pub physical_block: u32,
    pub merges: u32,
    pub trim: u32,
    pub far: u32,
}

/// Fill the memory from the device.
pub const BH_IO_READ: u32 = 0;
/// Store the memory on the device.
pub const BH_IO_WRITE: u32 = 1;
/// Make completed writes durable.
pub const BH_IO_FLUSH: u32 = 2;
/// The contents are not needed any more.
pub const BH_IO_TRIM: u32 = 3;
/// A flush that may be carried out inside `submit`.
pub const BH_IO_FLUSH_HERE: u32 = 4;
/// A write that may be made durable inside `submit`.
pub const BH_IO_WRITE_HERE: u32 = 5;
/// A write that is flushed as soon as it is done.
pub const BH_IO_WRITE_OF_LOG: u32 = 6;
/// A read of a scrub, a resilver or a rebuild.
pub const BH_IO_READ_OF_COPY: u32 = 7;
/// A scan's read of pointers to blocks, for which a client may wait, too.
pub const BH_IO_READ_OF_SCAN: u32 = 8;
/// As [`BH_IO_WRITE_OF_LOG`], and the thread that submits it receives its reply.
pub const BH_IO_WRITE_AWAITED: u32 = 9;
/// The library completes the I/O on its own thread.
pub const BH_CONTINUE_ELSEWHERE: u32 = 0;
/// The library may complete the I/O on this thread, a driver's, if no further I/O blocks on it.
pub const BH_CONTINUE_HERE: u32 = 1;
/// The library may complete the I/O on this thread, which submitted it and has not returned.
pub const BH_CONTINUE_SUBMITTER: u32 = 2;

/// A scan may take its next step.
pub const BH_SCAN_GO_ON: u32 = 0;
/// A scan continues in the next transaction group.
pub const BH_SCAN_LEAVE: u32 = 1;
/// The step is requested again: the function has blocked for a while.
pub const BH_SCAN_AGAIN: u32 = 2;

/// A step of a scan; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_scan_step {
    pub pool: u64,
    pub group: u64,
    pub is_group_awaited: u32,
    pub are_writers_delayed: u32,
}

/// An I/O of the library.
#[repr(C)]
pub struct bh_io {
    _opaque: [u8; 0],
}

/// Functions of a device driver; see the header.
#[repr(C)]
#[allow(missing_docs)]
pub struct bh_device_driver {
    pub open: unsafe extern "C" fn(
        path: *const c_char,
        vdev_guid: u64,
        writable: u32,
        shape: *mut bh_device_shape,
        device: *mut *mut c_void,
    ) -> i32,
    pub reshape: unsafe extern "C" fn(device: *mut c_void, shape: *mut bh_device_shape) -> i32,
    pub close: unsafe extern "C" fn(device: *mut c_void),
    pub submit: unsafe extern "C" fn(
        device: *mut c_void,
        io: *mut bh_io,
        kind: u32,
        offset: u64,
        length: u64,
    ),
    pub unusable: unsafe extern "C" fn(vdev_guid: u64),
    pub is_far: unsafe extern "C" fn(device: *const c_void) -> u32,
    pub read_load: unsafe extern "C" fn(device: *const c_void) -> u32,
    pub scan_step: unsafe extern "C" fn(step: *const bh_scan_step) -> u32,
    pub scan_read_begins: unsafe extern "C" fn(bytes: u64),
    pub scan_read_ended: unsafe extern "C" fn(bytes: u64),
    pub receive: unsafe extern "C" fn() -> u32,
    pub release: unsafe extern "C" fn(),
}

/// Contiguous memory of an I/O.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_piece {
    pub data: *mut c_void,
    pub length: u64,
}

/// Import even if a log device is missing.
pub const BH_IMPORT_MISSING_LOG: u32 = 1 << 0;
/// Do not wait to see whether another host writes to the pool.
pub const BH_IMPORT_SKIP_ACTIVITY_CHECK: u32 = 1 << 1;
/// Import: refuse the pool if blocks written by the newest transaction groups cannot be read.
pub const BH_IMPORT_CHECK_NEWEST: u32 = 1 << 2;
/// Import: take an older start where the newest one cannot be read.
pub const BH_IMPORT_REWIND: u32 = 1 << 3;

/// The part of a label that describes the device, with its checksum.
pub const BH_LABEL_BYTES: u32 = 112 << 10;

/// Start or resume a scrub.
pub const BH_SCRUB_START: u32 = 1;
/// Pause a scrub.
pub const BH_SCRUB_PAUSE: u32 = 2;
/// Stop a scrub or resilver.
pub const BH_SCRUB_CANCEL: u32 = 3;

/// Start trimming.
pub const BH_TRIM_START: u32 = 1;
/// Stop trimming.
pub const BH_TRIM_CANCEL: u32 = 2;
/// Pause trimming.
pub const BH_TRIM_SUSPEND: u32 = 3;

/// The state that a monitor can read without blocking; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct bh_pool_health {
    pub suspended: u32,
    pub root_state: u32,
    pub synced_txg: u64,
    pub sync_started_ns: u64,
    pub now_ns: u64,
    pub unrecorded_guid: u64,
    pub unrecorded_since_s: u64,
}

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn bh_library_build_id(out: *mut u8, bytes_max: u64, length: *mut u64);
    pub fn bh_library_has_checks() -> i32;
    pub fn bh_library_version(out: *mut c_char, bytes_max: u64) -> i32;
    pub fn bh_core_exclude_heap() -> i32;
    pub fn bh_engine_start(options: *const bh_engine_options) -> i32;
    pub fn bh_layout_check(pool: *const c_char) -> i32;
    pub fn bh_checksum_select(algorithm: *const c_char, implementation: *const c_char) -> i32;
    pub fn bh_cache_bytes(used: *mut u64, max: *mut u64);

    pub fn bh_driver_install(driver: *const bh_device_driver);
    pub fn bh_io_pieces(io: *mut bh_io, pieces: *mut bh_piece, pieces_max: u32) -> u32;
    pub fn bh_io_copy_to(io: *mut bh_io, data: *mut c_void);
    pub fn bh_io_copy_from(io: *mut bh_io, data: *const c_void);
    pub fn bh_io_complete(io: *mut bh_io, error: i32, place: u32);
    pub fn bh_io_give_up(io: *mut bh_io) -> u32;
    pub fn bh_io_suspend(io: *mut bh_io) -> u32;
    pub fn bh_io_resume(io: *mut bh_io);
    pub fn bh_given_up_record();
    pub fn bh_leg_failed(guid: u64);
    pub fn bh_leg_excluded(pool_guid: u64, guid: u64, since: u64);
    pub fn bh_leg_used_again(guid: u64);
    pub fn bh_io_is_binding(io: *mut bh_io) -> u32;
    pub fn bh_io_read_elsewhere(io: *mut bh_io);
    pub fn bh_io_read_here(io: *mut bh_io);
    pub fn bh_pool_leg_missing_data(name: *const c_char, guid: u64, since: u64, waits: u32) -> i32;
    pub fn bh_pool_write_group(name: *const c_char) -> i32;
    pub fn bh_pool_leg_progress(
        name: *const c_char,
        guid: u64,
        synced: *mut u64,
        damaged: *mut u64,
        is_whole: *mut u32,
        is_written: *mut u32,
    ) -> i32;
    pub fn bh_pool_leg_attach(
        name: *const c_char,
        sibling: u64,
        path: *const c_char,
        vdev_tree: *mut nvlist,
        guid: *mut u64,
    ) -> i32;
    pub fn bh_pool_leg_label(
        name: *const c_char,
        guid: u64,
        offset: u64,
        out: *mut c_void,
        least: *mut u64,
    ) -> i32;

    pub fn bh_pool_create(
        name: *const c_char,
        vdev_tree: *mut nvlist,
        properties: *mut nvlist,
    ) -> i32;
    pub fn bh_pool_import(
        name: *const c_char,
        config: *mut nvlist,
        properties: *mut nvlist,
        aux_paths: *mut nvlist,
        flags: u32,
        expected: *const u64,
        expected_count: u32,
    ) -> i32;
    pub fn bh_label_record(number: u64);
    pub fn bh_label_start(rejected: *const u64, count: u32, leaves: u64);
    pub fn bh_label_abandoned(words: *const u64, count: u32, closed: *const u64, closed_count: u32);
    pub fn bh_is_closed_device(guid: u64) -> i32;
    pub fn bh_admit_device(guid: u64);
    pub fn bh_import_behind(list: *const u64, count: u32);
    pub fn bh_leaf_missing_since(
        name: *const c_char,
        guid: u64,
        since: *mut u64,
        first: *mut u64,
    ) -> i32;
    pub fn bh_pool_change_guid(name: *const c_char) -> i32;
    pub fn bh_label_note(pool_guid: u64, text: *const c_char);
    pub fn bh_pool_label_note(name: *const c_char, text: *const c_char) -> i32;
    pub fn bh_pool_export(name: *const c_char, force: u32) -> i32;
    pub fn bh_pool_destroy(name: *const c_char) -> i32;
    pub fn bh_pool_status(name: *const c_char, out: *mut *mut nvlist) -> i32;
    pub fn bh_pool_properties(name: *const c_char, out: *mut *mut nvlist) -> i32;
    pub fn bh_pool_set_properties(name: *const c_char, properties: *mut nvlist) -> i32;
    pub fn bh_pool_property_parse(
        properties: *mut nvlist,
        name: *const c_char,
        text: *const c_char,
        creating: u32,
    ) -> i32;
    pub fn bh_pool_property_word(name: *const c_char, value: u64) -> *const c_char;
    pub fn bh_pool_property_values(name: *const c_char) -> *const c_char;
    pub fn bh_pool_sync(name: *const c_char) -> i32;
    pub fn bh_pool_history_add(name: *const c_char, text: *const c_char) -> i32;
    pub fn bh_pool_history_tail(name: *const c_char, data: *mut c_char, length: *mut u64) -> i32;
    pub fn bh_pool_health(name: *const c_char, out: *mut bh_pool_health) -> i32;
    pub fn bh_pool_scrub(name: *const c_char, command: u32) -> i32;
    pub fn bh_pool_trim(
        name: *const c_char,
        vdev_guids: *const u64,
        count: u32,
        command: u32,
    ) -> i32;
    pub fn bh_pool_clear(name: *const c_char, vdev_guid: u64, resumes: u32) -> i32;
    pub fn bh_pool_may_resume(name: *const c_char, vdev_guids: *const u64, count: u32) -> i32;
    pub fn bh_pool_sync_states(name: *const c_char, out: *mut *mut nvlist) -> i32;
    pub fn bh_vdev_add(name: *const c_char, vdev_tree: *mut nvlist) -> i32;
    pub fn bh_vdev_attach(
        name: *const c_char,
        vdev_guid: u64,
        vdev_tree: *mut nvlist,
        replacing: u32,
    ) -> i32;
    pub fn bh_vdev_detach(name: *const c_char, vdev_guid: u64) -> i32;
    pub fn bh_vdev_remove(name: *const c_char, vdev_guid: u64) -> i32;
    pub fn bh_vdev_online(name: *const c_char, vdev_guid: u64, expand: u32, state: *mut u32)
    -> i32;
    pub fn bh_vdev_offline(name: *const c_char, vdev_guid: u64, temporary: u32) -> i32;
    pub fn bh_vdev_fault(name: *const c_char, vdev_guid: u64) -> i32;
    pub fn bh_feature_name(index: u32) -> *const c_char;
}

/// Places of the members of `vdev_stat_t`, which the library passes as an array of `u64`.
#[allow(missing_docs)]
pub mod vdev_stat {
    pub const STATE: usize = 1;
    pub const AUX: usize = 2;
    pub const ALLOC: usize = 3;
    pub const SPACE: usize = 4;
    pub const RSIZE: usize = 6;
    pub const ESIZE: usize = 7;
    /// One per kind of I/O: none, read, write, ...
    pub const OPS: usize = 8;
    /// One per kind of I/O.
    pub const BYTES: usize = 14;
    pub const READ_ERRORS: usize = 20;
    pub const WRITE_ERRORS: usize = 21;
    pub const CHECKSUM_ERRORS: usize = 22;
    pub const SCAN_PROCESSED: usize = 26;
    pub const FRAGMENTATION: usize = 27;
    pub const SLOW_IOS: usize = 34;
}

/// Places of the members of `pool_scan_stat_t`, which the library passes as an array of `u64`.
#[allow(missing_docs)]
pub mod scan_stat {
    pub const FUNC: usize = 0;
    pub const STATE: usize = 1;
    pub const START_TIME: usize = 2;
    pub const END_TIME: usize = 3;
    pub const TO_EXAMINE: usize = 4;
    pub const SKIPPED: usize = 6;
    pub const PROCESSED: usize = 7;
    pub const ERRORS: usize = 8;
    pub const PASS_START: usize = 10;
    pub const PASS_SCRUB_PAUSE: usize = 11;
    pub const PASS_SCRUB_SPENT_PAUSED: usize = 12;
    pub const PASS_ISSUED: usize = 13;
    pub const ISSUED: usize = 14;
}

/// Places of the members of `pool_removal_stat_t`, which the library passes as an array of `u64`.
#[allow(missing_docs)]
pub mod removal_stat {
    pub const STATE: usize = 0;
    pub const REMOVING_VDEV: usize = 1;
    pub const START_TIME: usize = 2;
    pub const END_TIME: usize = 3;
    pub const TO_COPY: usize = 4;
    pub const COPIED: usize = 5;
}

/// Places of the members of `pool_raidz_expand_stat_t`, which the library passes as an array of `u64`.
#[allow(missing_docs)]
pub mod expand_stat {
    pub const STATE: usize = 0;
    pub const EXPANDING_VDEV: usize = 1;
    pub const START_TIME: usize = 2;
    pub const END_TIME: usize = 3;
    pub const TO_REFLOW: usize = 4;
    pub const REFLOWED: usize = 5;
    pub const WAITING_FOR_RESILVER: usize = 6;
}
