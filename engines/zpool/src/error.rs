//! Errors of the engine's start and of the seam.

use std::ffi::CStr;

use engine::dataset::{DatasetError, DatasetErrorKind};
use units::SnapshotName;

pub use engine::error::{SystemError, errno};
pub use engine::pool::{PoolError, PoolErrorKind};

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The library's state is one per process.
    #[error("the ZFS engine runs already: one process has one engine")]
    AlreadyStarted,
    /// The library is not the one that this binary was built for.
    #[error(
        "the installed libzpool was built differently from this program: install the version \
         that `make deps` installs, and build again ({what})"
    )]
    OtherLibrary {
        /// The check that failed.
        what: &'static str,
    },
    /// The library is of another version than this binary was built for.
    #[error(
        "this bulkhead was built for OpenZFS {known}, and the library on this machine is {found}: \
         their inner structures may differ, so no pool is touched; install the bulkhead that was \
         built for it, or build it here again (`make build`)"
    )]
    OtherVersion {
        /// The version at compile time.
        known: &'static str,
        /// The installed version.
        found: String,
    },
    /// The library has debugging checks and this binary was built for one without, or the reverse.
    #[error(
        "this bulkhead was built for a libzpool {known}, and the library on this machine is {found}: \
         their inner structures differ, so no pool is touched; install the bulkhead that was built \
         for it, or start this one without LD_LIBRARY_PATH or LD_PRELOAD if they name another library"
    )]
    OtherKind {
        /// The kind at compile time.
        known: &'static str,
        /// The loaded kind.
        found: &'static str,
    },
    /// The library is not Debian's, and not the build that this binary was built for.
    #[error(
        "this bulkhead was built for one build of bulkhead-libzpool, and the library on this machine \
         is another one: their inner structures may differ, so no pool is touched; install the \
         bulkhead and the bulkhead-libzpool that were built together"
    )]
    OtherOwnBuild,
    /// An option is out of bounds.
    #[error("engine option {option}: {rule}")]
    Option {
        /// Which.
        option: &'static str,
        /// The required package version.
        rule: &'static str,
    },
    /// Signals could not be blocked for the library's threads.
    #[error("block signals")]
    Signals(#[source] std::io::Error),
    /// The device driver could not start.
    #[error("start the device driver")]
    Driver(#[source] std::io::Error),
    /// The library refused.
    #[error("start the ZFS library")]
    Library(#[source] SystemError),
}

/// Text that the library never frees.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string that is never freed.
pub(crate) unsafe fn static_text(text: *const std::ffi::c_char) -> Option<&'static str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Translates the library's errors for a failed rollback.
pub(crate) fn rollback_error(
    doing: &'static str,
    snapshot: &SnapshotName,
    cause: SystemError,
) -> DatasetError {
    if cause.is(rustix::io::Errno::EXIST) {
        let kind = DatasetErrorKind::NotNewest;
        return DatasetError::because(doing, snapshot.as_str(), kind, cause);
    }
    // The library's errno for a missing snapshot.
    if cause.is(rustix::io::Errno::SRCH) {
        let kind = DatasetErrorKind::NotFound;
        return DatasetError::because(doing, snapshot.as_str(), kind, cause);
    }
    DatasetError::common(doing, snapshot.as_str(), cause)
}
