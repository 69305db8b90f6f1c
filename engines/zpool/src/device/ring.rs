//! Asynchronous I/O by io_uring: no thread blocks on a disk.
//!
//! One ring serves all devices that bypass the page cache. Any thread submits; one thread reaps completions. The kernel
//! gets buffers that the ring owns until their completion, even if the deadline has completed the I/O before; or, for a
//! write without a deadline, the memory of the requester.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io_uring::register::Restriction;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::{Errno, ReadWriteFlags};

use super::CompletionThread;
use super::io::{DURABLE_WRITE_BYTES_MAX, DeviceIo, IoKind, LentPiece};
use super::lock::LockedFile;

/// Alignment that suits every disk.
const ALIGNMENT: usize = 4096;
/// Entries of the submission queue; further I/O is queued in memory.
const ENTRIES: u32 = 512;
/// Buffers larger than this are not kept for reuse.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Idle buffers kept, per power of two of their size.
const KEPT_BUFFERS_MAX: usize = 64;

/// Memory with the alignment of a disk, which grows as needed without preserving its contents.
#[derive(Default)]
pub(super) struct Buffer {
    memory: Option<(NonNull<u8>, usize)>,
}

// SAFETY: plain memory that the buffer owns.
unsafe impl Send for Buffer {}

impl Buffer {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT).expect("a buffer is smaller than memory")
    }

    /// The first `length` bytes, with any contents.
    pub(super) fn bytes(&mut self, length: usize) -> &mut [u8] {
        let capacity = self.memory.map_or(0, |(_, capacity)| capacity);
        if capacity < length {
            self.grow(length.next_power_of_two().max(ALIGNMENT));
        }
        match self.memory {
            // SAFETY: initialised by `grow`, at least `length` bytes, borrowed from `self`.
            Some((data, _)) => unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), length) },
            None => &mut [],
        }
    }

    fn grow(&mut self, capacity: usize) {
        *self = Self::default();
        let layout = Self::layout(capacity);
        // SAFETY: the size is not zero.
        let data = unsafe { alloc(layout) };
        let Some(data) = NonNull::new(data) else {
            handle_alloc_error(layout)
        };
        // SAFETY: just allocated with this size. A `[u8]` must be initialised.
        unsafe { data.as_ptr().write_bytes(0, capacity) };
        self.memory = Some((data, capacity));
    }

    fn capacity(&self) -> usize {
        self.memory.map_or(0, |(_, capacity)| capacity)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((data, capacity)) = self.memory {
            // SAFETY: allocated by `grow` with this layout.
            unsafe { dealloc(data.as_ptr(), Self::layout(capacity)) };
        }
    }
}

/// Buffers waiting for their next use, one list per power of two.
#[derive(Default)]
struct Buffers {
    idle: Mutex<Vec<Vec<Buffer>>>,
}

impl Buffers {
    fn take(&self, length: usize) -> Buffer {
        let class = length.next_power_of_two().trailing_zeros() as usize;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.get_mut(class).and_then(Vec::pop).unwrap_or_default()
    }

    fn give_back(&self, buffer: Buffer) {
        let capacity = buffer.capacity();
        if capacity == 0 || capacity > KEPT_BYTES_MAX {
            return;
        }
        let class = capacity.trailing_zeros() as usize;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() <= class {
            idle.resize_with(class + 1, Vec::new);
        }
        if idle[class].len() < KEPT_BUFFERS_MAX {
            idle[class].push(buffer);
        }
    }
}

/// An I/O in flight in the kernel.
struct Flight {
    io: DeviceIo,
    /// Open, and so locked, until the kernel has completed the I/O, even if the process is killed before.
    file: Arc<LockedFile>,
    memory: Memory,
    /// Bytes done: the kernel may transfer fewer than requested.
    done: usize,
}

/// The memory that the kernel accesses.
enum Memory {
    /// The ring's. If a file system refuses direct I/O, the I/O is carried out on a worker.
    Own(Buffer, Option<Otherwise>),
    /// The requester's.
    Lent(Lent),
}

/// A write from the requester's own memory.
struct Lent {
    /// The pieces that are not written yet.
    pieces: Vec<LentPiece>,
    /// Carries out the write by the fallback.
    otherwise: Otherwise,
}

