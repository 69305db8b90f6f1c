//! The interface of a volume to the protocols above it: a byte-addressed device with loans instead of copies, an
//! explicit wait mode, and errors that a protocol can translate.
//!
//! **Loans.** A read returns a [`ReadLoan`] that borrows the engine's own buffers and holds the range locked for
//! reading; Drop it soon, and copy the part that a socket does not accept at once. A write fills a [`WriteLoan`] with
//! network data in place and commits it.
//!
//! **WaitMode.** [`WaitMode::NoWait`] never blocks: It returns [`ErrorKind::WouldBlock`] when data is not cached, a
//! range is locked, or a transaction would have to wait. The caller then repeats the call with [`WaitMode::MayBlock`]
//! on a thread that can block. A change that blocks for long may be obsolete by the time it can run: with
//! [`WaitMode::Permitted`] the device checks a permit just before it applies the change.
//!
//! **Callbacks.** [`BlockDevice::begin_read`] starts an asynchronous read: the device calls back when the data is
//! available. No thread is parked for it.
//!
//! **Durability.** A completed write is visible to later reads at once and durable after the next completed
//! [`BlockDevice::flush`]. Each call is atomic with respect to overlapping ones.

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

/// Whether a call may block on a disk, a lock or a transaction.
#[derive(Clone, Copy)]
pub enum WaitMode<'a> {
    /// Return [`ErrorKind::WouldBlock`] instead of blocking.
    NoWait,
    /// Block for as long as necessary.
    MayBlock,
    /// Block for as long as necessary, then apply the change only if the permit allows it.
    Permitted(&'a dyn Permit),
}

/// Decides whether a change that had to block may still take effect: its requester may be gone by then.
pub trait Permit: Send + Sync {
    /// Called by the device just before it applies the change, when nothing is left to wait for. If it returns
    /// `true`, the change is applied; otherwise it is not, and the caller gets [`ErrorKind::Gone`]. A call that changes
    /// the device in several steps may call this before each step.
    fn begin(&self) -> bool;
}

impl<F: Fn() -> bool + Send + Sync> Permit for F {
    fn begin(&self) -> bool {
        self()
    }
}

impl WaitMode<'_> {
    /// Whether the call may block.
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

/// The kind of an error, for callers to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Only with [`WaitMode::NoWait`]: repeat with [`WaitMode::MayBlock`].
    WouldBlock,
    /// The extent does not lie inside the device.
    OutOfRange,
    /// The device is read-only.
    ReadOnly,
    /// The pool is full or a quota is reached. No data was written.
    NoSpace,
    /// Data cannot be read: no intact copy is left.
    Unreadable,
    /// The engine failed for another reason.
    Failed,
    /// Temporarily unavailable, with all acknowledged data intact: its encryption key is not loaded.
    NotReady,
    /// The device was closed, destroyed or lost to another owner, or the [`Permit`] was refused: drop the session and
    /// never send this to a client as a reply.
    Gone,
}

/// A device call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} of {} bytes at byte {}: {kind:?}", extent.length, extent.offset)]
pub struct DeviceError {
    /// The kind, for callers to match on.
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

/// Borrowed contents of an extent. Dropping it returns the buffers and unlocks the range.
pub trait ReadLoan: Send {
    /// Bytes lent; the length of the extent that was read.
    fn byte_count(&self) -> usize;
    /// Appends the parts, in order, to `parts`.
    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>);
}

/// Completion callback of an asynchronous read. Called once, on any thread. It must not block, nor start a read that
/// may block. [`ErrorKind::WouldBlock`]: repeat the read on a thread that may wait.
pub type ReadDone = Box<dyn FnOnce(Result<Box<dyn ReadLoan>, DeviceError>) + Send>;

/// A read that is in flight to the disks. Dropping it cancels the callback.
pub trait PendingRead: Send {
    /// Has `done` called when the data is available: from this call, or later.
    fn finish(self: Box<Self>, done: ReadDone);
}

/// The result of [`BlockDevice::begin_read`].
pub enum Begun {
    /// The data was cached.
    Done(Box<dyn ReadLoan>),
    /// The read is in flight.
    Pending(Box<dyn PendingRead>),
}

