//! Commands that are waiting for data from the initiator.

use std::io::IoSliceMut;
use std::time::Instant;

use block_device::WriteLoan;
use scsi::{Asc, Command, DataOut, Landing, Outcome, Sense, SenseFormat, SenseKey};
use serving::Reservation;

use super::execute::Task;
use crate::protocol::transfer::{Transfer, TransferFault};

/// The destination of a task's data.
pub(crate) enum Sink {
    /// None: the response is already sent, or the command has no write data.
    Nothing,
    /// Memory.
    Bytes(Vec<u8>),
    /// The engine's buffers.
    Loan(Box<dyn WriteLoan>),
    /// Memory, until the budget permits to request the rest.
    Parked {
        /// Unsolicited data received so far.
        bytes: Vec<u8>,
        /// The later destination of all data.
        landing: Option<Landing>,
    },
}

/// A command with incomplete data.
pub(crate) struct WriteTask {
    pub(crate) task: Task,
    pub(crate) command: Command,
    pub(crate) transfer: Transfer,
    pub(crate) sink: Sink,
    /// The response, if it is already determined.
    pub(crate) refused: Option<Outcome>,
    /// Reserved memory; held until the command is executed.
    pub(crate) reservation: Option<Reservation>,
    /// When data was last received, or was first requested.
    pub(crate) progress: Instant,
}

/// A READ that is waiting for memory. The device has not been called.
pub(crate) struct ParkedRead {
    pub(crate) task: Task,
    pub(crate) command: Command,
    pub(crate) bytes: u64,
}

/// The continuation of a task with complete data.
pub(crate) enum Completed {
    /// Execute it with this data.
    Execute(DataOut<'static>),
    /// Send this response.
    Reply(Outcome),
}

impl WriteTask {
    /// Stores received bytes at their destination.
    pub(crate) fn store(&mut self, offset: usize, bytes: &[u8]) {
        match &mut self.sink {
            Sink::Nothing => {}
            Sink::Bytes(buffer) | Sink::Parked { bytes: buffer, .. } => {
                let end = offset + bytes.len();
                if buffer.len() < end {
                    buffer.resize(end, 0);
                }
                buffer[offset..end].copy_from_slice(bytes);
            }
            Sink::Loan(loan) => copy_into(&mut **loan, offset, bytes),
        }
    }

    /// Returns the buffers for `count` bytes from `offset`, to receive into.
    pub(crate) fn places(&mut self, offset: usize, count: usize) -> Vec<IoSliceMut<'_>> {
        let mut parts: Vec<&mut [u8]> = Vec::new();
        match &mut self.sink {
            Sink::Nothing => {}
            Sink::Bytes(buffer) | Sink::Parked { bytes: buffer, .. } => {
                if buffer.len() < offset + count {
                    buffer.resize(offset + count, 0);
                }
                parts.push(buffer);
            }
            Sink::Loan(loan) => loan.append_parts(&mut parts),
        }
        let (mut skip, mut left) = (offset, count);
        let mut places = Vec::with_capacity(parts.len().min(PLACES_MAX));
        for part in parts {
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            let length = (part.len() - skip).min(left);
            if length == 0 || places.len() == PLACES_MAX {
                break;
            }
            places.push(IoSliceMut::new(&mut part[skip..skip + length]));
            left -= length;
            skip = 0;
        }
        places
    }

    /// Memory was reserved: the data is moved to its destination, and the rest can be requested.
    pub(crate) fn unpark(&mut self, reservation: Reservation, wanted: u32) {
        self.reservation = Some(reservation);
        self.progress = Instant::now();
        let Sink::Parked { bytes, landing } = std::mem::replace(&mut self.sink, Sink::Nothing)
        else {
            return;
        };
        self.sink = open_sink(landing.as_ref(), wanted);
        self.store(0, &bytes);
    }

    pub(crate) fn is_parked(&self) -> bool {
        matches!(self.sink, Sink::Parked { .. })
    }

    /// Handles complete or failed data.
    pub(crate) fn complete(&mut self) -> Completed {
        if let Some(outcome) = self.refused.take() {
            return Completed::Reply(outcome);
        }
        if let Some(fault) = self.transfer.fault() {
            return Completed::Reply(fault_outcome(fault));
        }
        Completed::Execute(match std::mem::replace(&mut self.sink, Sink::Nothing) {
            Sink::Nothing => DataOut::None,
            Sink::Bytes(bytes) | Sink::Parked { bytes, .. } => DataOut::Bytes(bytes),
            Sink::Loan(loan) => DataOut::Loan(loan),
        })
    }
}

/// Maximum buffers of one receive; the kernel accepts 1,024 (`UIO_MAXIOV`).
const PLACES_MAX: usize = 512;

/// Creates a sink for `wanted` bytes.
pub(crate) fn open_sink(landing: Option<&Landing>, wanted: u32) -> Sink {
    match landing.and_then(|landing| landing.lend(wanted)) {
        Some(loan) => Sink::Loan(loan),
        None => Sink::Bytes(Vec::with_capacity(wanted as usize)),
    }
}

fn copy_into(loan: &mut dyn WriteLoan, offset: usize, bytes: &[u8]) {
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let (mut skip, mut bytes) = (offset, bytes);
    for part in parts {
        if skip >= part.len() {
            skip -= part.len();
            continue;
        }
        let count = (part.len() - skip).min(bytes.len());
        let (now, later) = bytes.split_at(count);
        part[skip..skip + count].copy_from_slice(now);
        bytes = later;
        skip = 0;
        if bytes.is_empty() {
            break;
        }
    }
}

/// Returns the response to a fault in the data (RFC 7143, section 11.4.7.2).
fn fault_outcome(fault: TransferFault) -> Outcome {
    let asc = match fault {
        TransferFault::UnexpectedUnsolicited => Asc(0x0c, 0x0c),
        TransferFault::IncorrectAmount | TransferFault::OutOfSequence => Asc(0x0c, 0x0d),
        TransferFault::Digest => Asc(0x47, 0x05),
    };
    let sense = Sense::new(SenseKey::AbortedCommand, asc);
    Outcome::check_condition(&sense, SenseFormat::Fixed)
}
