//! Pauses a volume so that its contents can be replaced under its users.

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::dataset::{DatasetError, DatasetErrorKind};
use units::SnapshotName;
use zpool_sys as sys;

use super::{Shared, Volume};
use crate::error::SystemError;
use crate::error::rollback_error;
use crate::pool::c_text;
use engine::gate::NoPause;

/// A volume without active calls.
pub(super) struct Paused<'a>(&'a Shared);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.gate.resume();
    }
}

impl Volume {
    pub(super) fn pause_shared(&self, wait: Duration) -> Result<Paused<'_>, DatasetError> {
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

impl engine::Paused for Paused<'_> {
    fn rollback(&self, snapshot: &SnapshotName) -> Result<(), DatasetError> {
        const DOING: &str = "roll back to";
        let shared = self.0;
        let pool = shared.name.split('/').next().unwrap_or_default();
        if snapshot.volume().pool().as_str() != pool {
            let kind = DatasetErrorKind::OtherPool;
            return Err(DatasetError::new(DOING, snapshot.as_str(), kind));
        }
        let name = c_text(snapshot.as_str());
        // SAFETY: open, and the pause excludes every other user; write loans touch only buffers of
        // the pool until they are committed; the name is copied.
        let (code, size) = unsafe {
            let raw = shared.raw.as_ptr();
            let code = sys::bh_volume_rollback(raw, name.as_ptr());
            (code, sys::bh_volume_size(raw))
        };
        shared.size.store(size, Ordering::Release);
        SystemError::check(code).map_err(|cause| rollback_error(DOING, snapshot, cause))
    }

    fn size(&self) -> u64 {
        self.0.size.load(Ordering::Acquire)
    }
}
