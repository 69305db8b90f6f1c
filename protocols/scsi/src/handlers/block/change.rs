//! COMPARE AND WRITE, ORWRITE, UNMAP.

use block_device::{Extent, Update};

use super::{Range, UNMAP_BLOCKS_MAX, UNMAP_DESCRIPTORS_MAX, comparable, writable};
use crate::command::{DataOut, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::Executed;
use crate::sense::{Asc, Sense, SenseKey};

const FORCE_UNIT_ACCESS: u8 = 0x08;

fn answer_durably(context: &Context<'_>) -> Executed {
    let forced = context.command.cdb.byte(1) & FORCE_UNIT_ACCESS != 0;
    let durable = forced || !context.unit.state.write_cache();
    context.durable(durable, Outcome::good())
}

/// Changes an extent under its lock, if the requester is still connected by then.
fn update(
    context: &Context<'_>,
    extent: Extent,
    change: &mut dyn FnMut(&mut [u8]) -> Update,
) -> Result<(), Stop> {
    let mut permitted = Ok(());
    context.unit.config.device.update(extent, &mut |stored| {
        permitted = context.may_take_effect();
        match permitted {
            Ok(()) => change(stored),
            Err(_) => Update::Keep,
        }
    })?;
    permitted
}

/// COMPARE AND WRITE (SBC-4, section 5.3): one atomic step. On a miscompare INFORMATION is the
/// offset of the first different byte.
pub(crate) fn compare_and_write(
    context: &Context<'_>,
    data: &mut DataOut<'_>,
) -> Result<Executed, Stop> {
    let extent = writable(context.command, context.unit, &context.geometry())?;
    let needed = comparable(context.command, extent)?;
    let bytes = data.bytes();
    if bytes.len() as u64 != needed {
        return Err(Range::of(&context.command.cdb).invalid_length().into());
    }
    if extent.length == 0 {
        return Ok(Executed::Done(Outcome::good()));
    }
    context.may_block()?;
    let (expected, replacement) = bytes.split_at(extent.length as usize);
    let mut different_at = None;
    update(context, extent, &mut |stored| {
        different_at = stored.iter().zip(expected).position(|(a, b)| a != b);
        if different_at.is_some() {
            return Update::Keep;
        }
        stored.copy_from_slice(replacement);
        Update::Write
    })?;
    match different_at {
        None => Ok(answer_durably(context)),
        Some(offset) => {
            let asc = Asc::MISCOMPARE_DURING_VERIFY_OPERATION;
            let sense = Sense::new(SenseKey::Miscompare, asc);
            Err(sense.with_information(offset as u64).into())
        }
    }
}

/// ORWRITE (SBC-4, section 5.11).
pub(crate) fn or_write(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Executed, Stop> {
    let extent = writable(context.command, context.unit, &context.geometry())?;
    let bytes = data.bytes();
    let extent = Extent::new(extent.offset, extent.length.min(bytes.len() as u64));
    if extent.length > 0 {
        context.may_block()?;
        update(context, extent, &mut |stored| {
            for (old, new) in stored.iter_mut().zip(bytes) {
                *old |= new;
            }
            Update::Write
        })?;
    }
    Ok(answer_durably(context))
}

/// Bytes before the first descriptor of an UNMAP parameter list, and of each descriptor.
const UNMAP_HEADER_BYTES: usize = 8;
const UNMAP_DESCRIPTOR_BYTES: usize = 16;

/// UNMAP (SBC-4, section 5.32). All descriptors are checked before the first one is executed.
pub(crate) fn unmap(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Executed, Stop> {
    let geometry = context.geometry();
    let list = data.bytes();
    let announced = usize::from(context.command.cdb.be16(7));
    if announced == 0 {
        return Ok(Executed::Done(Outcome::good()));
    }
    if list.len() < announced || announced < UNMAP_HEADER_BYTES {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into());
    }
    if let Some(refusal) = context.unit.write_refusal(&geometry) {
        return Err(refusal.into());
    }
    let described = usize::from(u16::from_be_bytes([list[2], list[3]]));
    let list = &list[UNMAP_HEADER_BYTES..announced];
    let list = &list[..described.min(list.len())];
    let ranges: Vec<Range> = list
        .chunks_exact(UNMAP_DESCRIPTOR_BYTES)
        .map(|one| {
            let field = |at: usize, count: usize| {
                let bytes = one[at..at + count].iter();
                bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
            };
            Range::new(field(0, 8), field(8, 4))
        })
        .collect();
    let blocks: u64 = ranges.iter().map(|range| range.blocks).sum();
    if ranges.len() > UNMAP_DESCRIPTORS_MAX as usize || blocks > u64::from(UNMAP_BLOCKS_MAX) {
        return Err(Sense::invalid_parameter(2, None).into());
    }
    let extents: Result<Vec<Extent>, Sense> =
        ranges.iter().map(|range| range.extent(&geometry)).collect();
    let mut extents = extents?;
    extents.retain(|extent| extent.length > 0);
    if extents.len() > 1 {
        // If a second descriptor blocks, a worker must not repeat the first one.
        context.may_block()?;
    }
    for extent in extents {
        context
            .unit
            .config
            .device
            .unmap(extent, context.wait_mode)?;
    }
    Ok(context.durable(!context.unit.state.write_cache(), Outcome::good()))
}
