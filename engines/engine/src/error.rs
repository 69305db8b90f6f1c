//! The error number of an operating system or an engine.

use std::fmt;

/// An errno value that an engine returned, some of which are its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SystemError(pub i32);

impl SystemError {
    /// `Ok` for zero.
    pub fn check(code: i32) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self(code)) }
    }

    /// Whether it is this errno.
    pub fn is(self, errno: rustix::io::Errno) -> bool {
        self.0 == errno.raw_os_error()
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == ECKSUM {
            return f.write_str("stored data does not match its checksum");
        }
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        // "No space left on device (os error 28)": the number does not help.
        f.write_str(text.split(" (os error").next().unwrap_or(&text))
    }
}

impl fmt::Debug for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemError({}: {self})", self.0)
    }
}

impl std::error::Error for SystemError {}

/// ZFS's name for "a checksum does not match" (`EBADE`).
const ECKSUM: i32 = 52;

/// The system's name for a number that the library returned. The number can be zero (success) or
/// specific to the library; those have no name, only the number.
pub fn errno(code: i32) -> rustix::io::Errno {
    const ERRNO_MAX: i32 = 4095;
    let in_range = (1..=ERRNO_MAX).contains(&code);
    rustix::io::Errno::from_raw_os_error(if in_range { code } else { ERRNO_MAX })
}
