//! Executes a copy: finds the units, checks each segment, copies its data.

use std::sync::Arc;

use block_device::{BlockDevice, Extent, WaitMode};

use super::SEGMENT_BYTES_MAX;
use super::list::{Cscd, Length, List, Segment};
use crate::command::Stop;
use crate::handlers::Context;
use crate::opcodes::Access;
use crate::sense::{Asc, Sense, SenseKey};
use crate::state::Progress;
use crate::state::Unit;

/// Bytes that are read before they are written.
const CHUNK_BYTES: u64 = 1 << 20;

const fn aborted(asc: Asc) -> Stop {
    Stop::Sense(Sense::new(SenseKey::CopyAborted, asc))
}

/// The result of a completed copy.
pub(super) struct Done {
    pub(super) progress: Progress,
}

/// Copies all segments in order. On return the data is durable on destinations without a write
/// cache.
pub(super) fn perform(context: &Context<'_>, list: &List) -> Result<Done, Stop> {
    let units: Vec<Option<Arc<Unit>>> = list
        .cscds
        .iter()
        .map(|cscd| find_unit(context, cscd))
        .collect();
    let mut progress = Progress::default();
    for segment in &list.segments {
        let unit = |index: u16| -> Result<&Arc<Unit>, Stop> {
            let unit = units.get(usize::from(index)).and_then(Option::as_ref);
            unit.ok_or(aborted(Asc::UNREACHABLE_COPY_TARGET))
        };
        let source = unit(segment.source)?;
        let destination = unit(segment.destination)?;
        check_permission(context, source, destination)?;
        let (from, to) = extents(segment, source, destination)?;
        move_data(source, from, destination, to.offset, context.wait_mode)?;
        progress.segments += 1;
        progress.bytes += from.length;
    }
    for segment in &list.segments {
        let unit = units[usize::from(segment.destination)].as_ref();
        if let Some(unit) = unit.filter(|unit| !unit.state.write_cache()) {
            unit.config.device.flush()?;
        }
    }
    Ok(Done { progress })
}

/// Returns the visible unit that a CSCD descriptor identifies by its NAA or EUI designator.
fn find_unit(context: &Context<'_>, cscd: &Cscd) -> Option<Arc<Unit>> {
    const BINARY: u8 = 1;
    const NAA: u8 = 3;
    const EUI: u8 = 2;
    let units = context.target.units();
    let found = units.iter().find(|unit| {
        let identity = &unit.config.identity;
        let named = match (cscd.code_set, cscd.kind) {
            (BINARY, NAA) => cscd.designator == identity.naa,
            (BINARY, EUI) => identity.eui.is_some_and(|eui| cscd.designator == eui),
            _ => false,
        };
        let block = unit.geometry().logical_block;
        named
            && unit.config.visibility.includes(&context.nexus.id.initiator)
            && (cscd.block_bytes == 0 || cscd.block_bytes == block)
    })?;
    Some(Arc::clone(found))
}

fn check_permission(context: &Context<'_>, source: &Unit, destination: &Unit) -> Result<(), Stop> {
    let read = source.state.check_access(context.nexus, Access::Read);
    let write = destination.state.check_access(context.nexus, Access::Write);
    if read.and(write).is_err() {
        return Err(aborted(Asc::COPY_TARGET_DEVICE_NOT_REACHABLE));
    }
    match destination.write_refusal(&destination.geometry()) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(()),
    }
}

/// Returns the extents that a segment reads and writes, both within their devices.
fn extents(segment: &Segment, source: &Unit, destination: &Unit) -> Result<(Extent, Extent), Stop> {
    let from = source.geometry();
    let to = destination.geometry();
    let (length, from_offset, to_offset) = match segment.length {
        Length::Blocks {
            count,
            of_destination,
        } => {
            let block = if of_destination { &to } else { &from }.logical_block;
            (u64::from(count) * u64::from(block), 0, 0)
        }
        Length::Bytes {
            count,
            source_offset,
            destination_offset,
        } => (
            u64::from(count),
            u64::from(source_offset),
            u64::from(destination_offset),
        ),
    };
    let out_of_range = aborted(Asc::NO_ADDITIONAL_SENSE);
    if length > u64::from(SEGMENT_BYTES_MAX) {
        return Err(out_of_range);
    }
    let extent = |lba: u64, block: u32, offset: u64, size: u64| {
        let start = lba.checked_mul(u64::from(block))?.checked_add(offset)?;
        let extent = Extent::new(start, length);
        extent.fits(size).then_some(extent)
    };
    let from = extent(
        segment.source_lba,
        from.logical_block,
        from_offset,
        from.size,
    );
    let to = extent(
        segment.destination_lba,
        to.logical_block,
        to_offset,
        to.size,
    );
    from.zip(to).ok_or(out_of_range)
}

/// Copies `from` to `to`, starting at the end if the extents overlap in that way.
fn move_data(
    source: &Unit,
    from: Extent,
    destination: &Unit,
    to: u64,
    wait_mode: WaitMode<'_>,
) -> Result<(), Stop> {
    let same = Arc::ptr_eq(&source.state, &destination.state);
    if same && from.offset == to {
        return Ok(());
    }
    let starts = (0..from.length).step_by(CHUNK_BYTES as usize);
    let mut copy = |start: u64| {
        let length = CHUNK_BYTES.min(from.length - start);
        copy_chunk(
            &*source.config.device,
            Extent::new(from.offset + start, length),
            &*destination.config.device,
            to + start,
            wait_mode,
        )
    };
    if same && from.offset < to {
        let starts: Vec<u64> = starts.collect();
        starts.into_iter().rev().try_for_each(&mut copy)
    } else {
        starts.into_iter().try_for_each(&mut copy)
    }
}

/// Copies one chunk. The loan is released before the write, which may need the same range.
fn copy_chunk(
    source: &dyn BlockDevice,
    from: Extent,
    destination: &dyn BlockDevice,
    to: u64,
    wait_mode: WaitMode<'_>,
) -> Result<(), Stop> {
    let bytes = {
        let loan = source.read(from, WaitMode::MayBlock)?;
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        parts.concat()
    };
    Ok(destination.write(to, &bytes, wait_mode)?)
}
