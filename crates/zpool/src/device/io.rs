//! One I/O, shared between a driver and the deadline: whoever completes it first has completed
//! it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zpool_sys as sys;

use super::ownership;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Fill the memory from the device.
    Read,
    /// Store the memory.
    Write,
    /// Make completed writes durable.
    Flush,
    /// The contents are not needed any more.
    Trim,
}

/// Where the library may go on after a completed I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this thread, which belongs to the driver and holds no lock. Spares a hand-over; the
    /// next I/O may be submitted before the call returns.
    Here,
    /// On the thread that submitted the I/O, inside [`submit`](super::Device::submit): it was
    /// carried out on the spot.
    Submitter,
    /// On a thread of the library.
    Elsewhere,
}

impl Place {
    fn code(self) -> u32 {
        match self {
            Self::Elsewhere => sys::BH_GO_ON_ELSEWHERE,
            Self::Here => sys::BH_GO_ON_HERE,
            Self::Submitter => sys::BH_GO_ON_SUBMITTER,
        }
    }
}

/// Most pieces of memory that are worth a vectored system call: 1 MiB of the smallest blocks of a
/// volume.
const PIECES_MAX: usize = 256;

/// A piece of memory as the kernel takes it (`struct iovec`).
#[repr(C)]
pub(super) struct LentPiece {
    pub(super) data: *mut u8,
    pub(super) length: usize,
}

/// The library's I/O.
struct LibraryIo(NonNull<sys::bh_io>);

// SAFETY: the library lets any thread work on and complete an I/O; the cell's mutex lets one at
// a time.
unsafe impl Send for LibraryIo {}

/// Receives the result and the memory.
type Done = Box<dyn FnOnce(Result<(), Errno>, Vec<u8>) + Send>;

/// Who asked, and whose memory it is.
enum Requester {
    Library(LibraryIo),
    Memory { data: Vec<u8>, done: Done },
}

impl Requester {
    fn complete(self, result: Result<(), Errno>, place: Place) {
        match self {
            Self::Library(io) => {
                let error = result.err().map_or(0, Errno::raw_os_error);
                // SAFETY: taken out of its cell, it is completed here and never used again.
                unsafe { sys::bh_io_complete(io.0.as_ptr(), error, place.code()) };
            }
            Self::Memory { data, done } => done(result, data),
        }
    }
}

struct Cell {
    submitted: Instant,
    /// The kernel works on the requester's own memory, which no deadline can take back from it.
    lent: AtomicBool,
    requester: Mutex<Option<Requester>>,
}

impl Cell {
    fn requester(&self) -> MutexGuard<'_, Option<Requester>> {
        self.requester
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The I/O of one open device that is not complete.
#[derive(Default)]
pub(super) struct InFlight {
    slots: Mutex<Slots>,
    /// I/O that the library got back at its deadline and the driver still has.
    overdue: AtomicUsize,
}

#[derive(Default)]
struct Slots {
    cells: Vec<Option<Arc<Cell>>>,
    free: Vec<usize>,
}

impl InFlight {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, cell: Arc<Cell>) -> usize {
        let mut slots = self.slots();
        match slots.free.pop() {
            Some(slot) => {
                slots.cells[slot] = Some(cell);
                slot
            }
            None => {
                slots.cells.push(Some(cell));
                slots.cells.len() - 1
            }
        }
    }

    fn remove(&self, slot: usize) {
        let mut slots = self.slots();
        slots.cells[slot] = None;
        slots.free.push(slot);
    }

    /// Whether the driver sits on an I/O whose deadline has passed.
    pub(super) fn hangs(&self) -> bool {
        self.overdue.load(Ordering::Acquire) != 0
    }

    /// Gives the library every I/O back that is older than `timeout`; how many.
    pub(super) fn expire(&self, timeout: Duration) -> usize {
        let old: Vec<Arc<Cell>> = {
            let slots = self.slots();
            let cells = slots.cells.iter().flatten();
            cells
                .filter(|cell| cell.submitted.elapsed() >= timeout)
                .cloned()
                .collect()
        };
        let mut expired = 0;
        for cell in old {
            let taken = {
                // Whoever holds it works on the requester's own memory, which cannot be taken.
                let Ok(mut requester) = cell.requester.try_lock() else {
                    continue;
                };
                if cell.lent.load(Ordering::Relaxed) {
                    continue;
                }
                if requester.is_some() {
                    // Before the driver can find out, so that it subtracts only what was added.
                    self.overdue.fetch_add(1, Ordering::AcqRel);
                }
                requester.take()
            };
            if let Some(requester) = taken {
                // ENXIO, not ETIMEDOUT: it makes the library fault the device at once.
                requester.complete(Err(Errno::NXIO), Place::Elsewhere);
                expired += 1;
            }
        }
        expired
    }
}

