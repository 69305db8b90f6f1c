//! A volume that its first use opens. A server start must not take longer with more volumes: each open costs a disk
//! read and the replay of its log, and most volumes are not used in the first second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use block_device::{
    Activity, Begun, BlockDevice, Commit, DeviceError, ErrorKind, Extent, Geometry, ReadLoan,
    StatusRun, Update, WaitMode, WriteLoan, Zero,
};
use engine::Volume;
use units::VolumeName;

use super::freeze::{Change, FreezeGate};

/// Longest write that an unopened volume buffers, in bytes: no protocol sends more at once.
const BUFFER_BYTES_MAX: u64 = 64 << 20;

/// Delay between two attempts to open a volume with an unreadable log.
const HELD_BACK: Duration = Duration::from_secs(10);

/// Opens volumes by name. May block.
pub trait Opener: Send + Sync {
    /// Reads the shape of `name`, which is much cheaper than opening it.
    fn shape(&self, name: &VolumeName) -> Option<Shape>;
    /// Opens `name`.
    fn open(&self, name: &VolumeName) -> Result<Arc<dyn Volume>, DeviceError>;
    /// Called after the first read of any volume was served.
    fn first_read(&self);
}

/// Shape of a volume as stored in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes.
    pub size: u64,
    /// Bytes.
    pub block_size: u32,
}

/// Smallest unit that clients address, in bytes.
pub const LOGICAL_BLOCK: u32 = 512;

/// A volume that is opened by its first use.
pub struct LazyVolume {
    core: Arc<Core>,
}

struct Core {
    opener: Arc<dyn Opener>,
    name: Mutex<VolumeName>,
    /// Read on first use; reset by a resize.
    shape: Mutex<Option<Shape>>,
    volume: OnceLock<Arc<dyn Volume>>,
    /// Serializes open and close.
    gate: Mutex<()>,
    closed: AtomicBool,
    /// Time of a failed open of a volume with a known shape: its log cannot be read. Clients must retry; the open is
    /// retried after a delay.
    held_back: Mutex<Option<Instant>>,
    has_read: AtomicBool,
    activity: Activity,
    freeze: FreezeGate,
}

impl LazyVolume {
    /// A volume of that name. Reads nothing yet.
    pub fn new(opener: Arc<dyn Opener>, name: VolumeName) -> Self {
        Self {
            core: Arc::new(Core {
                opener,
                name: Mutex::new(name),
                shape: Mutex::new(None),
                volume: OnceLock::new(),
                gate: Mutex::new(()),
                closed: AtomicBool::new(false),
                held_back: Mutex::new(None),
                has_read: AtomicBool::new(false),
                activity: Activity::default(),
                freeze: FreezeGate::default(),
            }),
        }
    }

    /// Whether it was used and is not closed.
    pub fn is_open(&self) -> bool {
        self.core.volume.get().is_some() && !self.core.closed.load(Ordering::Acquire)
    }

    /// Opens it now, as its first use would. May block.
    pub fn open(&self) -> Result<(), DeviceError> {
        match self.core.volume.get() {
            Some(_) => Ok(()),
            None => self.core.open("open", Extent::new(0, 0)).map(drop),
        }
    }

    /// The dataset was renamed. Sessions are unaffected.
    pub fn renamed(&self, name: VolumeName) {
        *self.core.name.lock().expect("no holder panics") = name;
    }

    /// Its size has changed.
    pub fn resized(&self) {
        *self.core.shape.lock().expect("no holder panics") = None;
    }

    /// Holds its changes while it is frozen.
    pub fn freeze_gate(&self) -> &FreezeGate {
        &self.core.freeze
    }

    /// Closes it for good: later calls return [`ErrorKind::Gone`]. May block.
    pub fn close(&self) {
        let _gate = self.core.gate.lock().expect("no holder panics");
        if !self.core.closed.swap(true, Ordering::AcqRel) {
            // Held changes are active, and the close would wait for them.
            self.core.freeze.thaw();
            if let Some(volume) = self.core.volume.get() {
                volume.close();
            }
        }
    }
}