// SAFETY: the memory is that of the flight's I/O, which any thread may access.
unsafe impl Send for Lent {}

/// Handles a write that the kernel refuses to do with the page cache bypassed.
pub(super) type Otherwise = Box<dyn FnOnce(DeviceIo) + Send>;

impl Lent {
    /// Drops the first `bytes`, which are written.
    fn skip(&mut self, mut bytes: usize) {
        let whole = self.pieces.iter().take_while(|piece| {
            let is_done = piece.length <= bytes;
            if is_done {
                bytes -= piece.length;
            }
            is_done
        });
        let whole = whole.count();
        self.pieces.drain(..whole);
        if let Some(first) = self.pieces.first_mut() {
            first.data = first.data.wrapping_add(bytes);
            first.length -= bytes;
        }
    }
}

/// Whether a write is made durable by the same call. Larger blocks of a log come several at a time, and are flushed together.
fn writes_durably(io: &DeviceIo) -> bool {
    io.kind() == IoKind::Write && io.is_flushed_next && io.length() <= DURABLE_WRITE_BYTES_MAX
}

/// The ring.
pub(super) struct Ring {
    uring: IoUring,
    queue: Mutex<VecDeque<squeue::Entry>>,
    buffers: Buffers,
}

impl Ring {
    /// Starts a ring; an error where the system does not permit one.
    pub(super) fn start() -> std::io::Result<Arc<Self>> {
        let uring = IoUring::builder()
            .setup_cqsize(ENTRIES * 8)
            .setup_r_disabled()
            .build(ENTRIES)?;
        // A ring executes calls outside of system call filters: this one never opens files, connects or starts
        // processes.
        let mut only = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
        ]
        .map(Restriction::sqe_op);
        uring.submitter().register_restrictions(&mut only)?;
        uring.submitter().register_enable_rings()?;
        let ring = Arc::new(Self {
            uring,
            queue: Mutex::default(),
            buffers: Buffers::default(),
        });
        let reaper = Arc::clone(&ring);
        std::thread::Builder::new()
            .name("device-ring".into())
            .spawn(move || reaper.reap())?;
        Ok(ring)
    }

    /// Accepts a read, write or flush. `otherwise` receives it if the file system refuses to bypass the page cache.
    pub(super) fn submit(
        &self,
        file: &Arc<LockedFile>,
        io: DeviceIo,
        otherwise: Option<Otherwise>,
    ) {
        let mut buffer = Buffer::default();
        if matches!(io.kind(), IoKind::Read | IoKind::Write) {
            buffer = self.buffers.take(io.length());
            let bytes = buffer.bytes(io.length());
            if io.kind() == IoKind::Write && !io.copy_to(bytes) {
                io.complete(Err(Errno::NXIO), CompletionThread::Elsewhere);
                return;
            }
        }
        self.launch(Box::new(Flight {
            io,
            file: Arc::clone(file),
            memory: Memory::Own(buffer, otherwise),
            done: 0,
        }));
    }

    /// Accepts a write together with its lent memory, `pieces`. `otherwise` receives it if the file system refuses to
    /// bypass the page cache.
    pub(super) fn submit_lent(
        &self,
        file: &Arc<LockedFile>,
        io: DeviceIo,
        pieces: Vec<LentPiece>,
        otherwise: Otherwise,
    ) {
        self.launch(Box::new(Flight {
            io,
            file: Arc::clone(file),
            memory: Memory::Lent(Lent { pieces, otherwise }),
            done: 0,
        }));
    }

    fn launch(&self, mut flight: Box<Flight>) {
        let fd = types::Fd(flight.file.fd.as_raw_fd());
        let (kind, length, done) = (flight.io.kind(), flight.io.length(), flight.done);
        let durably = match writes_durably(&flight.io) {
            true => ReadWriteFlags::DSYNC.bits() as i32,
            false => 0,
        };
        let offset = flight.io.offset() + done as u64;
        let entry = match &mut flight.memory {
            Memory::Lent(lent) => {
                let (pieces, count) = (lent.pieces.as_ptr().cast(), lent.pieces.len() as u32);
                opcode::Writev::new(fd, pieces, count)
                    .offset(offset)
                    .build()
            }
            Memory::Own(buffer, _) => {
                let rest = buffer.bytes(length).get_mut(done..).unwrap_or_default();
                let (data, count) = (rest.as_mut_ptr(), rest.len() as u32);
                match kind {
                    IoKind::Read => opcode::Read::new(fd, data, count).offset(offset).build(),
                    IoKind::Write => opcode::Write::new(fd, data, count)
                        .offset(offset)
                        .rw_flags(durably)
                        .build(),
                    IoKind::Flush | IoKind::Trim => opcode::Fsync::new(fd)
                        .flags(types::FsyncFlags::DATASYNC)
                        .build(),
                }
            }
        };
        let entry = entry.user_data(Box::into_raw(flight) as u64);
        let mut queue = self.queue();
        queue.push_back(entry);
        self.push_queued(&mut queue);
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<squeue::Entry>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits as many entries as the kernel accepts; the rest stays queued until completions arrive.
    fn push_queued(&self, queue: &mut VecDeque<squeue::Entry>) {
        while !queue.is_empty() {
            {
                // SAFETY: the caller's lock on the queue guarantees that this is the only user of the submission side.
                let mut submission = unsafe { self.uring.submission_shared() };
                while let Some(entry) = queue.pop_front() {
                    // SAFETY: the memory and descriptor belong to the flight or to its I/O, which
                    // live until its completion is reaped.
                    if unsafe { submission.push(&entry) }.is_err() {
                        queue.push_front(entry);
                        break;
                    }
                }
            }
            match self.uring.submit() {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
                // Out of completion slots or memory: the reaper tries again.
                Err(_) => return,
            }
        }
    }

    /// Runs until the process exits.
    fn reap(&self) {
        loop {
            if let Err(error) = self.uring.submit_and_wait(1) {
                let passing = [Errno::INTR, Errno::BUSY, Errno::AGAIN]
                    .map(|e| Some(e.raw_os_error()))
                    .contains(&error.raw_os_error());
                assert!(passing, "io_uring failed: {error}");
            }
            // SAFETY: this thread is the only user of the completion side.
            let completions: Vec<_> = unsafe { self.uring.completion_shared() }
                .map(|c| (c.user_data(), c.result()))
                .collect();
            for (token, result) in completions {
                // SAFETY: the token is a flight's address, and a completion comes once.
                let flight = unsafe { Box::from_raw(token as *mut Flight) };
                self.landed(flight, result);
            }
            self.push_queued(&mut self.queue());
        }
    }

    fn landed(&self, mut flight: Box<Flight>, result: i32) {
        let outcome = match (flight.io.kind(), result) {
            (_, error) if error == -Errno::INTR.raw_os_error() => None,
            (_, error) if error == -Errno::AGAIN.raw_os_error() => None,
            (_, error) if error < 0 => Some(Err(Errno::from_raw_os_error(-error))),
            (IoKind::Flush | IoKind::Trim, _) => Some(Ok(())),
            // The end of the device, which has been truncated.
            (_, 0) => Some(Err(Errno::IO)),
            (_, bytes) => {
                flight.done += bytes as usize;
                if let Memory::Lent(lent) = &mut flight.memory {
                    lent.skip(bytes as usize);
                }
                (flight.done >= flight.io.length()).then_some(Ok(()))
            }
        };
        let Some(outcome) = outcome else {
            return self.launch(flight);
        };
        let Flight {
            io, file, memory, ..
        } = *flight;
        let is_durable =
            outcome.is_ok() && matches!(memory, Memory::Own(..)) && writes_durably(&io);
        if io.kind() == IoKind::Write && !is_durable {
            // Even if it failed: part of it may have been written.
            file.note_written();
        }
        match memory {
            Memory::Own(mut buffer, otherwise) => {
                if io.kind() == IoKind::Read && outcome.is_ok() {
                    io.copy_from(buffer.bytes(io.length()));
                }
                self.buffers.give_back(buffer);
                if let (Some(otherwise), Err(Errno::INVAL | Errno::OPNOTSUPP)) =
                    (otherwise, outcome)
                {
                    return otherwise(io);
                }
            }
            Memory::Lent(lent) if matches!(outcome, Err(Errno::INVAL | Errno::OPNOTSUPP)) => {
                return (lent.otherwise)(io);
            }
            // Before the library continues: another write may be blocked on this one's turn.
            Memory::Lent(lent) => drop(lent),
        }
        io.complete(outcome, CompletionThread::Here);
    }
}
