//! Opening a file system of a pool.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use engine::OpenFileSystem;
use engine::capabilities::FileSystems;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef, FileSystemSpec};
use engine::gate::Gate;
use file_system::FileSystemId;
use file_system::check::{CheckReport, Summary};
use rustix::io::Errno;
use units::VolumeName;
use zpl::check::Ended;
use zpl::objects::ObjectError;
use zpl::{OpenError, Zpl};
use zpool_sys as sys;

use super::snapshots::Shown;
use super::{Files, Open, facts_of};
use crate::error::SystemError;
use crate::nameless::Nameless;
use crate::pool::{Pool, c_text};
use crate::snapshots::{KeptClosed, OpenSnapshots};

/// An open file system or snapshot of one.
pub struct FileSystem {
    name: String,
    zpl: Arc<Zpl<Files>>,
    snapshots: Arc<OpenSnapshots>,
    nameless: Arc<Nameless>,
    is_closed: AtomicBool,
    /// For a snapshot: prevents clients from opening it concurrently.
    _kept_closed: Option<KeptClosed>,
}

const DOING: &str = "open";

pub(super) fn open_files(name: &str, read_only: bool) -> Result<Files, DatasetError> {
    let c_name = c_text(name);
    let mut raw = std::ptr::null_mut();
    let mut facts = sys::bh_files_facts::default();
    // SAFETY: the library runs, as a pool is open; the name is copied.
    let code =
        unsafe { sys::bh_files_open(c_name.as_ptr(), read_only.into(), &mut raw, &mut facts) };
    SystemError::check(code).map_err(|cause| {
        if cause.is(Errno::INVAL) {
            let kind = DatasetErrorKind::NotAFileSystem;
            return DatasetError::because(DOING, name, kind, cause);
        }
        DatasetError::common(DOING, name, cause)
    })?;
    let open = Open {
        raw: std::ptr::NonNull::new(raw).expect("set when the call succeeds"),
        gate: Gate::default(),
        is_written: Mutex::default(),
        written: Condvar::new(),
    };
    Ok(Files {
        open: Arc::new(open),
        facts: facts_of(&facts, name.contains('@')),
        refused_for_space: AtomicU64::default(),
    })
}

/// The error, with its chain of causes as text.
fn refused(name: &str, error: &OpenError) -> DatasetError {
    let kind = match error {
        OpenError::Objects(ObjectError::NoSpace | ObjectError::Quota) => DatasetErrorKind::NoSpace,
        OpenError::Objects(ObjectError::Io(code))
            if *code == Errno::NOTRECOVERABLE.raw_os_error() =>
        {
            DatasetErrorKind::LogUnreadable
        }
        OpenError::Objects(ObjectError::Io(code)) => {
            let cause = SystemError(*code);
            return DatasetError::because(DOING, name, DatasetErrorKind::Library, cause);
        }
        OpenError::Record(cause) => DatasetErrorKind::FileSystemRefused {
            why: format!("{error}: {cause}"),
        },
        error => DatasetErrorKind::FileSystemRefused {
            why: error.to_string(),
        },
    };
    DatasetError::new(DOING, name, kind)
}

impl FileSystem {
    /// The objects behind its files. The caller is responsible for their consistency if it changes
    /// them.
    pub fn objects(&self) -> &Files {
        self.zpl.objects()
    }
}

impl OpenFileSystem for FileSystem {
    fn name(&self) -> &str {
        &self.name
    }

    fn close(&self) {
        // A new instance may be open already, with snapshots.
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if self.zpl.objects().facts.snapshot == 0 {
            let held = self.zpl.held_without_name();
            self.nameless.put(self.zpl.objects().facts.identity, held);
        }
        self.zpl.objects().close();
        self.snapshots
            .close_those_of(self.zpl.objects().facts.identity);
    }

    fn snapshots(&self) -> Option<Arc<dyn file_system::Snapshots>> {
        let is_snapshot = self.zpl.objects().facts.snapshot != 0;
        let shown = || Shown::new(Arc::clone(&self.zpl), Arc::clone(&self.snapshots));
        (!is_snapshot).then(|| Arc::new(shown()) as Arc<_>)
    }

