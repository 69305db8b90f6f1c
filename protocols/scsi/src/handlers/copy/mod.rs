//! EXTENDED COPY (LID1) between units of this target, as used by ESXi's VAAI, and the commands that
//! report its status (SPC-4, sections 5.17, 6.4 and 6.17 to 6.20).

mod list;
mod perform;

use crate::command::{DataOut, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::Executed;
use crate::handlers::primary::cut;
use crate::sense::{Asc, Sense};

/// Maximum copy source and destination (CSCD) descriptors of one list.
const CSCDS_MAX: u16 = 16;
/// Maximum segment descriptors of one list.
const SEGMENTS_MAX: u16 = 32;
/// Maximum bytes of all descriptors of one list.
const DESCRIPTORS_BYTES_MAX: u32 =
    CSCDS_MAX as u32 * list::CSCD_BYTES as u32 + SEGMENTS_MAX as u32 * 28;
/// Maximum bytes that one segment copies.
const SEGMENT_BYTES_MAX: u32 = 64 << 20;
/// Reported maximum of concurrent copies; the transport's limits are tighter.
const CONCURRENT_MAX: u8 = 16;
/// Supported descriptor types, ascending.
const DESCRIPTOR_TYPES: [u8; 3] = [
    list::SEGMENT_BLOCKS,
    list::SEGMENT_BYTES,
    list::CSCD_IDENTIFICATION,
];

/// EXTENDED COPY.
pub(crate) fn extended_copy(
    context: &Context<'_>,
    data: &mut DataOut<'_>,
) -> Result<Executed, Stop> {
    let announced = context.command.cdb.be32(10) as usize;
    if announced == 0 {
        return Ok(Executed::Done(Outcome::good()));
    }
    context.may_block()?;
    let bytes = data.bytes();
    if bytes.len() < announced {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into());
    }
    let list = list::parse(&bytes[..announced])?;
    let copies = &context.unit.state.copies;
    if let Some(id) = list.id {
        copies.discard(context.nexus.login, id);
    }
    let done = perform::perform(context, &list)?;
    if let Some(id) = list.id {
        copies.hold(context.nexus.login, id, done.progress);
    }
    Ok(Executed::Done(Outcome::good()))
}

/// RECEIVE COPY STATUS (LID1).
pub(crate) fn status(context: &Context<'_>) -> Result<Outcome, Stop> {
    const COMPLETED: u8 = 0x01;
    const UNIT_KIB: u8 = 0x01;
    let cdb = &context.command.cdb;
    let held = context
        .unit
        .state
        .copies
        .take(context.nexus.login, cdb.byte(2));
    let progress = held.ok_or(Sense::invalid_cdb(2, None))?;
    let mut data = vec![0, 0, 0, 8, COMPLETED];
    data.extend(progress.segments.to_be_bytes());
    data.push(UNIT_KIB);
    let kib = u32::try_from(progress.bytes >> 10).unwrap_or(u32::MAX);
    data.extend(kib.to_be_bytes());
    Ok(Outcome::data(cut(data, cdb.be32(10))))
}

/// RECEIVE COPY OPERATING PARAMETERS.
pub(crate) fn parameters(context: &Context<'_>) -> Result<Outcome, Stop> {
    const NO_LIST_ID_SUPPORTED: u8 = 0x01;
    let mut data = vec![0; 44];
    data[4] = NO_LIST_ID_SUPPORTED;
    data[8..10].copy_from_slice(&CSCDS_MAX.to_be_bytes());
    data[10..12].copy_from_slice(&SEGMENTS_MAX.to_be_bytes());
    data[12..16].copy_from_slice(&DESCRIPTORS_BYTES_MAX.to_be_bytes());
    data[16..20].copy_from_slice(&SEGMENT_BYTES_MAX.to_be_bytes());
    data[34..36].copy_from_slice(&u16::from(CONCURRENT_MAX).to_be_bytes());
    data[36] = CONCURRENT_MAX;
    data[37] = granularity_exponent(context);
    data[43] = DESCRIPTOR_TYPES.len() as u8;
    data.extend(DESCRIPTOR_TYPES);
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    let allocation = context.command.cdb.be32(10);
    Ok(Outcome::data(cut(data, allocation)))
}

fn granularity_exponent(context: &Context<'_>) -> u8 {
    context.geometry().logical_block.ilog2() as u8
}

/// The body of VPD page 8Fh, third-party copy (SPC-4, section 7.8.17).
pub(crate) fn third_party_page() -> Vec<u8> {
    let mut body = Vec::new();
    let mut push = |kind: u16, mut content: Vec<u8>| {
        content.resize(content.len().next_multiple_of(4), 0);
        body.extend(kind.to_be_bytes());
        body.extend((content.len() as u16).to_be_bytes());
        body.extend(content);
    };
    // Supported commands: EXTENDED COPY (LID1), RECEIVE COPY STATUS and OPERATING PARAMETERS.
    push(0x0001, vec![7, 0x83, 1, 0x00, 0x84, 2, 0x00, 0x03]);
    let mut parameter_data = vec![0; 28];
    parameter_data[4..6].copy_from_slice(&CSCDS_MAX.to_be_bytes());
    parameter_data[6..8].copy_from_slice(&SEGMENTS_MAX.to_be_bytes());
    parameter_data[8..12].copy_from_slice(&DESCRIPTORS_BYTES_MAX.to_be_bytes());
    push(0x0004, parameter_data);
    let mut descriptors = vec![DESCRIPTOR_TYPES.len() as u8];
    descriptors.extend(DESCRIPTOR_TYPES);
    push(0x0008, descriptors);
    // No CSCD descriptor IDs beyond the list's own.
    push(0x000c, vec![0, 0]);
    let mut general = vec![0; 32];
    general[..4].copy_from_slice(&u32::from(CONCURRENT_MAX).to_be_bytes());
    general[4..8].copy_from_slice(&u32::from(CONCURRENT_MAX).to_be_bytes());
    general[8..12].copy_from_slice(&SEGMENT_BYTES_MAX.to_be_bytes());
    general[12] = 9;
    push(0x8001, general);
    body
}
