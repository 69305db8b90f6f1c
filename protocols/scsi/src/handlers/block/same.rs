//! WRITE SAME (10) and (16) (SBC-4, sections 5.50 and 5.51).

use block_device::{BlockDevice, Extent, Geometry, WaitMode, Zero};

use super::{CHUNK_BYTES, Range, WRITE_SAME_BYTES_MAX};
use crate::command::{Command, DataOut, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::Executed;
use crate::sense::{Asc, Sense};

const UNMAP: u8 = 0x08;
const NO_DATA_OUT_BUFFER: u8 = 0x01;

/// Returns the bytes of data of a WRITE SAME: one block, or none with NDOB.
pub(super) fn pattern_bytes(command: &Command, geometry: &Geometry) -> Result<u64, Sense> {
    let cdb = &command.cdb;
    let without_data = cdb.opcode() == 0x93 && cdb.byte(1) & NO_DATA_OUT_BUFFER != 0;
    let bytes = match without_data {
        true => 0,
        false => geometry.logical_block,
    };
    if command.expected_data_out != bytes {
        let asc = Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT;
        return Err(Sense::illegal(asc));
    }
    Ok(u64::from(bytes))
}

/// Returns the extent of a WRITE SAME. WSNZ is set: a zero length is an error and does not extend
/// to the end, which on a large unit would exceed the maximum anyway.
fn extent(range: Range, geometry: &Geometry) -> Result<Extent, Sense> {
    if range.blocks == 0 {
        return Err(range.invalid_length());
    }
    range.at_most(range.extent(geometry)?, WRITE_SAME_BYTES_MAX)
}

/// Writes one block repeatedly. Zeroes with UNMAP free the space; a fully provisioned unit retains
/// it.
pub(crate) fn write_same(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Executed, Stop> {
    let geometry = context.geometry();
    if let Some(refusal) = context.unit.write_refusal(&geometry) {
        return Err(refusal.into());
    }
    let wants_unmap = context.command.cdb.byte(1) & UNMAP != 0;
    if wants_unmap && !context.unit.config.thin {
        return Err(Sense::invalid_cdb(1, Some(3)).into());
    }
    let pattern = data.bytes();
    if pattern.len() as u64 != pattern_bytes(context.command, &geometry)? {
        let asc = Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT;
        return Err(Sense::illegal(asc).into());
    }
    let extent = extent(Range::of(&context.command.cdb), &geometry)?;
    let device = &*context.unit.config.device;
    if pattern.iter().all(|byte| *byte == 0) {
        match (wants_unmap, context.unit.config.thin) {
            (true, _) => device.unmap(extent, context.wait_mode)?,
            (false, true) => device.write_zeroes(extent, Zero::MayFree, context.wait_mode)?,
            (false, false) => {
                device.write_zeroes(extent, Zero::KeepAllocated, context.wait_mode)?
            }
        }
    } else {
        context.may_block()?;
        fill(device, extent, pattern, context.wait_mode)?;
    }
    let durable = !context.unit.state.write_cache();
    Ok(context.durable(durable, Outcome::good()))
}

fn fill(
    device: &dyn BlockDevice,
    extent: Extent,
    pattern: &[u8],
    wait_mode: WaitMode<'_>,
) -> Result<(), Stop> {
    let chunk = pattern.repeat((extent.length.min(CHUNK_BYTES) as usize) / pattern.len());
    let end = extent.offset + extent.length;
    let mut offset = extent.offset;
    while offset < end {
        let length = (chunk.len() as u64).min(end - offset);
        device.write(offset, &chunk[..length as usize], wait_mode)?;
        offset += length;
    }
    Ok(())
}
