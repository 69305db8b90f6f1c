//! Numbers, digests, splits and queues the responses of a connection. Shared by the connection's
//! thread and the workers.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use block_device::ReadLoan;
use scsi::{DataIn, Outcome, Status};
use serving::{InlineBytes, Outbound, Payload, Reply, Reservation, Split};

use super::sessions::Session;
use crate::protocol::digest::{RunningDigest, digest};
use crate::protocol::header::{Header, padding};
use crate::protocol::parameters::ConnectionParameters;
use crate::protocol::response::{self, Numbers, Residual};
use crate::protocol::serial::Serial;

/// Whether a response consumes a StatSN.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// It carries a status: StatSN is advanced.
    Status,
    /// It only contains the next StatSN (R2T, and a NOP-In that is a ping of the target).
    Peek,
}

/// The state of a sender in full-feature phase.
struct Established {
    session: Arc<Session>,
    header_digest: bool,
    data_digest: bool,
}

/// The sending side of a connection.
pub(crate) struct Sender {
    pub(crate) outbound: Arc<Outbound>,
    next_stat_sn: Mutex<Serial>,
    segment_bytes_max: AtomicU32,
    established: OnceLock<Established>,
    /// Tasks that are waiting for a flush on another thread.
    pub(crate) flushing: AtomicUsize,
}

/// The parts of a response that do not depend on its outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expectation {
    pub(crate) task_tag: u32,
    /// Bytes that the initiator offered.
    pub(crate) out_bytes: u32,
    /// Bytes of those that the command consumes; `None` if it has no write data.
    pub(crate) wanted_bytes: Option<u32>,
    /// Bytes that the initiator accepts.
    pub(crate) in_bytes: u32,
}

/// Data with the reservation of its memory.
struct ReservedData {
    payload: Payload,
    reservation: Option<Reservation>,
}

impl Sender {
    /// Creates a sender for a login.
    pub(crate) fn new(outbound: Arc<Outbound>) -> Self {
        Self {
            outbound,
            next_stat_sn: Mutex::new(Serial(1)),
            segment_bytes_max: AtomicU32::new(
                ConnectionParameters::default().initiator_segment_bytes_max,
            ),
            established: OnceLock::new(),
            flushing: AtomicUsize::new(0),
        }
    }

    /// Enables digests and the session's numbers after the login.
    pub(crate) fn establish(&self, session: &Arc<Session>, parameters: &ConnectionParameters) {
        self.set_segment_bytes_max(parameters.initiator_segment_bytes_max);
        let first = self.established.set(Established {
            session: Arc::clone(session),
            header_digest: parameters.header_digest,
            data_digest: parameters.data_digest,
        });
        debug_assert!(first.is_ok(), "a connection logs in once");
    }

