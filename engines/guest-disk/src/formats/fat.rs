//! FAT and exFAT: the boot sector describes them.

use crate::bytes::{has, text, u16_le, u32_le, utf16};
use crate::contents::{Contents, Format, State};
use crate::part::Part;

/// In the state byte of FAT: the volume is mounted.
const FAT_DIRTY: u8 = 0x1;
/// In the flags of exFAT: the same.
const EXFAT_DIRTY: u16 = 0x2;
/// The label of a FAT volume without one.
const NO_NAME: &str = "NO NAME";
/// Bytes of a directory entry of exFAT.
const ENTRY_BYTES: usize = 32;
/// Bytes of the root directory that are searched for the label.
const DIRECTORY_BYTES: usize = 4096;
/// The type of the entry with the label, and the most letters in it.
const LABEL_ENTRY: u8 = 0x83;
const LABEL_LETTERS_MAX: u8 = 11;

const NOT_UNMOUNTED: &str = "it was not unmounted";

/// Recognises FAT12, FAT16 and FAT32.
pub fn vfat(part: &Part<'_>) -> Option<Contents> {
    let head = &part.head;
    let sector_bytes = u16_le(head, 11)?;
    let cluster_sectors = *head.get(13)?;
    let is_plausible = sector_bytes.is_power_of_two()
        && (512..=4096).contains(&sector_bytes)
        && cluster_sectors.is_power_of_two();
    // The serial number follows this byte, and the label that; the state is two bytes before.
    let extended = match is_plausible {
        true if has(head, 82, b"FAT32   ") => 66,
        true if has(head, 54, b"FAT1") || has(head, 54, b"FAT     ") => 38,
        _ => return None,
    };
    let serial = u32_le(head, extended + 1)?;
    let label = text(head, extended + 5, 11);
    let mut found = Contents {
        label: if label == NO_NAME {
            String::new()
        } else {
            label
        },
        uuid: serial_text(serial),
        ..Contents::new(Format::Vfat)
    };
    if head.get(extended - 1)? & FAT_DIRTY != 0 {
        found.set(State::NotUnmounted, NOT_UNMOUNTED);
    }
    Some(found)
}

/// Recognises exFAT.
pub fn exfat(part: &Part<'_>) -> Option<Contents> {
    let head = &part.head;
    if !has(head, 3, b"EXFAT   ") {
        return None;
    }
    let mut found = Contents {
        label: exfat_label(part).unwrap_or_default(),
        uuid: serial_text(u32_le(head, 100)?),
        ..Contents::new(Format::Exfat)
    };
    if u16_le(head, 106)? & EXFAT_DIRTY != 0 {
        found.set(State::NotUnmounted, NOT_UNMOUNTED);
    }
    Some(found)
}

/// The label, if it is in the first entries of the root directory.
fn exfat_label(part: &Part<'_>) -> Option<String> {
    let head = &part.head;
    let (heap, root) = (u32_le(head, 88)?, u32_le(head, 96)?);
    let (sector_shift, cluster_shift) = (u32::from(*head.get(108)?), u32::from(*head.get(109)?));
    if !(9..=12).contains(&sector_shift) || sector_shift + cluster_shift > 25 {
        return None;
    }
    let clusters = u64::from(root.checked_sub(2)?);
    let sectors = u64::from(heap).checked_add(clusters << cluster_shift)?;
    let directory = part.read(sectors << sector_shift, DIRECTORY_BYTES)?;
    let mut entries = directory.chunks_exact(ENTRY_BYTES);
    let entry = entries.find(|entry| entry[0] == LABEL_ENTRY)?;
    let letters = usize::from(entry[1].min(LABEL_LETTERS_MAX));
    Some(utf16(entry.get(2..2 + 2 * letters)?))
}

fn serial_text(serial: u32) -> String {
    format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)
}
