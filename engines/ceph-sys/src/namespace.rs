//! A namespace of a pool: its objects, and its images by name.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use crate::cluster::{Cluster, bytes};
use crate::error::{CephError, Result, c_string, check, copied, names};
use crate::raw;

/// Entries of an omap that one request reads.
const OMAP_PAGE_ENTRIES: u64 = 1000;
/// Longest list of namespaces, in bytes.
const NAMESPACE_LIST_BYTES_MAX: usize = 4 << 20;
/// Longest list of images.
const IMAGES_MAX: usize = 1 << 20;

/// A key of an omap with its value.
type Entry = (String, Vec<u8>);

/// A namespace, the empty one included. Namespaces of one cluster share its client.
#[derive(Debug)]
pub struct Namespace {
    raw: *mut c_void,
    cluster: Arc<Cluster>,
}

// SAFETY: librados allows concurrent calls on one context, except changes of its settings, which are made only before
// it is shared.
unsafe impl Send for Namespace {}
// SAFETY: as above.
unsafe impl Sync for Namespace {}

impl Drop for Namespace {
    fn drop(&mut self) {
        // SAFETY: created once, and each image made of it holds an Arc of it.
        unsafe { raw::rados_ioctx_destroy(self.raw) };
    }
}

/// The layout of a new image.
#[derive(Clone, Copy, Debug)]
pub struct ImageOptions {
    /// Bits of `RBD_FEATURE_…`.
    pub features: u64,
    /// Its objects have 2^order bytes.
    pub order: u64,
}

/// A change of the omap of one object: all of it is applied, or none.
#[derive(Debug, Default)]
pub struct ObjectChange<'a> {
    /// Fails with `EEXIST` if the object exists. Otherwise it must exist.
    pub creates: bool,
    /// Fails with `ECANCELED` unless this key has this value.
    pub guard: Option<(&'a str, &'a [u8])>,
    /// Entries to store.
    pub set: &'a [(String, Vec<u8>)],
    /// Keys to remove; one that is missing is no error.
    pub remove: &'a [String],
}

impl Namespace {
    /// The namespace `name` of `pool`; the empty name is the default one. Whether the namespace exists is not checked.
    pub fn open(cluster: &Arc<Cluster>, pool: &str, name: &str) -> Result<Arc<Self>> {
        let (pool, name) = (c_string(pool)?, c_string(name)?);
        let mut created = ptr::null_mut();
        // SAFETY: the cluster is connected; `created` is written on success.
        check(unsafe { raw::rados_ioctx_create(cluster.raw(), pool.as_ptr(), &mut created) })?;
        // SAFETY: the context is not shared yet; the name is copied.
        unsafe { raw::rados_ioctx_set_namespace(created, name.as_ptr()) };
        Ok(Arc::new(Self {
            raw: created,
            cluster: Arc::clone(cluster),
        }))
    }

