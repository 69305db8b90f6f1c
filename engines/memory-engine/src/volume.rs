//! Open volumes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use block_device::{
    BlockDevice, Commit, DeviceError, ErrorKind, Extent, Geometry, ReadLoan, StatusRun, Update,
    WaitMode, WriteLoan, Zero,
};
use engine::dataset::{DatasetError, DatasetErrorKind};
use engine::gate::{Gate, NoPause, Shut};
use engine::volume::OpenOptions;
use engine::{Paused, Volume};
use units::{SnapshotName, VolumeName};

use crate::image::Image;

/// Contents that a pool and an open volume share.
pub(crate) type SharedImage = Arc<Mutex<Image>>;

/// The pool that an open volume is in.
pub(crate) trait Home: Send + Sync {
    /// Returns whether `bytes` more may be written now. Blocks while the pool is suspended, if
    /// permitted.
    fn admit(&self, guid: u64, bytes: u64, wait_mode: WaitMode<'_>) -> Result<(), ErrorKind>;

    /// Rolls an unused volume back to a snapshot.
    fn roll_back(&self, guid: u64, snapshot: &SnapshotName) -> Result<(), DatasetError>;

    /// The volume was closed.
    fn closed(&self, guid: u64);
}

/// The shared state of all loans of a volume.
struct Inner {
    name: String,
    /// Its number in its pool.
    guid: u64,
    image: SharedImage,
    home: Option<Arc<dyn Home>>,
    options: OpenOptions,
    gate: Gate,
    /// Changes that completed, and how many of them a flush has made durable.
    written: AtomicU64,
    durable: AtomicU64,
}

/// An open volume in memory.
pub struct MemoryVolume(Arc<Inner>);

impl MemoryVolume {
    /// A volume in no pool, so that there is no snapshot to roll back to.
    pub fn new(name: &VolumeName, size: u64, block_size: u64) -> Self {
        let image = Image::new(size, block_size);
        let image = Arc::new(Mutex::new(image));
        Self::open(name.as_str(), 0, image, None, OpenOptions::default()).expect("512 fits")
    }

    /// A volume of a pool.
    pub(crate) fn open(
        name: &str,
        guid: u64,
        image: SharedImage,
        home: Option<Arc<dyn Home>>,
        options: OpenOptions,
    ) -> Result<Self, DatasetError> {
        let size = image.lock().expect("no holder panics").size;
        let block = u64::from(options.logical_block);
        if !matches!(block, 512 | 4096) || size % block != 0 {
            let kind = DatasetErrorKind::LogicalBlock { size, block };
            return Err(DatasetError::new("open", name, kind));
        }
        Ok(Self(Arc::new(Inner {
            name: name.to_owned(),
            guid,
            image,
            home,
            options,
            gate: Gate::default(),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        })))
    }
}

/// A use of a volume.
struct Using<'a>(&'a Inner);

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

impl Inner {
    fn image(&self) -> MutexGuard<'_, Image> {
        self.image.lock().expect("no holder panics")
    }

    /// Begins a use, after a pause if `waits`.
    fn enter(&self, waits: bool) -> Result<Using<'_>, Shut> {
        match self.gate.enter() {
            Err(Shut::Paused) if waits => {
                let entered = self.gate.enter_blocking();
                entered.then_some(()).ok_or(Shut::Closed)
            }
            entered => entered,
        }?;
        Ok(Using(self))
    }

    fn using(
        &self,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Using<'_>, DeviceError> {
        let using = self.enter(wait_mode.may_block());
        let using = using.map_err(|shut| refused(shut, doing, extent))?;
        if !extent.fits(self.image().size) {
            return Err(DeviceError::new(ErrorKind::OutOfRange, doing, extent));
        }
        Ok(using)
    }

    /// Changes the contents, which grow by `growth` at most.
    fn change(
        &self,
        doing: &'static str,
        extent: Extent,
        wait_mode: WaitMode<'_>,
        growth: impl FnOnce(&Image) -> u64,
        change: impl FnOnce(&mut Image),
    ) -> Result<(), DeviceError> {
        let fail = |kind| Err(DeviceError::new(kind, doing, extent));
        if self.options.read_only {
            return fail(ErrorKind::ReadOnly);
        }
        let growth = growth(&self.image());
        if let Some(home) = &self.home {
            if let Err(kind) = home.admit(self.guid, growth, wait_mode) {
                return fail(kind);
            }
        }
        let mut image = self.image();
        if !wait_mode.permits() {
            return fail(ErrorKind::Gone);
        }
        change(&mut image);
        self.written.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn write(
        &self,
        extent: Extent,
        data: &[u8],
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        let growth = |image: &Image| image.growth(extent);
        self.change("write", extent, wait_mode, growth, |image| {
            image.write(extent.offset, data);
        })
    }
}

fn refused(shut: Shut, doing: &'static str, extent: Extent) -> DeviceError {
    let kind = match shut {
        Shut::Closed => ErrorKind::Gone,
        Shut::Paused => ErrorKind::WouldBlock,
    };
    DeviceError::new(kind, doing, extent)
}

struct Read {
    inner: Arc<Inner>,
    bytes: Vec<u8>,
}

impl Drop for Read {
    fn drop(&mut self) {
        self.inner.gate.leave();
    }
}

