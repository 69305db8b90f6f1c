//! Files and block devices of this machine.
//!
//! Two ways lead to them. *Cached*: through the page cache, where a read of cached data, and a
//! write to a file of a local file system, is a copy and completes on the spot, and everything
//! else on a worker thread. *Direct*: past the page cache
//! (`O_DIRECT`) by io_uring, without threads. Direct suits disks, whose cache is the library's
//! own; cached suits files, which are small or stand in for disks in a test.

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fstat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::io::{DeviceIo, IoKind, Place};
use super::lock::{LockedFile, acquire};
use super::ring::{Buffer, Ring};
use super::workers::{Blocking, Lane, Workers, complete_on_worker};
use super::{Access, Device, Driver, OpenFailure, Shape};

/// The way to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the page cache.
    Cached,
    /// Past it, with io_uring; where the system does not permit that, on worker threads.
    Direct,
}

/// How devices are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessOptions {
    /// Files.
    pub files: Way,
    /// Block devices.
    pub disks: Way,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self {
            files: Way::Cached,
            disks: Way::Direct,
        }
    }
}

/// What a file reports as the size of its physical blocks: file systems have pages of this size,
/// and write less by reading first.
const FILE_PHYSICAL_BLOCK: u32 = 4096;
/// Smallest I/O on a file that bypasses the page cache, where its file system does not say.
const DIRECT_FILE_BLOCK: u32 = 4096;

/// Opens files and block devices.
pub struct FileDriver {
    options: AccessOptions,
    workers: Arc<Workers>,
    /// Only if something is accessed directly and the system permits it.
    ring: Option<Arc<Ring>>,
}

impl FileDriver {
    /// Starts the driver's threads.
    pub fn new(options: AccessOptions) -> std::io::Result<Self> {
        let wants_ring = [options.files, options.disks].contains(&Way::Direct);
        let ring = if wants_ring {
            Ring::start()
                .inspect_err(|error| {
                    tracing::warn!(%error, "no io_uring: disks are served by threads");
                })
                .ok()
        } else {
            None
        };
        Ok(Self {
            options,
            workers: Workers::start()?,
            ring,
        })
    }
}

impl Driver for FileDriver {
    fn open(
        &self,
        path: &Path,
        _guid: u64,
        access: Access,
    ) -> Result<Arc<dyn Device>, OpenFailure> {
        let file = open_locked(path, access, self.options)?;
        // Who opened it first has chosen the way.
        let flags = rustix::fs::fcntl_getfl(&file.fd).map_err(OpenFailure::System)?;
        let direct = flags.contains(OFlags::DIRECT);
        let backing = Backing::of(&file);
        let through = match (direct, backing, access) {
            (false, Backing::Disk, Access::ReadWrite) => WriteThrough::open(&file),
            _ => None,
        };
        let core = Arc::new(Core {
            writes_are_copies: !direct && backing != Backing::Other,
            flushes_are_nothing: backing == Backing::Memory,
            through,
            file,
            direct,
        });
        Ok(Arc::new(FileDevice {
            lane: Lane::new(Box::new(OnWorker(Arc::clone(&core)))),
            workers: Arc::clone(&self.workers),
            ring: self.ring.clone().filter(|_| direct),
            try_cache: AtomicBool::new(!direct),
            core,
        }))
    }
}

/// Opens and locks `path` the way that `options` say.
pub(super) fn open_locked(
    path: &Path,
    access: Access,
    options: AccessOptions,
) -> Result<Arc<LockedFile>, OpenFailure> {
    let way = if is_block_device(path) {
        options.disks
    } else {
        options.files
    };
    match way {
        Way::Cached => acquire(path, access, OFlags::empty()),
        Way::Direct => match acquire(path, access, OFlags::DIRECT) {
            // A file system without direct access.
            Err(OpenFailure::System(Errno::INVAL)) => acquire(path, access, OFlags::empty()),
            result => result,
        },
    }
}

/// What is under a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backing {
    /// A file system in memory: a flush has nothing to do.
    Memory,
    /// A file system of this machine, whose buffered writes are copies into the page cache.
    Disk,
    /// Something that can hang at any write (a network, a program), or that is no file.
    Other,
}

impl Backing {
    fn of(file: &LockedFile) -> Self {
        if file.is_disk {
            return Self::Other;
        }
        // Numbers of `<linux/magic.h>`.
        match rustix::fs::fstatfs(&file.fd).map(|stat| stat.f_type as u64) {
            // tmpfs
            Ok(0x0102_1994) => Self::Memory,
            // ext2 to ext4, XFS, Btrfs, F2FS, and overlayfs: a container's own folders, whose
            // upper layer is one of these.
            Ok(0xef53 | 0x5846_5342 | 0x9123_683e | 0xf2f5_2010 | 0x794c_7630) => Self::Disk,
            Ok(_) | Err(_) => Self::Other,
        }
    }
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device())
}

