//! WRITE SAME (10) and (16) (SBC-4, sections 5.50 and 5.51).

use block_device::{BlockDevice, Effort, Extent, Zero};

use super::{CHUNK_BYTES, Range, WRITE_SAME_BYTES_MAX, exactly};
use crate::command::{DataOut, Executed, Outcome, Stop};
use crate::sense::Sense;
use crate::target::Context;

const UNMAP: u8 = 0x08;
const NO_DATA_OUT_BUFFER: u8 = 0x01;

/// Writes one block over and over. Zeroes with UNMAP free the space; a fully provisioned unit
/// keeps it.
pub(crate) fn write_same(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Executed, Stop> {
    let cdb = &context.command.cdb;
    let geometry = context.geometry();
    let range = Range::of(cdb);
    let wants_unmap = cdb.byte(1) & UNMAP != 0;
    let without_data = cdb.opcode() == 0x93 && cdb.byte(1) & NO_DATA_OUT_BUFFER != 0;
    if wants_unmap && !context.unit.config.thin {
        return Err(Sense::invalid_cdb(1, Some(3)).into());
    }
    let block = u64::from(geometry.logical_block);
    exactly(context.command, if without_data { 0 } else { block })?;
    let pattern = data.bytes();
    if !without_data && pattern.len() as u64 != block {
        exactly(context.command, u64::MAX)?;
    }
    if range.blocks == 0 {
        // WSNZ is set: no length means no length, not all of the unit.
        return Err(range.invalid_length().into());
    }
    let extent = range.at_most(range.extent(&geometry)?, WRITE_SAME_BYTES_MAX)?;
    if let Some(refusal) = context.unit.write_refusal(&geometry) {
        return Err(refusal.into());
    }
    let device = &*context.unit.config.device;
    if pattern.iter().all(|byte| *byte == 0) {
        match (wants_unmap, context.unit.config.thin) {
            (true, _) => device.unmap(extent, context.effort)?,
            (false, true) => device.write_zeroes(extent, Zero::MayFree, context.effort)?,
            (false, false) => device.write_zeroes(extent, Zero::KeepAllocated, context.effort)?,
        }
    } else {
        context.may_block()?;
        fill(device, extent, pattern)?;
    }
    let durable = !context.unit.state.write_cache();
    Ok(context.durable(durable, Outcome::good()))
}

fn fill(device: &dyn BlockDevice, extent: Extent, pattern: &[u8]) -> Result<(), Stop> {
    let chunk = pattern.repeat((extent.length.min(CHUNK_BYTES) as usize) / pattern.len());
    let end = extent.offset + extent.length;
    let mut offset = extent.offset;
    while offset < end {
        let length = (chunk.len() as u64).min(end - offset);
        device.write(offset, &chunk[..length as usize], Effort::MayBlock)?;
        offset += length;
    }
    Ok(())
}
