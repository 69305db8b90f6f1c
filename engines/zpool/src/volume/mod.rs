//! The I/O of a volume: a zvol's blocks, lent without a copy, behind [`BlockDevice`].
//!
//! All state is in the shim and the library; this layer wraps it safely: a [`Gate`] holds the volume open while any
//! call or loan uses it, and a counter of completed changes allows a flush of a clean volume to return at once.

mod loan;
mod pause;
mod pending;
mod unreplayed;

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block_device::{
    Begun, BlockDevice, DeviceError, ErrorKind, Extent, Geometry, ReadLoan, StatusRun, Update,
    WaitMode, WriteLoan, Zero,
};
use engine::dataset::{DatasetError, DatasetErrorKind};
use engine::gate::{Gate, Shut};
use engine::volume::OpenOptions;
use rustix::io::Errno;
use zpool_sys as sys;

use crate::device;
use crate::error::SystemError;
use crate::pool::c_text;

/// The library's name for "a checksum does not match" (`EBADE`).
const ECKSUM: i32 = 52;
/// Runs that one status call collects at most, whatever the caller would take.
const STATUS_RUNS_MAX: usize = 16_384;

/// An open volume or snapshot of one. One per volume at a time; share it with an [`Arc`].
pub struct Volume {
    shared: Arc<Shared>,
}

struct Shared {
    raw: NonNull<sys::bh_volume>,
    gate: Gate,
    name: String,
    logical_block: u32,
    physical_block: u32,
    read_only: bool,
    size: AtomicU64,
    /// Number of completed changes, and how many of them a flush has made durable.
    written: AtomicU64,
    durable: AtomicU64,
}

// SAFETY: the shim's volume functions may be called from any thread, several at a time; `raw` is
// used only between `gate.enter` and `gate.leave`, and closed after the gate has closed.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn note_written(&self) {
        self.written.fetch_add(1, Ordering::Release);
    }
}

/// A use of the volume during one call.
struct Using<'a>(&'a Shared);