impl Core {
    /// Returns the volume if `wait_mode` permits.
    fn volume(
        &self,
        wait_mode: WaitMode<'_>,
        doing: &'static str,
        extent: Extent,
    ) -> Result<&dyn Volume, DeviceError> {
        match self.volume.get() {
            Some(volume) => Ok(volume.as_ref()),
            None if self.is_held_back() => {
                Err(DeviceError::new(ErrorKind::NotReady, doing, extent))
            }
            None if wait_mode.may_block() => self.open(doing, extent),
            None => Err(DeviceError::new(ErrorKind::WouldBlock, doing, extent)),
        }
    }

    /// Begins a change if `wait_mode` permits.
    fn change(
        &self,
        wait_mode: WaitMode<'_>,
        doing: &'static str,
        extent: Extent,
    ) -> Result<Change<'_>, DeviceError> {
        let would_block = || DeviceError::new(ErrorKind::WouldBlock, doing, extent);
        self.freeze.enter(wait_mode).ok_or_else(would_block)
    }

    fn open(&self, doing: &'static str, extent: Extent) -> Result<&dyn Volume, DeviceError> {
        let _gate = self.gate.lock().expect("no holder panics");
        if self.closed.load(Ordering::Acquire) {
            return Err(DeviceError::new(ErrorKind::Gone, doing, extent));
        }
        if self.volume.get().is_none() {
            let name = self.name.lock().expect("no holder panics").clone();
            let opened = self.opener.open(&name);
            let is_refused = matches!(&opened, Err(error) if error.kind == ErrorKind::NotReady);
            // A volume without a shape is missing its key, which is reported elsewhere.
            let held_back = (is_refused && self.read_shape().is_some()).then(Instant::now);
            *self.held_back.lock().expect("no holder panics") = held_back;
            let volume = opened?;
            // Only the holder of the gate sets it.
            let _ = self.volume.set(volume);
        }
        Ok(self.volume.get().expect("just set").as_ref())
    }

    fn is_held_back(&self) -> bool {
        let held_back = self.held_back.lock().expect("no holder panics");
        held_back.is_some_and(|since| since.elapsed() < HELD_BACK)
    }

    fn geometry(&self) -> Geometry {
        if let Some(volume) = self.volume.get() {
            return volume.geometry();
        }
        // An unreadable volume has size 0.
        let shape = self.read_shape().unwrap_or(Shape {
            size: 0,
            block_size: LOGICAL_BLOCK,
        });
        Geometry {
            size: shape.size,
            logical_block: LOGICAL_BLOCK,
            physical_block: shape.block_size,
            read_only: false,
        }
    }

    /// Returns the shape if it can be read. A failure is not cached.
    fn read_shape(&self) -> Option<Shape> {
        let mut shape = self.shape.lock().expect("no holder panics");
        if shape.is_none() && !self.closed.load(Ordering::Acquire) {
            let name = self.name.lock().expect("no holder panics").clone();
            *shape = self.opener.shape(&name);
        }
        *shape
    }

    fn check(&self, doing: &'static str, extent: Extent) -> Result<(), DeviceError> {
        if extent.fits(self.geometry().size) {
            return Ok(());
        }
        Err(DeviceError::new(ErrorKind::OutOfRange, doing, extent))
    }
}

impl BlockDevice for LazyVolume {
    fn geometry(&self) -> Geometry {
        self.core.geometry()
    }

    fn is_ready(&self) -> bool {
        // On a closed volume, the calls themselves return the error.
        self.core.volume.get().is_some()
            || self.core.closed.load(Ordering::Acquire)
            || (self.core.read_shape().is_some() && !self.core.is_held_back())
    }

    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError> {
        let loan = self
            .core
            .volume(wait_mode, "read", extent)?
            .read(extent, wait_mode)?;
        if !self.core.has_read.load(Ordering::Relaxed) {
            self.core.has_read.store(true, Ordering::Relaxed);
            self.core.opener.first_read();
        }
        Ok(loan)
    }

