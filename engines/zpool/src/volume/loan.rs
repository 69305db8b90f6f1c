//! Loans of the library's buffers. Each holds its volume open until it is dropped.

use std::ptr::NonNull;
use std::sync::Arc;

use block_device::{Commit, DeviceError, ErrorKind, Extent, ReadLoan, WaitMode, WriteLoan};
use zpool_sys as sys;

use super::{Shared, device_error, wait_flag, with_permit};
use crate::parts;

/// Pinned blocks: the range is locked for reading until this is dropped.
pub(super) struct Read {
    pub(super) shared: Arc<Shared>,
    pub(super) raw: NonNull<sys::bh_read>,
    pub(super) length: usize,
}

// SAFETY: the shim allows any thread to release a read, and its parts are immutable.
unsafe impl Send for Read {}

impl ReadLoan for Read {
    fn byte_count(&self) -> usize {
        self.length
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        let mut count = 0;
        // SAFETY: `raw` is live until Drop, and its parts with it; they have no writers while the
        // range is locked for reading.
        unsafe {
            let first = sys::bh_read_parts(self.raw.as_ptr(), &mut count);
            parts::append(first, count, parts);
        }
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        // SAFETY: `raw` came from bh_read_hold and is released once, here, while the volume is
        // still open, which the gate guarantees until `leave`.
        unsafe { sys::bh_read_release(self.raw.as_ptr()) };
        self.shared.gate.leave();
    }
}

/// Buffers to be filled and submitted. The volume may be rolled back to a snapshot concurrently.
pub(super) struct Write {
    shared: Arc<Shared>,
    /// `None` after the commit.
    raw: Option<NonNull<sys::bh_write>>,
    extent: Extent,
}

// SAFETY: the shim does not bind a write loan to a thread.
unsafe impl Send for Write {}

impl Write {
    pub(super) fn new(shared: Arc<Shared>, raw: NonNull<sys::bh_write>, extent: Extent) -> Self {
        Self {
            shared,
            raw: Some(raw),
            extent,
        }
    }
}

impl WriteLoan for Write {
    fn extent(&self) -> Extent {
        self.extent
    }

    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        let Some(raw) = self.raw else { return };
        let mut count = 0;
        // SAFETY: `raw` is live; its parts do not overlap, belong to this loan alone, and are
        // borrowed as long as `self` is.
        unsafe {
            let first = sys::bh_write_parts(raw.as_ptr(), &mut count);
            let raw = std::slice::from_raw_parts(first, count as usize);
            parts.extend(
                raw.iter()
                    .map(|p| std::slice::from_raw_parts_mut(p.bp_data, p.bp_length as usize)),
            );
        }
    }

    fn commit(mut self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit {
        let Some(raw) = self.raw.take() else {
            return Commit::Failed(DeviceError::new(ErrorKind::Failed, "write", self.extent));
        };
        if !self.shared.gate.enter_with_loan(wait_mode.may_block()) {
            self.raw = Some(raw);
            return Commit::WouldBlock(self);
        }
        // SAFETY: `raw` is live, and the volume open and not paused until `leave`; the call frees
        // `raw` unless it returns EAGAIN.
        let code = with_permit(wait_mode, |permit| unsafe {
            sys::bh_write_commit(raw.as_ptr(), wait_flag(wait_mode), permit)
        });
        self.shared.gate.leave();
        match device_error(code, "write", self.extent) {
            Ok(()) => {
                self.shared.note_written();
                Commit::Done
            }
            Err(error) if error.kind == ErrorKind::WouldBlock => {
                self.raw = Some(raw);
                Commit::WouldBlock(self)
            }
            Err(error) => Commit::Failed(error),
        }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            // SAFETY: not committed, so still ours. Buffers belong to the pool, not to the volume;
            // the gate holds both open until they are returned.
            unsafe { sys::bh_write_discard(raw.as_ptr()) };
        }
        self.shared.gate.give_back();
    }
}

/// An empty loan.
pub(super) struct Empty(pub(super) Extent);

impl ReadLoan for Empty {
    fn byte_count(&self) -> usize {
        0
    }
    fn append_parts<'a>(&'a self, _parts: &mut Vec<&'a [u8]>) {}
}

impl WriteLoan for Empty {
    fn extent(&self) -> Extent {
        self.0
    }
    fn append_parts<'a>(&'a mut self, _parts: &mut Vec<&'a mut [u8]>) {}
    fn commit(self: Box<Self>, _: WaitMode<'_>) -> Commit {
        Commit::Done
    }
}
