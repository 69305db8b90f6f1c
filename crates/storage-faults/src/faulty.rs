//! A device that fails or delays chosen operations.

use std::sync::{Arc, Condvar, Mutex};

use block_device::{
    BlockDevice, Commit, DeviceError, Effort, ErrorKind, Extent, Geometry, ReadLoan, SharedDevice,
    StatusRun, Update, WriteLoan, Zero,
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
}

/// What happens to the next operations of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Works.
    None,
    /// Answers with this error.
    Error(ErrorKind),
    /// Never answers without waiting (every [`Effort::NoWait`] would block), then works.
    Slow,
    /// Waits until the fault is changed; without waiting, it would block.
    Hang,
}

struct Faults {
    set: Mutex<[Fault; 4]>,
    changed: Condvar,
}

impl Faults {
    fn meet(
        &self,
        operation: Operation,
        doing: &'static str,
        extent: Extent,
        effort: Effort,
    ) -> Result<(), DeviceError> {
        let mut set = self.set.lock().expect("no holder panics");
        loop {
            match (set[operation as usize], effort) {
                (Fault::None, _) | (Fault::Slow, Effort::MayBlock) => return Ok(()),
                (Fault::Error(kind), _) => return Err(DeviceError::new(kind, doing, extent)),
                (Fault::Slow | Fault::Hang, Effort::NoWait) => {
                    return Err(DeviceError::new(ErrorKind::WouldBlock, doing, extent));
                }
                (Fault::Hang, Effort::MayBlock) => {
                    set = self.changed.wait(set).expect("no holder panics");
                }
            }
        }
    }
}

/// A decorator with one [`Fault`] per [`Operation`], changed while it is used.
pub struct FaultyDevice {
    inner: SharedDevice,
    faults: Arc<Faults>,
}

impl FaultyDevice {
    /// A device that works like `inner` until told otherwise.
    pub fn new(inner: SharedDevice) -> Self {
        let faults = Faults {
            set: Mutex::new([Fault::None; 4]),
            changed: Condvar::new(),
        };
        Self {
            inner,
            faults: Arc::new(faults),
        }
    }

    /// From now on `operation` meets `fault`; who hangs is woken.
    pub fn set(&self, operation: Operation, fault: Fault) {
        self.faults.set.lock().expect("no holder panics")[operation as usize] = fault;
        self.faults.changed.notify_all();
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

    fn commit(self: Box<Self>, effort: Effort) -> Commit {
        let met = self
            .faults
            .meet(Operation::Write, "write", self.inner.extent(), effort);
        match met {
            Ok(()) => match self.inner.commit(effort) {
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

    fn read(&self, extent: Extent, effort: Effort) -> Result<Box<dyn ReadLoan>, DeviceError> {
        self.faults.meet(Operation::Read, "read", extent, effort)?;
        self.inner.read(extent, effort)
    }

    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        let inner = self.inner.lend(extent)?;
        Ok(Box::new(FaultyLoan {
            inner,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn write(&self, offset: u64, data: &[u8], effort: Effort) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        self.faults
            .meet(Operation::Write, "write", extent, effort)?;
        self.inner.write(offset, data, effort)
    }

    fn write_zeroes(&self, extent: Extent, zero: Zero, effort: Effort) -> Result<(), DeviceError> {
        self.faults
            .meet(Operation::Zero, "write zeroes", extent, effort)?;
        self.inner.write_zeroes(extent, zero, effort)
    }

    fn unmap(&self, extent: Extent, effort: Effort) -> Result<(), DeviceError> {
        self.faults.meet(Operation::Zero, "unmap", extent, effort)?;
        self.inner.unmap(extent, effort)
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        self.faults
            .meet(Operation::Write, "update", extent, Effort::MayBlock)?;
        self.inner.update(extent, change)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.faults.meet(
            Operation::Flush,
            "flush",
            Extent::new(0, 0),
            Effort::MayBlock,
        )?;
        self.inner.flush()
    }

    fn is_clean(&self) -> bool {
        self.inner.is_clean()
    }

    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        self.inner.status(extent, runs_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_device::MemoryDevice;

    fn device() -> FaultyDevice {
        FaultyDevice::new(Arc::new(MemoryDevice::new(1 << 20, 512)))
    }

    #[test]
    fn a_failed_commit_writes_nothing_and_the_next_one_works() {
        let device = device();
        device.set(Operation::Write, Fault::Error(ErrorKind::NoSpace));
        let loan = device.lend(Extent::new(0, 4096)).unwrap();
        assert!(
            matches!(loan.commit(Effort::MayBlock), Commit::Failed(error) if error.kind == ErrorKind::NoSpace)
        );
        assert!(!device.status(Extent::new(0, 4096), 1).unwrap()[0].allocated);
        device.set(Operation::Write, Fault::None);
        let loan = device.lend(Extent::new(0, 4096)).unwrap();
        assert!(matches!(loan.commit(Effort::MayBlock), Commit::Done));
    }

    #[test]
    fn a_slow_device_gives_the_loan_back_to_who_may_not_wait() {
        let device = device();
        device.set(Operation::Write, Fault::Slow);
        let loan = device.lend(Extent::new(0, 512)).unwrap();
        let Commit::WouldBlock(loan) = loan.commit(Effort::NoWait) else {
            panic!("a slow device answered at once")
        };
        assert!(matches!(loan.commit(Effort::MayBlock), Commit::Done));
    }

    #[test]
    fn a_hung_read_ends_when_the_fault_is_lifted() {
        let device = Arc::new(device());
        device.set(Operation::Read, Fault::Hang);
        let reader = Arc::clone(&device);
        let thread = std::thread::spawn(move || {
            reader
                .read(Extent::new(0, 512), Effort::MayBlock)
                .map(|loan| loan.byte_count())
        });
        device.set(Operation::Read, Fault::None);
        assert_eq!(thread.join().unwrap().unwrap(), 512);
    }
}
