//! One I/O, shared between a driver and the deadline: the first of the two to complete it wins.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zpool_sys as sys;

use super::legs::{Leg, LegFailure};
use super::ownership;
use super::pace::Pace;
use super::scan;

/// The operation of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Fill the memory from the device.
    Read,
    /// Store the memory.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Discard the contents.
    Trim,
}

/// The thread on which the library may continue after a completed I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionThread {
    /// On this thread, which belongs to the driver and holds no lock. Saves a thread hand-over; the next I/O may be
    /// submitted before the call returns.
    Here,
    /// On the thread that submitted the I/O, inside [`submit`](super::Device::submit): it was carried out
    /// synchronously.
    Submitter,
    /// On a thread of the library.
    Elsewhere,
}

impl CompletionThread {
    fn code(self) -> u32 {
        match self {
            Self::Elsewhere => sys::BH_CONTINUE_ELSEWHERE,
            Self::Here => sys::BH_CONTINUE_HERE,
            Self::Submitter => sys::BH_CONTINUE_SUBMITTER,
        }
    }
}

/// Maximum pieces of memory for a vectored system call: 1 MiB of the smallest blocks of a volume.
const PIECES_MAX: usize = 256;

/// Larger blocks of a log come several at a time, and one flush after them costs less than one for each.
pub(super) const DURABLE_WRITE_BYTES_MAX: usize = 64 << 10;

/// A piece of memory in the kernel's layout (`struct iovec`).
#[repr(C)]
pub(super) struct LentPiece {
    pub(super) data: *mut u8,
    pub(super) length: usize,
}

/// The library's I/O.
pub(super) struct LibraryIo(NonNull<sys::bh_io>);

// SAFETY: the library allows any thread to access and complete an I/O; the cell's mutex lets one at a time.
unsafe impl Send for LibraryIo {}

impl LibraryIo {
    /// # Safety
    /// The library handed it out, and no other code completes it.
    pub(super) unsafe fn new(io: NonNull<sys::bh_io>) -> Self {
        Self(io)
    }

    pub(super) fn complete(self, result: Result<(), Errno>, place: CompletionThread) {
        let error = result.err().map_or(0, Errno::raw_os_error);
        // SAFETY: taken out of its cell, it is completed here and never used again.
        unsafe { sys::bh_io_complete(self.0.as_ptr(), error, place.code()) };
    }

    /// Marks the device of this flush as given up if the pool can do without it; returns whether it did.
    fn give_up(&self) -> bool {
        // SAFETY: not completed yet, so it is the library's, with its device. It calls no callback.
        unsafe { sys::bh_io_give_up(self.0.as_ptr()) != 0 }
    }

    /// Suspends the pool, so that its state shows the stall; returns whether it was not suspended before.
    pub(super) fn suspend(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::bh_io_suspend(self.0.as_ptr()) != 0 }
    }

    pub(super) fn resume(&self) {
        // SAFETY: as above.
        unsafe { sys::bh_io_resume(self.0.as_ptr()) };
    }

    /// Whether its error must be withheld until its leg is excluded.
    pub(super) fn is_binding(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::bh_io_is_binding(self.0.as_ptr()) != 0 }
    }

    /// Lets the library read from devices other than the one of this I/O.
    pub(super) fn read_elsewhere(&self) {
        // SAFETY: as above.
        unsafe { sys::bh_io_read_elsewhere(self.0.as_ptr()) };
    }

    /// Revokes that.
    pub(super) fn read_here(&self) {
        // SAFETY: as above.
        unsafe { sys::bh_io_read_here(self.0.as_ptr()) };
    }
}

/// Receives the result and the memory.
type Done = Box<dyn FnOnce(Result<(), Errno>, Vec<u8>) + Send>;

/// The requester, with its memory.
enum Requester {
    Library(LibraryIo),
    Memory { data: Vec<u8>, done: Done },
}

impl Requester {
    fn complete(self, result: Result<(), Errno>, place: CompletionThread) {
        match self {
            Self::Library(io) => io.complete(result, place),
            Self::Memory { data, done } => done(result, data),
        }
    }
}