struct Core {
    file: Arc<LockedFile>,
    direct: bool,
    /// Whether a write needs no thread that may wait.
    writes_are_copies: bool,
    /// Whether a flush needs none either.
    flushes_are_nothing: bool,
    /// For writes that are to be durable at once.
    through: Option<WriteThrough>,
}

struct FileDevice {
    core: Arc<Core>,
    lane: Arc<Lane>,
    workers: Arc<Workers>,
    ring: Option<Arc<Ring>>,
    /// Whether reads may be tried in the page cache first.
    try_cache: AtomicBool,
}

impl Device for FileDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        self.core.shape()
    }

    fn submit(&self, io: DeviceIo) {
        match io.kind() {
            IoKind::Flush if self.core.file.is_durable() => {
                return complete_on_submitter(io, Ok(()));
            }
            IoKind::Flush if self.core.may_flush_in_place(&io) => {
                let result = self.core.file.flush();
                return complete_on_submitter(io, result);
            }
            IoKind::Read if self.read_from_cache(&io) => {
                return complete_on_submitter(io, Ok(()));
            }
            IoKind::Write if self.core.writes_are_copies => {
                let through = self.core.write_through(&io);
                if let Some(result) = through.or_else(|| self.core.write_in_place(&io)) {
                    return complete_on_submitter(io, result);
                }
            }
            _ => {}
        }
        match &self.ring {
            Some(ring) if matches!(io.kind(), IoKind::Read | IoKind::Write) => {
                ring.submit(&self.core.file, io);
            }
            _ => self.workers.submit(&self.lane, io),
        }
    }
}

impl FileDevice {
    /// Reads what the page cache holds, straight into the library's memory: a call that does not
    /// wait leaves nobody behind who could write there later. False if anything is not cached.
    fn read_from_cache(&self, io: &DeviceIo) -> bool {
        if !self.try_cache.load(Ordering::Relaxed) {
            return false;
        }
        let result = io.in_place(|pieces| {
            preadv2(
                &self.core.file.fd,
                pieces,
                io.offset(),
                ReadWriteFlags::NOWAIT,
            )
        });
        match result {
            Some(Ok(count)) => count == io.length(),
            Some(Err(Errno::OPNOTSUPP)) => {
                self.try_cache.store(false, Ordering::Relaxed);
                false
            }
            Some(Err(_)) | None => false,
        }
    }
}

