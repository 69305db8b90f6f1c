//! File systems.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::OpenFileSystem;
use engine::capabilities::FileSystems;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef, FileSystemSpec};
use file_system::check::{CheckReport, Summary};
use file_system::memory::MemoryFileSystem;
use file_system::{FileSystem, FileSystemId, Guard, Identity, SetAttributes};
use units::VolumeName;

use crate::native::with_cause;
use crate::state::{MemoryPool, Shared};
use crate::tree::{Dataset, Found};

/// Bytes of contents of a file system.
const BYTES_MAX: u64 = 1 << 30;

/// Creates an empty file system with this owner, group and mode of its root directory.
pub(crate) fn with_root(guid: u64, (uid, gid, mode): (u32, u32, u32)) -> MemoryFileSystem {
    let files = MemoryFileSystem::with_guid(guid, BYTES_MAX);
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let changes = SetAttributes {
        uid: Some(uid),
        gid: Some(gid),
        mode: Some(mode),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(&root, files.root(), &changes, &Guard::default(), None);
    set.expect("root may, and it is there");
    files
}

/// An open file system in memory.
struct MemoryFiles {
    name: String,
    guid: u64,
    files: Arc<MemoryFileSystem>,
    shared: Arc<Shared>,
    is_closed: AtomicBool,
}

impl OpenFileSystem for MemoryFiles {
    fn name(&self) -> &str {
        &self.name
    }

    fn close(&self) {
        // It might have been opened again since.
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.files.forget_holds();
        let mut state = self.shared.lock();
        let mut datasets = state.tree.datasets.values_mut();
        if let Some(dataset) = datasets.find(|one| one.guid == self.guid) {
            dataset.is_open = false;
        }
    }

    fn check(&self, _: &mut dyn FnMut(CheckReport) -> bool) -> Result<Summary, DatasetError> {
        let objects = self.files.objects();
        Ok(Summary {
            objects,
            names: objects - 1,
            faults: 0,
        })
    }

    fn refused_for_space(&self) -> u64 {
        0
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
    fn file_systems(&self) -> Result<Vec<(String, FileSystemId)>, DatasetError> {
        const DOING: &str = "list the file systems of";
        let pool = self.name.clone();
        let state = self.begin(
            "file_systems",
            DOING,
            DatasetRef::from_checked(pool.as_str()),
        )?;
        let mut found = Vec::new();
        for name in state.tree.names(pool.as_str()) {
            let one = state.tree.get(&name);
            let one = one.map_err(|kind| DatasetError::new(DOING, &name, kind))?;
            if one.volume.is_none() && !one.is_partial() {
                let id = FileSystemId {
                    guid: one.guid,
                    snapshot: 0,
                };
                found.push((name, id));
            }
        }
        Ok(found)
    }

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
        let made = |guid: u64| Arc::new(MemoryFileSystem::with_guid(guid, BYTES_MAX));
        if let Found::Snapshot(_, one) = state.tree.find(name).map_err(fail)? {
            // A copy, so that changes to it do not affect a snapshot.
            let files = one
                .files
                .as_ref()
                .map(|files| Arc::new(files.copy(one.guid)));
            return Ok(Box::new(MemoryFiles {
                name: name.to_owned(),
                guid: one.guid,
                files: files.unwrap_or_else(|| made(one.guid)),
                shared: Arc::clone(&self.shared),
                is_closed: AtomicBool::default(),
            }));
        }
        if read_only || state.is_read_only {
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
        let files = Arc::clone(one.files.get_or_insert_with(|| made(guid)));
        one.is_open = true;
        Ok(Box::new(MemoryFiles {
            name: name.to_owned(),
            guid,
            files,
            shared: Arc::clone(&self.shared),
            is_closed: AtomicBool::default(),
        }))
    }

    fn create_file_system(&self, spec: &FileSystemSpec) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        let mut state = self.begin_change("create_file_system", DOING, (&spec.name).into())?;
        let created = state.create_files(spec);
        created.map_err(|kind| with_cause(DOING, spec.name.as_str(), kind))
    }

    fn create_parents(&self, name: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        let mut state = self.begin_change("create_parents", DOING, name.into())?;
        let path = name.as_str();
        let slashes = path.match_indices('/').skip(1).map(|(at, _)| at);
        for parent in slashes.map(|at| &path[..at]) {
            let fail = |kind| DatasetError::new(DOING, parent, kind);
            match state.tree.place(parent) {
                Err(DatasetErrorKind::Exists) => continue,
                // No caller needs the exact reason, and the library does not report it either.
                Err(DatasetErrorKind::ParentUnsuitable) => {
                    return Err(fail(DatasetErrorKind::Library));
                }
                placed => placed.map_err(fail)?,
            }
            let mut dataset = Dataset::new(state.tree.next_txg(), None);
            dataset.encryption = state.inherited_encryption(parent).map_err(fail)?;
            state.tree.datasets.insert(parent.to_owned(), dataset);
        }
        Ok(())
    }

    fn complete_root(&self) -> Result<(), DatasetError> {
        let root = DatasetRef::from(&self.name);
        self.begin_change("complete_root", "complete", root)
            .map(drop)
    }
}
