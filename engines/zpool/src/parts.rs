//! Memory that the library lends, as slices.

use zpool_sys as sys;

/// Appends `count` parts that lie one behind the other, the first one at `first`.
///
/// # Safety
///
/// All parts are valid, and no thread writes to them, for as long as the slices are used.
pub(crate) unsafe fn append(first: *const sys::bh_part, count: u64, parts: &mut Vec<&[u8]>) {
    // SAFETY: as the caller promises.
    let raw = unsafe { std::slice::from_raw_parts(first, count as usize) };
    parts.extend(raw.iter().map(|part| {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(part.bp_data.cast_const(), part.bp_length as usize) }
    }));
}
