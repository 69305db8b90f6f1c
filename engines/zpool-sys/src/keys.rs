//! `native/zfs-shim/shim_keys.h`, declaration for declaration. Units, ownership and errors are
//! documented there.

use std::ffi::{c_char, c_void};

/// Bytes of a wrapping key.
pub const BH_KEY_BYTES: u32 = 32;
/// Value of `bk_format`.
pub const BH_KEYFORMAT_NONE: u32 = 0;
/// Value of `bk_format`.
pub const BH_KEYFORMAT_RAW: u32 = 1;
/// Value of `bk_format`.
pub const BH_KEYFORMAT_HEX: u32 = 2;
/// Value of `bk_format`.
pub const BH_KEYFORMAT_PASSPHRASE: u32 = 3;

/// A dataset and its key; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct bh_key_info {
    pub bk_name: *const c_char,
    pub bk_root: *const c_char,
    pub bk_suite: *const c_char,
    pub bk_location: *const c_char,
    pub bk_salt: u64,
    pub bk_iterations: u64,
    pub bk_format: u32,
    pub bk_is_loaded: u32,
}

/// A key that a new encryption root gets; see the header.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct bh_new_key {
    pub bn_suite: *const c_char,
    pub bn_location: *const c_char,
    pub bn_key: *const u8,
    pub bn_salt: u64,
    pub bn_iterations: u64,
    pub bn_format: u32,
    pub bn_reserved: u32,
}

/// Called for each dataset.
pub type bh_key_visitor_t = unsafe extern "C" fn(arg: *mut c_void, info: *const bh_key_info);

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn bh_key_stat(name: *const c_char, visit: bh_key_visitor_t, arg: *mut c_void) -> i32;
    pub fn bh_key_walk(pool: *const c_char, visit: bh_key_visitor_t, arg: *mut c_void) -> i32;
    pub fn bh_key_load(name: *const c_char, key: *const u8, only_check: u32) -> i32;
    pub fn bh_key_unload(name: *const c_char) -> i32;
    pub fn bh_key_change(name: *const c_char, key: *const bh_new_key) -> i32;
}
