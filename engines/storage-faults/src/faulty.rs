//! A device that fails or delays chosen operations.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use block_device::{
    Begun, BlockDevice, Commit, DeviceError, ErrorKind, Extent, Geometry, MemoryDevice,
    PendingRead, ReadDone, ReadLoan, SharedDevice, StatusRun, Update, WaitMode, WriteLoan, Zero,
};

/// The operations a fault can be set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`BlockDevice::read`].
    Read,
    /// [`BlockDevice::write`], a commit of a loan, an update.
    Write,
    /// [`BlockDevice::write_zeroes`] and [`BlockDevice::unmap`].
    Zero,
    /// [`BlockDevice::flush`].
    Flush,
    /// [`BlockDevice::status`].
    Status,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Zero,
        Self::Flush,
        Self::Status,
    ];
}

/// The fault that the next operations of a kind encounter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Works.
    None,
    /// Return this error at once.
    Error(ErrorKind),
    /// Return this error to a call that may block; a call that may not gets `WouldBlock`.
    LateError(ErrorKind),
    /// Never complete without blocking: every [`WaitMode::NoWait`] call returns `WouldBlock`; calls that may block
    /// work.
    Slow,
    /// Block until the fault is changed; a call that may not block gets `WouldBlock`.
    Hang,
    /// The next call that may block does so until [`FaultyDevice::release`]; the calls after it work. It blocks before
    /// it reaches the inner device, so its permit is checked afterwards.
    HangNext,
    /// Like `Write`, with the permit already granted: only the change itself is left.
    HangNextInEffect,
    /// An asynchronous read completes only when [`FaultyDevice::call_back`] allows it; all other operations work.
    Park,
}

#[derive(Clone, Copy)]
struct Meeting {
    fault: Fault,
    /// Calls that hang.
    hanging: usize,
    /// How often the calls that hang alone were released.
    releases: usize,
}

type Meetings = [Meeting; Operation::ALL.len()];

struct Faults {
    by_operation: Mutex<Meetings>,
    changed: Condvar,
    parked: Mutex<Vec<(Extent, ReadDone)>>,
}

/// A read that was started and that has its completion parked.
struct Parked {
    extent: Extent,
    faults: Arc<Faults>,
}

impl PendingRead for Parked {
    fn finish(self: Box<Self>, done: ReadDone) {
        self.faults.parked().push((self.extent, done));
    }
}

impl Faults {
    fn parked(&self) -> MutexGuard<'_, Vec<(Extent, ReadDone)>> {
        self.parked.lock().expect("no holder panics")
    }

    fn meet(
        &self,
        operation: Operation,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        let mut meetings = self.lock();
        loop {
            let meeting = &mut meetings[operation as usize];
            match (meeting.fault, wait_mode.may_block()) {
                (Fault::None | Fault::Park, _) | (Fault::Slow, true) => return Ok(()),
                (Fault::Error(kind), _) | (Fault::LateError(kind), true) => {
                    return Err(DeviceError::new(kind, doing, extent));
                }
                (_, false) => {
                    return Err(DeviceError::new(ErrorKind::WouldBlock, doing, extent));
                }
                (Fault::Hang, true) => {
                    meeting.hanging += 1;
                    meetings = self.changed.wait(meetings).expect("no holder panics");
                    meetings[operation as usize].hanging -= 1;
                }
                (Fault::HangNext, true) => {
                    self.hang_alone(meetings, operation);
                    return Ok(());
                }
                (Fault::HangNextInEffect, true) => {
                    if !wait_mode.permits() {
                        return Err(DeviceError::new(ErrorKind::Gone, doing, extent));
                    }
                    self.hang_alone(meetings, operation);
                    return Ok(());
                }
            }
        }
    }

    /// Blocks until a release; calls that arrive in the meantime encounter no fault.
    fn hang_alone(&self, mut meetings: MutexGuard<'_, Meetings>, operation: Operation) {
        let meeting = &mut meetings[operation as usize];
        meeting.fault = Fault::None;
        meeting.hanging += 1;
        let releases = meeting.releases;
        while meetings[operation as usize].releases == releases {
            meetings = self.changed.wait(meetings).expect("no holder panics");
        }
        meetings[operation as usize].hanging -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, Meetings> {
        self.by_operation.lock().expect("no holder panics")
    }
}