struct Cell {
    kind: IoKind,
    submitted: Instant,
    /// The pool is suspended because this flush is overdue.
    suspends: AtomicBool,
    /// The kernel accesses the requester's own memory, which no deadline can revoke.
    lent: AtomicBool,
    requester: Mutex<Option<Requester>>,
}

impl Cell {
    fn requester(&self) -> MutexGuard<'_, Option<Requester>> {
        self.requester
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the requester because of a deadline, if possible. `is_leg`: the record decides whether the pool can do
    /// without the device.
    fn take_back(&self, overdue: &AtomicUsize, is_leg: bool) -> Option<Requester> {
        // The lock's holder works on the requester's own memory, so that the requester cannot be removed.
        let mut requester = self.requester.try_lock().ok()?;
        if self.lent.load(Ordering::Relaxed) {
            return None;
        }
        match requester.as_ref()? {
            // No other device has this data: no deadline applies to its flush.
            Requester::Library(io) if !is_leg && self.kind == IoKind::Flush && !io.give_up() => {
                io.suspend();
                self.suspends.store(true, Ordering::Relaxed);
                return None;
            }
            Requester::Library(_) | Requester::Memory { .. } => {}
        }
        // Before the driver can see it, so that it subtracts only values that were added.
        overdue.fetch_add(1, Ordering::AcqRel);
        requester.take()
    }
}

/// A flush that failed on a device without redundancy.
struct Refused {
    io: LibraryIo,
    errno: Errno,
}

/// The fate of failed flushes when the device flushes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushes {
    /// None is pending any more.
    Done,
    /// The flush succeeded, but data written to the device earlier may be lost.
    Doubtful,
}

/// The pending I/O of an open device.
#[derive(Default)]
pub(super) struct InFlight {
    /// Set for a leg: its record is notified of failures before the library.
    pub(super) leg: Option<Arc<Leg>>,
    /// The device is on another host.
    pub(super) is_far: AtomicBool,
    /// For its reads for copies.
    pub(super) copies: Pace,
    slots: Mutex<Slots>,
    /// Number of I/Os that the library got back at their deadline and the driver still holds.
    overdue: AtomicUsize,
    /// Failed flushes that are withheld from the library: it would consider them successful.
    refused: Mutex<Vec<Refused>>,
    again: Mutex<Again>,
    /// When the pending flush was last logged.
    told: Mutex<Option<Instant>>,
    /// Whether the last request failed.
    failing: AtomicBool,
}

/// The flush that checks whether a device flushes again.
#[derive(Clone, Copy, Default)]
enum Again {
    #[default]
    Never,
    UnderWay,
    Ended(Instant),
}

#[derive(Default)]
struct Slots {
    cells: Vec<Option<Arc<Cell>>>,
    free: Vec<usize>,
}

impl InFlight {
    pub(super) fn of_leg(leg: Option<Arc<Leg>>) -> Self {
        Self {
            leg,
            ..Self::default()
        }
    }

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

    /// Notes the result of a request.
    fn note(&self, result: Result<(), Errno>) {
        // A device without a cache or without discards is not failing.
        let has_failed = result.is_err_and(|errno| errno != Errno::OPNOTSUPP);
        if self.failing.load(Ordering::Relaxed) != has_failed {
            self.failing.store(has_failed, Ordering::Relaxed);
        }
    }