impl Core {
    fn may_flush_in_place(&self, io: &DeviceIo) -> bool {
        self.flushes_are_nothing || (io.submitter_may_wait && self.writes_are_copies)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(&self.file.fd, &mut buffer[done..], offset + done as u64) {
                // The end: the file has been truncated.
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffer: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pwrite(&self.file.fd, &buffer[done..], offset + done as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes from the library's own memory. `None` if that is in too many pieces.
    fn write_in_place(&self, io: &DeviceIo) -> Option<Result<(), Errno>> {
        let result = io.in_place(|pieces| {
            let mut at = io.offset();
            for piece in pieces {
                self.write(at, piece)?;
                at += piece.len() as u64;
            }
            Ok(())
        })?;
        // Even if it failed: some of it may have been written.
        self.file.note_written();
        Some(result)
    }

    /// Writes and makes durable in one. `None`, and nothing was done, if that is not wanted or not
    /// possible.
    fn write_through(&self, io: &DeviceIo) -> Option<Result<(), Errno>> {
        let through = self.through.as_ref()?;
        if !io.submitter_may_wait || io.length() > WRITE_THROUGH_BYTES_MAX {
            return None;
        }
        let result = io.in_place(|pieces| match pieces {
            [piece] => through.write(io.offset(), piece),
            _ => None,
        })??;
        if result.is_err() {
            // Some of it may have been written.
            self.file.note_written();
        }
        Some(result)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Errno> {
        if self.file.is_disk {
            return disk::discard(&self.file.fd, offset, length);
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file.fd, punch, offset, length)
    }

    fn shape(&self) -> Result<Shape, OpenFailure> {
        if self.file.is_disk {
            return disk::shape(&self.file).map_err(OpenFailure::System);
        }
        let stat = fstat(&self.file.fd).map_err(OpenFailure::System)?;
        Ok(Shape {
            bytes: stat.st_size as u64,
            logical_block: if self.direct { DIRECT_FILE_BLOCK } else { 512 },
            physical_block: FILE_PHYSICAL_BLOCK,
            rotational: false,
            trim: true,
        })
    }
}

/// Larger blocks of a log come several at a time, and one flush after them costs less than one for each.
const WRITE_THROUGH_BYTES_MAX: usize = 64 << 10;

/// A second way to a file: past the page cache, and each write durable when it returns.
struct WriteThrough {
    fd: OwnedFd,
    /// The file system has refused it.
    refused: AtomicBool,
}

impl WriteThrough {
    /// `None` where the file system has no such way.
    fn open(file: &LockedFile) -> Option<Self> {
        // By the descriptor: the path may name another file by now.
        let path = format!("/proc/self/fd/{}", file.fd.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::DSYNC | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        Some(Self {
            fd,
            refused: AtomicBool::new(false),
        })
    }

    /// `None` if it cannot be done this way.
    fn write(&self, offset: u64, data: &[u8]) -> Option<Result<(), Errno>> {
        let block = DIRECT_FILE_BLOCK as usize;
        let aligned = data.as_ptr().addr() % block == 0
            && data.len() % block == 0
            && offset % block as u64 == 0;
        if !aligned || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        match rustix::io::pwrite(&self.fd, data, offset) {
            Ok(count) if count == data.len() => Some(Ok(())),
            // The rest goes the usual way, with all of it.
            Ok(_) | Err(Errno::INTR) => None,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                self.refused.store(true, Ordering::Relaxed);
                None
            }
            Err(errno) => Some(Err(errno)),
        }
    }
}

/// Writes on one thread's stack that complete inside one another.
const NESTED_MAX: u32 = 2;

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// Completes what was carried out on the spot. What follows in the library may submit the next
/// I/O, which completes inside this one: some levels are fine, a queue of them is not.
fn complete_on_submitter(io: DeviceIo, result: Result<(), Errno>) {
    let level = NESTED.get();
    let place = if level < NESTED_MAX {
        Place::Submitter
    } else {
        Place::Elsewhere
    };
    NESTED.set(level + 1);
    io.complete(result, place);
    NESTED.set(level);
}

/// The device as a worker sees it.
struct OnWorker(Arc<Core>);

impl Blocking for OnWorker {
    fn run(&self, io: DeviceIo, buffer: &mut Buffer) {
        let core = &self.0;
        let result = match io.kind() {
            IoKind::Read => {
                let bytes = buffer.bytes(io.length());
                let result = core.read(io.offset(), bytes);
                if result.is_ok() {
                    io.copy_from(bytes);
                }
                result
            }
            IoKind::Write => {
                let bytes = buffer.bytes(io.length());
                if io.copy_to(bytes) {
                    core.write(io.offset(), bytes)
                } else {
                    Err(Errno::NXIO)
                }
            }
            IoKind::Flush => core.file.flush(),
            IoKind::Trim => core.trim(io.offset(), io.length() as u64),
        };
        if matches!(io.kind(), IoKind::Write | IoKind::Trim) {
            // Even if it failed: some of it may have been done.
            core.file.note_written();
        }
        complete_on_worker(io, result);
    }
}

/// What only block devices have.
mod disk {
    use std::os::fd::AsFd;

    use rustix::fs::{SeekFrom, ioctl_blkpbszget, ioctl_blksszget, major, minor, seek};
    use rustix::io::Errno;
    use rustix::ioctl::{Setter, ioctl, opcode};

    use super::super::Shape;
    use super::super::lock::LockedFile;

    /// `BLKDISCARD` of `<linux/fs.h>`: takes an offset and a length.
    const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

    pub(super) fn discard(fd: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
        // SAFETY: this request reads two 64-bit integers, the range, and writes no memory.
        unsafe { ioctl(fd, Setter::<BLKDISCARD, [u64; 2]>::new([offset, length])) }
    }

    pub(super) fn shape(file: &LockedFile) -> Result<Shape, Errno> {
        let queue = format!(
            "/sys/dev/block/{}:{}",
            major(file.disk_number),
            minor(file.disk_number)
        );
        // A partition's queue is its disk's.
        let setting = |name: &str| -> Option<u64> {
            [
                format!("{queue}/queue/{name}"),
                format!("{queue}/../queue/{name}"),
            ]
            .iter()
            .find_map(|path| std::fs::read_to_string(path).ok())
            .and_then(|text| text.trim().parse().ok())
        };
        Ok(Shape {
            bytes: seek(&file.fd, SeekFrom::End(0))?,
            logical_block: ioctl_blksszget(&file.fd)?,
            physical_block: ioctl_blkpbszget(&file.fd)?,
            rotational: setting("rotational") == Some(1),
            trim: setting("discard_max_bytes").is_some_and(|max| max > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const FILE_BYTES: u64 = 8 << 20;

    fn carry_out(
        device: &dyn Device,
        kind: IoKind,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<Vec<u8>, Errno> {
        let (sender, receiver) = mpsc::channel();
        device.submit(DeviceIo::on_memory(
            kind,
            offset,
            data,
            move |result, data| {
                sender.send(result.map(|()| data)).expect("somebody waits");
            },
        ));
        receiver.recv().expect("completed")
    }

    fn open_file(way: Way) -> (tempfile::NamedTempFile, Arc<dyn Device>) {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        file.as_file().set_len(FILE_BYTES).expect("size");
        let options = AccessOptions {
            files: way,
            disks: way,
        };
        let driver = FileDriver::new(options).expect("start");
        let device = driver
            .open(file.path(), 1, Access::ReadWrite)
            .expect("open");
        (file, device)
    }

    fn reads_back_what_was_written(way: Way) {
        let (file, device) = open_file(way);
        assert_eq!(device.shape().expect("shape").bytes, FILE_BYTES);
        let mut random = fastrand::Rng::with_seed(7);
        for length in [4096, 8192, 128 << 10, 1 << 20, 3 << 20] {
            let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
                .take(length)
                .collect();
            let offset = random.u64(0..4) * 4096;
            carry_out(&*device, IoKind::Write, offset, data.clone()).expect("write");
            let read = carry_out(&*device, IoKind::Read, offset, vec![0; length]);
            assert!(read.expect("read") == data, "{length} bytes");
        }
        carry_out(&*device, IoKind::Flush, 0, Vec::new()).expect("flush");
        carry_out(&*device, IoKind::Flush, 0, Vec::new()).expect("nothing to flush");
        carry_out(&*device, IoKind::Trim, 4096, vec![0; 8192]).expect("trim");
        let read = carry_out(&*device, IoKind::Read, 4096, vec![1; 8192]).expect("read");
        assert!(read.iter().all(|byte| *byte == 0), "trimmed space is empty");

        file.as_file().set_len(FILE_BYTES / 2).expect("truncate");
        let beyond = carry_out(&*device, IoKind::Read, FILE_BYTES / 2, vec![0; 4096]);
        assert_eq!(beyond, Err(Errno::IO), "a truncated file");
    }

    #[test]
    fn cached_file_reads_back_what_was_written() {
        reads_back_what_was_written(Way::Cached);
    }

    #[test]
    fn direct_file_reads_back_what_was_written() {
        reads_back_what_was_written(Way::Direct);
    }

    #[test]
    fn write_through_is_seen_by_readers_and_leaves_nothing_to_flush() {
        let (file, _) = open_file(Way::Cached);
        let path = file.path();
        let held = open_locked(path, Access::ReadWrite, AccessOptions::default()).expect("open");
        // None on a file system in memory, for example.
        let Some(through) = WriteThrough::open(&held) else {
            return;
        };
        held.flush().expect("flush");
        let memory = vec![7; 3 * DIRECT_FILE_BLOCK as usize];
        let start = memory.as_ptr().align_offset(DIRECT_FILE_BLOCK as usize);
        let data = &memory[start..start + DIRECT_FILE_BLOCK as usize];
        // What a reader has seen before must not stay in the page cache.
        let mut read = vec![0; data.len()];
        rustix::io::pread(&held.fd, &mut read, 8192).expect("read");
        match through.write(8192, data) {
            Some(result) => result.expect("write"),
            None => return assert!(through.refused.load(Ordering::Relaxed)),
        }
        assert!(held.is_durable());
        rustix::io::pread(&held.fd, &mut read, 8192).expect("read");
        assert!(read == data);
        assert_eq!(through.write(8192, &data[..512]), None, "not a whole block");
        assert_eq!(through.write(512, data), None, "not at a block");
    }

    #[test]
    fn many_at_once_all_complete() {
        const COUNT: u64 = 2000;
        for way in [Way::Cached, Way::Direct] {
            let (_file, device) = open_file(way);
            let (sender, receiver) = mpsc::channel();
            for index in 0..COUNT {
                let sender = sender.clone();
                let kind = if index % 3 == 0 {
                    IoKind::Write
                } else {
                    IoKind::Read
                };
                let offset = (index % 1024) * 4096;
                let done = move |result, _| sender.send(result).expect("somebody waits");
                device.submit(DeviceIo::on_memory(kind, offset, vec![3; 4096], done));
            }
            for _ in 0..COUNT {
                assert_eq!(receiver.recv().expect("completed"), Ok(()));
            }
        }
    }
}
