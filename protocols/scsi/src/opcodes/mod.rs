//! The table of supported commands. It defines the recognised commands, the permitted CDB bits, the
//! effect of reservations, and the data of REPORT SUPPORTED OPERATION CODES. So reported and actual
//! behaviour cannot diverge.

mod report;
mod table;

use crate::command::Cdb;
use crate::sense::{Asc, Sense};

pub(crate) use report::{supported_opcodes, supported_task_management};
pub(crate) use table::TABLE;

/// The kind of a command; `execute` matches on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense,
    /// INQUIRY.
    Inquiry,
    /// MODE SENSE (6) and (10).
    ModeSense,
    /// MODE SELECT (6) and (10).
    ModeSelect,
    /// SPC-2 RESERVE (6) and (10).
    Reserve,
    /// SPC-2 RELEASE (6) and (10).
    Release,
    /// START STOP UNIT.
    StartStopUnit,
    /// SEND DIAGNOSTIC.
    SendDiagnostic,
    /// PREVENT ALLOW MEDIUM REMOVAL.
    PreventAllow,
    /// READ CAPACITY (10).
    ReadCapacity10,
    /// READ CAPACITY (16).
    ReadCapacity16,
    /// READ (6), (10), (12), (16).
    Read,
    /// WRITE (6), (10), (12), (16).
    Write,
    /// WRITE AND VERIFY (10), (12), (16).
    WriteAndVerify,
    /// VERIFY (10), (12), (16).
    Verify,
    /// PRE-FETCH (10), (16).
    Prefetch,
    /// SYNCHRONIZE CACHE (10), (16).
    SynchronizeCache,
    /// READ DEFECT DATA (10).
    ReadDefectData10,
    /// READ DEFECT DATA (12).
    ReadDefectData12,
    /// WRITE SAME (10), (16).
    WriteSame,
    /// UNMAP.
    Unmap,
    /// COMPARE AND WRITE.
    CompareAndWrite,
    /// ORWRITE (16).
    OrWrite,
    /// GET LBA STATUS (16).
    GetLbaStatus,
    /// PERSISTENT RESERVE IN.
    PersistentReserveIn,
    /// PERSISTENT RESERVE OUT.
    PersistentReserveOut,
    /// EXTENDED COPY (LID1).
    ExtendedCopy,
    /// RECEIVE COPY STATUS (LID1).
    ReceiveCopyStatus,
    /// RECEIVE COPY OPERATING PARAMETERS.
    ReceiveCopyParameters,
    /// REPORT LUNS.
    ReportLuns,
    /// REPORT TARGET PORT GROUPS.
    ReportTargetPortGroups,
    /// REPORT SUPPORTED OPERATION CODES.
    ReportSupportedOpcodes,
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    ReportSupportedTaskManagement,
}

impl Op {
    /// Whether the command requires the unit's data or size, and not only the unit.
    pub(crate) const fn needs_contents(self) -> bool {
        matches!(
            self,
            Self::TestUnitReady
                | Self::ReadCapacity10
                | Self::ReadCapacity16
                | Self::Read
                | Self::Write
                | Self::WriteAndVerify
                | Self::Verify
                | Self::Prefetch
                | Self::SynchronizeCache
                | Self::WriteSame
                | Self::Unmap
                | Self::CompareAndWrite
                | Self::OrWrite
                | Self::GetLbaStatus
                | Self::ReadDefectData10
                | Self::ReadDefectData12
                | Self::ExtendedCopy
        )
    }
}

/// The access that reservations of other nexuses deny (SPC-4, tables 52 and 53; SBC-4, table 14;
/// SPC-2, table 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Always allowed, also under SPC-2 reservations.
    Free,
    /// Allowed under persistent reservations, refused under an SPC-2 reservation.
    Query,
    /// Reads the medium or its state: refused under the exclusive access types.
    Read,
    /// Changes the unit: refused under all types.
    Write,
    /// The command's own rules decide.
    Own,
}

/// One supported command.
#[derive(Debug)]
pub struct Row {
    /// The kind of the command.
    pub op: Op,
    /// The operation code.
    pub opcode: u8,
    /// The service action, if the operation code has service actions.
    pub action: Option<u8>,
    /// CDB usage data: the evaluated bits. Its length is the CDB's.
    pub usage: &'static [u8],
    /// Obsolete or ignored bits that are accepted: (byte, bits).
    pub tolerated: &'static [(u8, u8)],
    /// The effect of reservations.
    pub access: Access,
    /// Whether only thin provisioned units support it.
    pub thin_only: bool,
}

/// Bits of the service action field, in byte 1.
const ACTION_BITS: u8 = 0x1f;

