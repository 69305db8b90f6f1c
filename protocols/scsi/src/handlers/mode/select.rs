//! MODE SELECT (6) and (10): all pages of a list are checked before any becomes effective.

use super::{Form, pages};
use crate::command::{DataOut, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::Executed;
use crate::sense::{Asc, Sense, SenseKey};
use crate::state::{Parameters, encode_write_cache};

const LENGTH_ERROR: Sense = Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR);

/// MODE SELECT. Other nexuses are notified of a change by a unit attention. When the status is
/// returned, a disabled write cache is off for earlier writes, too.
pub(crate) fn select(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Executed, Stop> {
    const SAVE_PAGES: u8 = 0x01;
    const PAGE_FORMAT: u8 = 0x10;
    let cdb = &context.command.cdb;
    let form = Form::of(cdb.opcode());
    let announced = match form {
        Form::Short => usize::from(cdb.byte(4)),
        Form::Long => usize::from(cdb.be16(7)),
    };
    if cdb.byte(1) & PAGE_FORMAT == 0 && announced > 0 {
        return Err(Sense::invalid_cdb(1, Some(4)).into());
    }
    if announced == 0 {
        return Ok(Executed::Done(Outcome::good()));
    }
    let list = data.bytes().get(..announced).ok_or(LENGTH_ERROR)?;
    let mut at = skip_descriptors(context, form, list)?;
    let state = &context.unit.state;
    // Locked until the end, so that saved and current values come from one command.
    let mut saved = state.saved_write_cache.lock().expect("no holder panics");
    let before = *state.parameters();
    let mut wanted = before;
    while at < list.len() {
        at += pages::accept(&list[at..], at, &mut wanted)?;
    }
    let to_save = to_save(cdb.byte(1) & SAVE_PAGES != 0, &before, &wanted);
    if let Some(write_cache) = to_save.filter(|_| to_save != *saved) {
        save(context, write_cache)?;
        *saved = to_save;
    }
    *state.parameters() = wanted;
    drop(saved);
    if before != wanted {
        state.publish_parameters();
        for other in context.target.all_nexuses() {
            if other.login != context.nexus.login
                && context.unit.config.visibility.includes(&other.id.initiator)
            {
                other.queue_attention(context.unit.config.lun, Asc::MODE_PARAMETERS_CHANGED);
            }
        }
    }
    let switched_off = before.write_cache && !wanted.write_cache;
    Ok(context.durable(switched_off, Outcome::good()))
}

/// Returns the WCE to save. A disabled cache is saved in any case: the initiator relies on it, and
/// would not check it again after a reset or a takeover.
fn to_save(save_pages: bool, before: &Parameters, wanted: &Parameters) -> Option<bool> {
    let switched_off = before.write_cache && !wanted.write_cache;
    (save_pages || switched_off).then_some(wanted.write_cache)
}

fn save(context: &Context<'_>, write_cache: bool) -> Result<(), Stop> {
    context.may_block()?;
    context.may_take_effect()?;
    let unit = &context.unit.config;
    unit.modes
        .save(&encode_write_cache(write_cache))
        .map_err(|error| {
            tracing::error!(lun = unit.lun, %error, "mode parameters cannot be saved");
            Sense::new(SenseKey::HardwareError, Asc::INTERNAL_TARGET_FAILURE).into()
        })
}

/// Returns the offset of the first page. Block descriptors must equal the current ones.
fn skip_descriptors(context: &Context<'_>, form: Form, list: &[u8]) -> Result<usize, Sense> {
    let header = form.header_bytes();
    if list.len() < header {
        return Err(LENGTH_ERROR);
    }
    let (length_at, length, long_lba) = match form {
        Form::Short => (3, usize::from(list[3]), false),
        Form::Long => {
            let length = u16::from_be_bytes([list[6], list[7]]);
            (6, usize::from(length), list[4] & 0x01 != 0)
        }
    };
    let expected = if long_lba { 16 } else { 8 };
    if length == 0 {
        return Ok(header);
    }
    if length != expected {
        return Err(Sense::invalid_parameter(length_at, None));
    }
    let end = header + length;
    let descriptor = list.get(header..end).ok_or(LENGTH_ERROR)?;
    let block = [
        0,
        descriptor[length - 3],
        descriptor[length - 2],
        descriptor[length - 1],
    ];
    if u32::from_be_bytes(block) != context.geometry().logical_block {
        return Err(Sense::invalid_parameter((end - 3) as u16, None));
    }
    Ok(end)
}
