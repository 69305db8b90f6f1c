//! Open volumes as block devices.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use block_device::{
    Begun, BlockDevice, Commit, DeviceError, ErrorKind, Extent, Geometry, PendingRead, ReadDone,
    ReadLoan, StatusRun, Update, WaitMode, WriteLoan, Zero,
};
use ceph_sys::{Diff, Provision};
use engine::dataset::{DatasetError, DatasetErrorKind};
use engine::gate::NoPause;
use engine::{Paused, Volume};
use units::SnapshotName;

use crate::open::Use;
use crate::ranges::{Locked, Mode};
use crate::shelf::{Completion, OpenVolume};

/// Bytes of one request that zeroes; a longer range is zeroed in several.
const ZERO_BYTES_MAX: u64 = 256 << 20;
/// Up to this length, the status of a range is exact. Beyond it, it is exact to an object, and no object is read.
const EXACT_STATUS_BYTES_MAX: u64 = 1 << 30;
/// Extents of one status request that are collected, at most.
const EXTENTS_MAX: usize = 1 << 16;

/// An open volume or snapshot. Dropping it closes it.
pub(crate) struct CephVolume(pub(crate) Arc<OpenVolume>);

/// Data that was read. The volume is in use until it is dropped.
struct Read {
    bytes: Vec<u8>,
    _using: Use,
}

impl ReadLoan for Read {
    fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        parts.push(&self.bytes);
    }
}

type ReadResult = Result<Box<dyn ReadLoan>, DeviceError>;

/// A read in progress: its result and its callback meet here, in either order.
#[derive(Default)]
enum Meeting {
    #[default]
    Neither,
    Result(ReadResult),
    Callback(ReadDone),
    /// The callback is cancelled, or has been called.
    Over,
}

#[derive(Clone, Default)]
struct Pending(Arc<Mutex<Meeting>>);

impl Pending {
    fn replace(&self, with: Meeting) -> Meeting {
        std::mem::replace(&mut self.0.lock().expect("no holder panics"), with)
    }

    /// The result is there.
    fn complete(&self, result: ReadResult) {
        let mut meeting = self.0.lock().expect("no holder panics");
        match std::mem::replace(&mut *meeting, Meeting::Over) {
            Meeting::Callback(done) => {
                drop(meeting);
                done(result);
            }
            Meeting::Over => {}
            Meeting::Neither | Meeting::Result(_) => *meeting = Meeting::Result(result),
        }
    }
}

/// Dropping it cancels the callback. `None` once there is one, which is called from then on.
struct Handle(Option<Pending>);

impl PendingRead for Handle {
    fn finish(mut self: Box<Self>, done: ReadDone) {
        let pending = self.0.take().expect("finished once");
        let mut meeting = pending.0.lock().expect("no holder panics");
        match std::mem::take(&mut *meeting) {
            Meeting::Result(result) => {
                *meeting = Meeting::Over;
                drop(meeting);
                done(result);
            }
            _ => *meeting = Meeting::Callback(done),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(pending) = &self.0 {
            drop(pending.replace(Meeting::Over));
        }
    }
}

struct Write {
    open: Arc<OpenVolume>,
    extent: Extent,
    bytes: Vec<u8>,
}

impl Drop for Write {
    fn drop(&mut self) {
        self.open.gate.give_back();
    }
}

impl WriteLoan for Write {
    fn extent(&self) -> Extent {
        self.extent
    }

    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        parts.push(&mut self.bytes);
    }

    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit {
        let open = Arc::clone(&self.open);
        if !open.gate.enter_with_loan(wait_mode.may_block()) {
            return Commit::WouldBlock(self);
        }
        let _using = Use(Arc::clone(&open));
        if !self.extent.fits(open.size()) {
            let error = DeviceError::new(ErrorKind::OutOfRange, "write", self.extent);
            return Commit::Failed(error);
        }
        match open.write(self.extent, &self.bytes, wait_mode) {
            Ok(()) => Commit::Done,
            Err(error) if error.kind == ErrorKind::WouldBlock => Commit::WouldBlock(self),
            Err(error) => Commit::Failed(error),
        }
    }
}

