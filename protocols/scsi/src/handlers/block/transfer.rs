//! READ, WRITE, VERIFY, WRITE AND VERIFY.

use block_device::{Begun, BlockDevice, Commit, Extent, WaitMode};

use super::{CHUNK_BYTES, Range, VERIFY_BYTES_MAX, byte_check, writable};
use crate::command::{DataIn, DataOut, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::{Executed, Pending, Reading};
use crate::sense::{Asc, Sense, SenseKey};

/// FUA, in byte 1.
const FORCE_UNIT_ACCESS: u8 = 0x08;

/// Whether FUA is set; the 6-byte commands have no FUA.
fn forces_unit_access(context: &Context<'_>) -> bool {
    let cdb = &context.command.cdb;
    cdb.opcode() >= 0x20 && cdb.byte(1) & FORCE_UNIT_ACCESS != 0
}

/// READ (SBC-4, section 5.15 and following).
pub(crate) fn read(context: &Context<'_>) -> Result<Executed, Stop> {
    let device = &context.unit.config.device;
    let extent = Range::of(&context.command.cdb).transfer(&context.geometry())?;
    if extent.length == 0 {
        return Ok(Executed::Done(Outcome::good()));
    }
    if forces_unit_access(context) && !device.is_clean() {
        context.may_block()?;
        device.flush()?;
    }
    let begun = match context.wait_mode {
        WaitMode::NoWait => device.begin_read(extent)?,
        waits => Begun::Done(device.read(extent, waits)?),
    };
    Ok(match begun {
        Begun::Done(loan) => Executed::Done(Outcome {
            data_in: DataIn::Loan(loan),
            ..Outcome::good()
        }),
        Begun::Pending(begun) => {
            let (target, nexus) = (context.target, context.nexus);
            Executed::Reading(Box::new(Reading {
                begun,
                then: Outcome {
                    format: context.unit.state.sense_format(),
                    ..Outcome::good()
                },
                again: Pending::new(target, nexus, context.command, DataOut::default()),
            }))
        }
    })
}

/// WRITE (SBC-4, section 5.39 and following).
pub(crate) fn write(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Executed, Stop> {
    let extent = writable(context.command, context.unit, &context.geometry())?;
    store(context, extent, data)?;
    let durable = forces_unit_access(context) || !context.unit.state.write_cache();
    Ok(context.durable(durable, Outcome::good()))
}

/// Writes the received data. If the initiator offered less than the CDB specifies, only that is
/// written (RFC 7143, section 11.4.5.2).
fn store(context: &Context<'_>, extent: Extent, data: &mut DataOut<'_>) -> Result<(), Stop> {
    let device = &context.unit.config.device;
    if !matches!(data, DataOut::Loan(_)) {
        let bytes = data.bytes();
        let length = bytes.len().min(extent.length as usize);
        if length > 0 {
            device.write(extent.offset, &bytes[..length], context.wait_mode)?;
        }
        return Ok(());
    }
    let DataOut::Loan(loan) = std::mem::take(data) else {
        unreachable!("checked above");
    };
    let lent = loan.extent();
    if lent.offset != extent.offset || lent.length > extent.length {
        return Err(Sense::new(SenseKey::AbortedCommand, Asc::INTERNAL_TARGET_FAILURE).into());
    }
    match loan.commit(context.wait_mode) {
        Commit::Done => Ok(()),
        Commit::WouldBlock(loan) => {
            *data = DataOut::Loan(loan);
            Err(Stop::WouldBlock)
        }
        Commit::Failed(error) => Err(error.into()),
    }
}

/// WRITE AND VERIFY (SBC-4, section 5.44 and following): the data is compared and durable before
/// the status is returned.
pub(crate) fn write_and_verify(
    context: &Context<'_>,
    data: &mut DataOut<'_>,
) -> Result<Executed, Stop> {
    let check = byte_check(context.command)?;
    if check == 3 {
        return Err(Sense::invalid_cdb(1, Some(2)).into());
    }
    let extent = writable(context.command, context.unit, &context.geometry())?;
    context.may_block()?;
    store(context, extent, data)?;
    let device = &*context.unit.config.device;
    if check == 1 {
        let written = data.bytes();
        let length = written.len().min(extent.length as usize);
        compare(device, extent.offset, &written[..length], context.wait_mode)?;
    } else {
        read_through(device, extent, context.wait_mode)?;
    }
    Ok(context.durable(true, Outcome::good()))
}

/// VERIFY (SBC-4, section 5.33 and following).
pub(crate) fn verify(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Outcome, Stop> {
    let geometry = context.geometry();
    let device = &*context.unit.config.device;
    let range = Range::of(&context.command.cdb);
    let extent = range.extent(&geometry)?;
    let bytes = data.bytes();
    match byte_check(context.command)? {
        0 => {
            let extent = range.at_most(extent, VERIFY_BYTES_MAX)?;
            read_through(device, extent, context.wait_mode)?;
        }
        1 => {
            let extent = range.transfer(&geometry)?;
            let length = bytes.len().min(extent.length as usize);
            compare(device, extent.offset, &bytes[..length], context.wait_mode)?;
        }
        _ => {
            let extent = range.at_most(extent, VERIFY_BYTES_MAX)?;
            let block = geometry.logical_block as usize;
            if extent.length > 0 && bytes.len() < block {
                let asc = Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT;
                return Err(Sense::illegal(asc).into());
            }
            compare_each(
                device,
                extent,
                &bytes[..block.min(bytes.len())],
                context.wait_mode,
            )?;
        }
    }
    Ok(Outcome::good())
}

fn chunks(extent: Extent) -> impl Iterator<Item = Extent> {
    let end = extent.offset + extent.length;
    (extent.offset..end)
        .step_by(CHUNK_BYTES as usize)
        .map(move |offset| Extent::new(offset, CHUNK_BYTES.min(end - offset)))
}

/// Reads an extent to check that it is readable.
fn read_through(
    device: &dyn BlockDevice,
    extent: Extent,
    wait_mode: WaitMode<'_>,
) -> Result<(), Stop> {
    for chunk in chunks(extent) {
        device.read(chunk, wait_mode)?;
    }
    Ok(())
}

const MISCOMPARE: Sense = Sense::new(
    SenseKey::Miscompare,
    Asc::MISCOMPARE_DURING_VERIFY_OPERATION,
);

/// Compares stored data with `expected`.
fn compare(
    device: &dyn BlockDevice,
    offset: u64,
    expected: &[u8],
    wait_mode: WaitMode<'_>,
) -> Result<(), Stop> {
    let mut rest = expected;
    for chunk in chunks(Extent::new(offset, expected.len() as u64)) {
        let loan = device.read(chunk, wait_mode)?;
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        for part in parts {
            let (head, tail) = rest.split_at(part.len());
            if head != part {
                return Err(MISCOMPARE.into());
            }
            rest = tail;
        }
    }
    Ok(())
}

/// Compares each stored block with the same `block`.
fn compare_each(
    device: &dyn BlockDevice,
    extent: Extent,
    block: &[u8],
    wait_mode: WaitMode<'_>,
) -> Result<(), Stop> {
    for chunk in chunks(extent) {
        let loan = device.read(chunk, wait_mode)?;
        let mut parts = Vec::new();
        loan.append_parts(&mut parts);
        // Parts may end in the middle of a block.
        let mut at = 0;
        for byte in parts.into_iter().flatten() {
            if *byte != block[at] {
                return Err(MISCOMPARE.into());
            }
            at = (at + 1) % block.len();
        }
    }
    Ok(())
}
