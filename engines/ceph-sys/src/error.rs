//! The errors of both libraries: error numbers of the system, which they return as negative integers.

use std::ffi::{CStr, CString, c_char};
use std::fmt;

/// A positive error number of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CephError(pub i32);

/// The result of a call.
pub type Result<T> = std::result::Result<T, CephError>;

impl CephError {
    /// The user has no right to it.
    pub const NOT_PERMITTED: Self = Self(1);
    /// No such object, image or snapshot.
    pub const NOT_FOUND: Self = Self(2);
    /// The object or image exists.
    pub const EXISTS: Self = Self(17);
    /// The image is in use, or has dependents.
    pub const BUSY: Self = Self(16);
    /// An argument is invalid.
    pub const INVALID: Self = Self(22);
    /// A write to a read-only image, or to one with a lock that was broken.
    pub const READ_ONLY: Self = Self(30);
    /// The buffer is too small.
    pub const RANGE: Self = Self(34);
    /// The images still depend on the namespace or on the snapshot.
    pub const NOT_EMPTY: Self = Self(39);
    /// The client is on the cluster's blocklist.
    pub const BLOCKLISTED: Self = Self(108);
    /// No reply in time.
    pub const TIMED_OUT: Self = Self(110);
    /// A comparison in a change of an object failed.
    pub const CANCELED: Self = Self(125);
}

impl fmt::Display for CephError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        f.write_str(text.split(" (os error").next().unwrap_or(&text))
    }
}

impl std::error::Error for CephError {}

/// The non-negative result of a call, or its error.
pub(crate) fn check(code: impl Into<i64>) -> Result<u64> {
    let code = code.into();
    u64::try_from(code).map_err(|_| CephError(i32::try_from(-code).unwrap_or(CephError::INVALID.0)))
}

/// A string for C. A string with a NUL is invalid.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| CephError::INVALID)
}

/// Copies a string of C; none if the pointer is null.
///
/// # Safety
/// `text` is null, or points to a string with a final NUL, which does not change during the call.
pub(crate) unsafe fn copied(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// Splits a buffer of names, each with a final NUL.
pub(crate) fn names(buffer: &[u8]) -> Vec<String> {
    let names = buffer.split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}
