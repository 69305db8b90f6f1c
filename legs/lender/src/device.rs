//! A lent disk as the NBD server serves it: to one session, or to read-only clients.

use std::sync::Arc;

use block_device::{
    BlockDevice, Commit, DeviceError, ErrorKind, Extent, Geometry, ReadLoan, StatusRun, Update,
    WaitMode, WriteLoan, Zero,
};
use leg_record::Session;
use rustix::io::Errno;

use crate::aligned::Aligned;
use crate::disk::Disk;
use crate::gate::{Gate, Passage};

/// The access rights to the disk.
#[derive(Clone)]
pub(crate) enum Right {
    /// The session may read and write while it is the admitted one.
    Session(Arc<Gate>, Session),
    /// Reads, at any time.
    Inspection,
}

/// One access path to the disk. Every call blocks on the disk, so none completes where blocking is not allowed.
#[derive(Clone)]
pub(crate) struct LentDevice {
    pub(crate) disk: Arc<Disk>,
    pub(crate) right: Right,
}

impl LentDevice {
    /// Begins I/O, if it may and the caller may wait.
    fn enter(
        &self,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Option<Passage<'_>>, DeviceError> {
        let refused = |kind| Err(DeviceError::new(kind, doing, extent));
        if !extent.fits(self.disk.size) {
            return refused(ErrorKind::OutOfRange);
        }
        if !wait_mode.may_block() {
            return refused(ErrorKind::WouldBlock);
        }
        let Right::Session(gate, session) = &self.right else {
            return Ok(None);
        };
        // Its connection is cut: another session has the disk.
        let Some(passage) = gate.enter(*session) else {
            return refused(ErrorKind::Gone);
        };
        match wait_mode.permits() {
            true => Ok(Some(passage)),
            false => refused(ErrorKind::Gone),
        }
    }

    /// The same for a change.
    fn enter_to_change(
        &self,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Passage<'_>, DeviceError> {
        let entered = self.enter(doing, extent, wait_mode)?;
        entered.ok_or_else(|| DeviceError::new(ErrorKind::ReadOnly, doing, extent))
    }

    fn write_aligned(
        &self,
        offset: u64,
        data: &Aligned,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.bytes().len() as u64);
        let _passage = self.enter_to_change("write", extent, wait_mode)?;
        let written = self.disk.write(offset, data);
        written.map_err(|errno| failed("write", extent, errno))
    }
}

fn failed(doing: &'static str, extent: Extent, errno: Errno) -> DeviceError {
    let kind = match (doing, errno) {
        ("read", _) => ErrorKind::Unreadable,
        (_, Errno::NOSPC) => ErrorKind::NoSpace,
        _ => ErrorKind::Failed,
    };
    DeviceError {
        cause: Some(Box::new(errno)),
        ..DeviceError::new(kind, doing, extent)
    }
}

struct Read {
    memory: Aligned,
    start: usize,
    length: usize,
}

impl ReadLoan for Read {
    fn byte_count(&self) -> usize {
        self.length
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        parts.push(&self.memory.bytes()[self.start..][..self.length]);
    }
}

struct Write {
    device: LentDevice,
    offset: u64,
    memory: Aligned,
}

impl WriteLoan for Write {
    fn extent(&self) -> Extent {
        Extent::new(self.offset, self.memory.bytes().len() as u64)
    }

    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        parts.push(self.memory.bytes_mut());
    }

    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit {
        if !wait_mode.may_block() {
            return Commit::WouldBlock(self);
        }
        let written = self
            .device
            .write_aligned(self.offset, &self.memory, wait_mode);
        match written {
            Ok(()) => Commit::Done,
            Err(error) => Commit::Failed(error),
        }
    }
}

impl BlockDevice for LentDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.disk.size,
            logical_block: self.disk.logical_block,
            physical_block: self.disk.physical_block,
            read_only: matches!(self.right, Right::Inspection),
        }
    }

    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError> {
        let _passage = self.enter("read", extent, wait_mode)?;
        let (memory, start) = self
            .disk
            .read(extent)
            .map_err(|errno| failed("read", extent, errno))?;
        Ok(Box::new(Read {
            memory,
            start,
            length: extent.length as usize,
        }))
    }

    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        if !extent.fits(self.disk.size) {
            let kind = ErrorKind::OutOfRange;
            return Err(DeviceError::new(kind, "write", extent));
        }
        Ok(Box::new(Write {
            device: self.clone(),
            offset: extent.offset,
            memory: Aligned::with_any_contents(extent.length as usize),
        }))
    }

    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        if !wait_mode.may_block() {
            let extent = Extent::new(offset, data.len() as u64);
            let kind = ErrorKind::WouldBlock;
            return Err(DeviceError::new(kind, "write", extent));
        }
        self.write_aligned(offset, &Aligned::of(data), wait_mode)
    }

    fn write_durably(
        &self,
        offset: u64,
        data: &[u8],
        wait_mode: WaitMode<'_>,
    ) -> Result<bool, DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        let _passage = self.enter_to_change("write", extent, wait_mode)?;
        let written = self.disk.write_durably(offset, &Aligned::of(data));
        written.map_err(|errno| failed("write", extent, errno))
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
        let _passage = self.enter_to_change("zero", extent, wait_mode)?;
        let zeroed = self.disk.zero(extent, zero == Zero::MayFree);
        zeroed.map_err(|errno| failed("zero", extent, errno))
    }

    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        self.write_zeroes(extent, Zero::MayFree, wait_mode)
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        let kind = ErrorKind::Failed;
        // A protocol that compares and writes has no business with a raw disk.
        let _ = change;
        Err(DeviceError::new(kind, "compare and write", extent))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let nothing = Extent::new(0, 0);
        let _passage = self.enter("flush", nothing, WaitMode::MayBlock)?;
        let flushed = self.disk.flush();
        flushed.map_err(|errno| failed("flush", nothing, errno))
    }

    fn is_clean(&self) -> bool {
        self.disk.is_clean()
    }

    fn status(&self, extent: Extent, _runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        let _passage = self.enter("status", extent, WaitMode::MayBlock)?;
        Ok(vec![StatusRun {
            length: extent.length,
            allocated: true,
        }])
    }
}
