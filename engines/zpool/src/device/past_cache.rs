//! Writes with the page cache bypassed, to a file that is read through it.
//!
//! The kernel drops a range from its page cache before and after such a write. It cannot drop a page during a
//! concurrent write, so there must be none: overlapping writes of the two paths are serialised ([`Turns`]). The page
//! cache also must not get large folios there: the file's readers do not read ahead.
//!
//! The remaining risk is another process that reads ahead in the file of an active pool, where a large write is in
//! flight and a small one arrives next to it. A test with asynchronous direct writes, two such readers and small
//! adjacent writes did not reproduce it on ext4 of Linux 6.18, which supports large folios. If it happened, the kernel
//! would log it and fail the next flush, and such a page would be read with a checksum error until it is dropped; ext4
//! writes back only its changed blocks, so the data on the disk is right. XFS before Linux 6.6 writes such a page back
//! as a whole, and other file systems are untested: there, large writes use the page cache.

use std::io::IoSlice;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::file::Way;
use super::io::DeviceIo;
use super::lock::LockedFile;
use super::turns::{Turn, Turns};
use super::{Access, DIRECT_FILE_BLOCK};

/// A file with a locked descriptor that bypasses the page cache, next to one that does not.
pub(super) struct PastCache {
    file: Arc<LockedFile>,
    /// The file system has refused it.
    refused: AtomicBool,
    turns: Arc<Turns>,
}

impl PastCache {
    /// `None` if `file` does not support it.
    pub(super) fn of(file: &Arc<LockedFile>) -> Option<Self> {
        (file.is_direct() && file.access == Access::ReadWrite).then(|| Self {
            file: Arc::clone(file),
            refused: AtomicBool::new(false),
            turns: Arc::default(),
        })
    }

    /// Starts a write, which is over when the turn is dropped. `None` while it overlaps one on the other path.
    pub(super) fn try_begin(&self, way: Way, io: &DeviceIo) -> Option<Turn> {
        self.turns.try_begin(way, io.offset(), io.length())
    }

    /// Like `begin`, on a thread that may block on the other write.
    pub(super) fn begin(&self, way: Way, io: &DeviceIo) -> Turn {
        self.turns.begin(way, io.offset(), io.length())
    }

    /// Whether memory in these pieces can be written at `offset`.
    pub(super) fn suits<P: Deref<Target = [u8]>>(&self, offset: u64, pieces: &[P]) -> bool {
        let is_aligned = |number: usize| number % DIRECT_FILE_BLOCK as usize == 0;
        !self.refused.load(Ordering::Relaxed)
            && offset % u64::from(DIRECT_FILE_BLOCK) == 0
            && pieces
                .iter()
                .all(|piece| is_aligned(piece.as_ptr().addr()) && is_aligned(piece.len()))
    }

    /// Whether the file system has refused it.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Notes that the file system does not support it.
    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Writes data durably, in one call. Returns `None` if that is not possible.
    pub(super) fn write_durably(&self, offset: u64, data: &[u8]) -> Option<Result<(), Errno>> {
        if !self.suits(offset, &[data]) {
            return None;
        }
        let pieces = [IoSlice::new(data)];
        match pwritev2(&self.file.fd, &pieces, offset, ReadWriteFlags::DSYNC) {
            Ok(count) if count == data.len() => Some(Ok(())),
            // The rest uses the other path, with the whole write.
            Ok(_) | Err(Errno::INTR) => None,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                self.refuse();
                None
            }
            Err(errno) => Some(Err(errno)),
        }
    }
}

/// A second descriptor of `file`, through the page cache.
pub(super) fn reopen_cached(file: &LockedFile) -> Result<OwnedFd, Errno> {
    let mode = match file.access {
        Access::Read => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
    };
    // By the descriptor: the path may refer to another file by now.
    let path = format!("/proc/self/fd/{}", file.fd.as_raw_fd());
    let cached = rustix::fs::open(path, mode | OFlags::CLOEXEC, Mode::empty())?;
    fadvise(&cached, 0, None, Advice::Random)?;
    Ok(cached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::lock::acquire;

    const BLOCK: usize = DIRECT_FILE_BLOCK as usize;

    #[test]
    fn durable_write_is_readable_and_leaves_nothing_to_flush() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        file.as_file().set_len(8 << 20).expect("size");
        // Not on every file system.
        let Ok(held) = acquire(file.path(), Access::ReadWrite, OFlags::DIRECT) else {
            return;
        };
        let past = PastCache::of(&held).expect("direct");
        let cached = reopen_cached(&held).expect("reopen");
        held.flush().expect("flush");
        let memory = vec![7; 3 * BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        let data = &memory[start..start + BLOCK];
        // Data that was read earlier must not stay in the page cache.
        let mut read = vec![0; data.len()];
        rustix::io::pread(&cached, &mut read, 8192).expect("read");
        match past.write_durably(8192, data) {
            Some(result) => result.expect("write"),
            None => return assert!(!past.suits(8192, &[data])),
        }
        assert!(held.is_durable());
        rustix::io::pread(&cached, &mut read, 8192).expect("read");
        assert!(read == data);
        assert_eq!(
            past.write_durably(8192, &data[..512]),
            None,
            "no whole block"
        );
        assert_eq!(past.write_durably(512, data), None, "not at a block");
    }
}