/// An I/O that a driver has to complete. Dropped, it completes with `EIO`.
pub struct DeviceIo {
    kind: IoKind,
    offset: u64,
    length: u64,
    cell: Arc<Cell>,
    in_flight: Arc<InFlight>,
    slot: usize,
    completed: bool,
    /// A flush may be carried out inside `submit`, or a write be made durable there, although no
    /// deadline ends that.
    pub(super) submitter_may_wait: bool,
}

impl DeviceIo {
    fn new(
        kind: IoKind,
        offset: u64,
        length: u64,
        requester: Requester,
        in_flight: &Arc<InFlight>,
    ) -> Self {
        let cell = Arc::new(Cell {
            submitted: Instant::now(),
            lent: AtomicBool::new(false),
            requester: Mutex::new(Some(requester)),
        });
        Self {
            kind,
            offset,
            length,
            slot: in_flight.insert(Arc::clone(&cell)),
            cell,
            in_flight: Arc::clone(in_flight),
            completed: false,
            submitter_may_wait: false,
        }
    }

    /// # Safety
    /// `io` was handed out by the library and is completed by nobody else.
    pub(super) unsafe fn from_library(
        io: NonNull<sys::bh_io>,
        kind: IoKind,
        offset: u64,
        length: u64,
        in_flight: &Arc<InFlight>,
    ) -> Self {
        let requester = Requester::Library(LibraryIo(io));
        Self::new(kind, offset, length, requester, in_flight)
    }

    /// An I/O on `data`, which `done` receives back with the result: for drivers that put
    /// themselves between the library and another driver. It has no deadline of its own.
    pub fn on_memory(
        kind: IoKind,
        offset: u64,
        data: Vec<u8>,
        done: impl FnOnce(Result<(), Errno>, Vec<u8>) + Send + 'static,
    ) -> Self {
        Self::on_memory_of(&Arc::default(), kind, offset, data, done)
    }

    fn on_memory_of(
        in_flight: &Arc<InFlight>,
        kind: IoKind,
        offset: u64,
        data: Vec<u8>,
        done: impl FnOnce(Result<(), Errno>, Vec<u8>) + Send + 'static,
    ) -> Self {
        let length = data.len() as u64;
        let done = Box::new(done);
        let requester = Requester::Memory { data, done };
        Self::new(kind, offset, length, requester, in_flight)
    }

    /// What is to be done.
    pub fn kind(&self) -> IoKind {
        self.kind
    }

    /// First byte on the device.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of bytes; zero for a flush.
    pub fn length(&self) -> usize {
        self.length as usize
    }

    /// Copies what is to be written to `buffer`, which has the length of the I/O. False when
    /// the deadline has passed: then complete it, without doing anything.
    #[must_use]
    pub fn copy_to(&self, buffer: &mut [u8]) -> bool {
        assert_eq!(buffer.len(), self.length());
        match &mut *self.cell.requester() {
            None => false,
            Some(Requester::Library(io)) => {
                // SAFETY: the I/O is the library's until completed, which the mutex delays; it
                // has as many bytes as the buffer.
                unsafe { sys::bh_io_copy_to(io.0.as_ptr(), buffer.as_mut_ptr().cast()) };
                true
            }
            Some(Requester::Memory { data, .. }) => {
                buffer.copy_from_slice(data);
                true
            }
        }
    }

    /// Hands in what was read, of the length of the I/O. After the deadline nothing happens.
    pub fn copy_from(&self, buffer: &[u8]) {
        assert_eq!(buffer.len(), self.length());
        match &mut *self.cell.requester() {
            None => {}
            Some(Requester::Library(io)) => {
                // SAFETY: as in `copy_to`.
                unsafe { sys::bh_io_copy_from(io.0.as_ptr(), buffer.as_ptr().cast()) };
            }
            Some(Requester::Memory { data, .. }) => data.copy_from_slice(buffer),
        }
    }

