//! Commands that wait for data from the initiator.

use std::io::IoSliceMut;
use std::time::Instant;

use block_device::WriteLoan;
use scsi::{Asc, Command, DataOut, Landing, Outcome, Sense, SenseFormat, SenseKey};
use serving::Reservation;

use super::execute::Task;
use crate::protocol::transfer::{Transfer, TransferFault};

/// Where the data of a task is collected.
pub(crate) enum Sink {
    /// Nowhere: the command is answered already, or takes nothing.
    Nothing,
    /// In memory.
    Bytes(Vec<u8>),
    /// In the engine's buffers.
    Loan(Box<dyn WriteLoan>),
    /// In memory until the budget allows to ask for the rest.
    Parked {
        /// Unsolicited data so far.
        bytes: Vec<u8>,
        /// Where the whole may go later.
        landing: Option<Landing>,
    },
}

/// A command whose data is not complete.
pub(crate) struct WriteTask {
    pub(crate) task: Task,
    pub(crate) command: Command,
    pub(crate) transfer: Transfer,
    pub(crate) sink: Sink,
    /// The answer that is known already.
    pub(crate) refused: Option<Outcome>,
    /// Memory paid for; held until the command is executed.
    pub(crate) reservation: Option<Reservation>,
    /// When data last came, or was first asked for.
    pub(crate) progress: Instant,
}

/// A READ that waits for memory. Nothing of it was asked of the device.
pub(crate) struct ParkedRead {
    pub(crate) task: Task,
    pub(crate) command: Command,
    pub(crate) bytes: u64,
}

/// How a task goes on when its data is complete.
pub(crate) enum Completed {
    /// Execute it with this data.
    Execute(DataOut<'static>),
    /// Answer it.
    Answer(Outcome),
}

impl WriteTask {
    /// Puts received bytes to their place.
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

    /// The places for `count` bytes from `offset`, to receive into.
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

    /// Memory was paid for: the data may go where it shall, and be asked for.
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

    /// The data is complete, or never will be.
    pub(crate) fn complete(&mut self) -> Completed {
        if let Some(outcome) = self.refused.take() {
            return Completed::Answer(outcome);
        }
        if let Some(fault) = self.transfer.fault() {
            return Completed::Answer(fault_outcome(fault));
        }
        Completed::Execute(match std::mem::replace(&mut self.sink, Sink::Nothing) {
            Sink::Nothing => DataOut::None,
            Sink::Bytes(bytes) | Sink::Parked { bytes, .. } => DataOut::Bytes(bytes),
            Sink::Loan(loan) => DataOut::Loan(loan),
        })
    }
}

/// Most places for one receive; the kernel takes 1,024 (`UIO_MAXIOV`).
const PLACES_MAX: usize = 512;

/// A place for `wanted` bytes.
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

/// What the initiator is told about its data (RFC 7143, section 11.4.7.2).
fn fault_outcome(fault: TransferFault) -> Outcome {
    let asc = match fault {
        TransferFault::UnexpectedUnsolicited => Asc(0x0c, 0x0c),
        TransferFault::IncorrectAmount | TransferFault::OutOfSequence => Asc(0x0c, 0x0d),
        TransferFault::Digest => Asc(0x47, 0x05),
    };
    let sense = Sense::new(SenseKey::AbortedCommand, asc);
    Outcome::check_condition(&sense, SenseFormat::Fixed)
}
