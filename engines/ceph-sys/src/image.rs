//! An open image: its data, its snapshots and its lock.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use crate::error::{CephError, Result, c_string, check, copied};
use crate::namespace::Namespace;
use crate::raw;

/// Owners of a lock that are read: an exclusive one has one.
const OWNERS_MAX: usize = 8;
/// Snapshots of an image that are listed, at most.
const SNAPSHOTS_MAX: c_int = 1 << 16;
/// Children of a snapshot that are listed, at most.
const CHILDREN_MAX: usize = 1 << 16;
/// Largest request in bytes: librbd's lengths are signed 32-bit integers.
const REQUEST_BYTES_MAX: usize = i32::MAX as usize;

/// How an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading only; no lock is needed.
    ReadOnly,
    /// For writing; see [`Image::acquire_lock`].
    ReadWrite,
}

/// Whether a zeroed range stays allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provision {
    /// Its space is freed as far as possible.
    Thin,
    /// Zeroes are written.
    Thick,
}

/// An extent that exists, or that differs from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diff {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether data is stored for it; otherwise it reads as zeroes.
    pub exists: bool,
}

/// The completion of an asynchronous read. It is called on a thread of librbd: it must not block, and must not drop the
/// image that it gets back, because closing an image there would block forever.
pub type ReadDone = Box<dyn FnOnce(Arc<Image>, Result<Vec<u8>>) + Send>;

/// An open image. Dropping it blocks until its requests have completed.
#[derive(Debug)]
pub struct Image {
    raw: *mut c_void,
    _namespace: Arc<Namespace>,
}

// SAFETY: librbd allows concurrent calls on one image from any thread.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: opened once. An error concerns the release of the lock, which a later owner breaks.
        let _ = unsafe { raw::rbd_close(self.raw) };
    }
}

/// An asynchronous read in progress: its buffer stays in one location until the callback has run.
struct Reading {
    image: Arc<Image>,
    buffer: Vec<u8>,
    done: ReadDone,
}

extern "C" fn read_done(completion: *mut c_void, argument: *mut c_void) {
    // SAFETY: `argument` is the box that `begin_read` leaked for this one call.
    let reading = unsafe { Box::from_raw(argument.cast::<Reading>()) };
    // SAFETY: the request is complete; the completion is released once, here.
    let code = unsafe {
        let code = raw::rbd_aio_get_return_value(completion);
        raw::rbd_aio_release(completion);
        code
    };
    let Reading {
        image,
        buffer,
        done,
    } = *reading;
    let result = check(code as i64).and_then(|count| match count as usize == buffer.len() {
        true => Ok(buffer),
        false => Err(CephError::RANGE),
    });
    // No panic crosses into C.
    if catch_unwind(AssertUnwindSafe(|| done(image, result))).is_err() {
        std::process::abort();
    }
}

extern "C" fn diff_found(
    offset: u64,
    length: usize,
    exists: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: `argument` is the visitor of `visit_diff`, which is borrowed for the whole call of the library.
    let visit = unsafe { &mut *argument.cast::<Visit<'_>>() };
    let diff = Diff {
        offset,
        length: length as u64,
        exists: exists != 0,
    };
    match catch_unwind(AssertUnwindSafe(|| (visit.0)(diff))) {
        Ok(true) => 0,
        // EINTR.
        Ok(false) => -4,
        Err(_) => std::process::abort(),
    }
}

extern "C" fn no_progress(_done: u64, _total: u64, _argument: *mut c_void) -> c_int {
    0
}

struct Visit<'a>(&'a mut (dyn FnMut(Diff) -> bool + Send));

impl Image {
    /// Opens the image `name`, or a snapshot of it, which is always read-only.
    pub fn open(
        namespace: &Arc<Namespace>,
        name: &str,
        snapshot: Option<&str>,
        access: Access,
    ) -> Result<Arc<Self>> {
        let name = c_string(name)?;
        let snapshot = snapshot.map(c_string).transpose()?;
        let snapshot_name = snapshot.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let mut opened = ptr::null_mut();
        // SAFETY: the context is live; `opened` is written on success.
        let code = unsafe {
            match access {
                Access::ReadOnly => raw::rbd_open_read_only(
                    namespace.raw(),
                    name.as_ptr(),
                    &mut opened,
                    snapshot_name,
                ),
                Access::ReadWrite => {
                    raw::rbd_open(namespace.raw(), name.as_ptr(), &mut opened, snapshot_name)
                }
            }
        };
        check(code)?;
        Ok(Arc::new(Self {
            raw: opened,
            _namespace: Arc::clone(namespace),
        }))
    }

    /// Its size in bytes.
    pub fn size(&self) -> Result<u64> {
        let mut size = 0;
        // SAFETY: the image is open.
        check(unsafe { raw::rbd_get_size(self.raw, &mut size) })?;
        Ok(size)
    }

