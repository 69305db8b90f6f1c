//! Core dumps without the heap: blocks in the cache, data of clients, and keys.

use rustix::io::Errno;
use zpool_sys as sys;

/// Excludes all memory of the allocator from core dumps of this process, also memory that it allocates later. Stacks and
/// global variables remain. Call it before the process has threads: the stacks of existing threads are excluded, too.
///
/// # Errors
///
/// The allocator or the kernel refuses; a part of the memory may be excluded.
pub fn exclude_heap() -> Result<(), Errno> {
    // SAFETY: no arguments. The shim changes no memory of this process, only how the kernel dumps it.
    match unsafe { sys::bh_core_exclude_heap() } {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(error)),
    }
}