/// A decorator with one [`Fault`] per [`Operation`], changed while it is used.
pub struct FaultyDevice {
    inner: SharedDevice,
    faults: Arc<Faults>,
}

impl FaultyDevice {
    /// A device that works like `inner` until a fault is set.
    pub fn new(inner: SharedDevice) -> Self {
        let healthy = Meeting {
            fault: Fault::None,
            hanging: 0,
            releases: 0,
        };
        let faults = Faults {
            by_operation: Mutex::new([healthy; Operation::ALL.len()]),
            changed: Condvar::new(),
            parked: Mutex::default(),
        };
        Self {
            inner,
            faults: Arc::new(faults),
        }
    }

    /// A healthy device of `size` bytes of memory, in blocks of 512.
    pub fn of_memory(size: u64) -> Arc<Self> {
        Arc::new(Self::new(Arc::new(MemoryDevice::new(size, 512))))
    }

    /// Sets `fault` for `operation` and wakes the calls that hang.
    pub fn set(&self, operation: Operation, fault: Fault) {
        self.faults.lock()[operation as usize].fault = fault;
        self.faults.changed.notify_all();
    }

    /// Sets `fault` for every operation and wakes the calls that hang.
    pub fn set_all(&self, fault: Fault) {
        for operation in Operation::ALL {
            self.set(operation, fault);
        }
    }

    /// Releases the call that hangs alone.
    pub fn release(&self, operation: Operation) {
        self.faults.lock()[operation as usize].releases += 1;
        self.faults.changed.notify_all();
    }

    /// Bytes of the reads that are parked for [`call_back`](Self::call_back), and their number.
    pub fn parked(&self) -> (u64, usize) {
        let parked = self.faults.parked();
        let bytes = parked.iter().map(|(extent, _)| extent.length).sum();
        (bytes, parked.len())
    }

    /// Completes all parked reads on this thread; returns their number.
    pub fn call_back(&self) -> usize {
        let parked = std::mem::take(&mut *self.faults.parked());
        let count = parked.len();
        for (extent, done) in parked {
            done(self.inner.read(extent, WaitMode::MayBlock));
        }
        count
    }

    /// How many calls of `operation` hang now.
    pub fn hanging(&self, operation: Operation) -> usize {
        self.faults.lock()[operation as usize].hanging
    }
}

struct FaultyLoan {
    inner: Box<dyn WriteLoan>,
    faults: Arc<Faults>,
}

impl WriteLoan for FaultyLoan {
    fn extent(&self) -> Extent {
        self.inner.extent()
    }

    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        self.inner.append_parts(parts);
    }

    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit {
        let met = self
            .faults
            .meet(Operation::Write, "write", self.inner.extent(), wait_mode);
        match met {
            Ok(()) => match self.inner.commit(wait_mode) {
                Commit::WouldBlock(inner) => Commit::WouldBlock(Box::new(FaultyLoan {
                    inner,
                    faults: self.faults,
                })),
                other => other,
            },
            Err(error) if error.kind == ErrorKind::WouldBlock => Commit::WouldBlock(self),
            Err(error) => Commit::Failed(error),
        }
    }
}