impl ReadLoan for Read {
    fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        parts.push(&self.bytes);
    }
}

struct Write {
    inner: Arc<Inner>,
    extent: Extent,
    bytes: Vec<u8>,
}

impl Drop for Write {
    fn drop(&mut self) {
        self.inner.gate.give_back();
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
        let inner = Arc::clone(&self.inner);
        if !inner.gate.enter_with_loan(wait_mode.may_block()) {
            return Commit::WouldBlock(self);
        }
        let _using = Using(&inner);
        if !self.extent.fits(inner.image().size) {
            let error = DeviceError::new(ErrorKind::OutOfRange, "write", self.extent);
            return Commit::Failed(error);
        }
        match inner.write(self.extent, &self.bytes, wait_mode) {
            Ok(()) => Commit::Done,
            Err(error) if error.kind == ErrorKind::WouldBlock => Commit::WouldBlock(self),
            Err(error) => Commit::Failed(error),
        }
    }
}

impl BlockDevice for MemoryVolume {
    fn geometry(&self) -> Geometry {
        let image = self.0.image();
        Geometry {
            size: image.size,
            logical_block: self.0.options.logical_block,
            physical_block: image.block_size as u32,
            read_only: self.0.options.read_only,
        }
    }

    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError> {
        let using = self.0.using("read", extent, wait_mode)?;
        let bytes = self.0.image().read(extent);
        // The loan releases the use.
        std::mem::forget(using);
        let inner = Arc::clone(&self.0);
        Ok(Box::new(Read { inner, bytes }))
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
            inner: Arc::clone(&self.0),
            extent,
            bytes: vec![0; extent.length as usize],
        }))
    }

    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        let _using = self.0.using("write", extent, wait_mode)?;
        self.0.write(extent, data, wait_mode)
    }

    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        match zero {
            Zero::MayFree => self.unmap(extent, wait_mode),
            Zero::KeepAllocated => {
                let _using = self.0.using("write zeroes", extent, wait_mode)?;
                self.0
                    .write(extent, &vec![0; extent.length as usize], wait_mode)
            }
        }
    }

    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let _using = self.0.using("unmap", extent, wait_mode)?;
        let free = |image: &mut Image| image.free(extent);
        self.0.change("unmap", extent, wait_mode, |_| 0, free)
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        let _using = self.0.using("update", extent, WaitMode::MayBlock)?;
        let growth = |image: &Image| image.growth(extent);
        let mut verdict = Update::Keep;
        let update = |image: &mut Image| {
            let mut bytes = image.read(extent);
            verdict = change(&mut bytes);
            if verdict == Update::Write {
                image.write(extent.offset, &bytes);
            }
        };
        let changed = self
            .0
            .change("update", extent, WaitMode::MayBlock, growth, update);
        changed.map(|()| verdict)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let _using = self
            .0
            .using("flush", Extent::new(0, 0), WaitMode::MayBlock)?;
        let target = self.0.written.load(Ordering::Acquire);
        self.0.durable.fetch_max(target, Ordering::AcqRel);
        Ok(())
    }

    fn is_clean(&self) -> bool {
        let durable = self.0.durable.load(Ordering::Acquire);
        self.0.written.load(Ordering::Acquire) <= durable
    }

    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        let _using = self.0.using("status", extent, WaitMode::MayBlock)?;
        Ok(self.0.image().status(extent, runs_max))
    }
}

impl Volume for MemoryVolume {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn close(&self) {
        let is_first = self.0.gate.close();
        if let Some(home) = self.0.home.as_ref().filter(|_| is_first) {
            home.closed(self.0.guid);
        }
    }

    fn resize(&self, size: u64) -> Result<(), DatasetError> {
        let fail = |kind| DatasetError::new("resize", &self.0.name, kind);
        let entered = self.0.enter(true);
        let _using = entered.map_err(|_| fail(DatasetErrorKind::Closed))?;
        let block = self.0.image().block_size;
        if size == 0 || size % block != 0 || size % u64::from(self.0.options.logical_block) != 0 {
            return Err(fail(DatasetErrorKind::SizeNotMultiple { size, block }));
        }
        if self.0.options.read_only {
            return Err(fail(DatasetErrorKind::ReadOnly));
        }
        self.0.image().resize(size);
        Ok(())
    }

    fn begin_log(&self) -> Result<(), DeviceError> {
        self.0
            .using("begin the log", Extent::new(0, 0), WaitMode::MayBlock)?;
        Ok(())
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

impl Drop for MemoryVolume {
    fn drop(&mut self) {
        Volume::close(self);
    }
}

impl std::fmt::Debug for MemoryVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryVolume")
            .field("name", &self.0.name)
            .field("closed", &self.0.gate.is_closed())
            .finish_non_exhaustive()
    }
}

struct Pause<'a>(&'a Inner);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.gate.resume();
    }
}

impl Paused for Pause<'_> {
    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        match &self.0.home {
            Some(home) => home.roll_back(self.0.guid, snapshot),
            None => {
                let kind = DatasetErrorKind::NotFound;
                Err(DatasetError::new("roll back to", snapshot.as_str(), kind))
            }
        }
    }

    fn size(&self) -> u64 {
        self.0.image().size
    }
}
