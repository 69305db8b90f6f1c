//! READ CAPACITY, GET LBA STATUS, SYNCHRONIZE CACHE, PRE-FETCH, READ DEFECT DATA.

use block_device::{Extent, StatusRun};

use super::{CHUNK_BYTES, Range};
use crate::command::{Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::Executed;
use crate::handlers::inquiry::physical_exponent;
use crate::handlers::primary::cut;
use crate::sense::{Asc, Sense};

/// Maximum bytes that one PRE-FETCH reads; the rest of the request is ignored.
const PREFETCH_BYTES_MAX: u64 = 8 << 20;
/// Maximum descriptors that one GET LBA STATUS returns.
const STATUS_DESCRIPTORS_MAX: usize = 256;

fn last_lba(context: &Context<'_>) -> u64 {
    let geometry = context.geometry();
    (geometry.size / u64::from(geometry.logical_block)).saturating_sub(1)
}

/// READ CAPACITY (10): SBC-4, section 5.20.
pub(crate) fn read_capacity_10(context: &Context<'_>) -> Result<Outcome, Stop> {
    let last = u32::try_from(last_lba(context)).unwrap_or(u32::MAX);
    let mut data = last.to_be_bytes().to_vec();
    data.extend(context.geometry().logical_block.to_be_bytes());
    Ok(Outcome::data(data))
}

/// READ CAPACITY (16): SBC-4, section 5.21.
pub(crate) fn read_capacity_16(context: &Context<'_>) -> Result<Outcome, Stop> {
    const PROVISIONING_MANAGED: u8 = 0x80;
    const UNMAPPED_READS_ZEROES: u8 = 0x40;
    let mut data = vec![0; 32];
    data[..8].copy_from_slice(&last_lba(context).to_be_bytes());
    data[8..12].copy_from_slice(&context.geometry().logical_block.to_be_bytes());
    data[13] = physical_exponent(context.unit);
    if context.unit.config.thin {
        data[14] = PROVISIONING_MANAGED | UNMAPPED_READS_ZEROES;
    }
    Ok(Outcome::data(cut(data, context.command.cdb.be32(10))))
}

/// GET LBA STATUS (16): SBC-4, section 5.8.
pub(crate) fn lba_status(context: &Context<'_>) -> Result<Outcome, Stop> {
    let geometry = context.geometry();
    let block = u64::from(geometry.logical_block);
    let start = context.command.cdb.be64(2);
    let capacity = geometry.size / block;
    if start >= capacity {
        return Err(Sense::illegal(Asc::LBA_OUT_OF_RANGE).into());
    }
    let allocation = context.command.cdb.be32(10);
    let wanted = (allocation as usize).saturating_sub(8) / 16;
    let wanted = wanted.clamp(1, STATUS_DESCRIPTORS_MAX);
    let rest = Extent::new(start * block, geometry.size - start * block);
    let runs = if context.unit.config.thin {
        context.may_block()?;
        context.unit.config.device.status(rest, wanted)?
    } else {
        vec![StatusRun {
            length: rest.length,
            allocated: true,
        }]
    };
    let mut data = vec![0; 8];
    for (lba, blocks, allocated) in block_runs(start, block, &runs).into_iter().take(wanted) {
        data.extend(lba.to_be_bytes());
        data.extend(blocks.to_be_bytes());
        data.extend([u8::from(!allocated), 0, 0, 0]);
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    Ok(Outcome::data(cut(data, allocation)))
}

/// Converts byte runs to runs of whole blocks within the descriptor's 32 bits. A partially
/// allocated block counts as mapped.
fn block_runs(start: u64, block: u64, runs: &[StatusRun]) -> Vec<(u64, u32, bool)> {
    let mut result: Vec<(u64, u32, bool)> = Vec::new();
    let mut end_bytes = start * block;
    let mut lba = start;
    for run in runs {
        end_bytes += run.length;
        let end = if run.allocated {
            end_bytes.div_ceil(block)
        } else {
            end_bytes / block
        };
        while lba < end {
            let blocks = (end - lba).min(u64::from(u32::MAX)) as u32;
            result.push((lba, blocks, run.allocated));
            lba += u64::from(blocks);
        }
    }
    if result.is_empty() {
        // A hole within the first block.
        result.push((start, 1, true));
    }
    result
}

/// SYNCHRONIZE CACHE (SBC-4, sections 5.29 and 5.30). IMMED is ignored: a flush without a known
/// result would be useless.
pub(crate) fn synchronize_cache(context: &Context<'_>) -> Result<Executed, Stop> {
    Range::of(&context.command.cdb).extent(&context.geometry())?;
    Ok(context.durable(true, Outcome::good()))
}

/// PRE-FETCH (SBC-4, sections 5.12 and 5.13). Returns GOOD, never CONDITION MET, because the engine
/// controls its cache.
pub(crate) fn prefetch(context: &Context<'_>) -> Result<Outcome, Stop> {
    const IMMEDIATE: u8 = 0x02;
    let geometry = context.geometry();
    let mut extent = Range::of(&context.command.cdb).extent(&geometry)?;
    if extent.length == 0 {
        extent.length = geometry.size - extent.offset;
    }
    let end = extent.offset + extent.length.min(PREFETCH_BYTES_MAX);
    let immediate = context.command.cdb.byte(1) & IMMEDIATE != 0;
    for offset in (extent.offset..end).step_by(CHUNK_BYTES as usize) {
        let chunk = Extent::new(offset, CHUNK_BYTES.min(end - offset));
        match context.unit.config.device.read(chunk, context.wait_mode) {
            Ok(_) => {}
            Err(_) if immediate => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Outcome::good())
}

/// READ DEFECT DATA (10) and (12): the lists are empty, because ZFS handles defects itself (SBC-4,
/// sections 5.22 and 5.23).
pub(crate) fn read_defect_data(context: &Context<'_>) -> Result<Outcome, Stop> {
    let cdb = &context.command.cdb;
    Ok(Outcome::data(if cdb.opcode() == 0x37 {
        cut(vec![0, cdb.byte(2) & 0x1f, 0, 0], u32::from(cdb.be16(7)))
    } else {
        cut(vec![0, cdb.byte(1) & 0x1f, 0, 0, 0, 0, 0, 0], cdb.be32(6))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_stored_in_part_counts_as_mapped() {
        let run = |length, allocated| StatusRun { length, allocated };
        let runs = [run(512, false), run(512, true), run(7168, false)];
        assert_eq!(block_runs(0, 4096, &runs), [(0, 1, true), (1, 1, false)],);
    }

    #[test]
    fn long_runs_are_split_at_32_bits() {
        let runs = [StatusRun {
            length: (1 << 32) * 512,
            allocated: false,
        }];
        assert_eq!(
            block_runs(5, 512, &runs),
            [(5, u32::MAX, false), (5 + u64::from(u32::MAX), 1, false)]
        );
    }
}
