//! Block commands (SBC-4): their extents, their data, and their execution.

mod change;
mod range;
mod same;
mod state;
mod transfer;

use block_device::{Extent, Geometry};

use crate::PARAMETER_LIST_BYTES_MAX;
use crate::command::{Command, Landing};
use crate::opcodes::{Op, Row};
use crate::sense::{Asc, Sense};
use crate::state::Unit;

pub(crate) use change::{compare_and_write, or_write, unmap};
pub(crate) use range::Range;
pub(crate) use same::write_same;
pub(crate) use state::{
    lba_status, prefetch, read_capacity_10, read_capacity_16, read_defect_data, synchronize_cache,
};
pub(crate) use transfer::{read, verify, write, write_and_verify};

/// Maximum bytes that one WRITE SAME writes.
pub(crate) const WRITE_SAME_BYTES_MAX: u64 = 256 << 20;
/// Maximum blocks that one UNMAP frees.
pub(crate) const UNMAP_BLOCKS_MAX: u32 = 1 << 20;
/// Maximum descriptors of one UNMAP.
pub(crate) const UNMAP_DESCRIPTORS_MAX: u32 = 256;
/// Maximum blocks of one COMPARE AND WRITE: its length field has one byte.
pub(crate) const COMPARE_AND_WRITE_BLOCKS_MAX: u8 = 255;
/// Maximum bytes that one VERIFY without data reads.
pub(crate) const VERIFY_BYTES_MAX: u64 = 1 << 30;
/// Bytes that commands with data in memory read or write at a time.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// BYTCHK of VERIFY and WRITE AND VERIFY.
pub(crate) fn byte_check(command: &Command) -> Result<u8, Sense> {
    match command.cdb.byte(1) >> 1 & 0x03 {
        2 => Err(Sense::invalid_cdb(1, Some(2))),
        check => Ok(check),
    }
}

/// Returns the extent of a READ.
pub(crate) fn read_extent(command: &Command, unit: &Unit) -> Result<Extent, Sense> {
    Range::of(&command.cdb).transfer(&unit.geometry())
}

/// Returns the bytes of data that a command requires. Errors that do not depend on the data are
/// returned here.
pub(crate) fn data_out_bytes(row: &Row, command: &Command, unit: &Unit) -> Result<u32, Sense> {
    let cdb = &command.cdb;
    let block = || u64::from(unit.geometry().logical_block);
    let bytes = match row.op {
        Op::Write | Op::WriteAndVerify | Op::OrWrite => {
            writable(command, unit, &unit.geometry())?.length
        }
        Op::CompareAndWrite => {
            let extent = writable(command, unit, &unit.geometry())?;
            comparable(command, extent)?
        }
        Op::WriteSame => {
            let geometry = unit.geometry();
            if let Some(refusal) = unit.write_refusal(&geometry) {
                return Err(refusal);
            }
            same::pattern_bytes(command, &geometry)?
        }
        Op::Verify => match byte_check(command)? {
            0 => 0,
            1 => {
                let range = Range::of(cdb);
                range.transfer(&unit.geometry())?.length
            }
            _ if Range::of(cdb).blocks == 0 => 0,
            _ => block(),
        },
        Op::Unmap => u64::from(cdb.be16(7)),
        Op::ModeSelect if cdb.opcode() == 0x15 => u64::from(cdb.byte(4)),
        Op::ModeSelect => u64::from(cdb.be16(7)),
        Op::PersistentReserveOut => parameter_list(cdb.be32(5))?,
        Op::ExtendedCopy => parameter_list(cdb.be32(10))?,
        _ => 0,
    };
    // Bounded by TRANSFER_BYTES_MAX and similar limits, all below 4 GiB.
    Ok(bytes as u32)
}

fn parameter_list(bytes: u32) -> Result<u64, Sense> {
    if bytes > PARAMETER_LIST_BYTES_MAX {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR));
    }
    Ok(u64::from(bytes))
}

/// Checks that both buffers of a COMPARE AND WRITE are offered completely.
fn comparable(command: &Command, extent: Extent) -> Result<u64, Sense> {
    let bytes = 2 * extent.length;
    if u64::from(command.expected_data_out) == bytes {
        Ok(bytes)
    } else {
        Err(Range::of(&command.cdb).invalid_length())
    }
}

/// Returns the extent of a write command, if writes are permitted.
fn writable(command: &Command, unit: &Unit, geometry: &Geometry) -> Result<Extent, Sense> {
    let extent = Range::of(&command.cdb).transfer(geometry)?;
    match unit.write_refusal(geometry) {
        Some(refusal) => Err(refusal),
        None => Ok(extent),
    }
}

/// Returns the destination for the data of a plain write.
pub(crate) fn landing(command: &Command, unit: &Unit) -> Option<Landing> {
    if crate::opcodes::by_opcode(command.cdb.opcode()) != Some(Op::Write) {
        return None;
    }
    let extent = Range::of(&command.cdb).transfer(&unit.geometry()).ok()?;
    (extent.length > 0).then(|| Landing {
        device: std::sync::Arc::clone(&unit.config.device),
        extent,
    })
}