    /// Lets `act` work on the requester's own memory. Only for calls that do not wait for a
    /// device nor leave anybody behind who comes back later: no deadline ends them. `None` when
    /// the deadline has passed or the memory is in too many pieces.
    pub(super) fn in_place<T>(
        &self,
        act: impl FnOnce(&mut [std::io::IoSliceMut<'_>]) -> T,
    ) -> Option<T> {
        match &mut *self.cell.requester() {
            None => None,
            Some(Requester::Library(io)) => {
                let empty = sys::bh_piece {
                    data: std::ptr::null_mut(),
                    length: 0,
                };
                let mut pieces = [empty; PIECES_MAX];
                // SAFETY: there is room for as many pieces as said.
                let count = unsafe {
                    sys::bh_io_pieces(io.0.as_ptr(), pieces.as_mut_ptr(), PIECES_MAX as u32)
                };
                if count == 0 {
                    return None;
                }
                let mut slices = Vec::with_capacity(count as usize);
                for piece in &pieces[..count as usize] {
                    // SAFETY: the memory belongs to this I/O until it is completed, which the
                    // mutex delays; the pieces do not overlap.
                    let slice = unsafe {
                        std::slice::from_raw_parts_mut(piece.data.cast(), piece.length as usize)
                    };
                    slices.push(std::io::IoSliceMut::new(slice));
                }
                Some(act(&mut slices))
            }
            Some(Requester::Memory { data, .. }) => {
                Some(act(&mut [std::io::IoSliceMut::new(data)]))
            }
        }
    }

    /// Lends the requester's own memory to the kernel until this I/O is completed: **no deadline ends
    /// it any more**. `None`, and nothing was lent, if `suits` refuses the pieces, if they are too many, or
    /// when the deadline has passed.
    pub(super) fn lend(
        &self,
        suits: impl FnOnce(&[std::io::IoSliceMut<'_>]) -> bool,
    ) -> Option<Vec<LentPiece>> {
        self.in_place(|pieces| {
            if !suits(pieces) {
                return None;
            }
            // Within the lock that a deadline would take.
            self.cell.lent.store(true, Ordering::Relaxed);
            let lent = pieces.iter_mut().map(|piece| LentPiece {
                data: piece.as_mut_ptr(),
                length: piece.len(),
            });
            Some(lent.collect())
        })?
    }

    /// Gives it back. Hold no lock: the library may go on, and submit, before this returns.
    pub fn complete(mut self, result: Result<(), Errno>, place: Place) {
        self.complete_once(result, place);
    }

    fn complete_once(&mut self, result: Result<(), Errno>, place: Place) {
        if std::mem::replace(&mut self.completed, true) {
            return;
        }
        let requester = self.cell.requester().take();
        // A read is nobody's privilege; whatever else a reserved disk refuses, another head owns.
        let is_ours = !matches!(requester, Some(Requester::Memory { .. }));
        if is_ours && self.kind != IoKind::Read && result == Err(Errno::BADE) {
            ownership::lost("a disk is reserved by another head, and refused a write");
        }
        self.in_flight.remove(self.slot);
        match requester {
            Some(requester) => requester.complete(result, place),
            None => {
                self.in_flight.overdue.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

impl Drop for DeviceIo {
    fn drop(&mut self) {
        self.complete_once(Err(Errno::IO), Place::Elsewhere);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    type Answer = (Result<(), Errno>, Vec<u8>);

    fn read_io(in_flight: &Arc<InFlight>) -> (DeviceIo, mpsc::Receiver<Answer>) {
        let (sender, receiver) = mpsc::channel();
        let io = DeviceIo::on_memory_of(in_flight, IoKind::Read, 0, vec![0; 4], move |r, data| {
            sender.send((r, data)).expect("receiver lives");
        });
        (io, receiver)
    }

    #[test]
    fn late_answer_after_the_deadline_touches_nothing() {
        let in_flight = Arc::new(InFlight::default());
        let (io, receiver) = read_io(&in_flight);
        assert_eq!(in_flight.expire(Duration::from_secs(60)), 0);
        assert_eq!(in_flight.expire(Duration::ZERO), 1);
        assert_eq!(receiver.recv().unwrap(), (Err(Errno::NXIO), vec![0; 4]));
        assert!(in_flight.hangs());
        io.copy_from(&[1; 4]);
        io.complete(Ok(()), Place::Here);
        assert!(!in_flight.hangs());
        assert!(receiver.recv().is_err(), "completed once");
    }

    #[test]
    fn what_the_kernel_was_lent_no_deadline_takes_back() {
        let in_flight = Arc::new(InFlight::default());
        let (io, receiver) = read_io(&in_flight);
        assert!(io.lend(|_| false).is_none());
        let pieces = io.lend(|pieces| pieces.len() == 1).expect("lent");
        assert_eq!(pieces[0].length, 4);
        assert_eq!(in_flight.expire(Duration::ZERO), 0);
        assert!(!in_flight.hangs());
        io.complete(Ok(()), Place::Here);
        assert_eq!(receiver.recv().unwrap(), (Ok(()), vec![0; 4]));

        let (late, _receiver) = read_io(&in_flight);
        assert_eq!(in_flight.expire(Duration::ZERO), 1);
        assert!(late.lend(|_| true).is_none(), "the requester has it back");
    }

    #[test]
    fn dropped_io_fails() {
        let in_flight = Arc::new(InFlight::default());
        let (io, receiver) = read_io(&in_flight);
        drop(io);
        assert_eq!(receiver.recv().unwrap().0, Err(Errno::IO));
        assert!(!in_flight.hangs());
        assert_eq!(in_flight.expire(Duration::ZERO), 0);
    }
}
