//! Open volumes: block devices, and what else their engine can do with them.

use std::sync::Arc;
use std::time::Duration;

use block_device::{BlockDevice, DeviceError};
use units::SnapshotName;

use crate::dataset::DatasetError;

/// An open volume or snapshot.
pub trait Volume: BlockDevice + std::fmt::Debug {
    /// The dataset it was opened by. A rename does not change it.
    fn name(&self) -> &str;

    /// Waits for calls and loans to end, writes everything to disk and lets go of the volume.
    /// Later calls, from whoever shares it, answer [`ErrorKind::Gone`]. May block.
    fn close(&self);

    /// Changes the size, which must be a multiple of the block size, while in use. What lies
    /// beyond a smaller size is lost. May block.
    fn resize(&self, size: u64) -> Result<(), DatasetError>;

    /// Has the intent log begin, so that the first flush does not wait for a transaction group. Does
    /// nothing to a volume that is read-only. May block.
    fn begin_log(&self) -> Result<(), DeviceError>;

    /// Lets the calls and read loans under way end, and keeps new ones waiting. If one does not
    /// end within `wait`, nobody waits any more, and the volume is
    /// [`Busy`](crate::dataset::DatasetErrorKind::Busy).
    fn pause(&self, wait: Duration) -> Result<Box<dyn Paused + '_>, DatasetError>;

    /// As what protocols serve.
    fn device(self: Arc<Self>) -> Arc<dyn BlockDevice>;
}

/// A volume that nobody uses: calls that may wait do so until this is dropped, others are told that they would have to.
pub trait Paused {
    /// Takes the volume back to its newest snapshot: all at once in one transaction group, or not
    /// at all. What was written since is lost; what is lent for a write now will be written after
    /// it. May block.
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
