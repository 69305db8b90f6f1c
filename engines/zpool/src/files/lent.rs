//! File contents in the library's own buffers. Each loan holds its file system open until it is dropped.

use std::ptr::NonNull;
use std::sync::Arc;

use block_device::ReadLoan;
use zpool_sys as sys;

use super::Open;
use crate::parts;

/// Pinned blocks. `zpl` blocks all changes of the file until this is dropped.
pub(super) struct Lent {
    pub(super) open: Arc<Open>,
    pub(super) raw: NonNull<sys::bh_files_loan>,
    pub(super) length: usize,
}

// SAFETY: the shim allows any thread to release a loan, and its parts are immutable.
unsafe impl Send for Lent {}

impl ReadLoan for Lent {
    fn byte_count(&self) -> usize {
        self.length
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        let mut count = 0;
        // SAFETY: `raw` is live until Drop, and its parts with it; they have no writers while the file is locked
        // against changes.
        unsafe {
            let first = sys::bh_files_loan_parts(self.raw.as_ptr(), &mut count);
            parts::append(first, count, parts);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: `raw` came from bh_files_lend and is released once, here, while the file system is still open, which the gate
        // guarantees until `leave`.
        unsafe { sys::bh_files_loan_release(self.raw.as_ptr()) };
        self.open.gate.leave();
    }
}
