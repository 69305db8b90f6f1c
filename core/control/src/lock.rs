//! The lock next to a control socket, which ensures one owner at a time. A server holds it while it
//! runs, the command line while it has the pool open itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The lock of one pool's control socket, held.
#[derive(Debug)]
pub struct PoolLock {
    file: File,
}

/// A command that holds a lock for as long as its user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The command, with its process.
    pub command: String,
    /// How it is ended.
    pub end: String,
}

/// Longest description of a holder, in bytes.
const HOLDER_BYTES_MAX: u64 = 4096;

impl PoolLock {
    /// Describes this process to those that find the lock taken.
    ///
    /// # Errors
    ///
    /// The file cannot be written. The lock is held nevertheless.
    pub fn describe(&self, holder: &Holder) -> io::Result<()> {
        self.file.set_len(0)?;
        let text = format!("{}\n{}\n", holder.command, holder.end);
        (&self.file).write_all(text.as_bytes())
    }

    /// The description of the process that holds the lock of `socket`; `None` if it has none. Only valid while the lock
    /// is held.
    pub fn holder(socket: &Path) -> Option<Holder> {
        let mut text = String::new();
        let file = File::open(Self::path(socket)).ok()?;
        file.take(HOLDER_BYTES_MAX).read_to_string(&mut text).ok()?;
        let (command, end) = text.trim_end().split_once('\n')?;
        Some(Holder {
            command: command.to_owned(),
            end: end.to_owned(),
        })
    }

    /// Returns the path of the lock of `socket`.
    pub fn path(socket: &Path) -> PathBuf {
        socket.with_extension("lock")
    }

    /// Acquires the lock of `socket` if it is free.
    pub fn try_take(socket: &Path) -> io::Result<Option<Self>> {
        if let Some(parent) = socket.parent().filter(|p| !p.as_os_str().is_empty()) {
            // With access to the lock, any user could hold it, and prevent every server from
            // starting.
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)?;
        }
        // Never removed: a lock on a file that another process has unlinked protects nothing.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(Self::path(socket))?;
        // An older release may have created it with wider permissions.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(&file, exclusive) {
            Ok(()) => {
                // The description of a process that was killed.
                file.set_len(0)?;
                Ok(Some(Self { file }))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_and_its_directory_are_owner_only() {
        let directory = tempfile::tempdir().expect("directory");
        let folder = directory.path().join("run");
        let mode = |path: &Path| {
            let facts = std::fs::metadata(path).expect("there");
            facts.permissions().mode() & 0o777
        };
        let socket = folder.join("tank.sock");
        let path = PoolLock::path(&socket);
        let _held = PoolLock::try_take(&socket).expect("taken");
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        // Created by an older release.
        let socket = folder.join("old.sock");
        let path = PoolLock::path(&socket);
        std::fs::write(&path, "").expect("made");
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, open).expect("opened");
        let _held = PoolLock::try_take(&socket).expect("taken");
        assert_eq!(mode(&path), 0o600);
    }

    /// Of a killed process the description is left in the file.
    #[test]
    fn holder_of_a_lock_is_described_until_the_next_one_takes_it() {
        let directory = tempfile::tempdir().expect("directory");
        let socket = directory.path().join("tank.sock");
        assert_eq!(PoolLock::holder(&socket), None);
        let lock = PoolLock::try_take(&socket).expect("a lock").expect("free");
        assert_eq!(PoolLock::holder(&socket), None);
        let holder = Holder {
            command: "`bulkhead filesystem mount` of tank/f (process 7)".to_owned(),
            end: "`umount /mnt`".to_owned(),
        };
        lock.describe(&holder).expect("written");
        assert_eq!(PoolLock::holder(&socket), Some(holder));
        assert!(PoolLock::try_take(&socket).expect("a lock").is_none());
        drop(lock);
        let _lock = PoolLock::try_take(&socket).expect("a lock").expect("free");
        assert_eq!(PoolLock::holder(&socket), None);
    }

    #[test]
    fn pool_lock_is_exclusive_and_released_on_drop() {
        let directory = tempfile::tempdir().expect("directory");
        let socket = directory.path().join("run/tank.sock");
        let held = PoolLock::try_take(&socket).expect("taken");
        assert!(held.is_some());
        assert!(PoolLock::try_take(&socket).expect("asked").is_none());
        drop(held);
        assert!(PoolLock::try_take(&socket).expect("asked").is_some());
    }
}
