//! The snapshots of an open file system, as clients see them.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use engine::dataset::{DatasetError, DatasetErrorKind};
use file_system::{Done, FileError, FileSystem, Snapshot, Snapshots, Time, Visibility};
use zpl::Zpl;
use zpl::objects::ObjectError;
use zpool_sys as sys;

use super::open::open_files;
use super::{Files, c_name, checked, list_with};
use crate::snapshots::{Closing, OpenSnapshots};

/// Bytes of a full name, including its NUL.
const NAME_BYTES: usize = 256;

fn failure(error: ObjectError) -> FileError {
    match error {
        ObjectError::Missing => FileError::Stale,
        ObjectError::Closed => FileError::Gone,
        ObjectError::KeyMissing => FileError::NotReady,
        _ => FileError::Io,
    }
}

/// Why it is not opened: the obstacle is temporary.
fn refused(error: &DatasetError) -> FileError {
    match error.kind {
        DatasetErrorKind::NotFound => FileError::Stale,
        DatasetErrorKind::Busy | DatasetErrorKind::KeyMissing | DatasetErrorKind::KeyOutdated => {
            FileError::NotReady
        }
        _ => {
            tracing::warn!(%error, "a snapshot cannot be opened");
            FileError::Io
        }
    }
}

fn open_snapshot(name: &str) -> Done<Arc<dyn Closing>> {
    let files = open_files(name, true).map_err(|error| refused(&error))?;
    let files = Zpl::open(files).map_err(|error| {
        tracing::warn!(%error, name, "a snapshot cannot be opened");
        FileError::Unsupported
    })?;
    Ok(Arc::new(files))
}

impl Closing for Zpl<Files> {
    fn close(&self) {
        self.objects().close();
    }

    fn files(self: Arc<Self>) -> Arc<dyn FileSystem> {
        self
    }
}

impl Files {
    fn snapshot_name(&self, number: u64) -> Result<String, ObjectError> {
        let using = self.using()?;
        let mut name = [0 as c_char; NAME_BYTES];
        // SAFETY: open while `using` exists; `name` has the required capacity.
        checked(unsafe { sys::bh_files_snapshot_name(using.raw(), number, name.as_mut_ptr()) })?;
        // SAFETY: the call has left NUL-terminated text in it.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        Ok(name.to_string_lossy().into_owned())
    }
}

/// The snapshots of an open file system, for clients.
pub(super) struct Shown {
    head: Arc<Zpl<Files>>,
    open: Arc<OpenSnapshots>,
}

impl Shown {
    pub fn new(head: Arc<Zpl<Files>>, open: Arc<OpenSnapshots>) -> Self {
        Self { head, open }
    }
}

impl Snapshots for Shown {
    fn visibility(&self) -> Visibility {
        let setting = self.head.objects().using().map(|using| {
            // SAFETY: open while `using` exists.
            unsafe { sys::bh_files_setting(using.raw(), sys::BH_SETTING_SNAPDIR) }
        });
        match setting {
            Ok(1) => Visibility::Visible,
            Ok(2) => Visibility::Disabled,
            _ => Visibility::Hidden,
        }
    }

    fn changed(&self) -> Done<Time> {
        let using = self.head.objects().using().map_err(failure)?;
        let (mut seconds, mut nanoseconds) = (0, 0);
        // SAFETY: open while `using` exists.
        unsafe {
            sys::bh_files_snapshots_changed(using.raw(), &mut seconds, &mut nanoseconds);
        }
        Ok(Time {
            seconds: seconds as i64,
            nanoseconds: nanoseconds as u32,
        })
    }

    fn list(&self, cursor: u64, visit: &mut dyn FnMut(Snapshot<'_>) -> bool) -> Done<bool> {
        let using = self.head.objects().using().map_err(failure)?;
        let mut visit = |entry: zpl::objects::ListedEntry<'_>| {
            visit(Snapshot {
                name: entry.name,
                number: entry.value,
                cursor: entry.cursor,
            })
        };
        let listed = list_with(cursor, &mut visit, |cursor, buffer, bytes, end| {
            let (data, room) = (buffer.as_mut_ptr(), buffer.len() as u64);
            // SAFETY: open while `using` exists; the buffer has the stated capacity.
            unsafe { sys::bh_files_snapshots(using.raw(), cursor, data, room, bytes, end) }
        });
        listed.map_err(failure)
    }

    fn find(&self, name: &[u8]) -> Done<u64> {
        let using = self.head.objects().using().map_err(failure)?;
        let name = c_name(name).map_err(|_| FileError::BadName)?;
        let mut number = 0;
        // SAFETY: open while `using` exists; the name is not retained.
        let code = unsafe { sys::bh_files_find_snapshot(using.raw(), name.as_ptr(), &mut number) };
        match checked(code) {
            Err(ObjectError::Missing) => Err(FileError::NotFound),
            found => found.map(|()| number).map_err(failure),
        }
    }

    fn open(&self, number: u64) -> Done<Arc<dyn FileSystem>> {
        let head = self.head.objects();
        let name = || head.snapshot_name(number).map_err(failure);
        let of = head.facts.identity;
        self.open.open((of, number), name, open_snapshot)
    }
}
