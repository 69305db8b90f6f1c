//! The interface to a transport: commands, their data, plans and outcomes.

use block_device::{DeviceError, ErrorKind, Extent, ReadLoan, SharedDevice, WriteLoan};
use units::IscsiName;

use crate::sense::{Asc, Sense, SenseFormat, SenseKey};

/// Maximum bytes of a stored CDB; SPC-4, section 4.2.3 allows 260 for variable-length ones.
pub const CDB_BYTES_MAX: usize = 260;
/// Bytes of a CDB that is stored without an allocation.
const CDB_BYTES_INLINE: usize = 16;

/// A logical unit number in its wire format (SAM-5, section 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lun(pub [u8; 8]);

/// The decoded address of a [`Lun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LunAddress {
    /// An ordinary logical unit.
    Unit(u16),
    /// The REPORT LUNS well known logical unit (SPC-4, section 8.2).
    WellKnownReportLuns,
    /// Not an address that this target supports.
    Unknown,
}

impl Lun {
    /// LUN 0.
    pub const ZERO: Self = Self([0; 8]);
    /// The REPORT LUNS well known logical unit.
    pub const REPORT_LUNS: Self = Self([0xc1, 0x01, 0, 0, 0, 0, 0, 0]);

    /// Encodes a unit number: peripheral addressing below 256, flat space above.
    pub const fn from_unit(unit: u16) -> Self {
        let [high, low] = unit.to_be_bytes();
        let first = if unit < 256 { 0 } else { 0x40 | (high & 0x3f) };
        Self([first, low, 0, 0, 0, 0, 0, 0])
    }

    /// Decodes the address. Peripheral and flat space addressing with a single level are supported.
    /// A bus other than 0 counts as the high bits of the number: some initiators, such as libiscsi,
    /// encode a large number like this, without the bits of flat space addressing.
    pub fn address(self) -> LunAddress {
        if self.0[2..] != [0; 6] {
            return LunAddress::Unknown;
        }
        let low = u16::from(self.0[1]);
        match self.0[0] {
            first if first & 0x80 == 0 => LunAddress::Unit(u16::from(first & 0x3f) << 8 | low),
            0xc1 if low == 1 => LunAddress::WellKnownReportLuns,
            _ => LunAddress::Unknown,
        }
    }

    /// The unit number, if an ordinary unit is addressed.
    pub fn unit(self) -> Option<u16> {
        match self.address() {
            LunAddress::Unit(unit) => Some(unit),
            _ => None,
        }
    }
}

/// A command descriptor block. Any bytes are accepted; they are checked later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdb {
    inline: [u8; CDB_BYTES_INLINE],
    /// Only for variable-length CDBs: all bytes, more than `inline`.
    long: Option<Box<[u8]>>,
}

impl Cdb {
    /// Creates a CDB. Short ones are padded with zeroes, and bytes beyond [`CDB_BYTES_MAX`] are
    /// dropped.
    pub fn new(bytes: &[u8]) -> Self {
        let mut inline = [0; CDB_BYTES_INLINE];
        let kept = bytes.len().min(CDB_BYTES_INLINE);
        inline[..kept].copy_from_slice(&bytes[..kept]);
        let long = (bytes.len() > CDB_BYTES_INLINE)
            .then(|| bytes[..bytes.len().min(CDB_BYTES_MAX)].into());
        Self { inline, long }
    }

    /// The operation code.
    pub fn opcode(&self) -> u8 {
        self.inline[0]
    }

    /// The first 16 bytes, which contain all fields that this target uses.
    pub fn head(&self) -> &[u8; CDB_BYTES_INLINE] {
        &self.inline
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        self.long.as_deref().unwrap_or(&self.inline)
    }

    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.inline[at]
    }

    pub(crate) fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.inline[at], self.inline[at + 1]])
    }

    pub(crate) fn be32(&self, at: usize) -> u32 {
        u32::from_be_bytes([
            self.inline[at],
            self.inline[at + 1],
            self.inline[at + 2],
            self.inline[at + 3],
        ])
    }

    pub(crate) fn be64(&self, at: usize) -> u64 {
        u64::from(self.be32(at)) << 32 | u64::from(self.be32(at + 4))
    }
}

