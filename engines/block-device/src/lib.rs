//! What every volume is to the protocols above it: a device of bytes with loans instead of
//! copies, a wait mode instead of a hidden wait, and errors that a protocol can translate.
//!
//! **Loans.** A read returns a [`ReadLoan`] that borrows the engine's own buffers and holds the
//! range locked for reading; drop it soon (copy what a socket does not take at once). A write
//! fills a [`WriteLoan`] with network data in place and commits it.
//!
//! **WaitMode.** [`WaitMode::NoWait`] never blocks: it answers [`ErrorKind::WouldBlock`] when data
//! is not cached, a range is locked, or a transaction has to wait. The caller then repeats the
//! call with [`WaitMode::MayBlock`] on a thread that may wait. A change that waits for long may find
//! that nobody wants it any more: [`WaitMode::Permitted`] has the device ask at the last moment.
//!
//! **Calling back.** [`BlockDevice::begin_read`] leaves a read to the device, which calls back when the data is there: the
//! connection's thread goes on meanwhile, and no other one is parked.
//!
//! **Durability.** A completed write is visible to later reads at once and durable after the
//! next completed [`BlockDevice::flush`]. Overlapping operations are atomic against each other
//! per call.

#![forbid(unsafe_code)]

mod activity;
mod memory;

use std::sync::Arc;

pub use activity::{Activity, Direction, DirectionSnapshot, TIME_CLASSES};
pub use memory::MemoryDevice;
pub use units::Extent;

/// Shape of a device. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity; a multiple of `logical_block`.
    pub size: u64,
    /// Smallest addressable unit as a protocol shows it: 512 or 4096.
    pub logical_block: u32,
    /// Unit that the engine stores and allocates: aligned writes of it need no read.
    pub physical_block: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Whether a call may wait for a disk, a lock or a transaction.
#[derive(Clone, Copy)]
pub enum WaitMode<'a> {
    /// Answer [`ErrorKind::WouldBlock`] instead of waiting.
    NoWait,
    /// Wait as long as it takes.
    MayBlock,
    /// Wait as long as it takes; then change something only if the permit says so.
    Permitted(&'a dyn Permit),
}

/// Whether a change that had to wait may still take effect: who asked for it may be gone by then.
pub trait Permit: Send + Sync {
    /// Asked by the device at the last moment, with everything in hand that it had to wait for.
    /// After `true` the change takes effect; after `false` nothing happens, and the caller gets
    /// [`ErrorKind::Gone`]. A call that changes in several steps may ask before each.
    fn begin(&self) -> bool;
}

impl<F: Fn() -> bool + Send + Sync> Permit for F {
    fn begin(&self) -> bool {
        self()
    }
}

impl WaitMode<'_> {
    /// Whether the call may wait.
    pub const fn may_block(self) -> bool {
        !matches!(self, Self::NoWait)
    }

    /// Whether a change may take effect now; see [`Permit::begin`].
    pub fn permits(self) -> bool {
        match self {
            Self::NoWait | Self::MayBlock => true,
            Self::Permitted(permit) => permit.begin(),
        }
    }
}

/// What a caller matches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Only with [`WaitMode::NoWait`]: repeat with [`WaitMode::MayBlock`].
    WouldBlock,
    /// The extent does not lie inside the device.
    OutOfRange,
    /// The device is read-only.
    ReadOnly,
    /// The pool is full or a quota is reached. Nothing was written.
    NoSpace,
    /// Data cannot be read: no good copy is left.
    Unreadable,
    /// The engine failed to do it for another reason.
    Failed,
    /// It cannot be reached now, and can be later, with all that was ever acknowledged: its
    /// encryption key is not loaded.
    NotReady,
    /// The device was closed, destroyed or lost to another owner, or the [`Permit`] was refused:
    /// drop the session, never answer a client with this.
    Gone,
}

/// A device call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} of {} bytes at byte {}: {kind:?}", extent.length, extent.offset)]
pub struct DeviceError {
    /// What a caller matches on.
    pub kind: ErrorKind,
    /// The step, such as "read".
    pub doing: &'static str,
    /// Where.
    pub extent: Extent,
    /// The engine's own error, if it has one.
    #[source]
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl DeviceError {
    /// An error without a deeper cause.
    pub fn new(kind: ErrorKind, doing: &'static str, extent: Extent) -> Self {
        Self {
            kind,
            doing,
            extent,
            cause: None,
        }
    }
}

/// Borrowed contents of an extent. Dropping it gives the buffers and the range back.
pub trait ReadLoan: Send {
    /// Bytes lent; the length of the extent that was read.
    fn byte_count(&self) -> usize;
    /// Appends the parts, in order, to `parts`.
    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>);
}

