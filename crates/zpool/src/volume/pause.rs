//! A volume that holds still for a moment, so that its contents can be exchanged under its users.

use std::sync::atomic::Ordering;
use std::time::Duration;

use units::SnapshotName;
use zpool_sys as sys;

use super::gate::NoPause;
use super::{Shared, Volume};
use crate::dataset::{DatasetError, DatasetErrorKind, rollback_error};
use crate::error::ZfsError;
use crate::pool::{Pool, c_text};

/// A volume that nobody uses: calls that may wait do so until this is dropped, others are told
/// that they would have to.
pub struct Paused<'a>(&'a Shared);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.gate.resume();
    }
}

impl Volume {
    /// Lets the calls and read loans under way end, and keeps new ones waiting. If one does not
    /// end within `wait`, nobody waits any more, and the volume is [`DatasetErrorKind::Busy`].
    pub fn pause(&self, wait: Duration) -> Result<Paused<'_>, DatasetError> {
        self.shared.gate.pause(wait).map_err(|why| {
            let kind = match why {
                NoPause::Closed => DatasetErrorKind::Closed,
                NoPause::InUse => DatasetErrorKind::Busy,
            };
            DatasetError::new("pause", &self.shared.name, kind)
        })?;
        Ok(Paused(&self.shared))
    }
}

impl Paused<'_> {
    /// Takes the volume back to its newest snapshot: all at once in one transaction group, or not
    /// at all. What was written since is lost; what is lent for a write now will be written after
    /// it. May block.
    pub fn rollback(&self, pool: &Pool, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        const DOING: &str = "roll back to";
        let shared = self.0;
        if *pool.name() != snapshot.volume().pool() {
            let kind = DatasetErrorKind::OtherPool;
            return Err(DatasetError::new(DOING, snapshot.as_str(), kind));
        }
        let name = c_text(snapshot.as_str());
        // SAFETY: open, and the pause keeps every other user out; write loans touch only buffers
        // of the pool until they are committed; the name is copied.
        let (code, size) = unsafe {
            let raw = shared.raw.as_ptr();
            let code = sys::bh_volume_rollback(raw, name.as_ptr());
            (code, sys::bh_volume_size(raw))
        };
        shared.size.store(size, Ordering::Release);
        ZfsError::check(code).map_err(|cause| rollback_error(DOING, snapshot, cause))
    }

    /// The size now, in bytes.
    pub fn size(&self) -> u64 {
        self.0.size.load(Ordering::Acquire)
    }
}
