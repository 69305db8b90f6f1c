//! XFS: the superblock is the first sector; numbers are big-endian.

use crate::bytes::{has, text, u16_be, u32_be, u64_be, uuid_at};
use crate::contents::{Contents, Format};
use crate::part::Part;

/// The version number in the superblock.
const VERSION_MASK: u16 = 0xf;
/// An incompatible feature of version 5: a repair is due.
const NEEDS_REPAIR: u32 = 1 << 4;

/// Recognises XFS.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    let block = &part.head;
    let block_bytes = u32_be(block, 4)?;
    let is_valid = has(block, 0, b"XFSB")
        && block_bytes.is_power_of_two()
        && (512..=65_536).contains(&block_bytes);
    if !is_valid {
        return None;
    }
    let mut found = Contents {
        label: text(block, 108, 12),
        uuid: uuid_at(block, 32),
        ..Contents::new(Format::Xfs)
    };
    // The log is not searched: each read-only mount leaves it as it is.
    if u64_be(block, 48)? == 0 {
        found.note("its log is on another device");
    }
    let version = u16_be(block, 100)? & VERSION_MASK;
    if version == 5 && u32_be(block, 216)? & NEEDS_REPAIR != 0 {
        found.note("it needs `xfs_repair`");
    }
    Some(found)
}