/// Task attributes (SAM-5, section 8.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskAttribute {
    /// No attribute given.
    #[default]
    Untagged,
    /// May be reordered.
    Simple,
    /// In order with all other commands.
    Ordered,
    /// Before all other commands.
    HeadOfQueue,
    /// Part of an auto contingent allegiance, which this target does not have.
    Aca,
}

/// An I_T nexus: an initiator port and a target port (SAM-5, section 4.6.4; RFC 7143, 4.4.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NexusId {
    /// The initiator's name.
    pub initiator: IscsiName,
    /// The initiator's session id.
    pub isid: [u8; 6],
    /// Portal group tag of the target; also the relative target port identifier.
    pub portal_group: u16,
}

/// A command as it arrived.
#[derive(Clone, Debug)]
pub struct Command {
    /// The addressed logical unit.
    pub lun: Lun,
    /// The CDB.
    pub cdb: Cdb,
    /// The task attribute.
    pub attribute: TaskAttribute,
    /// Bytes that the initiator offers to send.
    pub expected_data_out: u32,
    /// Bytes that the initiator can receive.
    pub expected_data_in: u32,
}

/// Data of a command: complete, in order, without bytes beyond those of the [`Plan`].
#[derive(Default)]
pub enum DataOut<'a> {
    /// No data.
    #[default]
    None,
    /// Small immediate data in the receive buffer.
    Slice(&'a [u8]),
    /// Collected data.
    Bytes(Vec<u8>),
    /// Data received into the engine's buffers, filled to the end.
    Loan(Box<dyn WriteLoan>),
}

impl DataOut<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::None | Self::Loan(_) => &[],
            Self::Slice(slice) => slice,
            Self::Bytes(bytes) => bytes,
        }
    }

    pub(crate) fn into_owned(self) -> DataOut<'static> {
        match self {
            Self::None => DataOut::None,
            Self::Slice(slice) => DataOut::Bytes(slice.to_vec()),
            Self::Bytes(bytes) => DataOut::Bytes(bytes),
            Self::Loan(loan) => DataOut::Loan(loan),
        }
    }
}

/// The destination for the data of a write, so that it need not be copied later.
pub struct Landing {
    pub(crate) device: SharedDevice,
    pub(crate) extent: Extent,
}

impl Landing {
    /// The extent of the data.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Borrows buffers for exactly the first `bytes` of the write (the initiator's offer, if that
    /// is less than the plan). `None`: receive to memory instead.
    pub fn lend(&self, bytes: u32) -> Option<Box<dyn WriteLoan>> {
        let length = u64::from(bytes).min(self.extent.length);
        let extent = Extent::new(self.extent.offset, length);
        self.device.lend(extent).ok()
    }
}

/// The required action of a transport before it calls `execute`.
pub enum Plan {
    /// The command has no write data; unexpected data must be dropped.
    NoData,
    /// The command requires `bytes` of data. If the initiator offers less, only that is collected,
    /// and the difference is the residual overflow; if more, the rest is a residual underflow.
    DataOut {
        /// Bytes that the command requires.
        bytes: u32,
        /// For plain writes: a destination for large data.
        landing: Option<Landing>,
    },
    /// The outcome is already determined: request no data, drop received data, and send this.
    Refuse(Outcome),
}

/// Status codes (SAM-5, section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Completed.
    Good = 0x00,
    /// The sense data contains the reason.
    CheckCondition = 0x02,
    /// A condition is met.
    ConditionMet = 0x04,
    /// The initiator should retry later.
    Busy = 0x08,
    /// Another initiator holds a reservation.
    ReservationConflict = 0x18,
    /// Too many outstanding commands; set by the transport itself.
    TaskSetFull = 0x28,
    /// Aborted by another initiator.
    TaskAborted = 0x40,
}

/// Data for the initiator.
#[derive(Default)]
pub enum DataIn {
    /// No data.
    #[default]
    None,
    /// Parameter data, already truncated to the CDB's allocation length.
    Bytes(Vec<u8>),
    /// Data of the device in the engine's own buffers.
    Loan(Box<dyn ReadLoan>),
}

impl DataIn {
    /// Its length in bytes.
    pub fn byte_count(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Loan(loan) => loan.byte_count(),
        }
    }
}