    /// The client that it belongs to.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    pub(crate) fn raw(&self) -> *mut c_void {
        self.raw
    }

    /// Creates a namespace in the pool of this one.
    pub fn create_namespace(&self, name: &str) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: the context is live.
        check(unsafe { raw::rbd_namespace_create(self.raw, name.as_ptr()) }).map(drop)
    }

    /// Removes an empty namespace from the pool of this one.
    pub fn remove_namespace(&self, name: &str) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: the context is live.
        check(unsafe { raw::rbd_namespace_remove(self.raw, name.as_ptr()) }).map(drop)
    }

    /// The names of the namespaces of the pool, without the default one.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        let mut buffer = vec![0_u8; 4096];
        loop {
            let mut size = buffer.len();
            // SAFETY: the buffer has `size` bytes; the library stores the size that it used or needs.
            let code =
                unsafe { raw::rbd_namespace_list(self.raw, buffer.as_mut_ptr().cast(), &mut size) };
            match check(code) {
                Ok(_) => {
                    buffer.truncate(size);
                    return Ok(names(&buffer));
                }
                Err(CephError::RANGE)
                    if (buffer.len()..NAMESPACE_LIST_BYTES_MAX).contains(&size) =>
                {
                    buffer.resize(size.max(buffer.len() * 2), 0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The names of all images, without the trash.
    pub fn images(&self) -> Result<Vec<String>> {
        let mut capacity = 256;
        loop {
            let empty = || raw::rbd_image_spec_t {
                id: ptr::null_mut(),
                name: ptr::null_mut(),
            };
            let mut specs: Vec<_> = std::iter::repeat_with(empty).take(capacity).collect();
            let mut count = capacity;
            // SAFETY: there are `count` entries.
            let code = unsafe { raw::rbd_list2(self.raw, specs.as_mut_ptr(), &mut count) };
            match check(code) {
                Ok(_) => {
                    let count = count.min(capacity);
                    // SAFETY: the library wrote the names of the first `count` entries.
                    let names = specs[..count]
                        .iter()
                        .filter_map(|spec| unsafe { copied(spec.name) });
                    let names = names.collect();
                    // SAFETY: releases those names; `specs` itself is ours.
                    unsafe { raw::rbd_image_spec_list_cleanup(specs.as_mut_ptr(), count) };
                    return Ok(names);
                }
                Err(CephError::RANGE) if (capacity..IMAGES_MAX).contains(&count) => {
                    capacity = count.max(capacity * 2);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates an image of `size` bytes.
    pub fn create_image(&self, name: &str, size: u64, options: ImageOptions) -> Result<()> {
        let (name, raw) = (c_string(name)?, RawOptions::new(options, false)?);
        // SAFETY: the context and the options are live.
        check(unsafe { raw::rbd_create4(self.raw, name.as_ptr(), size, raw.0) }).map(drop)
    }

    /// Creates the image `clone` with the contents of a snapshot, in clone format 2: the snapshot needs no protection.
    pub fn clone_image(
        &self,
        parent: &str,
        snapshot: &str,
        clone: &str,
        options: ImageOptions,
    ) -> Result<()> {
        let (parent, snapshot) = (c_string(parent)?, c_string(snapshot)?);
        let (clone, raw) = (c_string(clone)?, RawOptions::new(options, true)?);
        // SAFETY: the context and the options are live.
        let code = unsafe {
            raw::rbd_clone3(
                self.raw,
                parent.as_ptr(),
                snapshot.as_ptr(),
                self.raw,
                clone.as_ptr(),
                raw.0,
            )
        };
        check(code).map(drop)
    }

    /// Removes an image without snapshots that is not open. The duration grows with its size.
    pub fn remove_image(&self, name: &str) -> Result<()> {
        let name = c_string(name)?;
        // SAFETY: the context is live.
        check(unsafe { raw::rbd_remove(self.raw, name.as_ptr()) }).map(drop)
    }

    /// Removes an object.
    pub fn remove_object(&self, object: &str) -> Result<()> {
        let object = c_string(object)?;
        // SAFETY: the context is live.
        check(unsafe { raw::rados_remove(self.raw, object.as_ptr()) }).map(drop)
    }

    /// Reads all entries of an object's omap.
    ///
    /// # Errors
    /// `ENOENT` if there is no such object, `ERANGE` beyond `entries_max` entries or `bytes_max` bytes.
    pub fn entries(
        &self,
        object: &str,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<BTreeMap<String, Vec<u8>>> {
        let object = c_string(object)?;
        let (mut found, mut byte_count) = (BTreeMap::new(), 0);
        let mut after = String::new();
        loop {
            let (page, has_more) = self.page(&object, &after)?;
            let Some((last, _)) = page.last() else {
                return Ok(found);
            };
            after.clone_from(last);
            byte_count += page
                .iter()
                .map(|(key, value)| key.len() + value.len())
                .sum::<usize>();
            found.extend(page);
            if found.len() > entries_max || byte_count > bytes_max {
                return Err(CephError::RANGE);
            }
            if !has_more {
                return Ok(found);
            }
        }
    }

    /// Returns the entries after the key `after`, and whether there are more.
    fn page(&self, object: &CString, after: &str) -> Result<(Vec<Entry>, bool)> {
        let (after, prefix) = (c_string(after)?, c_string("")?);
        // SAFETY: creates an operation, which `ReadOp` releases.
        let op = ReadOp(unsafe { raw::rados_create_read_op() });
        let (mut iterator, mut more, mut result) = (ptr::null_mut(), 0, 0);
        // SAFETY: the three results outlive the execution below.
        unsafe {
            raw::rados_read_op_omap_get_vals2(
                op.0,
                after.as_ptr(),
                prefix.as_ptr(),
                OMAP_PAGE_ENTRIES,
                &mut iterator,
                &mut more,
                &mut result,
            );
        }
        // SAFETY: executes the operation; it does not outlive this function.
        check(unsafe { raw::rados_read_op_operate(op.0, self.raw, object.as_ptr(), 0) })?;
        check(result)?;
        let iterator = Entries(iterator);
        let mut page = Vec::new();
        while let Some((key, value)) = iterator.next()? {
            page.push((key, value));
        }
        Ok((page, more != 0))
    }

    /// Changes an object's omap: all of `change`, or nothing. Durable when it returns.
    pub fn change(&self, object: &str, change: &ObjectChange<'_>) -> Result<()> {
        let object = c_string(object)?;
        // SAFETY: creates an operation, which `WriteOp` releases.
        let op = WriteOp(unsafe { raw::rados_create_write_op() });
        let exclusive = match change.creates {
            true => raw::LIBRADOS_CREATE_EXCLUSIVE,
            false => raw::LIBRADOS_CREATE_IDEMPOTENT,
        };
        if change.creates {
            // SAFETY: the operation is live; the category is unused and may be null.
            unsafe { raw::rados_write_op_create(op.0, exclusive, ptr::null()) };
        }
        // Written by the library during the execution.
        let mut compared: c_int = 0;
        if let Some((key, value)) = change.guard {
            // SAFETY: the library copies key and value; `compared` outlives the execution.
            unsafe {
                raw::rados_write_op_omap_cmp2(
                    op.0,
                    key.as_ptr().cast(),
                    raw::LIBRADOS_CMPXATTR_OP_EQ,
                    value.as_ptr().cast(),
                    key.len(),
                    value.len(),
                    &mut compared,
                );
            }
        }
        let set_keys = c_strings(change.set.iter().map(|(key, _)| key.as_str()))?;
        let keys: Vec<*const c_char> = set_keys.iter().map(|key| key.as_ptr()).collect();
        let values: Vec<*const c_char> = change
            .set
            .iter()
            .map(|(_, value)| value.as_ptr().cast())
            .collect();
        let lengths: Vec<usize> = change.set.iter().map(|(_, value)| value.len()).collect();
        if !keys.is_empty() {
            // SAFETY: three arrays of equal length, which the library copies.
            unsafe {
                raw::rados_write_op_omap_set(
                    op.0,
                    keys.as_ptr(),
                    values.as_ptr(),
                    lengths.as_ptr(),
                    keys.len(),
                );
            }
        }
        let removed = c_strings(change.remove.iter().map(String::as_str))?;
        let removed_keys: Vec<*const c_char> = removed.iter().map(|key| key.as_ptr()).collect();
        if !removed_keys.is_empty() {
            // SAFETY: an array of strings, which the library copies.
            unsafe {
                raw::rados_write_op_omap_rm_keys(op.0, removed_keys.as_ptr(), removed_keys.len());
            }
        }
        // SAFETY: executes the operation, with the present time as that of the change.
        let code = unsafe {
            raw::rados_write_op_operate(op.0, self.raw, object.as_ptr(), ptr::null_mut(), 0)
        };
        check(code).map(drop)
    }
}

fn c_strings<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<CString>> {
    texts.map(c_string).collect()
}

struct RawOptions(*mut c_void);

impl RawOptions {
    fn new(options: ImageOptions, is_clone: bool) -> Result<Self> {
        let mut created = ptr::null_mut();
        // SAFETY: creates a set of options, which Drop destroys.
        unsafe { raw::rbd_image_options_create(&mut created) };
        let made = Self(created);
        made.set(raw::RBD_IMAGE_OPTION_FEATURES, options.features)?;
        made.set(raw::RBD_IMAGE_OPTION_ORDER, options.order)?;
        if is_clone {
            made.set(raw::RBD_IMAGE_OPTION_CLONE_FORMAT, 2)?;
        }
        Ok(made)
    }

    fn set(&self, option: c_int, value: u64) -> Result<()> {
        // SAFETY: the options are live.
        check(unsafe { raw::rbd_image_options_set_uint64(self.0, option, value) }).map(drop)
    }
}

impl Drop for RawOptions {
    fn drop(&mut self) {
        // SAFETY: created once.
        unsafe { raw::rbd_image_options_destroy(self.0) };
    }
}

struct WriteOp(*mut c_void);

impl Drop for WriteOp {
    fn drop(&mut self) {
        // SAFETY: created once.
        unsafe { raw::rados_release_write_op(self.0) };
    }
}

struct ReadOp(*mut c_void);

impl Drop for ReadOp {
    fn drop(&mut self) {
        // SAFETY: created once.
        unsafe { raw::rados_release_read_op(self.0) };
    }
}

/// An iterator of the library over entries.
struct Entries(*mut c_void);

impl Entries {
    fn next(&self) -> Result<Option<Entry>> {
        let (mut key, mut key_len) = (ptr::null_mut(), 0);
        let (mut value, mut value_len) = (ptr::null_mut(), 0);
        // SAFETY: the iterator is live; the results are its own, valid until the next call.
        let code = unsafe {
            raw::rados_omap_get_next2(self.0, &mut key, &mut value, &mut key_len, &mut value_len)
        };
        check(code)?;
        if key.is_null() {
            return Ok(None);
        }
        // SAFETY: the library returned these buffers with their lengths.
        let (key, value) = unsafe { (bytes(key, key_len), bytes(value, value_len)) };
        let key = String::from_utf8(key).map_err(|_| CephError::INVALID)?;
        Ok(Some((key, value)))
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: returned once by the read operation.
            unsafe { raw::rados_omap_get_end(self.0) };
        }
    }
}