    /// Whether the last request failed, or one is past its deadline.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed) || self.hangs()
    }

    /// Whether the driver still holds an I/O past its deadline.
    pub(super) fn hangs(&self) -> bool {
        self.overdue.load(Ordering::Acquire) != 0
    }

    /// Once an I/O is older than `timeout`, returns all I/O to the library, because a device with an overdue I/O
    /// receives no further requests; returns their number. Flushes of a device that the pool cannot do without stay
    /// pending.
    pub(super) fn expire(&self, timeout: Duration) -> usize {
        let timeout = self
            .leg
            .as_ref()
            .map_or(timeout, |leg| leg.response_timeout());
        let all: Vec<Arc<Cell>> = self.slots().cells.iter().flatten().cloned().collect();
        if !all.iter().any(|cell| cell.submitted.elapsed() >= timeout) {
            return 0;
        }
        if let Some(leg) = &self.leg {
            leg.fail(LegFailure::TimedOut);
        }
        self.take_all_back(&all)
    }

    /// The leg is excluded: the I/O that its device still holds is returned to the library.
    pub(super) fn give_back(&self) {
        let all: Vec<Arc<Cell>> = self.slots().cells.iter().flatten().cloned().collect();
        self.take_all_back(&all);
    }

    fn take_all_back(&self, all: &[Arc<Cell>]) -> usize {
        let is_leg = self.leg.is_some();
        let taken = all
            .iter()
            .filter_map(|cell| cell.take_back(&self.overdue, is_leg));
        taken
            .map(|requester| match (requester, &self.leg) {
                (Requester::Library(io), Some(leg)) => leg.hold(io, None),
                // On ENXIO, unlike ETIMEDOUT, the library faults the device at once.
                (requester, _) => requester.complete(Err(Errno::NXIO), CompletionThread::Elsewhere),
            })
            .count()
    }

    fn refused(&self) -> MutexGuard<'_, Vec<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether flushes failed that must not.
    pub(super) fn has_refused(&self) -> bool {
        !self.refused().is_empty()
    }

    /// Whether a flush that must succeed has failed, or has suspended the pool by taking too long.
    pub(super) fn has_failed_flush(&self) -> bool {
        let suspends = |cell: &Arc<Cell>| cell.suspends.load(Ordering::Relaxed);
        self.has_refused() || self.slots().cells.iter().flatten().any(suspends)
    }

    /// Leaves the pool suspended while any device has a pending flush: a device that completes its own would otherwise
    /// resume it.
    pub(super) fn stay_suspended(&self) {
        if let Some(refused) = self.refused().first() {
            refused.io.suspend();
        }
    }

    /// Whether another flush is due, `interval` after the last one completed.
    pub(super) fn may_flush_again(&self, interval: Duration) -> bool {
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        let due = match *again {
            Again::Never => true,
            Again::UnderWay => false,
            Again::Ended(at) => at.elapsed() >= interval,
        };
        if due {
            *again = Again::UnderWay;
        }
        due
    }

    /// Whether to log now that the device cannot make writes durable: at once, and then every `interval` while that
    /// lasts.
    pub(super) fn may_log(&self, interval: Duration, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|at| now.saturating_duration_since(at) >= interval);
        if due {
            *told = Some(now);
        }
        due
    }

    /// The device has completed that flush.
    pub(super) fn has_flushed_again(&self) {
        *self.again.lock().unwrap_or_else(PoisonError::into_inner) = Again::Ended(Instant::now());
    }

    /// The device flushes again.
    ///
    /// Flushes that never reached the device now succeed. After a flush that it failed, earlier data may be lost, and
    /// no later flush reports that.
    pub(super) fn flushed(&self) -> Flushes {
        let refused = {
            let mut refused = self.refused();
            if refused.iter().any(|one| one.errno != Errno::NXIO) {
                return Flushes::Doubtful;
            }
            std::mem::take(&mut *refused)
        };
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for Refused { io, .. } in refused {
            io.resume();
            io.complete(Ok(()), CompletionThread::Elsewhere);
        }
        Flushes::Done
    }
}