/// The result of a command.
pub struct Outcome {
    /// The status.
    pub status: Status,
    /// Sense data of CHECK CONDITION.
    pub sense: Option<Vec<u8>>,
    /// Data for the initiator. The transport computes the residual.
    pub data_in: DataIn,
    /// Nexuses with tasks on the command's unit that must be aborted before this is sent (PREEMPT
    /// AND ABORT).
    pub abort: Vec<NexusId>,
    /// The device of the command's unit, if it addressed one.
    pub device: Option<SharedDevice>,
    /// Whether a write was refused for lack of space.
    pub no_space: bool,
    pub(crate) format: SenseFormat,
}

impl Outcome {
    pub(crate) fn status(status: Status) -> Self {
        Self {
            status,
            sense: None,
            data_in: DataIn::None,
            abort: Vec::new(),
            device: None,
            no_space: false,
            format: SenseFormat::Fixed,
        }
    }

    pub(crate) fn good() -> Self {
        Self::status(Status::Good)
    }

    pub(crate) fn data(bytes: Vec<u8>) -> Self {
        Self {
            data_in: DataIn::Bytes(bytes),
            ..Self::good()
        }
    }

    /// Builds CHECK CONDITION with `sense`; also for errors that a transport detects, such as a
    /// wrong data digest.
    pub fn check_condition(sense: &Sense, format: SenseFormat) -> Self {
        Self {
            sense: Some(sense.encode(format)),
            no_space: sense.asc == Asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
            format,
            ..Self::status(Status::CheckCondition)
        }
    }

    /// Returns the outcome after the flush of [`Executed::Durable`]. `None`: the device is gone,
    /// and the session must be dropped.
    pub fn after_flush(self, flushed: Result<(), &DeviceError>) -> Option<Self> {
        match flushed {
            Ok(()) => Some(self),
            Err(error) => match Stop::from_device(error) {
                Stop::Sense(sense) => Some(Self::check_condition(&sense, self.format)),
                _ => None,
            },
        }
    }
}

/// Why a command fails. The error type of all functions below `execute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Sense(Sense),
    Conflict,
    WouldBlock,
    Gone,
}

impl From<Sense> for Stop {
    fn from(sense: Sense) -> Self {
        Self::Sense(sense)
    }
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        Self::from_device(&error)
    }
}

impl Stop {
    pub(crate) fn from_device(error: &DeviceError) -> Self {
        let sense = match error.kind {
            ErrorKind::WouldBlock => return Self::WouldBlock,
            ErrorKind::Gone => return Self::Gone,
            ErrorKind::OutOfRange => Sense::illegal(Asc::LBA_OUT_OF_RANGE),
            ErrorKind::ReadOnly => Sense::new(SenseKey::DataProtect, Asc::WRITE_PROTECTED),
            ErrorKind::NoSpace => Sense::new(
                SenseKey::DataProtect,
                Asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
            ),
            ErrorKind::Unreadable => Sense::new(SenseKey::MediumError, Asc::UNRECOVERED_READ_ERROR),
            ErrorKind::Failed => Sense::new(SenseKey::HardwareError, Asc::INTERNAL_TARGET_FAILURE),
            ErrorKind::NotReady => Sense::becoming_ready(),
        };
        Self::Sense(sense)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_parse_in_every_single_level_format() {
        let at = |a, b| Lun([a, b, 0, 0, 0, 0, 0, 0]);
        assert_eq!(at(0, 5).address(), LunAddress::Unit(5));
        assert_eq!(at(0x41, 2).address(), LunAddress::Unit(258));
        assert_eq!(at(0xc1, 1).address(), LunAddress::WellKnownReportLuns);
        assert_eq!(at(0x01, 0xf3).address(), LunAddress::Unit(499), "libiscsi");
        assert_eq!(at(0x81, 5).address(), LunAddress::Unknown);
        assert_eq!(Lun([0, 1, 0, 1, 0, 0, 0, 0]).unit(), None);
        for unit in [0, 1, 255, 256, 0x3fff] {
            assert_eq!(Lun::from_unit(unit).unit(), Some(unit));
        }
    }

    #[test]
    fn cdb_of_any_length_is_bounded() {
        assert_eq!(Cdb::new(&[]).head(), &[0; 16]);
        assert_eq!(Cdb::new(&[1; 5000]).bytes().len(), CDB_BYTES_MAX);
    }
}
