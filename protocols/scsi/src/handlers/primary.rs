//! The remaining primary commands (SPC-4): REQUEST SENSE, REPORT LUNS, START STOP UNIT, SPC-2
//! RESERVE and RELEASE, REPORT TARGET PORT GROUPS and the other reports.

use crate::command::{Cdb, Lun, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::Executed;
use crate::handlers::inquiry::TARGET_PORT_GROUP;
use crate::opcodes::{Access, supported_opcodes, supported_task_management};
use crate::sense::{Asc, Sense, SenseFormat, SenseKey};
use crate::state::{NexusState, Target};

/// Truncates parameter data to an allocation length.
pub(crate) fn cut(mut data: Vec<u8>, allocation: u32) -> Vec<u8> {
    data.truncate(allocation as usize);
    data
}

/// Returns sense data as the result of REQUEST SENSE.
pub(crate) fn sense_data(cdb: &Cdb, sense: &Sense) -> Outcome {
    let format = match cdb.byte(1) & 0x01 {
        0 => SenseFormat::Fixed,
        _ => SenseFormat::Descriptor,
    };
    Outcome::data(cut(sense.encode(format), u32::from(cdb.byte(4))))
}

/// REQUEST SENSE (SPC-4, section 6.39): reports and clears a pending unit attention.
pub(crate) fn request_sense(context: &Context<'_>) -> Result<Outcome, Stop> {
    let sense = match context.nexus.take_attention(context.unit.config.lun) {
        Some(asc) => Sense::attention(asc),
        None => Sense::new(SenseKey::NoSense, Asc::NO_ADDITIONAL_SENSE),
    };
    Ok(sense_data(&context.command.cdb, &sense))
}

/// REPORT LUNS (SPC-4, section 6.33).
pub(crate) fn report_luns(target: &Target, nexus: &NexusState, cdb: &Cdb) -> Result<Outcome, Stop> {
    let ordinary = || {
        let luns = target.visible_luns(&nexus.id.initiator);
        luns.into_iter().map(Lun::from_unit).collect::<Vec<_>>()
    };
    let luns = match cdb.byte(2) {
        0x00 => ordinary(),
        0x01 => vec![Lun::REPORT_LUNS],
        0x02 => {
            let mut luns = ordinary();
            luns.push(Lun::REPORT_LUNS);
            luns
        }
        // There are no administrative or subsidiary logical units.
        0x10..=0x12 => Vec::new(),
        _ => return Err(Sense::invalid_cdb(2, None).into()),
    };
    nexus.forget_attention(Asc::REPORTED_LUNS_DATA_HAS_CHANGED);
    let mut data = (luns.len() as u32 * 8).to_be_bytes().to_vec();
    data.extend([0; 4]);
    data.extend(luns.iter().flat_map(|lun| lun.0));
    Ok(Outcome::data(cut(data, cdb.be32(6))))
}

/// START STOP UNIT (SBC-4, section 5.28). A volume has no motor: stopped and active are the same
/// state, and a stop only flushes the cache.
pub(crate) fn start_stop_unit(context: &Context<'_>) -> Result<Executed, Stop> {
    const LOAD_EJECT: u8 = 0x02;
    const START: u8 = 0x01;
    const NO_FLUSH: u8 = 0x04;
    let flags = context.command.cdb.byte(4);
    let start = flags & START != 0;
    if flags & LOAD_EJECT != 0 && !start {
        return Err(Sense::invalid_cdb(4, Some(1)).into());
    }
    if flags >> 4 > 1 {
        // Only START_VALID and ACTIVE.
        return Err(Sense::invalid_cdb(4, Some(7)).into());
    }
    let access = if start { Access::Query } else { Access::Write };
    context.unit.state.check_access(context.nexus, access)?;
    let durable = !start && flags & NO_FLUSH == 0;
    Ok(context.durable(durable, Outcome::good()))
}

/// PREVENT ALLOW MEDIUM REMOVAL: the medium cannot be removed anyway.
pub(crate) fn prevent_allow(context: &Context<'_>) -> Result<Outcome, Stop> {
    let prevent = context.command.cdb.byte(4) & 0x03;
    if prevent > 1 {
        return Err(Sense::invalid_cdb(4, Some(1)).into());
    }
    if prevent == 1 {
        context
            .unit
            .state
            .check_access(context.nexus, Access::Write)?;
    }
    Ok(Outcome::good())
}

/// SPC-2 RESERVE. Refused while persistent registrations exist (SPC-4, section 5.13.4 without
/// compatible reservation handling).
pub(crate) fn reserve(context: &Context<'_>) -> Result<Outcome, Stop> {
    let state = &context.unit.state;
    if !state.reservations().registrants.is_empty() || !state.legacy_reserve(context.nexus.login) {
        return Err(Stop::Conflict);
    }
    if context.nexus.is_lost() {
        // The nexus was lost concurrently: the reservation would never be released.
        state.legacy_release(Some(context.nexus.login));
        return Err(Stop::Gone);
    }
    Ok(Outcome::good())
}

/// SPC-2 RELEASE: without effect unless it comes from the holder.
pub(crate) fn release(context: &Context<'_>) -> Result<Outcome, Stop> {
    let state = &context.unit.state;
    if !state.reservations().registrants.is_empty() {
        return Err(Stop::Conflict);
    }
    state.legacy_release(Some(context.nexus.login));
    Ok(Outcome::good())
}

/// REPORT TARGET PORT GROUPS (SPC-4, section 6.37): one group, all ports, always active/optimized.
pub(crate) fn report_target_port_groups(context: &Context<'_>) -> Result<Outcome, Stop> {
    const ACTIVE_OPTIMIZED: u8 = 0x00;
    const ONLY_ACTIVE_OPTIMIZED_SUPPORTED: u8 = 0x01;
    const EXTENDED_HEADER: u8 = 0x10;
    let cdb = &context.command.cdb;
    let ports = context.target.portal_groups();
    let mut data = vec![0; 4];
    match cdb.byte(1) >> 5 {
        0 => {}
        1 => data.extend([EXTENDED_HEADER, 0, 0, 0]),
        _ => return Err(Sense::invalid_cdb(1, Some(7)).into()),
    }
    let [high, low] = TARGET_PORT_GROUP.to_be_bytes();
    let count = ports.len().min(usize::from(u8::MAX));
    data.extend([
        ACTIVE_OPTIMIZED,
        ONLY_ACTIVE_OPTIMIZED_SUPPORTED,
        high,
        low,
        0,
        0,
        0,
        count as u8,
    ]);
    for port in ports.iter().take(count) {
        let [high, low] = port.to_be_bytes();
        data.extend([0, 0, high, low]);
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    Ok(Outcome::data(cut(data, cdb.be32(6))))
}

/// REPORT SUPPORTED OPERATION CODES.
pub(crate) fn report_supported_opcodes(context: &Context<'_>) -> Result<Outcome, Stop> {
    let cdb = &context.command.cdb;
    let data = supported_opcodes(cdb, context.unit.config.thin)?;
    Ok(Outcome::data(cut(data, cdb.be32(6))))
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
pub(crate) fn report_supported_task_management(context: &Context<'_>) -> Result<Outcome, Stop> {
    let cdb = &context.command.cdb;
    let allocation = cdb.be32(6);
    if allocation < 4 {
        return Err(Sense::invalid_cdb(6, None).into());
    }
    let data = supported_task_management(cdb.byte(2) & 0x80 != 0);
    Ok(Outcome::data(cut(data, allocation)))
}
