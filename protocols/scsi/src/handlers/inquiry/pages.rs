//! Vital product data pages (SPC-4, section 7.8; SBC-4, section 6.6).

use super::{TARGET_PORT_GROUP, ascii};
use crate::TRANSFER_BYTES_MAX;
use crate::handlers::Context;
use crate::handlers::block::{
    COMPARE_AND_WRITE_BLOCKS_MAX, UNMAP_BLOCKS_MAX, UNMAP_DESCRIPTORS_MAX, WRITE_SAME_BYTES_MAX,
};
use crate::handlers::copy;
use crate::state::Unit;

/// The supported pages, in ascending order.
const PAGES: [u8; 8] = [0x00, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2];
/// Optimal transfer length of sequential reads and writes.
const OPTIMAL_TRANSFER_BYTES: u32 = 1 << 20;

/// Returns a page with its header; `None` if it is not supported.
pub(super) fn page(context: &Context<'_>, code: u8) -> Option<Vec<u8>> {
    let unit = context.unit;
    let body = match code {
        0x00 => PAGES.to_vec(),
        0x80 => serial_number(unit),
        0x83 => identification(context),
        0x86 => extended_inquiry(),
        0x8f => copy::third_party_page(),
        0xb0 => block_limits(unit),
        0xb1 => characteristics(),
        0xb2 => provisioning(unit),
        _ => return None,
    };
    let [high, low] = (body.len() as u16).to_be_bytes();
    let mut data = vec![0, code, high, low];
    data.extend(body);
    Some(data)
}

fn serial_number(unit: &Unit) -> Vec<u8> {
    const CHARACTERS_MAX: usize = 252;
    let serial = unit.config.identity.serial.bytes();
    serial
        .filter(|b| (0x20..0x7f).contains(b))
        .take(CHARACTERS_MAX)
        .collect()
}

/// The object that a designator identifies.
#[derive(Clone, Copy)]
enum Association {
    Unit = 0x00,
    Port = 0x10,
    Device = 0x20,
}

/// A designation descriptor (SPC-4, section 7.8.6.1).
fn designator(code_set: u8, association: Association, kind: u8, value: &[u8]) -> Vec<u8> {
    const PROTOCOL_ISCSI: u8 = 0x50;
    const PROTOCOL_VALID: u8 = 0x80;
    let (protocol, valid) = match association {
        Association::Unit => (0, 0),
        Association::Port | Association::Device => (PROTOCOL_ISCSI, PROTOCOL_VALID),
    };
    let mut bytes = vec![
        protocol | code_set,
        valid | association as u8 | kind,
        0,
        value.len() as u8,
    ];
    bytes.extend(value);
    bytes
}

/// A SCSI name string: UTF-8, NUL terminated, padded to a multiple of four.
fn name_string(association: Association, name: &str) -> Vec<u8> {
    const UTF8: u8 = 0x03;
    const KIND: u8 = 0x08;
    let mut value = name.as_bytes().to_vec();
    value.resize((value.len() + 1).next_multiple_of(4), 0);
    designator(UTF8, association, KIND, &value)
}

/// Device identification (SPC-4, section 7.8.6).
fn identification(context: &Context<'_>) -> Vec<u8> {
    const BINARY: u8 = 0x01;
    const ASCII: u8 = 0x02;
    const T10_SERIAL_CHARACTERS_MAX: usize = 64;
    let identity = &context.unit.config.identity;
    let config = context.target.config();
    let port = context.nexus.id.portal_group;
    let mut vendor_and_serial = ascii::<8>(&config.vendor).to_vec();
    let serial = serial_number(context.unit);
    vendor_and_serial.extend(serial.iter().take(T10_SERIAL_CHARACTERS_MAX));
    let mut body = designator(BINARY, Association::Unit, 0x3, &identity.naa);
    if let Some(eui) = identity.eui {
        body.extend(designator(BINARY, Association::Unit, 0x2, &eui));
    }
    body.extend(designator(
        ASCII,
        Association::Unit,
        0x1,
        &vendor_and_serial,
    ));
    let four = |value: u16| u32::from(value).to_be_bytes();
    body.extend(designator(BINARY, Association::Port, 0x4, &four(port)));
    let group = four(TARGET_PORT_GROUP);
    body.extend(designator(BINARY, Association::Port, 0x5, &group));
    let port_name = format!("{},t,0x{port:04x}", config.name);
    body.extend(name_string(Association::Port, &port_name));
    body.extend(name_string(Association::Device, config.name.as_str()));
    body
}

/// Extended INQUIRY data (SPC-4, section 7.8.7).
fn extended_inquiry() -> Vec<u8> {
    const ALL_TASK_ATTRIBUTES: u8 = 0x07;
    const VOLATILE_CACHE: u8 = 0x01;
    let mut body = vec![0; 60];
    body[1] = ALL_TASK_ATTRIBUTES;
    body[2] = VOLATILE_CACHE;
    body
}

/// Block limits (SBC-4, section 6.6.4).
fn block_limits(unit: &Unit) -> Vec<u8> {
    const WRITE_SAME_NON_ZERO: u8 = 0x01;
    const UNMAP_ALIGNMENT_VALID: u8 = 0x80;
    let geometry = unit.geometry();
    let block = geometry.logical_block;
    let granularity = (geometry.physical_block / block).max(1);
    let mut body = vec![0; 60];
    // The standard's offsets start at the page's first byte.
    let mut put =
        |at: usize, value: &[u8]| body[at - 4..at - 4 + value.len()].copy_from_slice(value);
    put(4, &[WRITE_SAME_NON_ZERO, COMPARE_AND_WRITE_BLOCKS_MAX]);
    let granularity_16 = u16::try_from(granularity).unwrap_or(0);
    put(6, &granularity_16.to_be_bytes());
    let transfer_max = (TRANSFER_BYTES_MAX / u64::from(block)) as u32;
    put(8, &transfer_max.to_be_bytes());
    put(12, &(OPTIMAL_TRANSFER_BYTES / block).to_be_bytes());
    if unit.config.thin {
        put(20, &UNMAP_BLOCKS_MAX.to_be_bytes());
        put(24, &UNMAP_DESCRIPTORS_MAX.to_be_bytes());
        put(28, &granularity.to_be_bytes());
        put(32, &[UNMAP_ALIGNMENT_VALID, 0, 0, 0]);
    }
    let same_max = WRITE_SAME_BYTES_MAX / u64::from(block);
    put(36, &same_max.to_be_bytes());
    body
}

/// Block device characteristics (SBC-4, section 6.6.2).
fn characteristics() -> Vec<u8> {
    const NON_ROTATING: u16 = 1;
    let mut body = vec![0; 60];
    body[..2].copy_from_slice(&NON_ROTATING.to_be_bytes());
    body
}

/// Logical block provisioning (SBC-4, section 6.6.6).
fn provisioning(unit: &Unit) -> Vec<u8> {
    const UNMAP: u8 = 0x80;
    const WRITE_SAME_16: u8 = 0x40;
    const WRITE_SAME_10: u8 = 0x20;
    const READS_ZEROES: u8 = 0x04;
    const THIN: u8 = 0x02;
    if unit.config.thin {
        vec![
            0,
            UNMAP | WRITE_SAME_16 | WRITE_SAME_10 | READS_ZEROES,
            THIN,
            0,
        ]
    } else {
        vec![0; 4]
    }
}
