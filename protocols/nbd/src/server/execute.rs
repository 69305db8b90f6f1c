//! Executes requests: immediately and without a copy where the device permits it, otherwise on a
//! worker.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use block_device::{
    Begun, Commit, DeviceError, ErrorKind, Extent, ReadLoan, WaitMode, WriteLoan, Zero,
};
use serving::{Change, Connection, Directive, FlushOutcome, Outbound, Payload, Reply, Reservation};

use super::Shared;
use super::exports::Export;
use crate::protocol::wire::{Errno, HeaderStyle};
use crate::protocol::{Command, Negotiated, Request, StatusExtent};

/// A larger extent is zeroed or freed by a worker.
const INLINE_ZERO_BYTES_MAX: u64 = 1 << 20;
/// Maximum zeroes of one call of a device.
const WRITE_ZEROES_STEP_BYTES: u64 = 16 << 20;
/// Maximum space freed by one call of a device.
const FREE_STEP_BYTES: u64 = 1 << 30;
/// Maximum bytes of a cache request, and of its steps: it is only advisory.
const CACHE_BYTES_MAX: u64 = 32 << 20;
const CACHE_STEP_BYTES: u64 = 1 << 20;
/// Maximum runs in one block status reply; the client requests the rest.
const STATUS_RUNS_MAX: usize = 8192;

/// The thread that sends a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// The connection's own thread: replies are gathered.
    Connection,
    /// A worker's thread: replies are sent immediately.
    Worker,
    /// A thread of the engine, which other connections also need: its reply is sent immediately and
    /// alone.
    Engine,
}

/// The bound of the workers' queue.
enum Queue {
    /// The bound of the pool.
    Bounded,
    /// No bound.
    Unbounded,
}

/// What remains of a write before its reply.
#[derive(Clone, Copy)]
enum Flush {
    /// The write need not be durable.
    NotRequired,
    /// The device wrote durably.
    Done,
    /// The device has to be flushed.
    Needed,
}

impl Flush {
    fn of(durable: bool) -> Self {
        match durable {
            true => Self::Needed,
            false => Self::NotRequired,
        }
    }
}

/// A read in progress.
struct Reading {
    request: Request,
    extent: Extent,
    unfragmented: bool,
    reservation: Reservation,
    arrived: Instant,
}

/// A session on an export, shared by its thread, the workers and flushes.
pub(crate) struct Served {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) export: Arc<Export>,
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) negotiated: Negotiated,
}

impl Served {
    /// Returns the other connections to the same device.
    pub(crate) fn other_connections(&self) -> Vec<Arc<Connection>> {
        let mut others = self.shared.connections_on(&self.export.device);
        others.retain(|other| other.id != self.connection.id);
        others
    }

    fn style(&self) -> HeaderStyle {
        self.negotiated.style
    }

    fn answer(&self, answer: Reply, thread: Thread) {
        match thread {
            Thread::Connection => self.outbound.push(answer),
            Thread::Worker => self.outbound.reply_from_worker(answer),
            Thread::Engine => {
                self.outbound.push(answer);
                self.outbound.flush_once();
            }
        }
    }

    fn done(&self, request: &Request, thread: Thread) {
        self.answer(Reply::head(request.done(self.style()).as_slice()), thread);
    }

    /// Replies to a command of zero length without calling the device.
    pub(crate) fn reply_empty(&self, request: &Request, command: Command) {
        let head = match command {
            Command::Read { extent, .. } => request.data(self.style(), extent),
            _ => request.done(self.style()),
        };
        self.answer(Reply::head(head.as_slice()), Thread::Connection);
    }

    /// Sends an error reply.
    pub(crate) fn refuse(&self, request: &Request, errno: Errno, message: &str, thread: Thread) {
        serving::Counters::add_one(&self.export.counters.errors);
        if let Some(activity) = self.export.device.activity() {
            activity.add_error();
        }
        let bytes = request.error(self.style(), errno, message);
        self.answer(Reply::with_payload(&[], Payload::Bytes(bytes)), thread);
    }

