//! Queries which parts of a file the page cache holds.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use rustix::io::Errno;

/// `cachestat`, Linux 6.5. The same number on every architecture that we are built for; the C library has no function for it.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of `<linux/mman.h>`.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether the page cache holds all of a range. Unlike a non-blocking read attempt, it does not start to read missing
/// pages.
///
/// # Errors
///
/// The kernel is too old, or does not report it.
pub(super) fn has_all(file: BorrowedFd<'_>, offset: u64, length: usize) -> Result<bool, Errno> {
    let page = rustix::param::page_size() as u64;
    let end = offset + length as u64;
    let pages = end.div_ceil(page) - offset / page;
    let range = Range {
        offset,
        length: length as u64,
    };
    let mut counts = Counts::default();
    let flags: libc::c_uint = 0;
    // SAFETY: the call reads a range and writes counts, which live for it and have the kernel's layout.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut counts,
            flags,
        )
    };
    match result {
        0 => Ok(counts.cached >= pages),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn page_cache_residency_follows_reads_and_drops() {
        const PAGE: usize = 4096;
        let mut file = tempfile::NamedTempFile::new().expect("temporary file");
        file.write_all(&vec![7; 8 * PAGE]).expect("written");
        file.as_file().sync_all().expect("flushed");
        let has = |offset, length| has_all(file.as_file().as_fd(), offset, length);
        // An old kernel, or a sandbox that does not allow it.
        let Ok(after_write) = has(0, 8 * PAGE) else {
            return;
        };
        assert!(after_write);
        assert_eq!(has(100, PAGE), Ok(true), "parts of two pages");
        assert_eq!(has(7 * PAGE as u64, 2 * PAGE), Ok(false), "beyond the end");
        rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed)
            .expect("dropped");
        if has(0, PAGE) == Ok(true) {
            // A file system in memory never drops pages.
            return;
        }
        let mut first = [0; PAGE];
        rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::Random).expect("advised");
        std::fs::File::open(file.path())
            .and_then(|mut file| file.read_exact(&mut first))
            .expect("read");
        assert_eq!(has(0, PAGE), Ok(true));
    }
}
