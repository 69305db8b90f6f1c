//! Open file systems.

use std::sync::Arc;

/// An open file system, or a snapshot of one. It is closed when this is dropped.
pub trait OpenFileSystem: std::fmt::Debug + Send + Sync {
    /// The dataset that it was opened by. A rename does not change it.
    fn name(&self) -> &str;

    /// Waits for calls to end, writes everything to disk and lets go of the file system. Later calls, from whoever shares
    /// its files, answer [`FileError::Gone`](file_system::FileError::Gone). May block.
    fn close(&self);

    /// Its files, as protocols serve them.
    fn files(&self) -> Arc<dyn file_system::FileSystem>;
}