    /// Sends the device's error. If the device is gone, the session is dropped instead, because the
    /// client may find the device on another head.
    pub(crate) fn fail(&self, request: &Request, error: &DeviceError, thread: Thread) {
        let (errno, message) = match error.kind {
            // The device and the client will return.
            ErrorKind::Gone | ErrorKind::NotReady => {
                return self.connection.direct(Directive::Drop);
            }
            ErrorKind::OutOfRange => (Errno::Invalid, "beyond the end of the export"),
            ErrorKind::ReadOnly => (Errno::NotPermitted, "the export is read-only"),
            ErrorKind::NoSpace => (Errno::NoSpace, "no space is left for this export"),
            ErrorKind::Unreadable => (Errno::Io, "no good copy of the data is left"),
            ErrorKind::Failed | ErrorKind::WouldBlock => (Errno::Io, "the storage engine failed"),
        };
        let errors = self.export.counters.errors.load(Ordering::Relaxed) + 1;
        if errno == Errno::Io && errors.is_power_of_two() {
            // A failing pool fails every request: a log line at each power of two is sufficient.
            let export = self.export.logged_name();
            let cause = error.cause.as_deref().map(tracing::field::display);
            let peer = self.connection.peer;
            tracing::warn!(%export, %peer, %error, cause, errors, "request failed");
        }
        if error.kind == ErrorKind::NoSpace {
            if let Some(activity) = self.export.device.activity() {
                activity.add_refused_for_space();
            }
        }
        self.refuse(request, errno, message, thread);
    }

    /// Wraps `job`, so that it is skipped if the client has left.
    fn job(self: &Arc<Self>, job: impl FnOnce(&Arc<Self>) + Send + 'static) -> serving::Job {
        let pending = self.outbound.pending();
        let served = Arc::clone(self);
        Box::new(move || {
            if !served.connection.ends_if_left() {
                job(&served);
            }
            drop(pending);
        })
    }

    /// Runs `job` on a worker, from a thread that must not block. Bounded by the connection's
    /// pending operations. A server that is stopping has no workers: its client is disconnected and
    /// retries elsewhere.
    fn defer_always(self: &Arc<Self>, job: impl FnOnce(&Arc<Self>) + Send + 'static) {
        if !self.shared.workers.submit_always(self.job(job)) {
            self.connection.direct(Directive::Drop);
        }
    }

    /// Runs `job` on a thread that may block. If no worker is available it runs here, which slows
    /// the connection down to the host's capacity. It is skipped if the client has left.
    fn defer(self: &Arc<Self>, job: impl FnOnce(&Arc<Self>) + Send + 'static) {
        self.defer_by(serving::Workers::submit, job);
    }

    fn defer_by(
        self: &Arc<Self>,
        submit: fn(&serving::Workers, serving::Job) -> Result<(), serving::Job>,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        serving::Counters::add_one(&self.export.counters.waits);
        if let Err(job) = submit(&self.shared.workers, self.job(job)) {
            // Workers may be blocked on queued loans, which must not be delayed here.
            self.outbound.flush_now();
            self.connection.note_absence();
            job();
        }
    }

    /// Runs a job that changes the device, if the connection is still valid at that time.
    fn defer_change(self: &Arc<Self>, job: impl FnOnce(&Arc<Self>, &Change) + Send + 'static) {
        let change = self.connection.changes_in_flight.change();
        let submit = match self.export.device.holds_changes() {
            true => serving::Workers::submit_waiting,
            false => serving::Workers::submit,
        };
        self.defer_by(submit, move |served| job(served, &change));
    }

    /// Reads `extent`.
    pub(crate) fn read(
        self: &Arc<Self>,
        request: Request,
        extent: Extent,
        unfragmented: bool,
        reservation: Reservation,
    ) {
        let arrived = Instant::now();
        let read = Reading {
            request,
            extent,
            unfragmented,
            reservation,
            arrived,
        };
        match self.export.device.begin_read(extent) {
            Ok(Begun::Done(loan)) => self.has_read(read, loan, Thread::Connection),
            Ok(Begun::Pending(begun)) => {
                serving::Counters::add_one(&self.export.counters.waits);
                let (served, pending) = (Arc::clone(self), self.outbound.pending());
                begun.finish(Box::new(move |found| {
                    match found {
                        Ok(loan) => served.has_read(read, loan, Thread::Engine),
                        Err(error) if error.kind == ErrorKind::WouldBlock => {
                            served.defer_read(read, Queue::Unbounded);
                        }
                        Err(error) => served.fail(&read.request, &error, Thread::Engine),
                    }
                    drop(pending);
                }));
            }
            Err(error) if error.kind == ErrorKind::WouldBlock => {
                self.defer_read(read, Queue::Bounded);
            }
            Err(error) => self.fail(&request, &error, Thread::Connection),
        }
    }

