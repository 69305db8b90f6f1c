//! Detects the file system under a file.

use std::path::Path;

use rustix::io::Errno;

use super::lock::LockedFile;

/// The kind of storage under a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// A file system in memory: a flush is a no-op.
    Memory,
    /// A file system of this host, with buffered writes that are copies into the page cache.
    Local {
        /// Whether writes may bypass the page cache while adjacent ones use it. Tested with the ext family only; XFS
        /// before Linux 6.6 writes back whole pages, which can hold several blocks.
        mixes: bool,
    },
    /// Storage that can hang at any write (a network or FUSE file system), or not a regular file.
    Other,
}

impl Backing {
    pub(super) fn of(file: &LockedFile) -> Self {
        if file.is_disk {
            return Self::Other;
        }
        Self::of_file_system(rustix::fs::fstatfs(&file.fd))
    }

    /// Of the file at `path`.
    pub(super) fn at(path: &Path) -> Self {
        Self::of_file_system(rustix::fs::statfs(path))
    }

    fn of_file_system(found: Result<rustix::fs::StatFs, Errno>) -> Self {
        // Numbers of `<linux/magic.h>`.
        match found.map(|stat| stat.f_type as u64) {
            // tmpfs
            Ok(0x0102_1994) => Self::Memory,
            // ext2 to ext4
            Ok(0xef53) => Self::Local { mixes: true },
            // XFS, Btrfs, F2FS, and overlayfs, which containers use on top of one of these.
            Ok(0x5846_5342 | 0x9123_683e | 0xf2f5_2010 | 0x794c_7630) => {
                Self::Local { mixes: false }
            }
            Ok(_) | Err(_) => Self::Other,
        }
    }
}
