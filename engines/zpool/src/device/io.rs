//! One I/O, shared between a driver and the deadline: whoever completes it first has completed
//! it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zpool_sys as sys;

use super::legs::{Leg, LegFailure};
use super::ownership;
use super::pace::Pace;

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
pub(super) struct LibraryIo(NonNull<sys::bh_io>);

// SAFETY: the library lets any thread work on and complete an I/O; the cell's mutex lets one at
// a time.
unsafe impl Send for LibraryIo {}

impl LibraryIo {
    /// # Safety
    /// The library handed it out, and nobody else completes it.
    pub(super) unsafe fn new(io: NonNull<sys::bh_io>) -> Self {
        Self(io)
    }

    pub(super) fn complete(self, result: Result<(), Errno>, place: Place) {
        let error = result.err().map_or(0, Errno::raw_os_error);
        // SAFETY: taken out of its cell, it is completed here and never used again.
        unsafe { sys::bh_io_complete(self.0.as_ptr(), error, place.code()) };
    }

    /// Whether the pool goes on without the device of this flush. It does from now on.
    fn give_up(&self) -> bool {
        // SAFETY: not completed yet, so it is the library's, with its device. Calls nobody back.
        unsafe { sys::bh_io_give_up(self.0.as_ptr()) != 0 }
    }

    /// Suspends the pool, so that it is seen to wait; whether it was not suspended before.
    pub(super) fn suspend(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::bh_io_suspend(self.0.as_ptr()) != 0 }
    }

    pub(super) fn resume(&self) {
        // SAFETY: as above.
        unsafe { sys::bh_io_resume(self.0.as_ptr()) };
    }

    /// Whether its error must wait until its leg is excluded.
    pub(super) fn is_binding(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::bh_io_is_binding(self.0.as_ptr()) != 0 }
    }

    /// Has the library read from other devices than the one of this I/O.
    pub(super) fn read_elsewhere(&self) {
        // SAFETY: as above.
        unsafe { sys::bh_io_read_elsewhere(self.0.as_ptr()) };
    }

    /// Takes that back.
    pub(super) fn read_here(&self) {
        // SAFETY: as above.
        unsafe { sys::bh_io_read_here(self.0.as_ptr()) };
    }
}

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
            Self::Library(io) => io.complete(result, place),
            Self::Memory { data, done } => done(result, data),
        }
    }
}

struct Cell {
    kind: IoKind,
    submitted: Instant,
    /// The pool was suspended because this flush takes so long.
    suspends: AtomicBool,
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

    /// Takes the requester out because of a deadline, if that can be. `is_leg`: the record decides whether the pool can do
    /// without the device.
    fn take_back(&self, overdue: &AtomicUsize, is_leg: bool) -> Option<Requester> {
        // Whoever holds it works on the requester's own memory, which cannot be taken.
        let mut requester = self.requester.try_lock().ok()?;
        if self.lent.load(Ordering::Relaxed) {
            return None;
        }
        match requester.as_ref()? {
            // The only device that has what it has: its flush ends when it ends.
            Requester::Library(io) if !is_leg && self.kind == IoKind::Flush && !io.give_up() => {
                io.suspend();
                self.suspends.store(true, Ordering::Relaxed);
                return None;
            }
            Requester::Library(_) | Requester::Memory { .. } => {}
        }
        // Before the driver can find out, so that it subtracts only what was added.
        overdue.fetch_add(1, Ordering::AcqRel);
        requester.take()
    }
}

/// A flush that failed on the only device that has what it has.
struct Refused {
    io: LibraryIo,
    errno: Errno,
}

/// What became of flushes that had failed, when the device flushes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushes {
    /// None waits any more.
    Done,
    /// What the device had been given before may be gone, although it flushes now.
    Doubtful,
}

/// The I/O of one open device that is not complete.
#[derive(Default)]
pub(super) struct InFlight {
    /// It is a leg: the record of its pool is told of failures before the library.
    pub(super) leg: Option<Arc<Leg>>,
    /// Its device is on another machine.
    pub(super) is_far: AtomicBool,
    /// Of its reads for copies.
    pub(super) copies: Pace,
    slots: Mutex<Slots>,
    /// I/O that the library got back at its deadline and the driver still has.
    overdue: AtomicUsize,
    /// Flushes that have failed and that the library does not get back: it would take them for done.
    refused: Mutex<Vec<Refused>>,
    again: Mutex<Again>,
    /// When it was told last that it owes a flush.
    told: Mutex<Option<Instant>>,
}

