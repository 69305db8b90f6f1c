//! Files and block devices of this host.
//!
//! There are two I/O paths. *Cached*: through the page cache, where a read of cached data, and a write to a file of a
//! local file system, is a copy that completes immediately, and other I/O runs on a worker thread; only log blocks, and
//! on ext4 large writes, bypass it ([`PastCache`]). *Direct*: bypasses the page cache (`O_DIRECT`) by io_uring, without
//! threads. Direct suits disks, because the library caches their data itself; cached suits files, which are small or
//! replace disks in a test.

use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fstat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::backing::Backing;
use super::io::{CompletionThread, DURABLE_WRITE_BYTES_MAX, DeviceIo, IoKind, LentPiece};
use super::lock::{LockedFile, acquire};
use super::page_cache;
use super::past_cache::{PastCache, reopen_cached};
use super::ring::{Buffer, Otherwise, Ring};
use super::turns::Turn;
use super::workers::{Blocking, Lane, Workers, complete_on_worker};
use super::{Access, DIRECT_FILE_BLOCK, Device, Driver, OpenFailure, Shape, disk};

/// The I/O path to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the page cache.
    Cached,
    /// Bypasses it, with io_uring; where the system does not permit that, on worker threads.
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

impl AccessOptions {
    fn way(&self, is_disk: bool) -> Way {
        if is_disk { self.disks } else { self.files }
    }
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self {
            files: Way::Cached,
            disks: Way::Direct,
        }
    }
}

/// The physical block size that a file reports: file systems have pages of this size, and must read first to write
/// less.
const FILE_PHYSICAL_BLOCK: u32 = 4096;

/// Opens files and block devices.
pub struct FileDriver {
    options: AccessOptions,
    workers: Arc<Workers>,
    /// Started for the first device that it serves; `None` where the system does not permit one.
    ring: OnceLock<Option<Arc<Ring>>>,
}

impl FileDriver {
    /// Starts the driver's threads.
    pub fn new(options: AccessOptions) -> std::io::Result<Self> {
        Ok(Self {
            options,
            workers: Workers::start()?,
            ring: OnceLock::new(),
        })
    }

    fn ring(&self) -> Option<Arc<Ring>> {
        let start = || {
            Ring::start()
                .inspect_err(|error| {
                    tracing::info!(%error, "no io_uring: threads wait for disks, and large writes to files are copied");
                })
                .ok()
        };
        self.ring.get_or_init(start).clone()
    }
}

impl Driver for FileDriver {
    fn open(
        &self,
        path: &Path,
        _guid: u64,
        access: Access,
    ) -> Result<Arc<dyn Device>, OpenFailure> {
        Ok(Arc::new(self.open_file(path, access)?))
    }
}

impl FileDriver {
    fn open_file(&self, path: &Path, access: Access) -> Result<FileDevice, OpenFailure> {
        let file = open_locked(path, access, self.options)?;
        let backing = Backing::of(&file);
        let way = self.options.way(file.is_disk);
        let bypasses = file.is_direct();
        let direct = way == Way::Direct && bypasses;
        let reopened = (bypasses && !direct).then(|| reopen_cached(&file));
        let cached = reopened.transpose().map_err(OpenFailure::System)?;
        let past_cache = cached.as_ref().and_then(|_| PastCache::of(&file));
        let mixes = past_cache.is_some() && backing == Backing::Local { mixes: true };
        let ring = (direct || mixes).then(|| self.ring()).flatten();
        let core = Arc::new(Core {
            writes_are_copies: !direct && backing != Backing::Other,
            flushes_are_nothing: backing == Backing::Memory,
            merges: mixes && ring.is_some(),
            cached,
            past_cache,
            file,
            direct,
        });
        Ok(FileDevice {
            lane: Lane::new(Box::new(OnWorker(Arc::clone(&core)))),
            workers: Arc::clone(&self.workers),
            try_cache: AtomicBool::new(!direct),
            asks_cache: AtomicBool::new(!direct && core.past_cache.is_some() && ring.is_some()),
            ring,
            core,
        })
    }
}