impl BlockDevice for FaultyDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError> {
        self.faults
            .meet(Operation::Read, "read", extent, wait_mode)?;
        self.inner.read(extent, wait_mode)
    }

    fn begin_read(&self, extent: Extent) -> Result<Begun, DeviceError> {
        let fault = self.faults.lock()[Operation::Read as usize].fault;
        if fault == Fault::Park {
            let faults = Arc::clone(&self.faults);
            return Ok(Begun::Pending(Box::new(Parked { extent, faults })));
        }
        self.read(extent, WaitMode::NoWait).map(Begun::Done)
    }

    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        let inner = self.inner.lend(extent)?;
        Ok(Box::new(FaultyLoan {
            inner,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        self.faults
            .meet(Operation::Write, "write", extent, wait_mode)?;
        self.inner.write(offset, data, wait_mode)
    }

    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        self.faults
            .meet(Operation::Zero, "write zeroes", extent, wait_mode)?;
        self.inner.write_zeroes(extent, zero, wait_mode)
    }

    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        self.faults
            .meet(Operation::Zero, "unmap", extent, wait_mode)?;
        self.inner.unmap(extent, wait_mode)
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        self.faults
            .meet(Operation::Write, "update", extent, WaitMode::MayBlock)?;
        self.inner.update(extent, change)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.faults.meet(
            Operation::Flush,
            "flush",
            Extent::new(0, 0),
            WaitMode::MayBlock,
        )?;
        self.inner.flush()
    }

    /// A flush with a fault set must reach the fault.
    fn is_clean(&self) -> bool {
        let flush = self.faults.lock()[Operation::Flush as usize].fault;
        flush == Fault::None && self.inner.is_clean()
    }

    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        self.faults
            .meet(Operation::Status, "status", extent, WaitMode::MayBlock)?;
        self.inner.status(extent, runs_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Arc<FaultyDevice> {
        FaultyDevice::of_memory(1 << 20)
    }

    #[test]
    fn failed_commit_writes_nothing_and_the_next_succeeds() {
        let device = device();
        device.set(Operation::Write, Fault::Error(ErrorKind::NoSpace));
        let loan = device.lend(Extent::new(0, 4096)).unwrap();
        assert!(
            matches!(loan.commit(WaitMode::MayBlock), Commit::Failed(error) if error.kind == ErrorKind::NoSpace)
        );
        assert!(!device.status(Extent::new(0, 4096), 1).unwrap()[0].allocated);
        device.set(Operation::Write, Fault::None);
        let loan = device.lend(Extent::new(0, 4096)).unwrap();
        assert!(matches!(loan.commit(WaitMode::MayBlock), Commit::Done));
    }

    #[test]
    fn slow_device_returns_the_loan_to_nonblocking_callers() {
        let device = device();
        device.set(Operation::Write, Fault::Slow);
        let loan = device.lend(Extent::new(0, 512)).unwrap();
        let Commit::WouldBlock(loan) = loan.commit(WaitMode::NoWait) else {
            panic!("a slow device answered at once")
        };
        assert!(matches!(loan.commit(WaitMode::MayBlock), Commit::Done));
    }

    #[test]
    fn hung_read_completes_when_the_fault_is_cleared() {
        let device = device();
        device.set(Operation::Read, Fault::Hang);
        let reader = Arc::clone(&device);
        let thread = std::thread::spawn(move || {
            reader
                .read(Extent::new(0, 512), WaitMode::MayBlock)
                .map(|loan| loan.byte_count())
        });
        while device.hanging(Operation::Read) == 0 {
            std::thread::yield_now();
        }
        device.set(Operation::Read, Fault::None);
        assert_eq!(thread.join().unwrap().unwrap(), 512);
        assert_eq!(device.hanging(Operation::Read), 0);
    }

    #[test]
    fn late_error_reaches_blocking_calls_and_dirty_stays_unflushed() {
        let device = device();
        device.set_all(Fault::LateError(ErrorKind::Unreadable));
        let extent = Extent::new(0, 512);
        let kind = |wait_mode| device.read(extent, wait_mode).err().map(|error| error.kind);
        assert_eq!(kind(WaitMode::NoWait), Some(ErrorKind::WouldBlock));
        assert_eq!(kind(WaitMode::MayBlock), Some(ErrorKind::Unreadable));
        assert!(!device.is_clean() && device.flush().is_err());
        assert!(device.status(extent, 1).is_err());
        device.set_all(Fault::None);
        assert!(device.is_clean() && device.flush().is_ok());
    }
}