impl OpenVolume {
    /// Begins an asynchronous read in a use and with its range locked.
    fn begin_read(
        self: &Arc<Self>,
        extent: Extent,
        using: Use,
        locked: Locked,
    ) -> Result<Begun, DeviceError> {
        let image = self.used_image("read", extent)?;
        let pending = Pending::default();
        let (meeting, open) = (pending.clone(), Arc::clone(self));
        let completions = self.shelf.completions.clone();
        // On librbd's thread this only enqueues. The image is dropped with the rest, on the other thread.
        let done = Box::new(move |image, result: Result<Vec<u8>, _>| {
            let completion = move || {
                let result = result.map_err(|error| open.failed("read", extent, error));
                let _image = image;
                drop(locked);
                meeting.complete(result.map(|bytes| {
                    let loan: Box<dyn ReadLoan> = Box::new(Read {
                        bytes,
                        _using: using,
                    });
                    loan
                }));
            };
            let completion: Completion = Box::new(completion);
            // The queue has a receiver as long as there is a sender.
            drop(completions.send(completion));
        });
        let begun = image.begin_read(extent.offset, extent.length as usize, done);
        begun.map_err(|error| self.failed("read", extent, error))?;
        Ok(Begun::Pending(Box::new(Handle(Some(pending)))))
    }

    fn zero(
        &self,
        doing: &'static str,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        let (provision, growth) = match zero {
            Zero::MayFree => (Provision::Thin, 0),
            Zero::KeepAllocated => (Provision::Thick, extent.length),
        };
        self.change(doing, extent, wait_mode, growth, |image| {
            let mut done = 0;
            while done < extent.length {
                let length = (extent.length - done).min(ZERO_BYTES_MAX);
                let zeroed = image.write_zeroes(extent.offset + done, length as usize, provision);
                zeroed.map_err(|error| self.failed(doing, extent, error))?;
                done += length;
            }
            Ok(())
        })
    }
}

/// Adds a run, merged with one before it in the same state.
fn push_run(runs: &mut Vec<StatusRun>, length: u64, allocated: bool) {
    match runs.last_mut() {
        _ if length == 0 => {}
        Some(last) if last.allocated == allocated => last.length += length,
        _ => runs.push(StatusRun { length, allocated }),
    }
}

/// The runs of `extent`, by the extents in it that exist, in ascending order.
fn runs(extent: Extent, existing: &[Diff]) -> Vec<StatusRun> {
    let (mut runs, mut at) = (Vec::new(), extent.offset);
    let end = extent.offset + extent.length;
    for one in existing.iter().filter(|one| one.exists) {
        let (from, to) = (
            one.offset.clamp(at, end),
            (one.offset + one.length).clamp(at, end),
        );
        push_run(&mut runs, from - at, false);
        push_run(&mut runs, to - from, true);
        at = to;
    }
    push_run(&mut runs, end - at, false);
    runs
}