    /// Sets a new MaxRecvDataSegmentLength of the initiator.
    pub(crate) fn set_segment_bytes_max(&self, bytes: u32) {
        self.segment_bytes_max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn segment_bytes_max(&self) -> usize {
        self.segment_bytes_max.load(Ordering::Relaxed) as usize
    }

    /// Queues a login response with the numbers of a session that does not exist yet.
    pub(crate) fn send_login(&self, mut header: Header, text: &[u8], window: (Serial, Serial)) {
        let mut stat_sn = self.next_stat_sn.lock().expect("no holder panics");
        Numbers {
            stat_sn: *stat_sn,
            exp_cmd_sn: window.0,
            max_cmd_sn: window.1,
        }
        .fill(&mut header);
        *stat_sn = stat_sn.plus(1);
        let mut answer = Reply::with_payload(&header.0, Payload::Bytes(text.to_vec()));
        answer.tail = InlineBytes::new(&[0; 3][..padding(text.len())]);
        self.outbound.push(answer);
    }

    /// Queues one PDU.
    pub(crate) fn send(&self, mut header: Header, data: Vec<u8>, numbering: Numbering) {
        header.set_data_bytes(data.len());
        let mut tail = InlineBytes::EMPTY;
        if !data.is_empty() {
            self.push_trailer(&mut tail, &[&data], data.len());
        }
        let payload = if data.is_empty() {
            Payload::None
        } else {
            Payload::Bytes(data)
        };
        let mut stat_sn = self.next_stat_sn.lock().expect("no holder panics");
        self.numbers(*stat_sn).fill(&mut header);
        if numbering == Numbering::Status {
            *stat_sn = stat_sn.plus(1);
        }
        let mut answer = Reply::with_payload(&[], payload);
        answer.head = self.sealed(&header);
        answer.tail = tail;
        self.outbound.push(answer);
    }

    /// Queues the whole response to a SCSI command: data, and the status with the last Data-In or
    /// after it. `reservation` covers the data until it is sent.
    pub(crate) fn send_outcome(
        &self,
        expectation: &Expectation,
        outcome: Outcome,
        reservation: Option<Reservation>,
    ) {
        let actual = outcome.data_in.byte_count();
        let residual = match expectation.wanted_bytes {
            Some(wanted) if expectation.out_bytes > 0 || wanted > 0 => {
                Residual::of(expectation.out_bytes, wanted.into())
            }
            _ if expectation.out_bytes > 0 => Residual::of(expectation.out_bytes, 0),
            _ => Residual::of(expectation.in_bytes, actual as u64),
        };
        let count = actual.min(expectation.in_bytes as usize);
        let good = outcome.status == Status::Good && outcome.sense.is_none();
        let mut data_in_count = 0;
        if count > 0 {
            let payload = payload_of(outcome.data_in, count);
            let collapsed = good.then_some(residual);
            let data_in = ReservedData {
                payload,
                reservation,
            };
            data_in_count = self.send_data_in(expectation.task_tag, data_in, count, collapsed);
            if good {
                return;
            }
        }
        let status = outcome.status as u8;
        let header = response::scsi_response(expectation.task_tag, status, residual, data_in_count);
        self.send(header, sense_segment(outcome.sense), Numbering::Status);
    }

    /// Queues Data-In PDUs; with `status` the last carries GOOD. Returns their number.
    fn send_data_in(
        &self,
        task_tag: u32,
        data_in: ReservedData,
        count: usize,
        status: Option<Residual>,
    ) -> u32 {
        let ReservedData {
            payload,
            reservation,
        } = data_in;
        let burst = match self.established.get() {
            Some(established) => established.session.parameters.max_burst_bytes as usize,
            None => count,
        };
        // Segments have a multiple of four bytes, because padding is only permitted at the end.
        let segment = (self.segment_bytes_max() & !3).min(burst);
        let mut headers = Vec::with_capacity(1);
        let mut at = 0;
        while at < count {
            let burst_left = burst - at % burst;
            let length = segment.min(count - at).min(burst_left);
            let ends_burst = length == burst_left || at + length == count;
            let number = headers.len() as u32;
            let header = response::data_in(task_tag, number, at as u32, length, ends_burst);
            headers.push((at, length, header));
            at += length;
        }
        let digests = self.data_digests(&payload, &headers);
        let data_in_count = headers.len() as u32;

        let mut stat_sn = self.next_stat_sn.lock().expect("no holder panics");
        let numbers = self.numbers(*stat_sn);
        for (_, _, header) in &mut headers {
            numbers.fill_window(header);
        }
        if let (Some(residual), Some((_, _, last))) = (status, headers.last_mut()) {
            response::add_good_status(last, residual);
            numbers.fill(last);
            *stat_sn = stat_sn.plus(1);
        }
        let mut answer = Reply::with_payload(&[], payload);
        answer.reservation = reservation;
        answer.head = self.sealed(&headers[0].2);
        for (index, (at, _, header)) in headers.iter().enumerate().skip(1) {
            let mut bytes = InlineBytes::EMPTY;
            if let Some(digest) = digests.get(index - 1) {
                bytes.push(digest);
            }
            bytes.push(self.sealed(header).as_slice());
            answer.splits.push(Split { at: *at, bytes });
        }
        answer.tail.push(&[0; 3][..padding(count)]);
        if let Some(digest) = digests.last() {
            answer.tail.push(digest);
        }
        self.outbound.push(answer);
        data_in_count
    }

    /// Returns the digest of each segment, including padding; none if digests are off.
    fn data_digests(&self, payload: &Payload, headers: &[(usize, usize, Header)]) -> Vec<[u8; 4]> {
        if !self.has_data_digest() {
            return Vec::new();
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        match payload {
            Payload::None => {}
            Payload::Bytes(bytes) => parts.push(bytes),
            Payload::Loan(loan) => loan.append_parts(&mut parts),
        }
        let mut parts = parts.into_iter();
        let mut rest: &[u8] = &[];
        let mut digests = Vec::with_capacity(headers.len());
        for (_, length, _) in headers {
            let mut running = RunningDigest::default();
            let mut left = *length;
            while left > 0 {
                if rest.is_empty() {
                    let Some(part) = parts.next() else { break };
                    rest = part;
                }
                let (now, later) = rest.split_at(left.min(rest.len()));
                running.update(now);
                left -= now.len();
                rest = later;
            }
            running.update(&[0; 3][..padding(*length)]);
            digests.push(running.finish());
        }
        digests
    }

    fn has_data_digest(&self) -> bool {
        self.established
            .get()
            .is_some_and(|established| established.data_digest)
    }

    /// Appends padding and, if negotiated, the digest of one data segment.
    fn push_trailer(&self, tail: &mut InlineBytes, parts: &[&[u8]], count: usize) {
        let pad = &[0; 3][..padding(count)];
        tail.push(pad);
        if self.has_data_digest() {
            let mut running = RunningDigest::default();
            parts.iter().for_each(|part| running.update(part));
            running.update(pad);
            tail.push(&running.finish());
        }
    }

    /// Returns a header with its digest.
    fn sealed(&self, header: &Header) -> InlineBytes {
        let mut bytes = InlineBytes::new(&header.0);
        if self
            .established
            .get()
            .is_some_and(|established| established.header_digest)
        {
            bytes.push(&digest(&header.0));
        }
        bytes
    }

    fn numbers(&self, stat_sn: Serial) -> Numbers {
        let (exp_cmd_sn, max_cmd_sn) = match self.established.get() {
            Some(established) => established.session.window(),
            None => Default::default(),
        };
        Numbers {
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
        }
    }
}

/// Returns SenseLength and the sense data (RFC 7143, section 11.4.7).
fn sense_segment(sense: Option<Vec<u8>>) -> Vec<u8> {
    let Some(sense) = sense else {
        return Vec::new();
    };
    let mut bytes = Vec::with_capacity(2 + sense.len());
    bytes.extend_from_slice(&(sense.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&sense);
    bytes
}

/// The first `count` bytes of `data_in`.
fn payload_of(data_in: DataIn, count: usize) -> Payload {
    match data_in {
        DataIn::None => Payload::None,
        DataIn::Bytes(mut bytes) => {
            bytes.truncate(count);
            Payload::Bytes(bytes)
        }
        DataIn::Loan(loan) if loan.byte_count() == count => Payload::Loan(loan),
        DataIn::Loan(loan) => Payload::Bytes(copy_front(&*loan, count)),
    }
}

fn copy_front(loan: &dyn ReadLoan, count: usize) -> Vec<u8> {
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let mut bytes = Vec::with_capacity(count);
    for part in parts {
        let wanted = part.len().min(count - bytes.len());
        bytes.extend_from_slice(&part[..wanted]);
    }
    bytes
}