    /// Reads on a thread that may block.
    fn defer_read(self: &Arc<Self>, read: Reading, queue: Queue) {
        let job = move |served: &Arc<Self>| match served
            .export
            .device
            .read(read.extent, WaitMode::MayBlock)
        {
            Ok(loan) => served.has_read(read, loan, Thread::Worker),
            Err(error) => served.fail(&read.request, &error, Thread::Worker),
        };
        match queue {
            Queue::Bounded => self.defer(job),
            Queue::Unbounded => self.defer_always(job),
        }
    }

    /// Sends the data of `read`.
    fn has_read(&self, read: Reading, loan: Box<dyn ReadLoan>, thread: Thread) {
        if let Some(activity) = self.export.device.activity() {
            activity
                .reads
                .add(read.extent.length, read.arrived.elapsed());
        }
        let Reading {
            request,
            extent,
            unfragmented,
            reservation,
            ..
        } = read;
        self.export.counters.read(extent.length);
        if !unfragmented {
            if let Some(hole) = request.hole(self.style(), extent) {
                if is_all_zeroes(&*loan) {
                    return self.answer(Reply::head(hole.as_slice()), thread);
                }
            }
        }
        let head = request.data(self.style(), extent);
        let mut answer = Reply::with_payload(head.as_slice(), Payload::Loan(loan));
        answer.reservation = Some(reservation);
        self.answer(answer, thread);
    }

    /// Writes `data`, which is still in the connection's buffer. `alone` means that this thread has
    /// no other work.
    pub(crate) fn write(
        self: &Arc<Self>,
        request: Request,
        data: &[u8],
        durable: bool,
        alone: bool,
    ) {
        let (offset, arrived) = (request.offset, Instant::now());
        let device = &self.export.device;
        let wait_mode = match durable && alone && device.always_blocks() {
            true => {
                self.connection.note_absence();
                WaitMode::MayBlock
            }
            false => WaitMode::NoWait,
        };
        let Some(own) = self.connection.changes_in_flight.own_change() else {
            return;
        };
        let written = self.write_now(offset, data, durable, wait_mode);
        drop(own);
        match written {
            Ok(flush) => self.written(&request, flush, alone, Thread::Connection, arrived),
            Err(error) if error.kind == ErrorKind::WouldBlock => {
                let data = data.to_vec();
                // Bounded by the connection's pending operations and the gathered size.
                self.defer_change(move |served, change| {
                    let wait_mode = WaitMode::Permitted(change);
                    match served.write_now(offset, &data, durable, wait_mode) {
                        Ok(flush) => {
                            let thread = Thread::Worker;
                            served.written(&request, flush, true, thread, arrived);
                        }
                        Err(error) => served.fail(&request, &error, Thread::Worker),
                    }
                });
            }
            Err(error) => self.fail(&request, &error, Thread::Connection),
        }
    }

    /// Writes `data`; what a durable write still needs.
    fn write_now(
        &self,
        offset: u64,
        data: &[u8],
        durable: bool,
        wait_mode: WaitMode<'_>,
    ) -> Result<Flush, DeviceError> {
        let device = &self.export.device;
        if !durable {
            return device
                .write(offset, data, wait_mode)
                .map(|()| Flush::NotRequired);
        }
        let is_durable = device.write_durably(offset, data, wait_mode)?;
        Ok(match is_durable {
            true => Flush::Done,
            false => Flush::Needed,
        })
    }

    /// Writes the contents of `loan`.
    pub(crate) fn commit(
        self: &Arc<Self>,
        request: Request,
        loan: Box<dyn WriteLoan>,
        durable: bool,
        alone: bool,
        reservation: Reservation,
    ) {
        let arrived = Instant::now();
        let Some(own) = self.connection.changes_in_flight.own_change() else {
            return;
        };
        let committed = loan.commit(WaitMode::NoWait);
        drop(own);
        match committed {
            Commit::Done => {
                let flush = Flush::of(durable);
                self.written(&request, flush, alone, Thread::Connection, arrived);
            }
            Commit::Failed(error) => self.fail(&request, &error, Thread::Connection),
            Commit::WouldBlock(loan) => self.defer_change(move |served, change| {
                match loan.commit(WaitMode::Permitted(change)) {
                    Commit::Done => {
                        let (flush, thread) = (Flush::of(durable), Thread::Worker);
                        served.written(&request, flush, true, thread, arrived);
                    }
                    Commit::Failed(error) => served.fail(&request, &error, Thread::Worker),
                    Commit::WouldBlock(loan) => {
                        let kind = ErrorKind::WouldBlock;
                        let error = DeviceError::new(kind, "commit", loan.extent());
                        served.fail(&request, &error, Thread::Worker);
                    }
                }
                drop(reservation);
            }),
        }
    }