    /// Changes the size. Data beyond a smaller size is lost.
    pub fn resize(&self, size: u64) -> Result<()> {
        // A shrink calls the callback without a check for null.
        let progress = Some(no_progress as raw::librbd_progress_fn_t);
        // SAFETY: the image is open; the callback ignores its argument.
        let code = unsafe { raw::rbd_resize2(self.raw, size, true, progress, ptr::null_mut()) };
        check(code).map(drop)
    }

    /// Acquires the exclusive lock, and breaks that of another client first. The caller has that client on the
    /// blocklist already.
    pub fn acquire_lock(&self) -> Result<()> {
        for owner in self.lock_owners()? {
            let owner = c_string(&owner)?;
            // SAFETY: the image is open.
            let code = unsafe {
                raw::rbd_lock_break(self.raw, raw::RBD_LOCK_MODE_EXCLUSIVE, owner.as_ptr())
            };
            match check(code) {
                // Released concurrently.
                Ok(_) | Err(CephError::NOT_FOUND) => {}
                Err(error) => return Err(error),
            }
        }
        // SAFETY: the image is open.
        check(unsafe { raw::rbd_lock_acquire(self.raw, raw::RBD_LOCK_MODE_EXCLUSIVE) }).map(drop)
    }

    fn lock_owners(&self) -> Result<Vec<String>> {
        let mut owners = [ptr::null_mut(); OWNERS_MAX];
        let (mut mode, mut count) = (0, OWNERS_MAX);
        // SAFETY: `owners` has `count` entries.
        let code = unsafe {
            raw::rbd_lock_get_owners(self.raw, &mut mode, owners.as_mut_ptr(), &mut count)
        };
        match check(code) {
            Err(CephError::NOT_FOUND) => return Ok(Vec::new()),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let count = count.min(OWNERS_MAX);
        // SAFETY: the library wrote the first `count` strings.
        let found = owners[..count]
            .iter()
            .filter_map(|owner| unsafe { copied(*owner) });
        let found = found.collect();
        // SAFETY: releases these strings.
        unsafe { raw::rbd_lock_get_owners_cleanup(owners.as_mut_ptr(), count) };
        Ok(found)
    }

    /// Releases the exclusive lock.
    pub fn release_lock(&self) -> Result<()> {
        // SAFETY: the image is open.
        check(unsafe { raw::rbd_lock_release(self.raw) }).map(drop)
    }

    /// Creates a snapshot.
    pub fn create_snapshot(&self, name: &str) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: the image is open.
        check(unsafe { raw::rbd_snap_create(self.raw, name.as_ptr()) }).map(drop)
    }

