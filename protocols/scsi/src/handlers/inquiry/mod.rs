//! INQUIRY (SPC-4, section 6.6): standard data and vital product data pages.

mod pages;

use crate::command::{Command, LunAddress, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::primary::cut;
use crate::sense::Sense;
use crate::state::{Target, Unit};

/// EVPD, in byte 1.
const VITAL_PRODUCT_DATA: u8 = 0x01;
/// Peripheral qualifier and device type for a number without a unit.
const NO_UNIT: u8 = 0x7f;
/// Device type of a well known logical unit.
const WELL_KNOWN_UNIT: u8 = 0x1e;
/// The target port group of all ports.
pub(crate) const TARGET_PORT_GROUP: u16 = 1;
/// Largest physical block that is reported: Windows and ESXi refuse a unit with more than 4 KiB.
const PHYSICAL_BLOCK_BYTES_MAX: u32 = 4096;

/// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT.
pub(crate) fn physical_exponent(unit: &Unit) -> u8 {
    let geometry = unit.geometry();
    if !unit.config.show_physical_block {
        return 0;
    }
    let physical = geometry.physical_block.min(PHYSICAL_BLOCK_BYTES_MAX);
    let blocks = (physical / geometry.logical_block).max(1);
    blocks.ilog2() as u8
}

/// INQUIRY to a logical unit.
pub(crate) fn inquiry(context: &Context<'_>) -> Result<Outcome, Stop> {
    let cdb = &context.command.cdb;
    let allocation = u32::from(cdb.be16(3));
    let data = if cdb.byte(1) & VITAL_PRODUCT_DATA == 0 {
        if cdb.byte(2) != 0 {
            return Err(Sense::invalid_cdb(2, None).into());
        }
        standard(context.target, 0x00)
    } else {
        pages::page(context, cdb.byte(2)).ok_or(Sense::invalid_cdb(2, None))?
    };
    Ok(Outcome::data(cut(data, allocation)))
}

/// INQUIRY to a number without a unit, or to a well known unit.
pub(crate) fn without_unit(target: &Target, command: &Command) -> Result<Outcome, Stop> {
    let cdb = &command.cdb;
    if cdb.byte(1) & VITAL_PRODUCT_DATA != 0 || cdb.byte(2) != 0 {
        return Err(Sense::invalid_cdb(2, None).into());
    }
    let device_type = match command.lun.address() {
        LunAddress::WellKnownReportLuns => WELL_KNOWN_UNIT,
        _ => NO_UNIT,
    };
    let data = standard(target, device_type);
    Ok(Outcome::data(cut(data, u32::from(cdb.be16(3)))))
}

/// Returns `text` as `N` printable ASCII characters, padded with spaces.
fn ascii<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let printable = text
        .bytes()
        .map(|b| if (0x20..0x7f).contains(&b) { b } else { b'?' });
    for (at, byte) in field.iter_mut().zip(printable) {
        *at = byte;
    }
    field
}

/// Standard INQUIRY data (SPC-4, section 6.6.2).
fn standard(target: &Target, device_type: u8) -> Vec<u8> {
    const VERSION_SPC4: u8 = 0x06;
    const HIERARCHICAL: u8 = 0x10;
    const RESPONSE_DATA_FORMAT: u8 = 0x02;
    const IMPLICIT_ALUA: u8 = 0x10;
    const THIRD_PARTY_COPY: u8 = 0x08;
    const MULTIPLE_PORTS: u8 = 0x10;
    const COMMAND_QUEUING: u8 = 0x02;
    /// SAM-5, SPC-4, SBC-3, iSCSI, without a version of each.
    const VERSION_DESCRIPTORS: [u16; 4] = [0x00a0, 0x0460, 0x04c0, 0x0960];
    const BYTES: usize = 96;
    let config = target.config();
    let mut data = vec![0; BYTES];
    data[0] = device_type;
    data[2] = VERSION_SPC4;
    data[3] = HIERARCHICAL | RESPONSE_DATA_FORMAT;
    data[4] = (BYTES - 5) as u8;
    data[5] = IMPLICIT_ALUA | THIRD_PARTY_COPY;
    data[6] = MULTIPLE_PORTS;
    data[7] = COMMAND_QUEUING;
    data[8..16].copy_from_slice(&ascii::<8>(&config.vendor));
    data[16..32].copy_from_slice(&ascii::<16>(&config.product));
    data[32..36].copy_from_slice(&ascii::<4>(&config.revision));
    for (at, descriptor) in VERSION_DESCRIPTORS.iter().enumerate() {
        data[58 + 2 * at..60 + 2 * at].copy_from_slice(&descriptor.to_be_bytes());
    }
    data
}