/// The flush that finds out whether a device flushes again.
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

    /// Whether the driver sits on an I/O whose deadline has passed.
    pub(super) fn hangs(&self) -> bool {
        self.overdue.load(Ordering::Acquire) != 0
    }

    /// Once an I/O is older than `timeout`, gives the library all back, because nothing more is asked of a device
    /// that owes an answer; how many. Flushes of a device that the pool cannot do without stay.
    pub(super) fn expire(&self, timeout: Duration) -> usize {
        let timeout = self.leg.as_ref().map_or(timeout, |leg| leg.answer_within());
        let all: Vec<Arc<Cell>> = self.slots().cells.iter().flatten().cloned().collect();
        if !all.iter().any(|cell| cell.submitted.elapsed() >= timeout) {
            return 0;
        }
        if let Some(leg) = &self.leg {
            leg.fail(LegFailure::Silent);
        }
        self.take_all_back(&all)
    }

    /// The leg is excluded: what its device still has, the library gets back.
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
                // ENXIO, not ETIMEDOUT: it makes the library fault the device at once.
                (requester, _) => requester.complete(Err(Errno::NXIO), Place::Elsewhere),
            })
            .count()
    }

    fn refused(&self) -> MutexGuard<'_, Vec<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether flushes have failed that must not.
    pub(super) fn has_refused(&self) -> bool {
        !self.refused().is_empty()
    }

    /// Whether a flush that must succeed has failed, or has suspended the pool by taking too long.
    pub(super) fn owes_flushes(&self) -> bool {
        let suspends = |cell: &Arc<Cell>| cell.suspends.load(Ordering::Relaxed);
        self.has_refused() || self.slots().cells.iter().flatten().any(suspends)
    }

    /// The pool goes on when no device owes a flush: one that has done its own resumes it while another one still does.
    pub(super) fn stay_suspended(&self) {
        if let Some(refused) = self.refused().first() {
            refused.io.suspend();
        }
    }

    /// Whether it is time to ask the device for another flush, `interval` after the last one was answered.
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

    /// Whether it is to be told now that the device cannot make writes durable: at once, and then every `interval` as long as
    /// that lasts.
    pub(super) fn may_tell(&self, interval: Duration, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|at| now.saturating_duration_since(at) >= interval);
        if due {
            *told = Some(now);
        }
        due
    }

    /// The device has answered that flush.
    pub(super) fn has_flushed_again(&self) {
        *self.again.lock().unwrap_or_else(PoisonError::into_inner) = Again::Ended(Instant::now());
    }

    /// The device flushes again.
    ///
    /// Flushes that never reached it are done now. After one that it failed, what it had been given before
    /// may be gone, and no later flush tells.
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
            io.complete(Ok(()), Place::Elsewhere);
        }
        Flushes::Done
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
    /// Of a write to a leg: the root that it is, by its transaction group. Of a flush: the last one that was written when it was
    /// asked for. 0 for none.
    root: u64,
    /// A flush may be carried out inside `submit`, or a write be made durable there, although no
    /// deadline ends that.
    pub(super) submitter_may_wait: bool,
    /// A write that is made durable as soon as it is done.
    pub(super) is_flushed_next: bool,
    /// A read of a scrub, a resilver or a rebuild.
    pub(super) is_of_copy: bool,
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
        }
    }

    /// A write to `leg` may be that of a root. A flush confirms what was written when it is asked for.
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
    /// `io` was handed out by the library and is completed by nobody else.
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

    /// Whether a flush follows this write at once. A device far away does better to make it durable by itself, and to spare the way of the
    /// flush.
    pub fn is_flushed_next(&self) -> bool {
        self.is_flushed_next
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

    /// Whether it is a flush of a device that the pool cannot do without: nothing but the device ends it. If
    /// it can, it does from now on.
    pub(super) fn outlasts_deadlines(&self) -> bool {
        let requester = self.cell.requester();
        self.kind == IoKind::Flush
            && matches!(&*requester, Some(Requester::Library(io)) if !io.give_up())
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
        if self.is_of_copy && result.is_ok() {
            self.in_flight.copies.ended(self.cell.submitted.elapsed());
        }
        // After a standstill who goes on waits for labels, and the thread of another machine's device is the one that receives them.
        let is_far = self.in_flight.is_far.load(Ordering::Acquire);
        let place = match is_far && !ownership::is_attentive() {
            true => Place::Elsewhere,
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

    /// Whether this is a flush of a device that the pool cannot do without. If it can, it does from now on.
    fn must_succeed(&self, errno: Errno, io: &LibraryIo) -> bool {
        // A device without a cache that could be flushed.
        let needless = errno == Errno::OPNOTSUPP;
        self.kind == IoKind::Flush && !needless && !io.give_up()
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
    fn what_lasts_is_told_at_once_and_then_once_a_while() {
        const WHILE: Duration = Duration::from_secs(60);
        let in_flight = InFlight::default();
        let begun = Instant::now();
        let seconds = (0..150).map(Duration::from_secs);
        let told = |second: &Duration| in_flight.may_tell(WHILE, begun + *second);
        let told: Vec<u64> = seconds.filter(told).map(|one| one.as_secs()).collect();
        assert_eq!(told, [0, 60, 120]);
        // It is over: the next time is told at once.
        assert_eq!(in_flight.flushed(), Flushes::Done);
        assert!(in_flight.may_tell(WHILE, begun + Duration::from_secs(151)));
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