    fn written(
        self: &Arc<Self>,
        request: &Request,
        flush: Flush,
        alone: bool,
        thread: Thread,
        arrived: Instant,
    ) {
        self.export.counters.write(request.length);
        match flush {
            Flush::Needed => self.flush_after(request, alone, thread, Some(arrived)),
            Flush::Done => self.flushed(request, &Ok(()), thread, Some(arrived)),
            Flush::NotRequired => {
                self.has_written(request, arrived);
                self.done(request, thread);
            }
        }
    }

    fn has_written(&self, request: &Request, arrived: Instant) {
        if let Some(activity) = self.export.device.activity() {
            activity.writes.add(request.length, arrived.elapsed());
        }
    }

    /// Replies to a change of the device, after a flush if it must be durable.
    fn finish(self: &Arc<Self>, request: &Request, durable: bool, alone: bool, thread: Thread) {
        if durable {
            self.flush(request, alone, thread);
        } else {
            self.done(request, thread);
        }
    }

    /// Flushes the device, then replies.
    pub(crate) fn flush(self: &Arc<Self>, request: &Request, alone: bool, thread: Thread) {
        self.flush_after(request, alone, thread, None);
    }

    /// Like [`Self::flush`]; completes a write that arrived at `arrived`, if set.
    fn flush_after(
        self: &Arc<Self>,
        request: &Request,
        alone: bool,
        thread: Thread,
        arrived: Option<Instant>,
    ) {
        let flushes = &self.export.flushes;
        if alone || self.export.device.is_clean() {
            // This thread has no other work, so that no thread is woken.
            self.connection.note_absence();
            if let Some(outcome) = flushes.flush_here() {
                return self.flushed(request, &outcome, thread, arrived);
            }
        }
        let pending = self.outbound.pending();
        let (served, request) = (Arc::clone(self), *request);
        flushes.wait(move |outcome| {
            served.flushed(&request, &outcome, Thread::Worker, arrived);
            drop(pending);
        });
    }

    fn flushed(
        &self,
        request: &Request,
        outcome: &FlushOutcome,
        thread: Thread,
        arrived: Option<Instant>,
    ) {
        match outcome {
            Ok(()) => {
                if let Some(arrived) = arrived {
                    self.has_written(request, arrived);
                }
                serving::Counters::add_one(&self.export.counters.flushes);
                self.done(request, thread);
            }
            Err(error) => self.fail(request, error, thread),
        }
    }

    /// Zeroes or frees `extent`.
    pub(crate) fn zero(
        self: &Arc<Self>,
        request: Request,
        extent: Extent,
        zeroing: Zeroing,
        durable: bool,
        alone: bool,
    ) {
        if extent.length <= INLINE_ZERO_BYTES_MAX {
            let Some(own) = self.connection.changes_in_flight.own_change() else {
                return;
            };
            let zeroed = zeroing.apply(&self.export, extent, WaitMode::NoWait);
            drop(own);
            match zeroed {
                Ok(()) => {
                    self.export.counters.unmap(extent.length);
                    return self.finish(&request, durable, alone, Thread::Connection);
                }
                Err(error) if error.kind == ErrorKind::WouldBlock => {}
                Err(error) => return self.fail(&request, &error, Thread::Connection),
            }
        }
        self.defer_change(move |served, change| {
            for step in steps(extent, zeroing.step_bytes()) {
                let wait_mode = WaitMode::Permitted(change);
                if let Err(error) = zeroing.apply(&served.export, step, wait_mode) {
                    return served.fail(&request, &error, Thread::Worker);
                }
            }
            served.export.counters.unmap(extent.length);
            served.finish(&request, durable, true, Thread::Worker);
        });
    }

    /// Prefetches `extent`.
    pub(crate) fn cache(self: &Arc<Self>, request: Request, extent: Extent) {
        let extent = Extent::new(extent.offset, extent.length.min(CACHE_BYTES_MAX));
        self.defer(move |served| {
            for step in steps(extent, CACHE_STEP_BYTES) {
                if let Err(error) = served.export.device.read(step, WaitMode::MayBlock) {
                    return served.fail(&request, &error, Thread::Worker);
                }
            }
            serving::Counters::add_one(&served.export.counters.others);
            served.done(&request, Thread::Worker);
        });
    }