impl BlockDevice for CephVolume {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.0.size(),
            logical_block: self.0.options.logical_block,
            physical_block: u32::try_from(self.0.block).unwrap_or(u32::MAX),
            read_only: self.0.options.read_only,
        }
    }

    fn read(&self, extent: Extent, wait_mode: WaitMode<'_>) -> ReadResult {
        let using = self.0.using("read", extent, wait_mode)?;
        // Nothing is cached here.
        if !wait_mode.may_block() {
            return Err(DeviceError::new(ErrorKind::WouldBlock, "read", extent));
        }
        let _locked = self.0.ranges.lock(extent, Mode::Shared);
        let bytes = self.0.read_now("read", extent)?;
        Ok(Box::new(Read {
            bytes,
            _using: using,
        }))
    }

    fn begin_read(&self, extent: Extent) -> Result<Begun, DeviceError> {
        let using = self.0.using("read", extent, WaitMode::NoWait)?;
        match self.0.ranges.try_lock(extent, Mode::Shared) {
            Some(locked) if extent.length > 0 => self.0.begin_read(extent, using, locked),
            _ => Err(DeviceError::new(ErrorKind::WouldBlock, "read", extent)),
        }
    }

    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        let using = self.0.using("write", extent, WaitMode::NoWait)?;
        if self.0.options.read_only {
            return Err(DeviceError::new(ErrorKind::ReadOnly, "write", extent));
        }
        // The use becomes a loan.
        std::mem::forget(using);
        self.0.gate.leave_with_loan();
        Ok(Box::new(Write {
            open: Arc::clone(&self.0),
            extent,
            bytes: vec![0; extent.length as usize],
        }))
    }

    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        let _using = self.0.using("write", extent, wait_mode)?;
        self.0.write(extent, data, wait_mode)
    }

    fn write_durably(
        &self,
        offset: u64,
        data: &[u8],
        wait_mode: WaitMode<'_>,
    ) -> Result<bool, DeviceError> {
        self.write(offset, data, wait_mode).map(|()| true)
    }

    fn always_blocks(&self) -> bool {
        true
    }

    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        let _using = self.0.using("write zeroes", extent, wait_mode)?;
        self.0.zero("write zeroes", extent, zero, wait_mode)
    }

    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let _using = self.0.using("unmap", extent, wait_mode)?;
        // `rbd_aio_discard` of a part of an object may zero nothing.
        self.0.zero("unmap", extent, Zero::MayFree, wait_mode)
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        let _using = self.0.using("update", extent, WaitMode::MayBlock)?;
        let mut verdict = Update::Keep;
        let open = &self.0;
        open.change(
            "update",
            extent,
            WaitMode::MayBlock,
            extent.length,
            |image| {
                let mut bytes = open.read_now("update", extent)?;
                verdict = change(&mut bytes);
                if verdict == Update::Write && extent.length > 0 {
                    let written = image.write(extent.offset, &bytes);
                    written.map_err(|error| open.failed("update", extent, error))?;
                }
                Ok(())
            },
        )?;
        Ok(verdict)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let none = Extent::new(0, 0);
        let _using = self.0.using("flush", none, WaitMode::MayBlock)?;
        self.0.used_image("flush", none).map(drop)
    }

    fn is_clean(&self) -> bool {
        // A completed write is on all copies.
        true
    }

    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        let _using = self.0.using("status", extent, WaitMode::MayBlock)?;
        let _locked = self.0.ranges.lock(extent, Mode::Shared);
        let image = self.0.used_image("status", extent)?;
        if extent.length == 0 || runs_max == 0 {
            return Ok(Vec::new());
        }
        let mut existing: Vec<Diff> = Vec::new();
        let extents_max = runs_max.saturating_add(1).min(EXTENTS_MAX);
        let mut visit = |diff: Diff| {
            match existing.last_mut() {
                Some(last)
                    if last.exists == diff.exists && last.offset + last.length == diff.offset =>
                {
                    last.length += diff.length;
                }
                _ => existing.push(diff),
            }
            existing.len() <= extents_max
        };
        let range = (extent.offset, extent.length);
        let is_coarse = extent.length > EXACT_STATUS_BYTES_MAX;
        let visited = image.visit_diff(None, range, true, is_coarse, &mut visit);
        let is_cut = existing.len() > extents_max;
        if let Err(error) = visited {
            if !is_cut {
                return Err(self.0.failed("status", extent, error));
            }
        }
        // Up to the extent that was not visited completely.
        let known = match is_cut {
            true => existing.pop().map_or(0, |last| last.offset - extent.offset),
            false => extent.length,
        };
        let mut runs = runs(Extent::new(extent.offset, known), &existing);
        runs.truncate(runs_max);
        Ok(runs)
    }
}

