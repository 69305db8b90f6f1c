//! The damage beyond repair that a pool has recorded: datasets, and extents of volumes.

use std::ffi::c_void;

use engine::dataset::Damage;
use units::ByteCount;
use zpool_sys as sys;

use crate::error::{PoolError, SystemError};
use crate::nvlist::text;
use crate::pool::Pool;

/// Maximum number of damaged ranges that are reported.
const DAMAGES_MAX: u32 = 100;

/// # Safety
/// `arg` is a `&mut Vec<Damage>` and `damage` a valid structure.
unsafe extern "C" fn collect(arg: *mut c_void, damage: *const sys::bh_damage) {
    // SAFETY: promised by the caller.
    let (found, raw) = unsafe { (&mut *arg.cast::<Vec<Damage>>(), &*damage) };
    // SAFETY: the shim sets it to NUL-terminated text.
    let dataset = unsafe { text(raw.bd_dataset) };
    found.push(Damage {
        dataset: (!dataset.is_empty()).then_some(dataset),
        extent: (raw.bd_length > 0).then_some((raw.bd_offset, ByteCount(raw.bd_length))),
        birth_txg: (raw.bd_birth_txg > 0).then_some(raw.bd_birth_txg),
    });
}

impl Pool {
    pub(crate) fn damaged_ranges(&self) -> Result<Vec<Damage>, PoolError> {
        let mut found: Vec<Damage> = Vec::new();
        // SAFETY: the library runs; the name is read only; `found` outlives the call, which is
        // when the visitor runs.
        let code = unsafe {
            let (name, arg) = (self.c_name().as_ptr(), (&raw mut found).cast());
            sys::bh_pool_damage(name, DAMAGES_MAX, collect, arg)
        };
        SystemError::check(code).map_err(|cause| {
            PoolError::common("look for damage in", self.name().as_str(), cause)
        })?;
        Ok(found)
    }
}