    /// Returns the allocation status of `extent`.
    pub(crate) fn status(self: &Arc<Self>, request: Request, extent: Extent, one: bool) {
        self.defer(move |served| {
            let runs_max = if one { 1 } else { STATUS_RUNS_MAX };
            let runs = match served.export.device.status(extent, runs_max) {
                Ok(runs) => runs,
                Err(error) => return served.fail(&request, &error, Thread::Worker),
            };
            let mut left = extent.length;
            let mut extents = Vec::with_capacity(runs.len().max(1));
            for run in runs.iter().take(runs_max) {
                let length = run.length.min(left);
                left -= length;
                if length > 0 {
                    extents.push(StatusExtent {
                        length,
                        allocated: run.allocated,
                    });
                }
            }
            if extents.is_empty() {
                // Allocated is always a valid status, and the client progresses.
                extents.push(StatusExtent {
                    length: extent.length,
                    allocated: true,
                });
            }
            serving::Counters::add_one(&served.export.counters.others);
            let bytes = request.status(served.style(), &extents);
            let answer = Reply::with_payload(&[], Payload::Bytes(bytes));
            served.answer(answer, Thread::Worker);
        });
    }
}

/// How an extent is cleared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Zeroing {
    /// It reads as zeroes.
    Zero(Zero),
    /// It reads as zeroes, and its space is freed.
    Unmap,
}

impl Zeroing {
    fn apply(
        self,
        export: &Export,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        match self {
            Self::Zero(zero) => export.device.write_zeroes(extent, zero, wait_mode),
            Self::Unmap => export.device.unmap(extent, wait_mode),
        }
    }

    fn step_bytes(self) -> u64 {
        match self {
            Self::Zero(Zero::KeepAllocated) => WRITE_ZEROES_STEP_BYTES,
            Self::Zero(Zero::MayFree) | Self::Unmap => FREE_STEP_BYTES,
        }
    }
}

/// Splits `extent` at multiples of `step_bytes`.
fn steps(extent: Extent, step_bytes: u64) -> impl Iterator<Item = Extent> {
    let end = extent.offset + extent.length;
    let mut at = extent.offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let stop = (at / step_bytes)
            .saturating_add(1)
            .saturating_mul(step_bytes)
            .min(end);
        let step = Extent::new(at, stop - at);
        at = stop;
        Some(step)
    })
}

/// Usually cheap, because other data differs from zero early.
fn is_all_zeroes(loan: &dyn ReadLoan) -> bool {
    const AT_ONCE: usize = 64;
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    parts.iter().all(|part| {
        part.chunks(AT_ONCE)
            .all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
    })
}

/// Copies `bytes` into `loan` after its first `filled` bytes. Returns the number of copied bytes.
pub(crate) fn copy_into(loan: &mut dyn WriteLoan, filled: usize, bytes: &[u8]) -> usize {
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let (mut skip, mut rest) = (filled, bytes);
    for part in parts {
        let skipped = skip.min(part.len());
        skip -= skipped;
        let part = &mut part[skipped..];
        let (now, later) = rest.split_at(part.len().min(rest.len()));
        part[..now.len()].copy_from_slice(now);
        rest = later;
    }
    bytes.len() - rest.len()
}

/// Returns the slices of `loan` after its first `filled` bytes, up to the limit of one system call.
pub(crate) fn remaining(loan: &mut dyn WriteLoan, filled: usize) -> Vec<IoSliceMut<'_>> {
    /// Below `UIO_MAXIOV`, with room for the connection's buffer.
    const SLICES_MAX: usize = 1000;
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let mut skip = filled;
    parts
        .into_iter()
        .filter_map(|part| {
            let skipped = skip.min(part.len());
            skip -= skipped;
            let part = &mut part[skipped..];
            (!part.is_empty()).then(|| IoSliceMut::new(part))
        })
        .take(SLICES_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_cover_an_extent_and_align_to_the_step() {
        let all: Vec<_> = steps(Extent::new(5, 20), 8).collect();
        let expected = [(5, 3), (8, 8), (16, 8), (24, 1)];
        assert_eq!(
            all,
            expected.map(|(offset, length)| Extent::new(offset, length))
        );
        assert_eq!(steps(Extent::new(7, 0), 8).count(), 0);
        assert_eq!(steps(Extent::new(u64::MAX - 3, 3), 8).count(), 1);
    }
}