impl Row {
    /// Returns the permitted bits of CDB byte `at`.
    fn allowed(&self, at: usize) -> u8 {
        let mut bits = self.usage[at];
        if at == 1 && self.action.is_some() {
            bits |= ACTION_BITS;
        }
        for &(byte, more) in self.tolerated {
            if usize::from(byte) == at {
                bits |= more;
            }
        }
        bits
    }

    /// Refuses a CDB with a bit that this command does not support.
    fn check(&self, cdb: &Cdb) -> Result<(), Sense> {
        for (at, byte) in cdb.head()[..self.usage.len()].iter().enumerate().skip(1) {
            // One comparison is sufficient for nearly every byte; `allowed` is the slow path.
            let last = at + 1 == self.usage.len();
            if byte & !self.usage[at] != 0 && !last {
                let wrong = byte & !self.allowed(at);
                if wrong != 0 {
                    let bit = 7 - wrong.leading_zeros() as u8;
                    return Err(Sense::invalid_cdb(at as u16, Some(bit)));
                }
            }
            // CONTROL: auto contingent allegiance is not supported; the other bits are ignored.
            if last && byte & 0x04 != 0 {
                return Err(Sense::invalid_cdb(at as u16, Some(2)));
            }
        }
        Ok(())
    }
}

/// Returns the row of a CDB with only supported bits. Total: any bytes produce a row or sense data.
pub fn recognise(cdb: &Cdb, thin: bool) -> Result<&'static Row, Sense> {
    let unknown = Sense::illegal(Asc::INVALID_COMMAND_OPERATION_CODE);
    let rows = rows_of(cdb.opcode());
    let first = rows.first().ok_or(unknown)?;
    let row = match first.action {
        None => first,
        Some(_) => {
            let wanted = cdb.byte(1) & ACTION_BITS;
            rows.iter()
                .find(|row| row.action == Some(wanted))
                .ok_or(Sense::invalid_cdb(1, Some(4)))?
        }
    };
    if row.thin_only && !thin {
        return Err(unknown);
    }
    row.check(cdb)?;
    Ok(row)
}

/// Returns the kind of an operation code, unless it has service actions.
pub fn by_opcode(opcode: u8) -> Option<Op> {
    let first = rows_of(opcode).first()?;
    first.action.is_none().then_some(first.op)
}

/// Returns the rows of an operation code; more than one only if it has service actions.
pub(crate) fn rows_of(opcode: u8) -> &'static [Row] {
    let (start, end) = table::INDEX[usize::from(opcode)];
    &TABLE[usize::from(start)..usize::from(end)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_own_cdb() {
        for row in TABLE {
            let mut bytes = vec![0; row.usage.len()];
            bytes[0] = row.opcode;
            bytes[1] = row.action.unwrap_or(0);
            let found = recognise(&Cdb::new(&bytes), true).unwrap();
            assert!(std::ptr::eq(found, row), "{row:?}");
        }
    }

    /// SBC-4, table 33: READ and WRITE (6), (10), (12), (16), WRITE AND VERIFY (10), (12), (16).
    #[test]
    fn data_direction_follows_from_the_opcode() {
        let all = |opcodes: &[u8], op| opcodes.iter().all(|one| by_opcode(*one) == Some(op));
        assert!(all(&[0x08, 0x28, 0xa8, 0x88], Op::Read));
        assert!(all(&[0x0a, 0x2a, 0xaa, 0x8a], Op::Write));
        assert!(all(&[0x2e, 0xae, 0x8e], Op::WriteAndVerify));
        // GET LBA STATUS shares its operation code with other commands; 0xff is unused.
        assert_eq!((by_opcode(0x9e), by_opcode(0xff)), (None, None));
    }

    #[test]
    fn cdb_lengths_follow_the_group_code() {
        for row in TABLE {
            let expected = match row.opcode >> 5 {
                0 => 6,
                1 | 2 => 10,
                4 => 16,
                5 => 12,
                group => panic!("no command of group {group} is known"),
            };
            assert_eq!(row.usage.len(), expected, "{row:?}");
            assert_eq!(row.usage[0], row.opcode);
        }
    }

    #[test]
    fn protection_field_pointer_is_its_highest_bit() {
        let cdb = Cdb::new(&[0x28, 0x20, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(
            recognise(&cdb, true).unwrap_err(),
            Sense::invalid_cdb(1, Some(5))
        );
        let naca = Cdb::new(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 4]);
        assert_eq!(
            recognise(&naca, true).unwrap_err(),
            Sense::invalid_cdb(9, Some(2))
        );
    }

    #[test]
    fn cdb_of_any_bytes_returns_a_row_or_sense() {
        for opcode in 0..=255_u8 {
            for fill in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = [fill; 16];
                bytes[0] = opcode;
                let _ = recognise(&Cdb::new(&bytes), true);
            }
        }
    }
}