/// Opens and locks `path` according to `options`.
///
/// The locked descriptor of a file is direct in both modes if possible: a write with the page cache bypassed that is in
/// flight when this process is killed holds the lock until it is done.
pub(super) fn open_locked(
    path: &Path,
    access: Access,
    options: AccessOptions,
) -> Result<Arc<LockedFile>, OpenFailure> {
    let is_disk = is_block_device(path);
    let is_direct = match options.way(is_disk) {
        Way::Direct => true,
        Way::Cached => {
            let is_local = matches!(Backing::at(path), Backing::Local { .. });
            !is_disk && access == Access::ReadWrite && is_local
        }
    };
    if !is_direct {
        return acquire(path, access, OFlags::empty());
    }
    match acquire(path, access, OFlags::DIRECT) {
        // A file system without direct I/O.
        Err(OpenFailure::System(Errno::INVAL)) => acquire(path, access, OFlags::empty()),
        result => result,
    }
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device())
}

struct Core {
    file: Arc<LockedFile>,
    direct: bool,
    /// Whether a write cannot block.
    writes_are_copies: bool,
    /// Whether a flush cannot block either.
    flushes_are_nothing: bool,
    /// Whether adjacent I/O should be merged.
    merges: bool,
    /// The descriptor for the page cache, if the locked one bypasses it and not all I/O does.
    cached: Option<OwnedFd>,
    /// For writes that bypass it.
    past_cache: Option<PastCache>,
}

struct FileDevice {
    core: Arc<Core>,
    lane: Arc<Lane>,
    workers: Arc<Workers>,
    ring: Option<Arc<Ring>>,
    /// Whether reads should first try the page cache.
    try_cache: AtomicBool,
    /// Whether the kernel reports which pages are cached, and uncached data can be read with the cache bypassed.
    asks_cache: AtomicBool,
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
            IoKind::Read => match (&self.ring, self.may_read_past_cache(&io)) {
                (Some(ring), true) => {
                    return ring.submit(&self.core.file, io, Some(self.on_a_worker(None)));
                }
                _ if self.read_from_cache(&io) => return complete_on_submitter(io, Ok(())),
                _ => {}
            },
            IoKind::Write if self.core.writes_are_copies => {
                if let Some((ring, pieces, turn)) = self.lend_large(&io) {
                    return ring.submit_lent(
                        &self.core.file,
                        io,
                        pieces,
                        self.on_a_worker(Some(turn)),
                    );
                }
                let durable = self.core.write_durably(&io);
                if let Some(result) = durable.or_else(|| self.core.write_in_place(&io)) {
                    return complete_on_submitter(io, result);
                }
            }
            _ => {}
        }
        match &self.ring {
            Some(ring) if self.core.direct && matches!(io.kind(), IoKind::Read | IoKind::Write) => {
                ring.submit(&self.core.file, io, None);
            }
            _ => self.workers.submit(&self.lane, io),
        }
    }
}

