//! A client of a cluster: one address, which a blocklist entry names.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::error::{CephError, Result, c_string, check, copied, names};
use crate::raw;

/// Longest list of pools, in bytes.
const POOL_LIST_BYTES_MAX: usize = 1 << 20;

/// A connected client. Dropping it blocks until the libraries have stopped their threads.
#[derive(Debug)]
pub struct Cluster {
    raw: *mut c_void,
}

// SAFETY: librados allows every call on one cluster handle from any thread, concurrently.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: `raw` was created and is shut down once; no handle made of it is left, because each holds an Arc of it.
        unsafe { raw::rados_shutdown(self.raw) };
    }
}

impl Cluster {
    /// Connects as `user` (`admin` for `client.admin`) with the configuration file `conf`, in which `options` replace
    /// settings of the same name.
    ///
    /// # Errors
    /// Of the file, of authentication, or `ETIMEDOUT` if no monitor responds.
    pub fn connect(conf: &Path, user: &str, options: &[(&str, &str)]) -> Result<Arc<Self>> {
        let (conf, user) = (c_string(&conf.to_string_lossy())?, c_string(user)?);
        let mut created = ptr::null_mut();
        // SAFETY: `created` is written only on success; both strings are valid during the call.
        check(unsafe { raw::rados_create(&mut created, user.as_ptr()) })?;
        // From here on Drop shuts the handle down, which is also permitted before it is connected.
        let cluster = Self { raw: created };
        // SAFETY: the handle is live and not connected yet.
        check(unsafe { raw::rados_conf_read_file(cluster.raw, conf.as_ptr()) })?;
        for (name, value) in options {
            let (name, value) = (c_string(name)?, c_string(value)?);
            // SAFETY: as above; the strings are copied.
            check(unsafe { raw::rados_conf_set(cluster.raw, name.as_ptr(), value.as_ptr()) })?;
        }
        // SAFETY: as above.
        check(unsafe { raw::rados_connect(cluster.raw) })?;
        Ok(Arc::new(cluster))
    }

    /// The handle, for handles that are made of it and hold an Arc of it.
    pub(crate) fn raw(&self) -> *mut c_void {
        self.raw
    }

    /// The address of this client, as [`Self::blocklist`] accepts it.
    pub fn address(&self) -> Result<String> {
        let mut text = ptr::null_mut();
        // SAFETY: the handle is connected; `text` is written on success.
        check(unsafe { raw::rados_getaddrs(self.raw, &mut text) })?;
        // SAFETY: the library returned a string of its own.
        let copy = unsafe { copied(text) };
        // SAFETY: the string is not used afterwards.
        unsafe { raw::rados_buffer_free(text) };
        copy.ok_or(CephError::INVALID)
    }

    /// Has the cluster refuse each later request of the client at `address` for `seconds`. Returns when the monitors
    /// have accepted the entry; see [`Self::wait_for_latest_map`].
    pub fn blocklist(&self, address: &str, seconds: u32) -> Result<()> {
        let address = c_string(address)?;
        // SAFETY: the library only reads the address, whatever its type.
        let code =
            unsafe { raw::rados_blocklist_add(self.raw, address.as_ptr().cast_mut(), seconds) };
        check(code).map(drop)
    }

    /// Returns when this client has the newest map of the cluster. Each OSD that receives a later request of this
    /// client obtains that map first.
    pub fn wait_for_latest_map(&self) -> Result<()> {
        // SAFETY: the handle is connected.
        check(unsafe { raw::rados_wait_for_latest_osdmap(self.raw) }).map(drop)
    }

    /// Runs a command of the monitors, in JSON, and returns its output.
    pub fn mon_command(&self, command: &str) -> Result<Vec<u8>> {
        let command = c_string(command)?;
        let mut commands = [command.as_ptr()];
        let (mut output, mut output_len) = (ptr::null_mut(), 0);
        let (mut status, mut status_len) = (ptr::null_mut(), 0);
        // SAFETY: one command, no input; the outputs are written by the library, or stay null.
        let code = unsafe {
            raw::rados_mon_command(
                self.raw,
                commands.as_mut_ptr(),
                commands.len(),
                ptr::null(),
                0,
                &mut output,
                &mut output_len,
                &mut status,
                &mut status_len,
            )
        };
        // SAFETY: the library allocated `output_len` bytes, unless it is null.
        let copy = unsafe { bytes(output, output_len) };
        for buffer in [output, status] {
            if !buffer.is_null() {
                // SAFETY: allocated by the call, and not used afterwards.
                unsafe { raw::rados_buffer_free(buffer) };
            }
        }
        check(code)?;
        Ok(copy)
    }

    /// The names of all pools.
    pub fn pools(&self) -> Result<Vec<String>> {
        let mut buffer = vec![0_u8; 4096];
        loop {
            // SAFETY: the buffer has that many bytes.
            let code =
                unsafe { raw::rados_pool_list(self.raw, buffer.as_mut_ptr().cast(), buffer.len()) };
            let needed = check(code)? as usize;
            if needed <= buffer.len() {
                buffer.truncate(needed);
                return Ok(names(&buffer));
            }
            if needed > POOL_LIST_BYTES_MAX {
                return Err(CephError::RANGE);
            }
            buffer.resize(needed, 0);
        }
    }
}

/// Copies a buffer of the library; nothing if it is null.
///
/// # Safety
/// `start` is null, or points to `length` initialised bytes.
pub(crate) unsafe fn bytes(start: *const c_char, length: usize) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec()
}