/// Buffers of the engine to be filled in any order and then committed as one write. Dropping it
/// uncommitted writes nothing.
pub trait WriteLoan: Send {
    /// The extent that the write will cover.
    fn extent(&self) -> Extent;
    /// Appends the parts to fill, in order, to `parts`.
    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>);
    /// Writes the filled buffer; see the crate's notes on durability.
    fn commit(self: Box<Self>, wait_mode: WaitMode<'_>) -> Commit;
}

/// The result of [`WriteLoan::commit`].
pub enum Commit {
    /// Written.
    Done,
    /// Only with [`WaitMode::NoWait`]: returns the loan, to be committed where blocking is allowed.
    WouldBlock(Box<dyn WriteLoan>),
    /// Nothing was written.
    Failed(DeviceError),
}

/// The action that the callback of [`BlockDevice::update`] chooses after it has read the old contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Write the changed buffer back.
    Write,
    /// Leave the device as it is.
    Keep,
}

/// Whether zeroed space may be returned to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// Free the blocks that can be freed.
    MayFree,
    /// Leave it allocated, or allocate it.
    KeepAllocated,
}

/// A run of blocks in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRun {
    /// Length in bytes.
    pub length: u64,
    /// Whether blocks are stored for it; otherwise it is a hole that reads as zeros.
    pub allocated: bool,
}

/// A volume as exposed to protocols. All offsets and lengths are in bytes and may have any alignment; aligned to
/// `physical_block` is fast.
pub trait BlockDevice: Send + Sync {
    /// The current shape; `size` can change between calls when the volume is resized.
    fn geometry(&self) -> Geometry;

    /// Whether its contents are accessible. If not, other calls fail with [`ErrorKind::NotReady`], and the shape is
    /// unknown.
    fn is_ready(&self) -> bool {
        true
    }

    /// Reads `extent`.
    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError>;

    /// Reads `extent` without blocking: data that is not cached is requested from the disks, and `done` is called on
    /// completion. [`ErrorKind::WouldBlock`] where only a thread that blocks can proceed.
    fn begin_read(&self, extent: Extent) -> Result<Begun, DeviceError> {
        self.read(extent, WaitMode::NoWait).map(Begun::Done)
    }

    /// Lends buffers for a write of `extent`. Does not block and does not lock the range; [`ErrorKind::WouldBlock`]
    /// where no buffer can be lent now.
    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError>;

    /// Writes `data` at byte `offset` by copying it.
    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError>;

    /// Writes `data` at byte `offset`, durably if the device can do both in one call. Returns whether the data is durable;
    /// if not, a [`flush`](Self::flush) makes it so.
    fn write_durably(
        &self,
        offset: u64,
        data: &[u8],
        wait_mode: WaitMode<'_>,
    ) -> Result<bool, DeviceError> {
        self.write(offset, data, wait_mode).map(|()| false)
    }

    /// Whether every write blocks for the disk. Then a connection without further requests should wait for it on its own
    /// thread: a worker would save nothing and cost two switches of threads.
    fn always_blocks(&self) -> bool {
        false
    }

    /// Zeros `extent`.
    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError>;

    /// Frees `extent`: afterwards it reads as zeros (whole physical blocks are returned to the pool, the edges are
    /// zeroed).
    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError>;

    /// Reads `extent`, lets `change` modify it and writes it back if `change` requests that. All of it runs under one
    /// lock, so no other request sees or changes the extent in between. May block. `change` is responsible for checking
    /// a permit.
    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError>;

    /// Returns when every write that completed before the call is durable. O(1) when nothing is dirty. May block.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Whether a [`flush`](Self::flush) would have nothing to do.
    fn is_clean(&self) -> bool;

    /// The states of `extent`, in order, at most `runs_max` runs (the last one may then be cut). May block.
    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError>;

    /// Whether changes block for long: other requests must not queue up behind them for a thread.
    fn holds_changes(&self) -> bool {
        false
    }

    /// The counters that servers update for client requests, if the device has them.
    fn activity(&self) -> Option<&Activity> {
        None
    }
}

/// A device that several sessions share.
pub type SharedDevice = Arc<dyn BlockDevice>;
