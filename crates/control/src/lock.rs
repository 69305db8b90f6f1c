//! One owner at a time: the lock that lies beside a control socket. A server holds it while it
//! lives, the command line while it has the pool open itself.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The lock of one pool's control socket, held.
#[derive(Debug)]
pub struct PoolLock {
    _file: File,
}

impl PoolLock {
    /// Where the lock of `socket` lies.
    pub fn path(socket: &Path) -> PathBuf {
        socket.with_extension("lock")
    }

    /// Takes the lock of `socket` if nobody holds it.
    pub fn try_take(socket: &Path) -> io::Result<Option<Self>> {
        if let Some(parent) = socket.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)?;
        }
        // Never removed: a lock on a file that another process has unlinked protects nothing.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(Self::path(socket))?;
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(&file, exclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_is_free_afterwards() {
        let directory = tempfile::tempdir().expect("directory");
        let socket = directory.path().join("run/tank.sock");
        let held = PoolLock::try_take(&socket).expect("taken");
        assert!(held.is_some());
        assert!(PoolLock::try_take(&socket).expect("asked").is_none());
        drop(held);
        assert!(PoolLock::try_take(&socket).expect("asked").is_some());
    }
}