    /// Removes a snapshot. Clones of it remain intact: until the last one is gone, librbd has it in its own trash.
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: the image is open.
        check(unsafe { raw::rbd_snap_remove(self.raw, name.as_ptr()) }).map(drop)
    }

    /// The names of its snapshots, without those in librbd's trash.
    pub fn snapshots(&self) -> Result<Vec<String>> {
        let mut capacity: c_int = 64;
        loop {
            let empty = || raw::rbd_snap_info_t {
                id: 0,
                size: 0,
                name: ptr::null(),
            };
            let mut list: Vec<_> = std::iter::repeat_with(empty)
                .take(capacity as usize)
                .collect();
            let mut count = capacity;
            // SAFETY: there are `count` entries.
            let code = unsafe { raw::rbd_snap_list(self.raw, list.as_mut_ptr(), &mut count) };
            match check(code) {
                Ok(found) => {
                    let names = list[..(found as usize).min(list.len())].iter();
                    let names = names.filter(|one| self.is_users(one.id));
                    // SAFETY: the library wrote these entries.
                    let names = names
                        .filter_map(|one| unsafe { copied(one.name) })
                        .collect();
                    // SAFETY: releases the names of the list.
                    unsafe { raw::rbd_snap_list_end(list.as_mut_ptr()) };
                    return Ok(names);
                }
                Err(CephError::RANGE) if (capacity..SNAPSHOTS_MAX).contains(&count) => {
                    capacity = count.max(capacity * 2);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn is_users(&self, snapshot: u64) -> bool {
        let mut kind = 0;
        // SAFETY: the image is open.
        let code = unsafe { raw::rbd_snap_get_namespace_type(self.raw, snapshot, &mut kind) };
        code == 0 && kind == raw::RBD_SNAP_NAMESPACE_TYPE_USER
    }

    /// The names of the images that depend on any of its snapshots.
    pub fn children(&self) -> Result<Vec<String>> {
        let mut capacity = 64;
        loop {
            let empty = || raw::rbd_linked_image_spec_t {
                pool_id: 0,
                pool_name: ptr::null_mut(),
                pool_namespace: ptr::null_mut(),
                image_id: ptr::null_mut(),
                image_name: ptr::null_mut(),
                trash: false,
            };
            let mut list: Vec<_> = std::iter::repeat_with(empty).take(capacity).collect();
            let mut count = capacity;
            // SAFETY: there are `count` entries.
            let code = unsafe { raw::rbd_list_children3(self.raw, list.as_mut_ptr(), &mut count) };
            match check(code) {
                Ok(_) => {
                    let count = count.min(capacity);
                    let found = list[..count].iter();
                    // SAFETY: the library wrote these entries.
                    let found = found.filter_map(|one| unsafe { copied(one.image_name) });
                    let found = found.collect();
                    // SAFETY: releases their strings.
                    unsafe { raw::rbd_linked_image_spec_list_cleanup(list.as_mut_ptr(), count) };
                    return Ok(found);
                }
                Err(CephError::RANGE) if (capacity..CHILDREN_MAX).contains(&count) => {
                    capacity = count.max(capacity * 2);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Copies the blocks that it shares with its parent, so that it depends on no image any more.
    pub fn flatten(&self) -> Result<()> {
        // SAFETY: the image is open.
        check(unsafe { raw::rbd_flatten(self.raw) }).map(drop)
    }

    /// Reads `length` bytes asynchronously. `done` is called once: on a thread of librbd, or not at all if this
    /// returns an error.
    pub fn begin_read(self: &Arc<Self>, offset: u64, length: usize, done: ReadDone) -> Result<()> {
        if length > REQUEST_BYTES_MAX {
            return Err(CephError::INVALID);
        }
        let reading = Box::into_raw(Box::new(Reading {
            image: Arc::clone(self),
            buffer: vec![0; length],
            done,
        }));
        let mut completion = ptr::null_mut();
        // SAFETY: `reading` stays allocated until `read_done` has run, which uses it once.
        let code = unsafe {
            let code =
                raw::rbd_aio_create_completion(reading.cast(), Some(read_done), &mut completion);
            match code {
                0 => {
                    let buffer = (*reading).buffer.as_mut_ptr().cast();
                    raw::rbd_aio_read2(self.raw, offset, length, buffer, completion, 0)
                }
                code => code,
            }
        };
        let Err(error) = check(code) else {
            return Ok(());
        };
        // SAFETY: the request was refused, so that no callback runs: both are released here.
        unsafe {
            if !completion.is_null() {
                raw::rbd_aio_release(completion);
            }
            drop(Box::from_raw(reading));
        }
        Err(error)
    }

    /// Writes `data`. All copies have it when this returns.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        if data.len() > REQUEST_BYTES_MAX {
            return Err(CephError::INVALID);
        }
        // SAFETY: `data` outlives the request, for which `perform` blocks.
        self.perform(|completion| unsafe {
            let start = data.as_ptr().cast();
            raw::rbd_aio_write2(self.raw, offset, data.len(), start, completion, 0)
        })
    }

    /// Zeroes a range.
    pub fn write_zeroes(&self, offset: u64, length: usize, provision: Provision) -> Result<()> {
        if length > REQUEST_BYTES_MAX {
            return Err(CephError::INVALID);
        }
        let flags = match provision {
            Provision::Thin => 0,
            Provision::Thick => raw::RBD_WRITE_ZEROES_FLAG_THICK_PROVISION,
        };
        // SAFETY: the image is open.
        self.perform(|completion| unsafe {
            raw::rbd_aio_write_zeroes(self.raw, offset, length, completion, flags, 0)
        })
    }

    /// Returns when all requests before it have completed.
    pub fn flush(&self) -> Result<()> {
        // SAFETY: the image is open.
        self.perform(|completion| unsafe { raw::rbd_aio_flush(self.raw, completion) })
    }

    /// Submits a request without a callback, and blocks until it is complete.
    fn perform(&self, submit: impl FnOnce(*mut c_void) -> c_int) -> Result<()> {
        let mut completion = ptr::null_mut();
        // SAFETY: creates a completion, which is released below.
        check(unsafe { raw::rbd_aio_create_completion(ptr::null_mut(), None, &mut completion) })?;
        let submitted = check(submit(completion));
        // SAFETY: the completion is live, and its request was submitted if that returned no error.
        let result = submitted.and_then(|_| unsafe {
            raw::rbd_aio_wait_for_complete(completion);
            check(raw::rbd_aio_get_return_value(completion) as i64)
        });
        // SAFETY: not used afterwards.
        unsafe { raw::rbd_aio_release(completion) };
        result.map(drop)
    }

    /// Visits the extents that exist, or with `from` those that differ from that snapshot, in ascending order, until
    /// `visit` returns `false`. With `whole_objects` the result is exact to an object only, and no object is read.
    ///
    /// # Errors
    /// `EINTR` if `visit` returned `false`.
    pub fn visit_diff(
        &self,
        from: Option<&str>,
        range: (u64, u64),
        with_parent: bool,
        whole_objects: bool,
        visit: &mut (dyn FnMut(Diff) -> bool + Send),
    ) -> Result<()> {
        let from = from.map(c_string).transpose()?;
        let from = from.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let mut visit = Visit(visit);
        // SAFETY: the visitor outlives the call, during which the library calls back, one call at a time.
        let code = unsafe {
            raw::rbd_diff_iterate2(
                self.raw,
                from,
                range.0,
                range.1,
                with_parent.into(),
                whole_objects.into(),
                Some(diff_found),
                ptr::from_mut(&mut visit).cast(),
            )
        };
        check(code).map(drop)
    }
}
