//! File systems.

use std::sync::Arc;

use engine::OpenFileSystem;
use engine::capabilities::FileSystems;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use file_system::memory::MemoryFileSystem;

use crate::state::{MemoryPool, Shared};

/// Bytes of contents of a file system.
const BYTES_MAX: u64 = 1 << 30;

/// An open file system in memory.
struct MemoryFiles {
    name: String,
    guid: u64,
    files: Arc<MemoryFileSystem>,
    shared: Arc<Shared>,
}

impl OpenFileSystem for MemoryFiles {
    fn name(&self) -> &str {
        &self.name
    }

    fn close(&self) {
        let mut state = self.shared.lock();
        let mut datasets = state.tree.datasets.values_mut();
        if let Some(dataset) = datasets.find(|one| one.guid == self.guid) {
            dataset.is_open = false;
        }
    }

    fn files(&self) -> Arc<dyn file_system::FileSystem> {
        Arc::clone(&self.files) as Arc<_>
    }
}

impl Drop for MemoryFiles {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for MemoryFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryFiles")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl FileSystems for MemoryPool {
    fn open_file_system(
        &self,
        dataset: DatasetRef<'_>,
        read_only: bool,
    ) -> Result<Box<dyn OpenFileSystem>, DatasetError> {
        let mut state = self.begin("open_file_system", "open", dataset)?;
        let name = dataset.as_str();
        let fail = |kind| DatasetError::new("open", name, kind);
        let refuse = |why: &str| {
            fail(DatasetErrorKind::FileSystemRefused {
                why: why.to_owned(),
            })
        };
        if name.contains('@') || read_only || state.is_read_only {
            return Err(refuse("files in memory can always be changed"));
        }
        if state.tree.is_locked(name) {
            return Err(fail(DatasetErrorKind::KeyMissing));
        }
        let one = state.tree.get_mut(name).map_err(fail)?;
        if one.volume.is_some() {
            return Err(fail(DatasetErrorKind::NotAFileSystem));
        }
        if one.is_open || one.is_partial() {
            return Err(fail(DatasetErrorKind::Busy));
        }
        let guid = one.guid;
        let made = || Arc::new(MemoryFileSystem::with_guid(guid, BYTES_MAX));
        let files = Arc::clone(one.files.get_or_insert_with(made));
        one.is_open = true;
        Ok(Box::new(MemoryFiles {
            name: name.to_owned(),
            guid,
            files,
            shared: Arc::clone(&self.shared),
        }))
    }
}