impl Using<'_> {
    fn raw(&self) -> *mut sys::bh_volume {
        self.0.raw.as_ptr()
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

fn wait_flag(wait_mode: WaitMode<'_>) -> u32 {
    match wait_mode.may_block() {
        false => sys::BH_NO_WAIT,
        true => sys::BH_MAY_WAIT,
    }
}

/// The shim's callback just before a change.
unsafe extern "C" fn begin(wait_mode: *const c_void) -> u32 {
    // SAFETY: `with_permit` created it from a reference that is valid until the call returns.
    let wait_mode = unsafe { &*wait_mode.cast::<WaitMode<'_>>() };
    u32::from(wait_mode.permits())
}

/// Calls the shim with the permit of `wait_mode`, if it has one.
fn with_permit<T>(wait_mode: WaitMode<'_>, call: impl FnOnce(*const sys::bh_permit) -> T) -> T {
    let permit = sys::bh_permit {
        bp_begin: begin,
        bp_arg: (&raw const wait_mode).cast(),
    };
    call(match wait_mode {
        WaitMode::NoWait | WaitMode::MayBlock => std::ptr::null(),
        WaitMode::Permitted(_) => &raw const permit,
    })
}

fn device_error(code: i32, doing: &'static str, extent: Extent) -> Result<(), DeviceError> {
    if code == 0 {
        return Ok(());
    }
    let kind = match Errno::from_raw_os_error(code) {
        _ if code == ECKSUM => ErrorKind::Unreadable,
        // Expected for every NoWait call, so no cause is allocated.
        Errno::AGAIN => return Err(DeviceError::new(ErrorKind::WouldBlock, doing, extent)),
        Errno::RANGE => ErrorKind::OutOfRange,
        // The permit was refused.
        Errno::CANCELED => return Err(DeviceError::new(ErrorKind::Gone, doing, extent)),
        Errno::ROFS => ErrorKind::ReadOnly,
        Errno::NOSPC | Errno::DQUOT => ErrorKind::NoSpace,
        Errno::IO | Errno::NXIO => ErrorKind::Unreadable,
        _ => ErrorKind::Failed,
    };
    Err(DeviceError {
        cause: Some(Box::new(SystemError(code))),
        ..DeviceError::new(kind, doing, extent)
    })
}

impl Volume {
    /// Longest extent that one read, loan or update may have, in bytes.
    pub const TRANSFER_BYTES_MAX: u64 = sys::BH_LOAN_BYTES_MAX;

    /// Opens `name` and replays its intent log; fails if that cannot be completed. May block.
    pub(crate) fn open(name: &str, options: OpenOptions) -> Result<Self, DatasetError> {
        const DOING: &str = "open";
        let c_name: CString = c_text(name);
        let flags = if options.read_only {
            sys::BH_OPEN_READ_ONLY
        } else {
            0
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the library runs, as a pool is open; the name is copied.
        let code = unsafe { sys::bh_volume_open(c_name.as_ptr(), flags, &mut raw) };
        SystemError::check(code).map_err(|cause| DatasetError::common(DOING, name, cause))?;
        let raw = NonNull::new(raw).expect("set when the call succeeds");
        // SAFETY: just opened.
        let (size, physical_block, read_only) = unsafe {
            (
                sys::bh_volume_size(raw.as_ptr()),
                sys::bh_volume_block_size(raw.as_ptr()),
                sys::bh_volume_is_read_only(raw.as_ptr()) != 0,
            )
        };
        let volume = Self {
            shared: Arc::new(Shared {
                raw,
                gate: Gate::default(),
                name: name.to_owned(),
                logical_block: options.logical_block,
                physical_block,
                read_only,
                size: AtomicU64::new(size),
                written: AtomicU64::new(0),
                durable: AtomicU64::new(0),
            }),
        };
        let block = u64::from(options.logical_block);
        if !matches!(block, 512 | 4096) || size % block != 0 {
            return Err(DatasetError::new(
                DOING,
                name,
                DatasetErrorKind::LogicalBlock { size, block },
            ));
        }
        Ok(volume)
    }
}

impl engine::Volume for Volume {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn close(&self) {
        if self.shared.gate.close() {
            // SAFETY: the gate has closed: no call or loan uses `raw`, and none will.
            unsafe { sys::bh_volume_close(self.shared.raw.as_ptr()) };
        }
    }

    fn resize(&self, size: u64) -> Result<(), DatasetError> {
        let fail = |kind| DatasetError::new("resize", &self.shared.name, kind);
        let using = self
            .using(WaitMode::MayBlock, "resize", Extent::new(0, size))
            .map_err(|_| fail(DatasetErrorKind::Closed))?;
        let block = u64::from(self.shared.physical_block);
        if size == 0 || size % block != 0 || size % u64::from(self.shared.logical_block) != 0 {
            return Err(fail(DatasetErrorKind::SizeNotMultiple { size, block }));
        }
        // SAFETY: open while `using` exists.
        let code = unsafe { sys::bh_volume_resize(using.raw(), size) };
        // SAFETY: as above. Read even after an error: the size may have changed.
        let now = unsafe { sys::bh_volume_size(using.raw()) };
        self.shared.size.store(now, Ordering::Release);
        SystemError::check(code)
            .map_err(|cause| DatasetError::common("resize", &self.shared.name, cause))
    }

    fn begin_log(&self) -> Result<(), DeviceError> {
        const DOING: &str = "begin the log";
        let whole = Extent::new(0, 0);
        let using = self.using(WaitMode::MayBlock, DOING, whole)?;
        // SAFETY: open while `using` exists.
        let code = unsafe { sys::bh_log_begin(using.raw()) };
        device_error(code, DOING, whole)
    }

    fn pause(&self, wait: Duration) -> Result<Box<dyn engine::Paused + '_>, DatasetError> {
        self.pause_shared(wait)
            .map(|paused| Box::new(paused) as Box<_>)
    }

    fn device(self: Arc<Self>) -> Arc<dyn BlockDevice> {
        self
    }
}

impl Volume {
    fn using(
        &self,
        wait_mode: WaitMode<'_>,
        doing: &'static str,
        extent: Extent,
    ) -> Result<Using<'_>, DeviceError> {
        let gone = || DeviceError::new(ErrorKind::Gone, doing, extent);
        attend(wait_mode, doing, extent)?;
        device::note_client_request();
        match self.shared.gate.enter() {
            Ok(()) => Ok(Using(&self.shared)),
            Err(Shut::Closed) => Err(gone()),
            Err(Shut::Paused) if !wait_mode.may_block() => {
                Err(DeviceError::new(ErrorKind::WouldBlock, doing, extent))
            }
            Err(Shut::Paused) if self.shared.gate.enter_blocking() => Ok(Using(&self.shared)),
            Err(Shut::Paused) => Err(gone()),
        }
    }

    /// Runs a change and counts it, whether or not it was completed: part of it may have been applied.
    fn change(
        &self,
        wait_mode: WaitMode<'_>,
        doing: &'static str,
        extent: Extent,
        change: impl FnOnce(*mut sys::bh_volume, *const sys::bh_permit) -> i32,
    ) -> Result<(), DeviceError> {
        let using = self.using(wait_mode, doing, extent)?;
        let code = with_permit(wait_mode, |permit| change(using.raw(), permit));
        if code != Errno::AGAIN.raw_os_error() {
            self.shared.note_written();
        }
        device_error(code, doing, extent)
    }

    /// Transfers `Using`'s entry to a loan, which releases it when dropped.
    fn keep(&self, using: Using<'_>) -> Arc<Shared> {
        std::mem::forget(using);
        Arc::clone(&self.shared)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        engine::Volume::close(self);
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("name", &self.shared.name)
            .field("closed", &self.shared.gate.is_closed())
            .finish_non_exhaustive()
    }
}

/// After a standstill of this process, blocks until its ownership of the pool is confirmed: another head may have
/// written since the data was cached.
fn attend(wait_mode: WaitMode<'_>, doing: &'static str, extent: Extent) -> Result<(), DeviceError> {
    if wait_mode.may_block() {
        device::attend();
        return Ok(());
    }
    match device::is_check_recent() {
        true => Ok(()),
        false => Err(DeviceError::new(ErrorKind::WouldBlock, doing, extent)),
    }
}

/// Unlocks the extent of an update if the caller's closure panics.
struct Locked(NonNull<sys::bh_update>);

impl Locked {
    /// Writes `data` back, if any, and unlocks.
    fn finish(self, data: Option<&[u8]>) -> i32 {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        // SAFETY: `raw` is live and given back once; `data` has the extent's length.
        unsafe { sys::bh_update_end(raw, data.map_or(std::ptr::null(), <[u8]>::as_ptr)) }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: not finished, so still live.
        unsafe { sys::bh_update_end(self.0.as_ptr(), std::ptr::null()) };
    }
}

impl BlockDevice for Volume {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.shared.size.load(Ordering::Acquire),
            logical_block: self.shared.logical_block,
            physical_block: self.shared.physical_block,
            read_only: self.shared.read_only,
        }
    }

    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError> {
        const DOING: &str = "read";
        if extent.length == 0 {
            return Ok(Box::new(loan::Empty(extent)));
        }
        let using = self.using(wait_mode, DOING, extent)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: open while `using` exists, which the loan then owns.
        let code = unsafe {
            sys::bh_read_hold(
                using.raw(),
                extent.offset,
                extent.length,
                wait_flag(wait_mode),
                &mut raw,
            )
        };
        device_error(code, DOING, extent)?;
        let loan = loan::Read {
            shared: self.keep(using),
            raw: NonNull::new(raw).expect("set when the call succeeds"),
            length: extent.length as usize,
        };
        // Checked again: the process may have been stopped in between.
        attend(wait_mode, DOING, extent)?;
        Ok(Box::new(loan))
    }

    fn begin_read(&self, extent: Extent) -> Result<Begun, DeviceError> {
        const DOING: &str = "read";
        if extent.length == 0 {
            return Ok(Begun::Done(Box::new(loan::Empty(extent))));
        }
        let using = self.using(WaitMode::NoWait, DOING, extent)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: open while `using` exists, which the loan or the pending read then owns.
        let code =
            unsafe { sys::bh_read_begin(using.raw(), extent.offset, extent.length, &mut raw) };
        let is_pending = code == Errno::INPROGRESS.raw_os_error();
        if !is_pending {
            device_error(code, DOING, extent)?;
        }
        let raw = NonNull::new(raw).expect("set when the call succeeds");
        let shared = self.keep(using);
        if is_pending {
            let pending = pending::Pending::new(shared, raw, extent);
            return Ok(Begun::Pending(Box::new(pending)));
        }
        let loan = loan::Read {
            shared,
            raw,
            length: extent.length as usize,
        };
        // Checked again: the process may have been stopped in between.
        attend(WaitMode::NoWait, DOING, extent)?;
        Ok(Begun::Done(Box::new(loan)))
    }

    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        const DOING: &str = "write";
        if extent.length == 0 {
            return Ok(Box::new(loan::Empty(extent)));
        }
        let using = self.using(WaitMode::NoWait, DOING, extent)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: open while `using` exists.
        let code =
            unsafe { sys::bh_write_lend(using.raw(), extent.offset, extent.length, &mut raw) };
        device_error(code, DOING, extent)?;
        let raw = NonNull::new(raw).expect("set when the call succeeds");
        std::mem::forget(using);
        self.shared.gate.leave_with_loan();
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(loan::Write::new(shared, raw, extent)))
    }

    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        if data.is_empty() {
            return Ok(());
        }
        self.change(wait_mode, "write", extent, |raw, permit| {
            let (data, wait) = (data.as_ptr(), wait_flag(wait_mode));
            // SAFETY: `change` holds the volume open and the permit valid; the data is copied before the call returns.
            unsafe { sys::bh_write_copy(raw, offset, data, extent.length, wait, permit) }
        })
    }

    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        if zero == Zero::MayFree {
            return self.unmap(extent, wait_mode);
        }
        const DOING: &str = "write zeroes";
        match (extent.length, wait_mode.may_block()) {
            (0, _) => Ok(()),
            (_, false) => Err(DeviceError::new(ErrorKind::WouldBlock, DOING, extent)),
            (_, true) => self.change(wait_mode, DOING, extent, |raw, permit| {
                // SAFETY: `change` holds the volume open and the permit valid.
                unsafe { sys::bh_write_zeroes(raw, extent.offset, extent.length, permit) }
            }),
        }
    }

    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        const DOING: &str = "unmap";
        match (extent.length, wait_mode.may_block()) {
            (0, _) => Ok(()),
            (_, false) => Err(DeviceError::new(ErrorKind::WouldBlock, DOING, extent)),
            (_, true) => self.change(wait_mode, DOING, extent, |raw, permit| {
                // SAFETY: `change` holds the volume open and the permit valid.
                unsafe { sys::bh_free(raw, extent.offset, extent.length, permit) }
            }),
        }
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        const DOING: &str = "update";
        if extent.length == 0 || extent.length > Self::TRANSFER_BYTES_MAX {
            return Err(DeviceError::new(ErrorKind::OutOfRange, DOING, extent));
        }
        let using = self.using(WaitMode::MayBlock, DOING, extent)?;
        let mut bytes = vec![0; extent.length as usize];
        let mut raw = std::ptr::null_mut();
        // SAFETY: open while `using` exists; `bytes` has room for the extent.
        let code = unsafe {
            sys::bh_update_begin(
                using.raw(),
                extent.offset,
                extent.length,
                bytes.as_mut_ptr(),
                &mut raw,
            )
        };
        device_error(code, DOING, extent)?;
        let locked = Locked(NonNull::new(raw).expect("set when the call succeeds"));
        let verdict = change(&mut bytes);
        let code = locked.finish((verdict == Update::Write).then_some(&bytes));
        if verdict == Update::Write {
            self.shared.note_written();
        }
        device_error(code, DOING, extent).map(|()| verdict)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let whole = Extent::new(0, 0);
        let using = self.using(WaitMode::MayBlock, "flush", whole)?;
        let target = self.shared.written.load(Ordering::Acquire);
        if self.shared.durable.load(Ordering::Acquire) >= target {
            return Ok(());
        }
        // SAFETY: open while `using` exists.
        let code = unsafe { sys::bh_flush(using.raw()) };
        device_error(code, "flush", whole)?;
        self.shared.durable.fetch_max(target, Ordering::AcqRel);
        Ok(())
    }

    fn is_clean(&self) -> bool {
        // In this order, a write between the two loads only lets the volume appear dirty.
        let durable = self.shared.durable.load(Ordering::Acquire);
        self.shared.written.load(Ordering::Acquire) <= durable
    }

    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        const DOING: &str = "status";
        if extent.length == 0 || runs_max == 0 {
            return Ok(Vec::new());
        }
        let using = self.using(WaitMode::MayBlock, DOING, extent)?;
        let mut runs = vec![sys::bh_run::default(); runs_max.min(STATUS_RUNS_MAX)];
        let mut count = 0;
        // SAFETY: open while `using` exists; `runs` has the stated capacity.
        let code = unsafe {
            sys::bh_status(
                using.raw(),
                extent.offset,
                extent.length,
                runs.as_mut_ptr(),
                runs.len() as u64,
                &mut count,
            )
        };
        device_error(code, DOING, extent)?;
        runs.truncate(count as usize);
        Ok(runs
            .iter()
            .map(|run| StatusRun {
                length: run.br_length,
                allocated: run.br_allocated != 0,
            })
            .collect())
    }
}