/// Told once of the end of a read that was begun, on any thread. It must not wait, and cannot ask for a read that may.
/// [`ErrorKind::WouldBlock`]: repeat the read on a thread that may wait.
pub type ReadDone = Box<dyn FnOnce(Result<Box<dyn ReadLoan>, DeviceError>) + Send>;

/// A read whose data is on its way from the disks. Dropping it gives it up.
pub trait PendingRead: Send {
    /// Has `done` called when it is there: from this call, or later.
    fn finish(self: Box<Self>, done: ReadDone);
}

/// What became of [`BlockDevice::begin_read`].
pub enum Begun {
    /// The data was at hand.
    Done(Box<dyn ReadLoan>),
    /// It is on its way.
    Pending(Box<dyn PendingRead>),
}

/// Buffers of the engine to be filled in any order and then committed as one write. Dropping it
/// uncommitted writes nothing.
pub trait WriteLoan: Send {
    /// Where the write will go.
    fn extent(&self) -> Extent;
    /// Appends the parts to fill, in order, to `parts`.
    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>);
    /// Writes what was filled in; see the crate's notes on durability.
    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit;
}

/// What became of a [`WriteLoan::commit`].
pub enum Commit {
    /// Written.
    Done,
    /// Only with [`WaitMode::NoWait`]: here is the loan, commit it where waiting is allowed.
    WouldBlock(Box<dyn WriteLoan>),
    /// Nothing was written.
    Failed(DeviceError),
}

/// What [`BlockDevice::update`] does after looking at the old contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Write the changed buffer back.
    Write,
    /// Leave the device as it is.
    Keep,
}

/// Whether zeroed space may be given back to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// Free what can be freed.
    MayFree,
    /// Keep (or make) it allocated.
    KeepAllocated,
}

/// A run of blocks in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRun {
    /// Length in bytes.
    pub length: u64,
    /// Whether blocks are stored for it; otherwise it is a hole that reads as zeroes.
    pub allocated: bool,
}

/// A volume as protocols see it. All offsets and lengths are in bytes and may have any alignment;
/// aligned to `physical_block` is fast.
pub trait BlockDevice: Send + Sync {
    /// The shape now; `size` can change between calls when the volume is resized.
    fn geometry(&self) -> Geometry;

    /// Whether its contents can be reached. Where not, other calls fail with
    /// [`ErrorKind::NotReady`], and the shape is unknown.
    fn is_ready(&self) -> bool {
        true
    }

    /// Reads `extent`.
    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError>;

    /// Reads `extent` without a wait: what is not at hand is asked of the disks, and whoever asked is called back, so that no
    /// thread waits. [`ErrorKind::WouldBlock`] where only a thread that waits can go on.
    fn begin_read(&self, extent: Extent) -> Result<Begun, DeviceError> {
        self.read(extent, WaitMode::NoWait).map(Begun::Done)
    }

    /// Lends buffers for a write of `extent`. Does not block and does not lock the range;
    /// [`ErrorKind::WouldBlock`] where nothing can be lent now.
    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError>;

    /// Writes `data` at byte `offset` by copying it.
    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError>;

    /// Makes `extent` read as zeroes.
    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError>;

    /// Frees `extent`: afterwards it reads as zeroes (whole physical blocks are given back to the
    /// pool, the edges are zeroed).
    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError>;

    /// Reads `extent`, lets `change` alter it, and writes it back if told so, all under one lock:
    /// nothing else sees or changes the extent meanwhile. May block. A permit is asked by `change`.
    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError>;

    /// Returns when everything that completed before the call is durable. O(1) when nothing is
    /// dirty. May block.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Whether a [`flush`](Self::flush) would have nothing to do.
    fn is_clean(&self) -> bool;

    /// The states of `extent`, in order, at most `runs_max` runs (the last may then end early).
    /// May block.
    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError>;

    /// Whether changes wait for long: other requests must not wait behind them for a thread.
    fn holds_changes(&self) -> bool {
        false
    }

    /// Where servers count what clients do on it, if somebody wants to know.
    fn activity(&self) -> Option<&Activity> {
        None
    }
}

/// A device that several sessions share.
pub type SharedDevice = Arc<dyn BlockDevice>;
