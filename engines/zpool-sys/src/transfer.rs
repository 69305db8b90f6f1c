//! `native/zfs-shim/shim_transfer.h`, declaration for declaration. Units, ownership and errors
//! are documented there.

use crate::nvlist;
use std::ffi::{c_char, c_int, c_void};

/// Length of a record of a stream.
pub const BH_RECORD_BYTES: usize = 312;

/// Tiny blocks travel inside their records.
pub const BH_SEND_EMBEDDED: u32 = 1 << 0;
/// Blocks of more than 128K are not split.
pub const BH_SEND_LARGE_BLOCKS: u32 = 1 << 1;
/// Blocks stay compressed as they are stored.
pub const BH_SEND_COMPRESSED: u32 = 1 << 2;
/// Blocks stay encrypted as they are stored.
pub const BH_SEND_RAW: u32 = 1 << 3;

/// Roll back the changes since the stream's base.
pub const BH_RECEIVE_FORCE: u32 = 1 << 0;
/// Retain the partial state of an interrupted stream.
pub const BH_RECEIVE_RESUMABLE: u32 = 1 << 1;

/// Consumes bytes of a stream.
pub type bh_send_sink_t =
    unsafe extern "C" fn(arg: *mut c_void, data: *const c_void, length: u64) -> c_int;
/// Called for each bookmark.
pub type bh_bookmark_visitor_t = unsafe extern "C" fn(
    arg: *mut c_void,
    name: *const c_char,
    guid: u64,
    creation_txg: u64,
    creation_time_s: u64,
);

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn bh_send(
        snapshot: *const c_char,
        from: *const c_char,
        flags: u32,
        resume_object: u64,
        resume_offset: u64,
        sink: bh_send_sink_t,
        arg: *mut c_void,
    ) -> i32;
    pub fn bh_send_estimate(
        snapshot: *const c_char,
        from: *const c_char,
        flags: u32,
        bytes: *mut u64,
    ) -> i32;
    pub fn bh_receive(
        volume: *const c_char,
        tag: *const c_char,
        origin: *const c_char,
        begin: *mut c_void,
        flags: u32,
        properties: *mut nvlist,
        fd: i32,
    ) -> i32;
    pub fn bh_receive_token(
        volume: *const c_char,
        token: *mut c_char,
        token_size: u64,
        is_partial: *mut u32,
    ) -> i32;
    pub fn bh_receive_abort(volume: *const c_char) -> i32;
    pub fn bh_bookmark_create(bookmark: *const c_char, of: *const c_char) -> i32;
    pub fn bh_bookmark_destroy(bookmark: *const c_char) -> i32;
    pub fn bh_bookmarks(
        dataset: *const c_char,
        visit: bh_bookmark_visitor_t,
        arg: *mut c_void,
    ) -> i32;
}