    fn begin_read(&self, extent: Extent) -> Result<Begun, DeviceError> {
        let volume = self.core.volume(WaitMode::NoWait, "read", extent)?;
        // The first read is counted where it is served.
        match self.core.has_read.load(Ordering::Relaxed) {
            true => volume.begin_read(extent),
            false => self.read(extent, WaitMode::NoWait).map(Begun::Done),
        }
    }

    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        // Lending must not block. The first write, and writes during a rollback to a snapshot, go into a buffer of this
        // process.
        match self.core.volume.get().map(|volume| volume.lend(extent)) {
            Some(Err(error)) if error.kind == ErrorKind::WouldBlock => {}
            Some(lent) => {
                let core = Arc::clone(&self.core);
                return Ok(Box::new(Lent { core, loan: lent? }));
            }
            None => {}
        }
        self.core.check("lend", extent)?;
        if extent.length > BUFFER_BYTES_MAX {
            return Err(DeviceError::new(ErrorKind::Failed, "lend", extent));
        }
        Ok(Box::new(Buffer {
            core: Arc::clone(&self.core),
            extent,
            bytes: vec![0; extent.length as usize],
        }))
    }

    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, data.len() as u64);
        let _change = self.core.change(wait_mode, "write", extent)?;
        let volume = self.core.volume(wait_mode, "write", extent)?;
        volume.write(offset, data, wait_mode)
    }

    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        let _change = self.core.change(wait_mode, "write zeroes", extent)?;
        let volume = self.core.volume(wait_mode, "write zeroes", extent)?;
        volume.write_zeroes(extent, zero, wait_mode)
    }

    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        let _change = self.core.change(wait_mode, "unmap", extent)?;
        let volume = self.core.volume(wait_mode, "unmap", extent)?;
        volume.unmap(extent, wait_mode)
    }

    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        let _change = self.core.change(WaitMode::MayBlock, "update", extent)?;
        let volume = self.core.volume(WaitMode::MayBlock, "update", extent)?;
        volume.update(extent, change)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        match self.core.volume.get() {
            Some(volume) => volume.flush(),
            None if self.core.closed.load(Ordering::Acquire) => Err(DeviceError::new(
                ErrorKind::Gone,
                "flush",
                Extent::new(0, 0),
            )),
            // This process has written nothing, and an earlier owner's logged writes are durable.
            None => Ok(()),
        }
    }

    fn is_clean(&self) -> bool {
        self.core
            .volume
            .get()
            .is_none_or(|volume| volume.is_clean())
    }

    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        let volume = self.core.volume(WaitMode::MayBlock, "status", extent)?;
        volume.status(extent, runs_max)
    }

    fn holds_changes(&self) -> bool {
        self.core.freeze.frozen().is_some()
    }

    fn activity(&self) -> Option<&Activity> {
        Some(&self.core.activity)
    }
}

/// Buffers of the engine. Their commit is a change.
struct Lent {
    core: Arc<Core>,
    loan: Box<dyn WriteLoan>,
}

impl WriteLoan for Lent {
    fn extent(&self) -> Extent {
        self.loan.extent()
    }

    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        self.loan.append_parts(parts);
    }

    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit {
        let Self { core, loan } = *self;
        let committed = match core.freeze.enter(wait_mode) {
            Some(_change) => loan.commit(wait_mode),
            None => Commit::WouldBlock(loan),
        };
        match committed {
            Commit::WouldBlock(loan) => Commit::WouldBlock(Box::new(Self { core, loan })),
            ended => ended,
        }
    }
}

/// The data of a write that arrived before the volume was open, or while it is paused.
struct Buffer {
    core: Arc<Core>,
    extent: Extent,
    bytes: Vec<u8>,
}