    fn check(&self, tell: &mut dyn FnMut(CheckReport) -> bool) -> Result<Summary, DatasetError> {
        const DOING: &str = "check";
        zpl::check::check(self.zpl.objects(), tell).map_err(|ended| match ended {
            Ended::Canceled => DatasetError::new(DOING, &self.name, DatasetErrorKind::Closed),
            Ended::Failed(error) => DatasetError {
                doing: DOING,
                ..refused(&self.name, &OpenError::Objects(error))
            },
        })
    }

    fn refused_for_space(&self) -> u64 {
        self.zpl.objects().refused_for_space()
    }

    fn files(&self) -> Arc<dyn file_system::FileSystem> {
        Arc::clone(&self.zpl) as Arc<_>
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        OpenFileSystem::close(self);
    }
}

impl std::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSystem")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Like [`FileSystems::open_file_system`], for callers that need more than its files.
    pub fn open_files(
        &self,
        dataset: DatasetRef<'_>,
        read_only: bool,
    ) -> Result<FileSystem, DatasetError> {
        let name = self.own(DOING, dataset)?.as_str().to_owned();
        let kept_closed = name
            .contains('@')
            .then(|| self.snapshots.keep_closed([&name]));
        let files = open_files(&name, read_only)?;
        let held = match files.facts.snapshot {
            0 => self.nameless.of(files.facts.identity),
            _ => Vec::new(),
        };
        let opened = Zpl::open_again(files, held);
        let zpl = Arc::new(opened.map_err(|error| refused(&name, &error))?);
        zpl.free_in_background();
        Ok(FileSystem {
            name,
            zpl,
            snapshots: Arc::clone(&self.snapshots),
            nameless: Arc::clone(&self.nameless),
            is_closed: AtomicBool::default(),
            _kept_closed: kept_closed,
        })
    }
}

/// # Safety
/// `arg` is a `&mut Vec<(String, FileSystemId)>`, `name` NUL-terminated text.
unsafe extern "C" fn collect(arg: *mut c_void, name: *const c_char, guid: u64) {
    // SAFETY: promised by the caller.
    let (found, name) = unsafe {
        (
            &mut *arg.cast::<Vec<(String, FileSystemId)>>(),
            CStr::from_ptr(name),
        )
    };
    let id = FileSystemId { guid, snapshot: 0 };
    found.push((name.to_string_lossy().into_owned(), id));
}

impl FileSystems for Pool {
    fn file_systems(&self) -> Result<Vec<(String, FileSystemId)>, DatasetError> {
        let mut found: Vec<(String, FileSystemId)> = Vec::new();
        // SAFETY: the pool is open; `found` outlives the call, which is when the visitor runs.
        let code = unsafe {
            sys::bh_file_systems(self.c_name().as_ptr(), collect, (&raw mut found).cast())
        };
        let failed =
            |cause| DatasetError::common("list the file systems of", self.name().as_str(), cause);
        SystemError::check(code).map_err(failed)?;
        Ok(found)
    }

    fn open_file_system(
        &self,
        dataset: DatasetRef<'_>,
        read_only: bool,
    ) -> Result<Box<dyn OpenFileSystem>, DatasetError> {
        Ok(Box::new(self.open_files(dataset, read_only)?))
    }

    fn create_file_system(&self, spec: &FileSystemSpec) -> Result<(), DatasetError> {
        self.make_file_system(spec)
    }

    fn create_parents(&self, name: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "create";
        self.own(DOING, name.into())?;
        let path = name.as_str();
        let slashes = path.match_indices('/').skip(1).map(|(at, _)| at);
        for parent in slashes.map(|at| &path[..at]) {
            let c_parent = c_text(parent);
            // SAFETY: the pool is open; the name is copied.
            let code = unsafe { sys::bh_filesystem_create(c_parent.as_ptr()) };
            match SystemError::check(code) {
                Err(cause) if !cause.is(rustix::io::Errno::EXIST) => {
                    return Err(DatasetError::common(DOING, parent, cause));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn complete_root(&self) -> Result<(), DatasetError> {
        // SAFETY: the pool is open; the name is copied.
        SystemError::check(unsafe { sys::bh_filesystem_complete(self.c_name().as_ptr()) })
            .map_err(|cause| DatasetError::common("complete", self.name().as_str(), cause))
    }
}