impl Volume for CephVolume {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn close(&self) {
        if self.0.gate.close() {
            self.0.shelf.close_volume(&self.0);
        }
    }

    fn resize(&self, size: u64) -> Result<(), DatasetError> {
        let fail = |kind| DatasetError::new("resize", &self.0.name, kind);
        let _using = self
            .0
            .enter(true)
            .map_err(|_| fail(DatasetErrorKind::Closed))?;
        let block = self.0.block;
        if size == 0 || size % block != 0 || size % u64::from(self.0.options.logical_block) != 0 {
            return Err(fail(DatasetErrorKind::SizeNotMultiple { size, block }));
        }
        if self.0.options.read_only {
            return Err(fail(DatasetErrorKind::ReadOnly));
        }
        self.0.shelf.resize(&self.0, size)
    }

    fn begin_log(&self) -> Result<(), DeviceError> {
        self.0
            .using("begin the log", Extent::new(0, 0), WaitMode::MayBlock)
            .map(drop)
    }

    fn pause(&self, wait: Duration) -> Result<Box<dyn Paused + '_>, DatasetError> {
        let paused = self.0.gate.pause(wait);
        paused.map_err(|why| {
            let kind = match why {
                NoPause::Closed => DatasetErrorKind::Closed,
                NoPause::InUse => DatasetErrorKind::Busy,
            };
            DatasetError::new("pause", &self.0.name, kind)
        })?;
        Ok(Box::new(Pause(&self.0)))
    }

    fn device(self: Arc<Self>) -> Arc<dyn BlockDevice> {
        self
    }
}

impl Drop for CephVolume {
    fn drop(&mut self) {
        Volume::close(self);
    }
}

impl std::fmt::Debug for CephVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CephVolume")
            .field("name", &self.0.name)
            .field("closed", &self.0.gate.is_closed())
            .finish_non_exhaustive()
    }
}

struct Pause<'a>(&'a Arc<OpenVolume>);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.gate.resume();
    }
}

impl Paused for Pause<'_> {
    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        self.0.shelf.roll_back(snapshot, Some(self.0))
    }

    fn size(&self) -> u64 {
        self.0.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(offset: u64, length: u64) -> Diff {
        Diff {
            offset,
            length,
            exists: true,
        }
    }

    #[test]
    fn runs_cover_the_extent_with_holes_between_the_existing_parts() {
        let found = runs(
            Extent::new(100, 100),
            &[diff(90, 20), diff(120, 10), diff(130, 5), diff(195, 50)],
        );
        let shown: Vec<_> = found
            .iter()
            .map(|run| (run.length, run.allocated))
            .collect();
        assert_eq!(
            shown,
            [(10, true), (10, false), (15, true), (60, false), (5, true)]
        );
        assert_eq!(runs(Extent::new(0, 10), &[]).len(), 1);
        assert!(runs(Extent::new(0, 0), &[diff(0, 5)]).is_empty());
    }

    #[test]
    fn result_and_callback_meet_in_either_order_and_a_dropped_read_calls_nothing() {
        let error = || Err(DeviceError::new(ErrorKind::Gone, "read", Extent::new(0, 1)));
        let (sender, calls) = std::sync::mpsc::channel();
        let callback = || {
            let sender = sender.clone();
            let done: ReadDone = Box::new(move |_| sender.send(()).expect("received"));
            done
        };
        let first = Pending::default();
        first.complete(error());
        Box::new(Handle(Some(first))).finish(callback());
        assert_eq!(calls.try_iter().count(), 1);
        let second = Pending::default();
        Box::new(Handle(Some(second.clone()))).finish(callback());
        assert_eq!(calls.try_iter().count(), 0);
        second.complete(error());
        assert_eq!(calls.try_iter().count(), 1);
        let third = Pending::default();
        drop(Handle(Some(third.clone())));
        third.complete(error());
        assert_eq!(calls.try_iter().count(), 0);
    }
}
