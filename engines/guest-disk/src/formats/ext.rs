//! ext2, ext3 and ext4: the superblock is at 1 KiB.

use crate::bytes::{has, text, u16_le, u32_le, uuid_at};
use crate::contents::{Contents, Format, State};
use crate::part::Part;

const SUPERBLOCK: usize = 1024;
/// Compatible features.
const HAS_JOURNAL: u32 = 0x4;
/// Incompatible features.
const NEEDS_RECOVERY: u32 = 0x4;
const JOURNAL_DEVICE: u32 = 0x8;
/// Features that ext3 has, too: file types, recovery, meta block groups.
const INCOMPATIBLE_OF_EXT3: u32 = 0x2 | NEEDS_RECOVERY | 0x10;
/// The same of those that only writing needs: sparse superblocks, large files, directory trees.
const READ_ONLY_OF_EXT3: u32 = 0x7;
/// Block sizes are 1 KiB shifted by at most this.
const BLOCK_SHIFT_MAX: u32 = 6;
/// In the state: an error was found.
const HAS_ERRORS: u16 = 0x2;

/// Recognises ext2, ext3 and ext4.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    let block = part.head.get(SUPERBLOCK..SUPERBLOCK + 1024)?;
    // Two bytes often match by chance.
    let is_valid = has(block, 56, &[0x53, 0xef])
        && u32_le(block, 0)? != 0
        && u32_le(block, 24)? <= BLOCK_SHIFT_MAX;
    if !is_valid {
        return None;
    }
    let (compatible, incompatible) = (u32_le(block, 92)?, u32_le(block, 96)?);
    let read_only = u32_le(block, 100)?;
    let is_ext4 = incompatible & !INCOMPATIBLE_OF_EXT3 != 0 || read_only & !READ_ONLY_OF_EXT3 != 0;
    let format = match (is_ext4, compatible & HAS_JOURNAL) {
        (true, _) => Format::Ext4,
        (false, 0) => Format::Ext2,
        (false, _) => Format::Ext3,
    };
    let mut found = Contents {
        label: text(block, 120, 16),
        uuid: uuid_at(block, 104),
        ..Contents::new(format)
    };
    if incompatible & JOURNAL_DEVICE != 0 {
        found.note("an external journal, not a file system");
    }
    if incompatible & NEEDS_RECOVERY != 0 {
        found.set(State::NotUnmounted, "its journal has changes");
    }
    if u16_le(block, 58)? & HAS_ERRORS != 0 {
        found.note("errors were found in it");
    }
    Some(found)
}
