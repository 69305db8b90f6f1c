//! Open file systems.

use std::sync::Arc;

pub use file_system::FileSystem;
use file_system::check::{Summary, Told};

use crate::dataset::DatasetError;

/// An open file system, or a snapshot of one. It is closed when this is dropped.
pub trait OpenFileSystem: std::fmt::Debug + Send + Sync {
    /// The dataset that it was opened by. A rename does not change it.
    fn name(&self) -> &str;

    /// Waits for calls to end, writes everything to disk and lets go of the file system. Later calls, from whoever shares
    /// its files, answer [`FileError::Gone`](file_system::FileError::Gone). May block.
    fn close(&self);

    /// Looks for what does not fit together; of a snapshot, because nobody may change it meanwhile. `tell` answers whether to go
    /// on: if not, the answer is [`Closed`](crate::dataset::DatasetErrorKind::Closed). May take hours.
    fn check(&self, tell: &mut dyn FnMut(Told) -> bool) -> Result<Summary, DatasetError>;

    /// Changes that were refused since it was opened, because the pool or a quota of its dataset has no space left.
    fn refused_for_space(&self) -> u64;

    /// Its snapshots, if it can show them. What is open of them is closed with it.
    fn snapshots(&self) -> Option<Arc<dyn file_system::Snapshots>> {
        None
    }

    /// Its files, as protocols serve them.
    fn files(&self) -> Arc<dyn file_system::FileSystem>;
}
