//! The list at the beginning of a raw stream of an encrypted dataset: keys, and the layout of the dataset's dnode
//! object. The library builds that layout, and aborts when it is inconsistent.

use send_stream::{Begin, StreamErrorKind};

use crate::nvlist::{NvList, NvRef};

/// Bytes of a dnode block.
const BLOCK_BYTES: u64 = 16 << 10;
/// Objects in one.
const BLOCK_OBJECTS: u64 = 32;
/// Block pointers in the dnode itself.
const POINTERS: u64 = 3;
/// log2 of the valid sizes of an indirect block, and of one pointer.
const POINTER_BLOCK_SHIFTS: std::ops::RangeInclusive<u64> = 12..=17;
const POINTER_SHIFT: u64 = 7;
/// Levels of indirect blocks.
const LEVELS_MAX: u64 = 12;
/// Most objects of a dataset.
const OBJECTS_MAX: u64 = 1 << 48;
/// A compression type that no block can have.
const COMPRESSION_EMPTY: u64 = 4;

/// Refuses a raw stream with a list that describes a table impossible in a dataset.
pub fn check(begin: &Begin) -> Result<(), StreamErrorKind> {
    if !begin.features.raw() {
        return Ok(());
    }
    let list = NvList::unpack(&begin.payload);
    let list = list.ok_or(StreamErrorKind::Malformed("its list cannot be read"))?;
    match list.view().list("crypt_keydata") {
        // It is not encrypted, and its dnode object is created like any other.
        None => Ok(()),
        Some(keys) if is_possible(keys) => Ok(()),
        Some(_) => Err(StreamErrorKind::Malformed(
            "its table of objects is impossible",
        )),
    }
}

fn is_possible(keys: NvRef<'_>) -> bool {
    let number = |name: &str| keys.u64(name);
    let (Some(shift), Some(levels)) = (number("mdn_indblkshift"), number("mdn_nlevels")) else {
        return false;
    };
    if !POINTER_BLOCK_SHIFTS.contains(&shift) || !(1..=LEVELS_MAX).contains(&levels) {
        return false;
    }
    // A dnode object has its maximum number of levels from the start.
    let reach_shift = (levels - 1) * (shift - POINTER_SHIFT);
    let reach = u128::from(POINTERS) << reach_shift;
    number("mdn_blksz") == Some(BLOCK_BYTES)
        && number("mdn_nblkptr") == Some(POINTERS)
        && reach >= u128::from(OBJECTS_MAX / BLOCK_OBJECTS)
        && number("mdn_maxblkid").is_some_and(|last| last < OBJECTS_MAX / BLOCK_OBJECTS)
        && number("mdn_compress") != Some(COMPRESSION_EMPTY)
}
