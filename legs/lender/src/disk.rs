//! One raw disk, or a regular file instead of one. It is opened exclusively.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, Stat, fallocate, flock,
    fstat, ioctl_blkpbszget, ioctl_blksszget, open, seek,
};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use units::Extent;

use crate::aligned::Aligned;

/// Zeroes that are written at once where the disk cannot zero by itself.
const ZEROES_BYTES: u64 = 1 << 20;
/// The I/O mode of a file. A file that bypasses the page cache is read and written in its physical blocks.
const FILE_BLOCK_BYTES: u32 = 512;
const FILE_PHYSICAL_BLOCK_BYTES: u32 = 8 * FILE_BLOCK_BYTES;

/// Why a disk cannot be lent.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Neither a file nor a block device.
    #[error("{} is neither a file nor a block device", .0.display())]
    NotADisk(PathBuf),
    /// Another process may write to it.
    #[error(
        "{} is in use by another process, and two writers destroy a pool: end it, such as the server of the pool",
        .0.display()
    )]
    InUse(PathBuf),
    /// The system refused.
    #[error("open {}", .0.display())]
    System(PathBuf, #[source] Errno),
}

/// An open disk, locked against other processes.
#[derive(Debug)]
pub struct Disk {
    fd: OwnedFd,
    path: PathBuf,
    pub(crate) size: u64,
    pub(crate) logical_block: u32,
    pub(crate) physical_block: u32,
    /// Reads and writes begin and end at multiples.
    io_block: u64,
    /// Shared by writes of whole blocks; exclusive for a write that must read the surrounding
    /// blocks.
    edges: RwLock<()>,
    flushes: Flushes,
    /// The identity of the device or file when it was opened.
    identity: Identity,
    /// A change failed, or it is gone.
    has_failed: AtomicBool,
}

/// Bypasses the page cache if the file system supports it: written data goes to the disk at once, without a copy.
fn direct_flag(path: &Path) -> OFlags {
    let block = u64::from(FILE_PHYSICAL_BLOCK_BYTES);
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let is_possible = || {
        let file = open(path, flags, Mode::empty()).ok()?;
        let bytes = fstat(&file).ok()?.st_size as u64;
        let mut first = Aligned::with_any_contents(block as usize);
        rustix::io::pread(&file, first.bytes_mut(), 0).ok()?;
        (bytes % block == 0).then_some(())
    };
    match is_possible() {
        Some(()) => OFlags::DIRECT,
        None => OFlags::empty(),
    }
}

/// Number of a block device, or file system and number of a file.
type Identity = (u64, u64);

fn identity(stat: &Stat) -> Identity {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => (stat.st_rdev, 0),
        _ => (stat.st_dev, stat.st_ino),
    }
}

/// The pending work of a flush, and whether a flush can be trusted.
#[derive(Debug)]
struct Flushes {
    /// Counts writes that have been carried out.
    written: AtomicU64,
    /// The value of `written` when the last successful flush began.
    durable: AtomicU64,
    /// A flush failed. The kernel drops the data that it could not write and reports that once, so the next flush would
    /// succeed. The client of the report may have been disconnected and retry.
    has_failed: AtomicBool,
}

