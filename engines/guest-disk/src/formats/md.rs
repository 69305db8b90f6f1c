//! Devices of a Linux RAID array. The superblock of versions 1.1 and 1.2 is at the start of a device, that of 1.0 and
//! 0.90 at its end.

use crate::bytes::{array, has, text, u16_le, u32_le, u64_le, uuid, uuid_at};
use crate::contents::{Contents, Format};
use crate::part::Part;

const MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
const SECTOR: u64 = 512;
/// Bytes of a superblock of version 1, without and with its table of roles.
const FIXED_BYTES: usize = 256;
const SUPERBLOCK_BYTES: usize = 4096;
/// Offset of the checksum of version 1.
const CHECKSUM: usize = 216;
/// Roles in the table that are no position in the array.
const SPARE: u16 = 0xffff;
const FAULTY: u16 = 0xfffe;
const JOURNAL: u16 = 0xfffd;
/// Version 0.90 is in the last 64 KiB that are aligned to 64 KiB.
const OLD_RESERVED_BYTES: u64 = 64 << 10;

/// Recognises a device of an array.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    let sectors = part.size / SECTOR;
    let end = sectors.checked_sub(16).map(|last| (last & !7) * SECTOR);
    let starts = [(Some(4096), "1.2"), (Some(0), "1.1"), (end, "1.0")];
    let mut starts = starts
        .into_iter()
        .filter_map(|(at, version)| at.map(|at| (at, version)));
    let found = starts.find_map(|(at, version)| version_1(part, at, version));
    found.or_else(|| version_0(part))
}

/// The superblock of version 1 at `at`.
fn version_1(part: &Part<'_>, at: u64, version: &str) -> Option<Contents> {
    let block = part.read(at, SUPERBLOCK_BYTES)?;
    let is_here = u64_le(&block, 144)?.checked_mul(SECTOR) == Some(at);
    if !has(&block, 0, &MAGIC) || u32_le(&block, 4)? != 1 || !is_here || !is_whole(&block)? {
        return None;
    }
    let number = usize::try_from(u32_le(&block, 160)?).ok()?;
    let slots = usize::try_from(u32_le(&block, 220)?).ok()?;
    let role = match number < slots {
        true => u16_le(&block, FIXED_BYTES + 2 * number)?,
        false => SPARE,
    };
    let role = match role {
        SPARE => "a spare".to_owned(),
        FAULTY => "a failed device".to_owned(),
        JOURNAL => "the journal".to_owned(),
        position => format!("device {position}"),
    };
    let level = i32::from_le_bytes(array(&block, 72)?);
    let devices = u32_le(&block, 92)?;
    let mut found = Contents {
        label: text(&block, 32, 32),
        uuid: uuid_at(&block, 16),
        devices: Some(devices),
        ..Contents::new(Format::Md)
    };
    found.note(format!("{}, version {version}", level_name(level)));
    found.note(format!("{role} of {devices}"));
    // A position up to which the copies are equal; all ones after that.
    if u64_le(&block, 208)? != u64::MAX {
        found.note("its devices were not all equal");
    }
    Some(found)
}

/// Whether the checksum of a superblock of version 1 is valid: the sum of its words, with the carry added.
fn is_whole(block: &[u8]) -> Option<bool> {
    let slots = usize::try_from(u32_le(block, 220)?).ok()?;
    let length = FIXED_BYTES.checked_add(slots.checked_mul(2)?)?;
    let mut words = block.get(..length)?.to_vec();
    words.get_mut(CHECKSUM..CHECKSUM + 4)?.fill(0);
    words.resize(length.next_multiple_of(4), 0);
    let words = words.chunks_exact(4);
    let sum: u64 = words
        .map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    Some(u64::from(u32_le(block, CHECKSUM)?) == sum & 0xffff_ffff)
}

/// The superblock of version 0.90, in the byte order of x86.
fn version_0(part: &Part<'_>) -> Option<Contents> {
    let at = (part.size - part.size % OLD_RESERVED_BYTES).checked_sub(OLD_RESERVED_BYTES)?;
    let block = part.read(at, SUPERBLOCK_BYTES)?;
    if !has(&block, 0, &MAGIC) || u32_le(&block, 4)? != 0 {
        return None;
    }
    let minor = u32_le(&block, 8)?;
    let mut id = [0; 16];
    for (index, at) in [20, 52, 56, 60].into_iter().enumerate() {
        let word: [u8; 4] = array(&block, at)?;
        // Shown as numbers of 32 bits.
        let shown = u32::from_le_bytes(word).to_be_bytes();
        id[4 * index..4 * index + 4].copy_from_slice(&shown);
    }
    let level = i32::from_le_bytes(array(&block, 28)?);
    let devices = u32_le(&block, 40)?;
    let position = u32_le(&block, 3980)?;
    let mut found = Contents {
        uuid: uuid(id),
        devices: Some(devices),
        ..Contents::new(Format::Md)
    };
    found.note(format!("{}, version 0.{minor}", level_name(level)));
    found.note(match position < devices {
        true => format!("device {position} of {devices}"),
        false => format!("a spare of {devices}"),
    });
    Some(found)
}

fn level_name(level: i32) -> String {
    match level {
        -1 => "linear".to_owned(),
        -4 => "multipath".to_owned(),
        other => format!("raid{other}"),
    }
}
