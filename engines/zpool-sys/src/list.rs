//! libnvpair, as far as the safe layer uses it (`<libnvpair.h>`).

use std::ffi::{c_char, c_int, c_uint};

/// A list of named, typed values.
#[repr(C)]
pub struct nvlist {
    _opaque: [u8; 0],
}

/// One named value inside an [`nvlist`].
#[repr(C)]
pub struct nvpair {
    _opaque: [u8; 0],
}

/// Flag of `nvlist_alloc`: a name occurs once; adding it again replaces it.
pub const NV_UNIQUE_NAME: c_uint = 0x1;
/// Encoding of `nvlist_pack` that is independent of the byte order.
pub const NV_ENCODE_XDR: c_int = 1;

/// Value of `nvpair_type`: present, without a value.
pub const DATA_TYPE_BOOLEAN: c_int = 1;
/// Value of `nvpair_type`: `i32`.
pub const DATA_TYPE_INT32: c_int = 5;
/// Value of `nvpair_type`: `u32`.
pub const DATA_TYPE_UINT32: c_int = 6;
/// Value of `nvpair_type`: `i64`.
pub const DATA_TYPE_INT64: c_int = 7;
/// Value of `nvpair_type`: `u64`.
pub const DATA_TYPE_UINT64: c_int = 8;
/// Value of `nvpair_type`: text.
pub const DATA_TYPE_STRING: c_int = 9;
/// Value of `nvpair_type`: an array of `u64`.
pub const DATA_TYPE_UINT64_ARRAY: c_int = 16;
/// Value of `nvpair_type`: another list.
pub const DATA_TYPE_NVLIST: c_int = 19;
/// Value of `nvpair_type`: an array of lists.
pub const DATA_TYPE_NVLIST_ARRAY: c_int = 20;
/// Value of `nvpair_type`: true or false.
pub const DATA_TYPE_BOOLEAN_VALUE: c_int = 21;
/// Value of `nvpair_type`: `u8`.
pub const DATA_TYPE_UINT8: c_int = 23;

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn nvlist_alloc(out: *mut *mut nvlist, flags: c_uint, kmflag: c_int) -> c_int;
    pub fn nvlist_free(list: *mut nvlist);
    pub fn nvlist_dup(list: *const nvlist, out: *mut *mut nvlist, kmflag: c_int) -> c_int;
    pub fn nvlist_pack(
        list: *mut nvlist,
        out: *mut *mut c_char,
        length: *mut usize,
        encoding: c_int,
        kmflag: c_int,
    ) -> c_int;
    pub fn nvlist_unpack(
        bytes: *mut c_char,
        length: usize,
        out: *mut *mut nvlist,
        kmflag: c_int,
    ) -> c_int;
    pub fn nvlist_add_boolean(list: *mut nvlist, name: *const c_char) -> c_int;
    pub fn nvlist_add_uint64(list: *mut nvlist, name: *const c_char, value: u64) -> c_int;
    pub fn nvlist_add_string(list: *mut nvlist, name: *const c_char, value: *const c_char)
    -> c_int;
    pub fn nvlist_add_nvlist(list: *mut nvlist, name: *const c_char, value: *const nvlist)
    -> c_int;
    pub fn nvlist_add_uint64_array(
        list: *mut nvlist,
        name: *const c_char,
        values: *const u64,
        count: c_uint,
    ) -> c_int;
    pub fn nvlist_add_nvlist_array(
        list: *mut nvlist,
        name: *const c_char,
        values: *const *const nvlist,
        count: c_uint,
    ) -> c_int;
    pub fn nvlist_remove_all(list: *mut nvlist, name: *const c_char) -> c_int;
    pub fn nvlist_lookup_nvpair(
        list: *mut nvlist,
        name: *const c_char,
        out: *mut *mut nvpair,
    ) -> c_int;
    pub fn nvlist_next_nvpair(list: *mut nvlist, after: *const nvpair) -> *mut nvpair;
    pub fn nvpair_name(pair: *const nvpair) -> *const c_char;
    pub fn nvpair_type(pair: *const nvpair) -> c_int;
    pub fn nvpair_value_boolean_value(pair: *const nvpair, value: *mut c_uint) -> c_int;
    pub fn nvpair_value_uint8(pair: *const nvpair, value: *mut u8) -> c_int;
    pub fn nvpair_value_int32(pair: *const nvpair, value: *mut i32) -> c_int;
    pub fn nvpair_value_uint32(pair: *const nvpair, value: *mut u32) -> c_int;
    pub fn nvpair_value_int64(pair: *const nvpair, value: *mut i64) -> c_int;
    pub fn nvpair_value_uint64(pair: *const nvpair, value: *mut u64) -> c_int;
    pub fn nvpair_value_string(pair: *const nvpair, value: *mut *const c_char) -> c_int;
    pub fn nvpair_value_nvlist(pair: *mut nvpair, value: *mut *mut nvlist) -> c_int;
    pub fn nvpair_value_uint64_array(
        pair: *mut nvpair,
        values: *mut *mut u64,
        count: *mut c_uint,
    ) -> c_int;
    pub fn nvpair_value_nvlist_array(
        pair: *mut nvpair,
        values: *mut *mut *mut nvlist,
        count: *mut c_uint,
    ) -> c_int;
}