impl FileDevice {
    /// Reads cached data directly into the library's memory: a call that does not block leaves no operation behind that
    /// could write there later. Returns false if any of the data is not cached.
    fn read_from_cache(&self, io: &DeviceIo) -> bool {
        if !self.try_cache.load(Ordering::Relaxed) {
            return false;
        }
        let result = io.in_place(|pieces| {
            preadv2(self.core.fd(), pieces, io.offset(), ReadWriteFlags::NOWAIT)
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

    /// Whether a read bypasses the page cache because not all of its data is cached: then no thread blocks, and no
    /// pages are allocated for data that the library caches. A non-blocking read attempt would allocate them and start
    /// to read into them.
    fn may_read_past_cache(&self, io: &DeviceIo) -> bool {
        let block = u64::from(DIRECT_FILE_BLOCK);
        let is_refused = |past: &PastCache| past.is_refused();
        let is_possible = self.asks_cache.load(Ordering::Relaxed)
            && !self.core.past_cache.as_ref().is_none_or(is_refused)
            && io.offset() % block == 0
            && io.length() as u64 % block == 0;
        if !is_possible {
            return false;
        }
        match page_cache::has_all(self.core.fd(), io.offset(), io.length()) {
            Ok(has_all) => !has_all,
            Err(_) => {
                self.asks_cache.store(false, Ordering::Relaxed);
                false
            }
        }
    }

    /// The memory of a large write, for a direct write by the kernel. `None` if that is not requested or not possible
    /// now.
    fn lend_large(&self, io: &DeviceIo) -> Option<(&Ring, Vec<LentPiece>, Turn)> {
        let (ring, past_cache) = (self.ring.as_ref()?, self.core.past_cache.as_ref()?);
        if io.submitter_may_wait || io.length() < LARGE_WRITE_BYTES_MIN {
            return None;
        }
        let turn = past_cache.try_begin(Way::Direct, io)?;
        let pieces = io.lend(|pieces| {
            io.length() >= pieces.len() * LARGE_WRITE_PIECE_BYTES
                && past_cache.suits(io.offset(), pieces)
        })?;
        Some((ring, pieces, turn))
    }

    /// The fallback for an I/O that was to bypass the page cache and was refused: a worker carries it out, and no later
    /// I/O attempts the bypass. The turn of a write is released with it, or here.
    fn on_a_worker(&self, turn: Option<Turn>) -> Otherwise {
        let (core, lane, workers) = (
            Arc::clone(&self.core),
            Arc::clone(&self.lane),
            Arc::clone(&self.workers),
        );
        Box::new(move |io| {
            drop(turn);
            if let Some(past_cache) = &core.past_cache {
                past_cache.refuse();
            }
            workers.submit(&lane, io);
        })
    }
}

impl Core {
    /// The descriptor to read and write with; both bypass the page cache if it is `direct`.
    fn fd(&self) -> BorrowedFd<'_> {
        self.cached.as_ref().unwrap_or(&self.file.fd).as_fd()
    }

    fn may_flush_in_place(&self, io: &DeviceIo) -> bool {
        self.flushes_are_nothing || (io.submitter_may_wait && self.writes_are_copies)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(self.fd(), &mut buffer[done..], offset + done as u64) {
                // The end of the file, which has been truncated.
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, mut pieces: &mut [IoSlice<'_>]) -> Result<(), Errno> {
        let mut at = offset;
        while !pieces.is_empty() {
            match rustix::io::pwritev(self.fd(), pieces, at) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => {
                    IoSlice::advance_slices(&mut pieces, count);
                    at += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes from the library's own memory. `None` if that is in too many pieces, or if it would block.
    fn write_in_place(&self, io: &DeviceIo) -> Option<Result<(), Errno>> {
        let _turn = match &self.past_cache {
            Some(past_cache) => Some(past_cache.try_begin(Way::Cached, io)?),
            None => None,
        };
        let result = io.in_place(|pieces| {
            let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            self.write(io.offset(), &mut slices)
        })?;
        // Even if it failed: part of it may have been written.
        self.file.note_written();
        Some(result)
    }

    /// Writes durably in one call. Returns `None`, with nothing done, if that is not requested or not
    /// possible.
    fn write_durably(&self, io: &DeviceIo) -> Option<Result<(), Errno>> {
        let past_cache = self.past_cache.as_ref()?;
        if !io.submitter_may_wait || io.length() > DURABLE_WRITE_BYTES_MAX {
            return None;
        }
        let _turn = past_cache.try_begin(Way::Direct, io)?;
        let result = match io.is_of_leg() {
            true => write_copy_durably(past_cache, io)?,
            false => io.in_place(|pieces| match pieces {
                [piece] => past_cache.write_durably(io.offset(), piece),
                _ => None,
            })??,
        };
        if result.is_err() {
            // Part of it may have been written.
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
            merges: self.merges,
            far: false,
            trim: true,
        })
    }
}

/// Writes durably from a copy, so that the deadline can return the library's memory while the disk hangs: the other legs
/// have the data.
fn write_copy_durably(past_cache: &PastCache, io: &DeviceIo) -> Option<Result<(), Errno>> {
    thread_local! {
        static COPY: RefCell<Buffer> = RefCell::default();
    }
    // No I/O is completed while it is borrowed.
    COPY.with_borrow_mut(|buffer| {
        let data = buffer.bytes(io.length());
        match io.copy_to(data) {
            true => past_cache.write_durably(io.offset(), data),
            false => None,
        }
    })
}

/// A write of this size should be written to the disk at once,
const LARGE_WRITE_BYTES_MIN: usize = 64 << 10;
/// if its pieces have this size on average: copying small pieces costs no more than submitting them to the disk, and
/// the data that the next import reads stays in the page cache.
const LARGE_WRITE_PIECE_BYTES: usize = 16 << 10;

/// Nested completions of writes on one thread's stack.
const NESTED_MAX: u32 = 2;

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// Completes an I/O that was carried out synchronously. The library may then submit the next I/O, which completes
/// inside this one: a few levels of recursion are fine, a whole queue is not.
fn complete_on_submitter(io: DeviceIo, result: Result<(), Errno>) {
    let level = NESTED.get();
    let place = if level < NESTED_MAX {
        CompletionThread::Submitter
    } else {
        CompletionThread::Elsewhere
    };
    NESTED.set(level + 1);
    io.complete(result, place);
    NESTED.set(level);
}

/// The device in a worker's view.
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
                    let _turn = core
                        .past_cache
                        .as_ref()
                        .map(|one| one.begin(Way::Cached, &io));
                    core.write(io.offset(), &mut [IoSlice::new(bytes)])
                } else {
                    Err(Errno::NXIO)
                }
            }
            IoKind::Flush => core.file.flush(),
            IoKind::Trim => core.trim(io.offset(), io.length() as u64),
        };
        if matches!(io.kind(), IoKind::Write | IoKind::Trim) {
            // Even if it failed: part of it may have been done.
            core.file.note_written();
        }
        complete_on_worker(io, result);
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

    fn reads_back_written_data(way: Way) {
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
    fn cached_file_reads_back_written_data() {
        reads_back_written_data(Way::Cached);
    }

    #[test]
    fn direct_file_reads_back_written_data() {
        reads_back_written_data(Way::Direct);
    }

    /// Memory with the alignment of the library's, and more of it before and after.
    fn paged(length: usize, random: &mut fastrand::Rng) -> (Vec<u8>, usize) {
        let block = DIRECT_FILE_BLOCK as usize;
        let memory: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
            .take(length + 2 * block)
            .collect();
        let start = memory.as_ptr().align_offset(block);
        (memory, start)
    }

    #[test]
    fn uncached_reads_bypass_page_cache_unless_unsupported() {
        const BLOCK: usize = DIRECT_FILE_BLOCK as usize;
        let (file, device) = open_file(Way::Cached);
        let data: Vec<u8> = (0..16 * BLOCK).map(|at| (at / 512) as u8).collect();
        carry_out(&*device, IoKind::Write, 0, data.clone()).expect("write");
        carry_out(&*device, IoKind::Flush, 0, Vec::new()).expect("flush");
        drop(device);
        let has_all = || page_cache::has_all(file.as_file().as_fd(), 0, data.len());
        let forget = || {
            let advice = rustix::fs::Advice::DontNeed;
            rustix::fs::fadvise(file.as_file(), 0, None, advice).expect("dropped");
        };
        forget();
        let driver = FileDriver::new(AccessOptions::default()).expect("start");
        let device = driver.open_file(file.path(), Access::ReadWrite);
        let device = device.expect("open");
        // Only on a disk's file system, on a kernel that reports cached pages.
        let (Some(past_cache), Ok(false)) = (&device.core.past_cache, has_all()) else {
            return;
        };
        if device.ring.is_none() {
            return;
        }
        let read = |offset: usize, length: usize| {
            let read = carry_out(&device, IoKind::Read, offset as u64, vec![0; length]);
            assert!(read.expect("read") == data[offset..offset + length]);
        };
        read(0, data.len());
        assert_eq!(has_all(), Ok(false), "nothing was kept");
        read(512, 1024);
        past_cache.refuse();
        read(0, data.len());
        assert_eq!(has_all(), Ok(true), "read through the page cache");
        read(BLOCK, BLOCK);
    }

    #[test]
    fn direct_writes_are_coherent_and_fall_back_when_refused() {
        const BYTES: usize = 1 << 20;
        let (file, _) = open_file(Way::Cached);
        let held = open_locked(file.path(), Access::ReadWrite, AccessOptions::default());
        let held = held.expect("open");
        let (true, Ok(ring)) = (held.is_direct(), Ring::start()) else {
            return;
        };
        let mut random = fastrand::Rng::with_seed(9);
        for shift in [0, 1] {
            let offset = (1 << 20) * shift as u64;
            let cached = reopen_cached(&held).expect("reopen");
            let mut read = vec![0; BYTES];
            rustix::io::pread(&cached, &mut read, offset).expect("now it is in the page cache");
            let (mut memory, start) = paged(BYTES, &mut random);
            // The second is not aligned: no disk file system writes it with the cache bypassed.
            let data = &mut memory[start + shift..start + shift + BYTES];
            let pieces = data.chunks_mut(128 << 10).map(|piece| LentPiece {
                data: piece.as_mut_ptr(),
                length: piece.len(),
            });
            let pieces = pieces.collect();
            let (sender, receiver) = mpsc::channel();
            let io =
                DeviceIo::on_memory(IoKind::Write, offset, vec![0; BYTES], move |result, _| {
                    sender.send(result).expect("somebody waits");
                });
            let otherwise: Otherwise =
                Box::new(|io| io.complete(Err(Errno::INVAL), CompletionThread::Here));
            ring.submit_lent(&held, io, pieces, otherwise);
            match receiver.recv().expect("completed") {
                Ok(()) => {
                    rustix::io::pread(&cached, &mut read, offset).expect("read");
                    assert!(read == *data, "shifted by {shift}");
                    assert!(!held.is_durable());
                }
                Err(errno) => assert_eq!((errno, shift), (Errno::INVAL, 1)),
            }
        }
    }

    /// As a resilver does it. The kernel fails a flush when a page is written that was just bypassed.
    #[test]
    fn concurrent_direct_and_cached_write_fails_no_flush() {
        const BYTES: usize = 256 << 10;
        const BLOCK: usize = 4096;
        const ROUNDS: u64 = 2000;
        let (file, _) = open_file(Way::Cached);
        let driver = FileDriver::new(AccessOptions::default()).expect("start");
        let device = driver.open_file(file.path(), Access::ReadWrite);
        let device = device.expect("open");
        // Only on a file system where the two can be mixed.
        let (Some(ring), Some(past_cache)) = (&device.ring, &device.core.past_cache) else {
            return;
        };
        let (mut memory, start) = paged(BYTES, &mut fastrand::Rng::with_seed(5));
        let data = &mut memory[start..start + BYTES];
        let (sender, receiver) = mpsc::channel();
        for round in 0..ROUNDS {
            let (large, small) = (sender.clone(), sender.clone());
            let end = move |sender: mpsc::Sender<_>, result| {
                sender.send(result).expect("somebody waits");
            };
            let io = DeviceIo::on_memory(IoKind::Write, 0, vec![0; BYTES], move |result, _| {
                end(large, result);
            });
            match past_cache.try_begin(Way::Direct, &io) {
                Some(turn) => {
                    let piece = LentPiece {
                        data: data.as_mut_ptr(),
                        length: BYTES,
                    };
                    ring.submit_lent(
                        &device.core.file,
                        io,
                        vec![piece],
                        device.on_a_worker(Some(turn)),
                    );
                }
                None => device.workers.submit(&device.lane, io),
            }
            let offset = (round % 16) * BLOCK as u64;
            device.submit(DeviceIo::on_memory(
                IoKind::Write,
                offset,
                vec![9; BLOCK],
                move |result, _| end(small, result),
            ));
            if round % 4 == 3 {
                for _ in 0..8 {
                    receiver.recv().expect("completed").expect("written");
                }
            }
        }
        carry_out(&device, IoKind::Flush, 0, Vec::new()).expect("flush");
    }

    #[test]
    fn concurrent_requests_all_complete() {
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