/// An I/O that a driver must complete. Dropped, it completes with `EIO`.
pub struct DeviceIo {
    kind: IoKind,
    offset: u64,
    length: u64,
    cell: Arc<Cell>,
    in_flight: Arc<InFlight>,
    slot: usize,
    completed: bool,
    /// For a write to a leg: the uberblock that it contains, by its transaction group. For a flush: the last one that
    /// was written when the flush was issued. 0 for none.
    root: u64,
    /// A flush, or a durable write, may run inside `submit`, although no deadline applies there.
    pub(super) submitter_may_wait: bool,
    /// A write that is flushed as soon as it is done.
    pub(super) is_flushed_next: bool,
    /// A read of a scrub, a resilver or a rebuild.
    pub(super) is_of_copy: bool,
    /// A read or a write to a log, for which clients may wait.
    pub(super) is_of_client: bool,
    /// The thread that will receive its reply.
    pub(super) awaited_by: Option<ThreadId>,
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
            kind,
            submitted: Instant::now(),
            suspends: AtomicBool::new(false),
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
            root: 0,
            submitter_may_wait: false,
            is_flushed_next: false,
            is_of_copy: false,
            is_of_client: false,
            awaited_by: None,
        }
    }

    /// A write to `leg` may be that of an uberblock. A flush confirms the writes completed before it was issued.
    pub(super) fn note_root(&mut self, leg: &Leg) {
        self.root = match self.kind {
            IoKind::Flush => leg.root_written(),
            IoKind::Write if labels::may_write_root(self.offset, self.length()) => {
                let mut data = vec![0; self.length()];
                let root = self.copy_to(&mut data).then(|| labels::root_written(&data));
                root.flatten().unwrap_or_default()
            }
            _ => 0,
        };
    }

    /// # Safety
    /// `io` was handed out by the library and is completed by no other owner.
    pub(super) unsafe fn from_library(
        io: NonNull<sys::bh_io>,
        kind: IoKind,
        offset: u64,
        length: u64,
        in_flight: &Arc<InFlight>,
    ) -> Self {
        // SAFETY: as the caller promises.
        let requester = Requester::Library(unsafe { LibraryIo::new(io) });
        Self::new(kind, offset, length, requester, in_flight)
    }

    /// An I/O on `data`, which `done` receives back with the result: for drivers between the library and another
    /// driver. It has no deadline of its own.
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

    /// Whether a flush follows this write at once. A remote device should then write durably, which saves the round
    /// trip of the flush.
    pub fn is_flushed_next(&self) -> bool {
        self.is_flushed_next
    }

    /// Whether it belongs to a leg, which the pool continues without after the deadline.
    pub(super) fn is_of_leg(&self) -> bool {
        self.in_flight.leg.is_some()
    }

    /// Whether the calling thread can receive the reply of another host itself
    /// ([`await_here`](super::await_here)).
    pub fn is_awaited(&self) -> bool {
        self.awaited_by
            .is_some_and(|thread| thread == std::thread::current().id())
    }

    /// The operation.
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

    /// Whether it is a flush of a device that the pool cannot do without: only the device itself can complete it. If
    /// the pool could do without it, the device is given up from now on.
    pub(super) fn outlasts_deadlines(&self) -> bool {
        let requester = self.cell.requester();
        self.kind == IoKind::Flush
            && matches!(&*requester, Some(Requester::Library(io)) if !io.give_up())
    }

    /// Copies the data to be written to `buffer`, which has the length of the I/O. Returns false when the deadline has
    /// passed: then complete the I/O without an effect.
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

    /// Stores the data that was read; `buffer` has the length of the I/O. After the deadline this has no effect.
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

    /// Lets `act` work on the requester's own memory. Only for calls that do not block on a device and leave no
    /// operation behind that accesses the memory later: no deadline interrupts them. Returns `None` when the deadline
    /// has passed or the memory is in too many pieces.
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
                // SAFETY: there is room for as many pieces as passed.
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

    /// Lends the requester's own memory to the kernel until this I/O is completed: **no deadline applies to it any
    /// more**. Returns `None`, with nothing lent, if `suits` refuses the pieces, if they are too many, or when the
    /// deadline has passed.
    pub(super) fn lend(
        &self,
        suits: impl FnOnce(&[std::io::IoSliceMut<'_>]) -> bool,
    ) -> Option<Vec<LentPiece>> {
        self.in_place(|pieces| {
            if !suits(pieces) {
                return None;
            }
            // Under the lock that a deadline would acquire.
            self.cell.lent.store(true, Ordering::Relaxed);
            let lent = pieces.iter_mut().map(|piece| LentPiece {
                data: piece.as_mut_ptr(),
                length: piece.len(),
            });
            Some(lent.collect())
        })?
    }

    /// Completes the I/O. Hold no lock: the library may continue, and submit, before this returns.
    pub fn complete(mut self, result: Result<(), Errno>, place: CompletionThread) {
        self.complete_once(result, place);
    }

    fn complete_once(&mut self, result: Result<(), Errno>, place: CompletionThread) {
        if std::mem::replace(&mut self.completed, true) {
            return;
        }
        let requester = self.cell.requester().take();
        // Any initiator may read; any other request that a reserved disk refuses means that another head owns it.
        let is_ours = !matches!(requester, Some(Requester::Memory { .. }));
        if is_ours && self.kind != IoKind::Read && result == Err(Errno::BADE) {
            ownership::lost("a disk is reserved by another head, and refused a write");
        }
        self.in_flight.remove(self.slot);
        self.in_flight.note(result);
        if self.is_of_copy && result.is_ok() {
            self.in_flight.copies.ended(self.cell.submitted.elapsed());
        }
        if self.is_of_client {
            scan::client_took(self.cell.submitted);
        }
        // After a standstill, a thread that continues blocks until labels are read, and the thread of a remote device
        // is the one that receives them.
        let is_far = self.in_flight.is_far.load(Ordering::Acquire);
        let place = match is_far && !ownership::is_check_recent() {
            true => CompletionThread::Elsewhere,
            false => place,
        };
        let requester = match (requester, &self.in_flight.leg) {
            (Some(Requester::Library(io)), Some(leg)) => {
                return leg.complete(self.kind, self.root, io, result, place);
            }
            (requester, _) => requester,
        };
        if let (Some(Requester::Library(io)), Ok(())) = (&requester, result) {
            if self.cell.suspends.load(Ordering::Relaxed) {
                io.resume();
            }
        }
        match (requester, result) {
            (Some(Requester::Library(io)), Err(errno)) if self.must_succeed(errno, &io) => {
                io.suspend();
                self.in_flight.refused().push(Refused { io, errno });
            }
            (Some(requester), _) => requester.complete(result, place),
            (None, _) => {
                self.in_flight.overdue.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Whether this is a flush of a device that the pool cannot do without. If it could, the device is given up from
    /// now on.
    fn must_succeed(&self, errno: Errno, io: &LibraryIo) -> bool {
        // A device without a volatile cache.
        let needless = errno == Errno::OPNOTSUPP;
        self.kind == IoKind::Flush && !needless && !io.give_up()
    }
}

impl Drop for DeviceIo {
    fn drop(&mut self) {
        self.complete_once(Err(Errno::IO), CompletionThread::Elsewhere);
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
    fn late_completion_after_the_deadline_is_ignored() {
        let in_flight = Arc::new(InFlight::default());
        let (io, receiver) = read_io(&in_flight);
        assert_eq!(in_flight.expire(Duration::from_secs(60)), 0);
        assert_eq!(in_flight.expire(Duration::ZERO), 1);
        assert_eq!(receiver.recv().unwrap(), (Err(Errno::NXIO), vec![0; 4]));
        assert!(in_flight.hangs());
        io.copy_from(&[1; 4]);
        io.complete(Ok(()), CompletionThread::Here);
        assert!(!in_flight.hangs());
        assert!(receiver.recv().is_err(), "completed once");
    }

    #[test]
    fn buffers_lent_to_the_kernel_outlive_the_deadline() {
        let in_flight = Arc::new(InFlight::default());
        let (io, receiver) = read_io(&in_flight);
        assert!(io.lend(|_| false).is_none());
        let pieces = io.lend(|pieces| pieces.len() == 1).expect("lent");
        assert_eq!(pieces[0].length, 4);
        assert_eq!(in_flight.expire(Duration::ZERO), 0);
        assert!(!in_flight.hangs());
        io.complete(Ok(()), CompletionThread::Here);
        assert_eq!(receiver.recv().unwrap(), (Ok(()), vec![0; 4]));

        let (late, _receiver) = read_io(&in_flight);
        assert_eq!(in_flight.expire(Duration::ZERO), 1);
        assert!(late.lend(|_| true).is_none(), "the requester has it back");
    }

    #[test]
    fn persistent_failure_is_logged_at_once_then_rate_limited() {
        const WHILE: Duration = Duration::from_secs(60);
        let in_flight = InFlight::default();
        let begun = Instant::now();
        let seconds = (0..150).map(Duration::from_secs);
        let told = |second: &Duration| in_flight.may_log(WHILE, begun + *second);
        let told: Vec<u64> = seconds.filter(told).map(|one| one.as_secs()).collect();
        assert_eq!(told, [0, 60, 120]);
        // That flush is done: the next failure is logged at once.
        assert_eq!(in_flight.flushed(), Flushes::Done);
        assert!(in_flight.may_log(WHILE, begun + Duration::from_secs(151)));
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
