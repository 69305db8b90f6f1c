//! Btrfs: the first superblock is at 64 KiB.

use crate::bytes::{has, text, u64_le, uuid_at};
use crate::contents::{Contents, Format, State};
use crate::part::Part;

const SUPERBLOCK: usize = 64 << 10;

/// Recognises Btrfs.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    let block = part.head.get(SUPERBLOCK..SUPERBLOCK + 4096)?;
    if !has(block, 0x40, b"_BHRfS_M") || u64_le(block, 0x30)? != SUPERBLOCK as u64 {
        return None;
    }
    let devices = u64_le(block, 0x88)?;
    let mut found = Contents {
        label: text(block, 0x12b, 256),
        uuid: uuid_at(block, 0x20),
        devices: u32::try_from(devices).ok(),
        ..Contents::new(Format::Btrfs)
    };
    if devices != 1 {
        let number = u64_le(block, 0xc9)?;
        found.note(format!("device {number} of {devices}"));
    }
    if u64_le(block, 0x60)? != 0 {
        found.set(State::NotUnmounted, "its log has changes");
    }
    Some(found)
}