impl WriteLoan for Buffer {
    fn extent(&self) -> Extent {
        self.extent
    }

    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        parts.push(&mut self.bytes);
    }

    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit {
        let outcome = self
            .core
            .change(wait_mode, "write", self.extent)
            .and_then(|_change| {
                let volume = self.core.volume(wait_mode, "write", self.extent)?;
                volume.write(self.extent.offset, &self.bytes, wait_mode)
            });
        match outcome {
            Ok(()) => Commit::Done,
            Err(error) if error.kind == ErrorKind::WouldBlock => Commit::WouldBlock(self),
            Err(error) => Commit::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use memory_engine::MemoryVolume;

    use super::*;

    const SIZE: u64 = 1 << 20;

    /// Opens volumes in memory and counts.
    #[derive(Default)]
    struct Memory {
        opened: AtomicUsize,
        first_reads: AtomicUsize,
        refuse: AtomicBool,
        is_unreadable: AtomicBool,
    }

    impl Opener for Memory {
        fn shape(&self, _: &VolumeName) -> Option<Shape> {
            Some(Shape {
                size: SIZE,
                block_size: 4096,
            })
        }
        fn open(&self, name: &VolumeName) -> Result<Arc<dyn Volume>, DeviceError> {
            let refusals = [
                (&self.refuse, ErrorKind::Failed),
                (&self.is_unreadable, ErrorKind::NotReady),
            ];
            for (refuses, kind) in refusals {
                if refuses.load(Ordering::Relaxed) {
                    return Err(DeviceError::new(kind, "open", Extent::new(0, 0)));
                }
            }
            self.opened.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new(MemoryVolume::new(name, SIZE, 4096)))
        }
        fn first_read(&self) {
            self.first_reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn volume() -> (Arc<Memory>, LazyVolume) {
        let memory = Arc::new(Memory::default());
        let name = "tank/a".parse().expect("name");
        let volume = LazyVolume::new(memory.clone(), name);
        (memory, volume)
    }

    fn read(
        volume: &LazyVolume,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Vec<u8>, ErrorKind> {
        let loan = volume.read(extent, wait_mode).map_err(|error| error.kind)?;
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        Ok(parts.concat())
    }

    #[test]
    fn first_read_opens_a_lazy_volume_and_geometry_does_not() {
        let (memory, volume) = volume();
        assert_eq!(volume.geometry().size, SIZE);
        assert!(volume.flush().is_ok() && volume.is_clean());
        let extent = Extent::new(0, 512);
        assert_eq!(
            read(&volume, extent, WaitMode::NoWait),
            Err(ErrorKind::WouldBlock)
        );
        assert_eq!(memory.opened.load(Ordering::Relaxed), 0);
        for _ in 0..3 {
            assert_eq!(read(&volume, extent, WaitMode::MayBlock), Ok(vec![0; 512]));
        }
        assert_eq!(memory.opened.load(Ordering::Relaxed), 1);
        assert_eq!(memory.first_reads.load(Ordering::Relaxed), 1);
        assert!(volume.is_open());
    }

    #[test]
    fn write_lent_before_the_open_is_committed_after_it() {
        let (_, volume) = volume();
        let extent = Extent::new(1000, 24);
        let mut loan = volume.lend(extent).expect("lent");
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        parts[0].fill(7);
        let Commit::WouldBlock(loan) = loan.commit(WaitMode::NoWait) else {
            panic!("an unopened volume has to be opened first");
        };
        assert!(matches!(loan.commit(WaitMode::MayBlock), Commit::Done));
        assert_eq!(read(&volume, extent, WaitMode::MayBlock), Ok(vec![7; 24]));
        let beyond = volume.lend(Extent::new(SIZE, 1)).err().map(|e| e.kind);
        assert_eq!(beyond, Some(ErrorKind::OutOfRange));
    }

    #[test]
    fn closed_volume_is_never_reopened() {
        let (memory, volume) = volume();
        volume.close();
        let extent = Extent::new(0, 512);
        assert_eq!(
            read(&volume, extent, WaitMode::MayBlock),
            Err(ErrorKind::Gone)
        );
        assert_eq!(volume.flush().map_err(|e| e.kind), Err(ErrorKind::Gone));
        assert_eq!(memory.opened.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn failed_open_is_retried() {
        let (memory, volume) = volume();
        memory.refuse.store(true, Ordering::Relaxed);
        let extent = Extent::new(0, 512);
        assert_eq!(
            read(&volume, extent, WaitMode::MayBlock),
            Err(ErrorKind::Failed)
        );
        memory.refuse.store(false, Ordering::Relaxed);
        assert!(read(&volume, extent, WaitMode::MayBlock).is_ok());
    }

    /// Every call that changes a frozen volume blocks; a call that only reads does not.
    #[test]
    fn frozen_volume_serves_reads_and_flushes_only() {
        let (_, volume) = volume();
        let (extent, long) = (Extent::new(0, 4096), Duration::from_secs(60));
        volume.open().expect("opened");
        let lent = volume.lend(extent).expect("lent before");
        volume.freeze_gate().freeze(long, long).expect("frozen");
        assert!(volume.holds_changes());
        let is_held = |outcome: Result<(), DeviceError>| matches!(outcome, Err(error) if error.kind == ErrorKind::WouldBlock);
        assert!(is_held(volume.write(0, &[1; 512], WaitMode::NoWait)));
        assert!(is_held(volume.unmap(extent, WaitMode::NoWait)));
        let zero = volume.write_zeroes(extent, Zero::MayFree, WaitMode::NoWait);
        assert!(is_held(zero));
        let Commit::WouldBlock(lent) = lent.commit(WaitMode::NoWait) else {
            panic!("a loan from before the freeze is held, too");
        };
        assert!(volume.flush().is_ok());
        assert_eq!(read(&volume, extent, WaitMode::NoWait), Ok(vec![0; 4096]));
        std::thread::scope(|scope| {
            let update = scope.spawn(|| {
                volume.update(extent, &mut |bytes| {
                    bytes[0] = 7;
                    Update::Write
                })
            });
            assert_eq!(read(&volume, extent, WaitMode::MayBlock), Ok(vec![0; 4096]));
            assert!(!update.is_finished());
            volume.freeze_gate().thaw();
            assert!(update.join().expect("no panic").is_ok());
        });
        assert!(matches!(lent.commit(WaitMode::NoWait), Commit::Done));
        assert!(volume.write(0, &[1; 512], WaitMode::NoWait).is_ok());
    }

    #[test]
    fn close_of_a_frozen_volume_releases_blocked_writes() {
        let (_, volume) = volume();
        let long = Duration::from_secs(60);
        volume.open().expect("opened");
        volume.freeze_gate().freeze(long, long).expect("frozen");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let write = scope.spawn(|| volume.write(0, &[1; 512], WaitMode::MayBlock));
            volume.close();
            let _ = write.join().expect("no panic");
        });
        assert!(begun.elapsed() < long);
    }

    #[test]
    fn unreadable_log_keeps_volume_not_ready_until_another_open() {
        let (memory, volume) = volume();
        let extent = Extent::new(0, 512);
        assert!(volume.is_ready());
        memory.is_unreadable.store(true, Ordering::Relaxed);
        assert!(volume.open().is_err());
        assert!(!volume.is_ready());
        memory.is_unreadable.store(false, Ordering::Relaxed);
        for wait_mode in [WaitMode::NoWait, WaitMode::MayBlock] {
            let refused = read(&volume, extent, wait_mode);
            assert_eq!(
                refused,
                Err(ErrorKind::NotReady),
                "clients trigger no retry"
            );
        }
        assert!(volume.open().is_ok() && volume.is_ready());
        assert!(read(&volume, extent, WaitMode::NoWait).is_ok());
    }
}
