//! Volumes and file systems with an intent log that must be replayed. A log is replayed when its volume is opened, so
//! until then a snapshot or stream of the volume misses the last writes that an earlier owner acknowledged.

use std::ffi::{CStr, c_char, c_void};
use std::time::{Duration, Instant};

use engine::Volume as _;
use engine::capabilities::{Datasets, FileSystems, IntentLogs};
use engine::dataset::{DatasetError, DatasetErrorKind};
use engine::volume::OpenOptions;
use units::VolumeName;
use zpool_sys as sys;

use crate::error::SystemError;
use crate::pool::{Pool, c_text};

/// How long to wait for the log of a file system that another thread has open.
const OTHER_REPLAY_WAIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// # Safety
/// `arg` is a `&mut Vec<VolumeName>`, `name` NUL-terminated text.
unsafe extern "C" fn collect(arg: *mut c_void, name: *const c_char) {
    // SAFETY: promised by the caller.
    let (found, name) = unsafe { (&mut *arg.cast::<Vec<VolumeName>>(), CStr::from_ptr(name)) };
    // A dataset with a name that is invalid here cannot be served or opened either.
    found.extend(name.to_str().ok().and_then(|name| name.parse().ok()));
}

impl IntentLogs for Pool {
    fn unreplayed_volumes(&self) -> Result<Vec<VolumeName>, DatasetError> {
        const DOING: &str = "look for intent logs in";
        let mut found: Vec<VolumeName> = Vec::new();
        // SAFETY: the pool is open; `found` outlives the call, which is when the visitor runs.
        let code = unsafe {
            sys::bh_unreplayed_volumes(self.c_name().as_ptr(), collect, (&raw mut found).cast())
        };
        SystemError::check(code)
            .map_err(|cause| DatasetError::common(DOING, self.name().as_str(), cause))?;
        Ok(found)
    }

    fn is_unreplayed(&self, name: &VolumeName) -> Result<bool, DatasetError> {
        const DOING: &str = "look for the intent log of";
        if name.pool() != *self.name() {
            let kind = DatasetErrorKind::OtherPool;
            return Err(DatasetError::new(DOING, name.as_str(), kind));
        }
        let c_name = c_text(name.as_str());
        let mut unreplayed = 0;
        // SAFETY: the pool is open; the name is copied, and the result is ours.
        let code = unsafe { sys::bh_volume_is_unreplayed(c_name.as_ptr(), &mut unreplayed) };
        SystemError::check(code)
            .map_err(|cause| DatasetError::common(DOING, name.as_str(), cause))?;
        Ok(unreplayed != 0)
    }

    fn replay(&self, name: &VolumeName) -> Result<(), DatasetError> {
        if !self.is_unreplayed(name)? {
            return Ok(());
        }
        if self.dataset(name.into())?.volume.is_some() {
            self.open_volume(name, OpenOptions::default())?.close();
            return Ok(());
        }
        let started = Instant::now();
        loop {
            match self.open_file_system(name.into(), false) {
                Ok(opened) => {
                    opened.close();
                    return Ok(());
                }
                // The process that has it open replays its log, or has.
                Err(error) if error.kind == DatasetErrorKind::Busy => {
                    if !self.is_unreplayed(name)? {
                        return Ok(());
                    }
                    if started.elapsed() >= OTHER_REPLAY_WAIT {
                        return Err(error);
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn discard_log(&self, name: &VolumeName) -> Result<bool, DatasetError> {
        if !self.is_unreplayed(name)? {
            return Ok(false);
        }
        let c_name = c_text(name.as_str());
        // SAFETY: the pool is open; the name is copied.
        let code = unsafe { sys::bh_volume_discard_log(c_name.as_ptr()) };
        let discarded = SystemError::check(code);
        discarded.map_err(|cause| {
            DatasetError::common("discard the intent log of", name.as_str(), cause)
        })?;
        Ok(true)
    }
}