impl Flushes {
    fn new() -> Self {
        Self {
            // Writes of an earlier process may not be durable.
            written: AtomicU64::new(1),
            durable: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Before a write is answered, also one that failed: some of it may have been written.
    fn note_written(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    fn is_clean(&self) -> bool {
        self.durable.load(Ordering::Acquire) == self.written.load(Ordering::Acquire)
    }

    /// An error once a flush has failed.
    fn check(&self) -> Result<(), Errno> {
        match self.has_failed.load(Ordering::Acquire) {
            true => Err(Errno::IO),
            false => Ok(()),
        }
    }

    fn flush(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        if self.has_failed.load(Ordering::Acquire) {
            return Err(Errno::IO);
        }
        let written = self.written.load(Ordering::Acquire);
        if self.durable.load(Ordering::Acquire) == written {
            return Ok(());
        }
        let synced = sync();
        if synced.is_err() {
            self.has_failed.store(true, Ordering::Release);
        }
        // A flush that failed concurrently on another thread may have consumed the error of the
        // data that this one covers.
        match self.has_failed.load(Ordering::Acquire) {
            true => Err(synced.err().unwrap_or(Errno::IO)),
            false => {
                self.durable.fetch_max(written, Ordering::AcqRel);
                Ok(())
            }
        }
    }
}

impl Disk {
    /// Opens and locks it.
    ///
    /// # Errors
    ///
    /// Another process, or this one, has it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let system = |errno| OpenError::System(path.to_owned(), errno);
        let kind = rustix::fs::stat(path).map_err(system)?.st_mode;
        let flags = match FileType::from_raw_mode(kind) {
            FileType::RegularFile => direct_flag(path),
            FileType::BlockDevice => OFlags::EXCL | OFlags::DIRECT,
            _ => return Err(OpenError::NotADisk(path.to_owned())),
        };
        let taken = |errno| match errno {
            Errno::BUSY | Errno::WOULDBLOCK => OpenError::InUse(path.to_owned()),
            errno => system(errno),
        };
        let fd = open(path, flags | OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let fd = fd.map_err(taken)?;
        flock(&fd, FlockOperation::NonBlockingLockExclusive).map_err(taken)?;
        let stat = fstat(&fd).map_err(system)?;
        let is_block_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        let (logical_block, physical_block) = match is_block_device {
            true => (
                ioctl_blksszget(&fd).map_err(system)?,
                ioctl_blkpbszget(&fd).map_err(system)?,
            ),
            false => (FILE_BLOCK_BYTES, FILE_PHYSICAL_BLOCK_BYTES),
        };
        let io_block = match !is_block_device && flags.contains(OFlags::DIRECT) {
            true => physical_block,
            false => logical_block,
        };
        let size = seek(&fd, SeekFrom::End(0)).map_err(system)?;
        Ok(Self {
            fd,
            path: path.to_owned(),
            size: size - size % u64::from(logical_block),
            logical_block,
            physical_block,
            io_block: io_block.into(),
            edges: RwLock::default(),
            flushes: Flushes::new(),
            identity: identity(&stat),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Whether a change of it failed, or it is gone. It may work after it is reopened.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Whether the path leads to another disk now.
    pub(crate) fn is_replaced(&self) -> bool {
        let now = rustix::fs::stat(&self.path);
        now.is_ok_and(|now| identity(&now) != self.identity)
    }

    /// Whether it has another size than when it was opened.
    pub(crate) fn is_resized(&self) -> bool {
        let now = seek(&self.fd, SeekFrom::End(0));
        // One that was pulled has none.
        now.is_ok_and(|now| now > 0 && now - now % u64::from(self.logical_block) != self.size)
    }

    /// A block that cannot be read is no evidence about further blocks.
    fn note_read<T>(&self, done: Result<T, Errno>) -> Result<T, Errno> {
        match done {
            Err(Errno::NXIO | Errno::NODEV) => self.note_change(done),
            done => done,
        }
    }

    fn note_change<T>(&self, done: Result<T, Errno>) -> Result<T, Errno> {
        if done.is_err() {
            self.has_failed.store(true, Ordering::Release);
        }
        done
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The extent in whole blocks.
    fn whole(&self, extent: Extent) -> Extent {
        let block = self.io_block;
        let start = extent.offset - extent.offset % block;
        let end = (extent.offset + extent.length).next_multiple_of(block);
        Extent::new(start, end - start)
    }

    /// Reads `extent`, which lies inside.
    pub(crate) fn read(&self, extent: Extent) -> Result<(Aligned, usize), Errno> {
        self.note_read(self.read_around(extent))
    }

    fn read_around(&self, extent: Extent) -> Result<(Aligned, usize), Errno> {
        let whole = self.whole(extent);
        let mut memory = Aligned::with_any_contents(whole.length as usize);
        let mut done = 0;
        while done < memory.bytes().len() {
            let rest = &mut memory.bytes_mut()[done..];
            match rustix::io::pread(&self.fd, rest, whole.offset + done as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok((memory, (extent.offset - whole.offset) as usize))
    }

    /// Writes `data` at `offset`, inside the disk.
    pub(crate) fn write(&self, offset: u64, data: &Aligned) -> Result<(), Errno> {
        let extent = Extent::new(offset, data.bytes().len() as u64);
        let whole = self.whole(extent);
        let written = if whole == extent {
            let _shared = self.shared();
            self.write_whole(offset, data.bytes())
        } else {
            let _alone = self.alone();
            self.read(whole).and_then(|(mut around, _)| {
                let start = (offset - whole.offset) as usize;
                let inside = &mut around.bytes_mut()[start..][..data.bytes().len()];
                inside.copy_from_slice(data.bytes());
                self.write_whole(whole.offset, around.bytes())
            })
        };
        self.flushes.note_written();
        self.note_change(written)
    }

    /// The same, durably. `false`: it is written, and a flush has to follow.
    pub(crate) fn write_durably(&self, offset: u64, data: &Aligned) -> Result<bool, Errno> {
        let extent = Extent::new(offset, data.bytes().len() as u64);
        if self.whole(extent) != extent {
            return self.write(offset, data).map(|()| false);
        }
        let written = {
            let _shared = self.shared();
            let pieces = [IoSlice::new(data.bytes())];
            pwritev2(&self.fd, &pieces, offset, ReadWriteFlags::DSYNC)
        };
        match written {
            Ok(count) if count == data.bytes().len() => self.flushes.check().map(|()| true),
            // Not all of it, or not in this way: all of it again in two steps.
            Ok(_) | Err(Errno::INTR | Errno::OPNOTSUPP | Errno::INVAL) => {
                self.write(offset, data).map(|()| false)
            }
            // The write or the flush in it failed. Later flushes would not report it.
            Err(errno) => {
                self.flushes.note_written();
                self.note_change(self.flushes.flush(|| Err(errno)))?;
                Err(errno)
            }
        }
    }

    fn write_whole(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < data.len() {
            match rustix::io::pwrite(&self.fd, &data[done..], offset + done as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes zeroes to `extent`. `may_free`: its blocks may be deallocated.
    pub(crate) fn zero(&self, extent: Extent, may_free: bool) -> Result<(), Errno> {
        let keep = FallocateFlags::KEEP_SIZE;
        let how = match may_free {
            true => keep | FallocateFlags::PUNCH_HOLE,
            false => keep | FallocateFlags::ZERO_RANGE,
        };
        if self.whole(extent) == extent {
            let _shared = self.shared();
            let zeroed = fallocate(&self.fd, how, extent.offset, extent.length);
            self.flushes.note_written();
            match zeroed {
                Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL) => {}
                decided => return self.note_change(decided),
            }
        }
        let mut at = extent.offset;
        let end = extent.offset + extent.length;
        while at < end {
            let length = ZEROES_BYTES.min(end - at);
            self.write(at, &Aligned::new(length as usize))?;
            at += length;
        }
        Ok(())
    }

    /// Makes all writes durable. After a failed flush none succeeds until the disk is reopened.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        self.note_change(self.flushes.flush(|| rustix::fs::fdatasync(&self.fd)))
    }

    #[cfg(test)]
    pub(crate) fn fail(&self) {
        let failed = self.note_change(self.flushes.flush(|| Err(Errno::IO)));
        assert!(failed.is_err());
    }

    /// Whether a flush has nothing to do.
    pub(crate) fn is_clean(&self) -> bool {
        self.flushes.is_clean()
    }

    fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.edges.read().expect("no holder panics")
    }

    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.edges.write().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(bytes: u64) -> (tempfile::NamedTempFile, Disk) {
        let file = tempfile::NamedTempFile::new().expect("file");
        file.as_file().set_len(bytes).expect("sized");
        let disk = Disk::open(file.path()).expect("opened");
        (file, disk)
    }

    fn read(disk: &Disk, offset: u64, length: u64) -> Vec<u8> {
        let (memory, skip) = disk.read(Extent::new(offset, length)).expect("read");
        memory.bytes()[skip..][..length as usize].to_vec()
    }

    #[test]
    fn unaligned_write_is_read_back_and_neighbours_are_intact() {
        let (_file, disk) = disk(1 << 20);
        disk.write(0, &Aligned::of(&[7; 8192])).expect("written");
        disk.write(510, &Aligned::of(b"abcd")).expect("written");
        assert_eq!(read(&disk, 508, 8), b"\x07\x07abcd\x07\x07");
        disk.zero(Extent::new(511, 2), true).expect("zeroed");
        assert_eq!(read(&disk, 509, 6), b"\x07a\0\0d\x07");
        disk.zero(Extent::new(4096, 4096), true).expect("zeroed");
        assert_eq!(read(&disk, 4095, 3), b"\x07\0\0");
    }

    /// A write that is durable at once leaves nothing to flush, and one of parts of blocks is flushed after it.
    #[test]
    fn durable_write_of_whole_blocks_needs_no_flush() {
        let (_file, disk) = disk(1 << 20);
        disk.write(0, &Aligned::of(&[7; 16384])).expect("written");
        disk.flush().expect("flushed");
        let whole = disk.write_durably(4096, &Aligned::of(&[8; 4096]));
        assert!(whole.expect("written") && disk.is_clean());
        let part = disk.write_durably(510, &Aligned::of(b"abcd"));
        assert!(!part.expect("written") && !disk.is_clean());
        assert_eq!(read(&disk, 508, 8), b"\x07\x07abcd\x07\x07");
        assert_eq!(read(&disk, 4094, 4), b"\x07\x07\x08\x08");
    }

    #[test]
    fn after_a_failed_flush_no_durable_write_succeeds() {
        let (_file, disk) = disk(1 << 20);
        disk.fail();
        let written = disk.write_durably(4096, &Aligned::of(&[8; 4096]));
        assert_eq!(written, Err(Errno::IO));
        assert!(disk.has_failed());
    }

    /// The reply is lost with the connection, and the next session retries. The kernel would report success.
    #[test]
    fn flush_after_failed_flush_fails() {
        let flushes = Flushes::new();
        flushes.flush(|| Ok(())).expect("flushed");
        flushes.note_written();
        assert_eq!(flushes.flush(|| Err(Errno::NOSPC)), Err(Errno::NOSPC));
        flushes.note_written();
        assert_eq!(flushes.flush(|| Ok(())), Err(Errno::IO));
        assert!(!flushes.is_clean());
    }

    #[test]
    fn second_open_of_disk_is_refused() {
        let (file, _disk) = disk(1 << 20);
        let again = Disk::open(file.path());
        assert!(matches!(again, Err(OpenError::InUse(_))));
    }

    #[test]
    fn path_that_is_no_disk_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let opened = Disk::open(folder.path());
        assert!(matches!(opened, Err(OpenError::NotADisk(_))));
    }
}
