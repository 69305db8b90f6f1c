//! Open volumes: block devices, and further functions of their engine.

use std::sync::Arc;
use std::time::Duration;

use block_device::{BlockDevice, DeviceError};
use units::SnapshotName;

use crate::dataset::DatasetError;

/// An open volume or snapshot.
pub trait Volume: BlockDevice + std::fmt::Debug {
    /// The dataset it was opened by. A rename does not change it.
    fn name(&self) -> &str;

    /// Blocks until active calls and loans are over, writes all data to disk and releases the volume. Later
    /// calls, from any owner, return [`ErrorKind::Gone`]. May block.
    fn close(&self);

    /// Changes the size, which must be a multiple of the block size, while in use. Data beyond a
    /// smaller size is lost. May block.
    fn resize(&self, size: u64) -> Result<(), DatasetError>;

    /// Creates the intent log, so that the first flush does not block on a transaction group. Does nothing for a
    /// read-only volume. May block.
    fn begin_log(&self) -> Result<(), DeviceError>;

    /// Blocks new calls, and the caller until active calls and read loans are over. If one exceeds `wait`, the pause
    /// is cancelled, and the volume is [`Busy`](crate::dataset::DatasetErrorKind::Busy).
    fn pause(&self, wait: Duration) -> Result<Box<dyn Paused + '_>, DatasetError>;

    /// The block device that protocols serve.
    fn device(self: Arc<Self>) -> Arc<dyn BlockDevice>;
}

/// A paused volume: calls that may wait block until this is dropped; the rest return that they would block.
pub trait Paused {
    /// Rolls the volume back to its newest snapshot: in one transaction group, or not at all. Later
    /// writes are lost; buffers that are lent for a write now will be written afterwards. May
    /// block.
    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError>;

    /// The size now, in bytes.
    fn size(&self) -> u64;
}

/// How to open a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Refuse writes. Snapshots are always read-only.
    pub read_only: bool,
    /// Smallest addressable unit shown to clients: 512 or 4096.
    pub logical_block: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            logical_block: 512,
        }
    }
}
