//! NTFS: the boot sector, and the file `$Volume`, which has the label and the state.

use crate::bytes::{has, u16_le, u32_le, u64_le, utf16};
use crate::contents::{Contents, Format, State};
use crate::part::Part;

/// The number of `$Volume` in the table of files.
const VOLUME_RECORD: u64 = 3;
/// Bytes of a record of that table.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// The unit of the check values in a record.
const STRIDE: usize = 512;
/// Attributes of a record that are read.
const ATTRIBUTES_MAX: usize = 64;
const ATTRIBUTE_NAME: u32 = 0x60;
const ATTRIBUTE_STATE: u32 = 0x70;
/// In the flags of the state: the volume was not unmounted, or needs a check.
const DIRTY: u16 = 0x1;

/// Recognises NTFS.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    if !has(&part.head, 3, b"NTFS    ") {
        return None;
    }
    let mut found = Contents {
        uuid: format!("{:016X}", u64_le(&part.head, 72)?),
        ..Contents::new(Format::Ntfs)
    };
    if let Some(record) = volume_record(part) {
        add_attributes(&record, &mut found);
    }
    Some(found)
}

/// The record of `$Volume`.
fn volume_record(part: &Part<'_>) -> Option<Vec<u8>> {
    let head = &part.head;
    let sector_bytes = u64::from(u16_le(head, 11)?);
    // A number above 128 is a negative power of two.
    let cluster_sectors = match *head.get(13)? {
        small @ 0..=128 => u64::from(small),
        large => 1_u64.checked_shl(u32::from(256 - u16::from(large)))?,
    };
    let cluster_bytes = sector_bytes.checked_mul(cluster_sectors)?;
    let record_bytes = match i8::from_le_bytes([*head.get(64)?]) {
        clusters @ 0.. => cluster_bytes.checked_mul(u64::try_from(clusters).ok()?)?,
        shift => 1_u64.checked_shl(u32::from(shift.unsigned_abs()))?,
    };
    let length = usize::try_from(record_bytes).ok()?;
    if !(STRIDE..=RECORD_BYTES_MAX).contains(&length) {
        return None;
    }
    let table = u64_le(head, 48)?.checked_mul(cluster_bytes)?;
    let at = table.checked_add(VOLUME_RECORD * record_bytes)?;
    let mut record = part.read(at, length)?;
    has(&record, 0, b"FILE").then_some(())?;
    undo_check_values(&mut record)?;
    Some(record)
}

/// The last two bytes of each stride are stored elsewhere, and replaced by a check value.
fn undo_check_values(record: &mut [u8]) -> Option<()> {
    let (at, count) = (usize::from(u16_le(record, 4)?), u16_le(record, 6)?);
    for index in 1..usize::from(count) {
        let stored: [u8; 2] = crate::bytes::array(record, at + 2 * index)?;
        let Some(stride_end) = record.get_mut(index * STRIDE - 2..index * STRIDE) else {
            break;
        };
        stride_end.copy_from_slice(&stored);
    }
    Some(())
}

/// Adds the label and the state from a record.
fn add_attributes(record: &[u8], found: &mut Contents) -> Option<()> {
    let mut at = usize::from(u16_le(record, 20)?);
    for _ in 0..ATTRIBUTES_MAX {
        let (kind, length) = (u32_le(record, at)?, u32_le(record, at + 4)?);
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length >= 24)?;
        let attribute = record.get(at..at.checked_add(length)?)?;
        let is_resident = attribute[8] == 0;
        let value_bytes = usize::try_from(u32_le(attribute, 16)?).ok()?;
        let value_at = usize::from(u16_le(attribute, 20)?);
        let value = attribute.get(value_at..value_at.checked_add(value_bytes)?);
        match (kind, value.filter(|_| is_resident)) {
            (ATTRIBUTE_NAME, Some(value)) => found.label = utf16(value),
            (ATTRIBUTE_STATE, Some(value)) if u16_le(value, 10)? & DIRTY != 0 => {
                found.set(State::NotUnmounted, "it was not unmounted");
            }
            _ => {}
        }
        at = at.checked_add(length)?;
    }
    Some(())
}
