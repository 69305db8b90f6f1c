//! Open file systems.

use std::sync::Arc;

pub use file_system::FileSystem;
use file_system::check::{CheckReport, Summary};

use crate::dataset::DatasetError;

/// An open file system, or a snapshot of one. It is closed when this is dropped.
pub trait OpenFileSystem: std::fmt::Debug + Send + Sync {
    /// The dataset that it was opened by. A rename does not change it.
    fn name(&self) -> &str;

    /// Blocks until active calls have returned, writes all data to disk and releases the file system. Later calls, from
    /// any owner of its files, return [`FileError::Gone`](file_system::FileError::Gone). May block.
    fn close(&self);

    /// Checks a snapshot, which cannot change during the check, for inconsistencies. `tell` returns whether to
    /// continue; if not, the check fails with [`Closed`](crate::dataset::DatasetErrorKind::Closed). Can run for hours.
    fn check(&self, tell: &mut dyn FnMut(CheckReport) -> bool) -> Result<Summary, DatasetError>;

    /// Changes that were refused since it was opened, because the pool or a quota of its dataset has no space left.
    fn refused_for_space(&self) -> u64;

    /// Returns its snapshots, if they are supported. Their open files are closed with it.
    fn snapshots(&self) -> Option<Arc<dyn file_system::Snapshots>> {
        None
    }

    /// Its files, as protocols serve them.
    fn files(&self) -> Arc<dyn file_system::FileSystem>;
}
