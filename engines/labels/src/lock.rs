//! Detects whether a process has a pool's device open: a process that opens a device for a pool locks it exclusively
//! (flock). The lock is released with the last use of the open file: a request that is still in flight in the kernel is
//! such a use, so the lock outlives the process until its last write is done.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::open::open_disk;

/// A device that has its lock inspected.
#[derive(Debug)]
pub struct LockProbe(OwnedFd);

impl LockProbe {
    /// The file or block device at `path`; `None` if there is none any more.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn open(path: &Path) -> rustix::io::Result<Option<Self>> {
        match open_disk(path, OFlags::RDONLY) {
            Ok(fd) => Ok(Some(Self(fd))),
            Err(Errno::NOENT | Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether another process has it locked exclusively. Acquires and releases a shared lock, which coexists with
    /// those of udev and other readers.
    ///
    /// # Errors
    ///
    /// The system does not report it.
    pub fn is_held(&self) -> rustix::io::Result<bool> {
        match flock(&self.0, FlockOperation::NonBlockingLockShared) {
            Ok(()) => flock(&self.0, FlockOperation::Unlock).map(|()| false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_detected_until_the_last_descriptor_is_closed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let look = LockProbe::open(file.path())
            .expect("opened")
            .expect("there");
        assert_eq!(look.is_held(), Ok(false));
        let remains = file.as_file().try_clone().expect("the same open file");
        let holder = file.into_file();
        flock(&holder, FlockOperation::NonBlockingLockExclusive).expect("locked");
        assert_eq!(look.is_held(), Ok(true));
        drop(holder);
        assert_eq!(look.is_held(), Ok(true));
        drop(remains);
        assert_eq!(look.is_held(), Ok(false));
    }

    #[test]
    fn shared_lock_and_missing_file_are_reported_as_unlocked() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let look = LockProbe::open(file.path())
            .expect("opened")
            .expect("there");
        flock(file.as_file(), FlockOperation::NonBlockingLockShared).expect("looks");
        assert_eq!(look.is_held(), Ok(false));
        let nowhere = file.path().with_extension("none");
        assert!(LockProbe::open(&nowhere).expect("told").is_none());
    }
}
