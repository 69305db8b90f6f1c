//! The bounds on the records of every stream, and the checks that volumes and file systems share.

use crate::begin::Begin;
use crate::error::StreamErrorKind as Kind;
use crate::record::Record;

/// Sizes of blocks.
pub(crate) const BLOCK_BYTES_MIN: u64 = 512;
const BLOCK_BYTES_MAX: u64 = 16 << 20;
/// The block size into which larger blocks are split where the large-blocks feature is not in use.
const OLD_BLOCK_BYTES_MAX: u64 = 128 << 10;
/// Largest volume, and largest file.
pub(crate) const OBJECT_BYTES_MAX: u64 = 1 << 60;
/// Longest contents that fit into a block pointer.
const EMBEDDED_BYTES_MAX: u32 = 112;
/// The first compression type of a stored block, and the one past the last.
const COMPRESSIONS: std::ops::Range<u8> = 5..17;
/// LZJB: the library decompresses it without a bounds check.
const LZJB: u8 = 3;
/// "Not compressed".
const COMPRESSION_OFF: u8 = 2;
/// Valid checksum types of an object: inherited, or the default.
const CHECKSUM_MAX: u8 = 1;
/// Levels of indirect blocks, and log2 of their sizes.
const LEVELS_MAX: u8 = 12;
const POINTER_BLOCK_SHIFTS: std::ops::RangeInclusive<u8> = 12..=17;
/// log2 of the size of a block pointer.
const POINTER_SHIFT: u32 = 7;
/// Objects of a raw stream come in ranges of this many.
pub(crate) const RANGE_OBJECTS: u64 = 32;
/// "To the end of the object".
pub(crate) const TO_THE_END: u64 = u64::MAX;
/// The payload that follows a record.
pub(crate) struct Step {
    pub(crate) payload_length: u64,
    pub(crate) is_end: bool,
}

impl Step {
    /// The END record of a stream.
    pub(crate) const END: Self = Self {
        payload_length: 0,
        is_end: true,
    };

    pub(crate) const fn with(payload_length: u64) -> Self {
        Self {
            payload_length,
            is_end: false,
        }
    }
}

/// The limits that the first record sets.
pub(crate) struct Limits {
    pub(crate) raw: bool,
    embedded: bool,
    full: bool,
    pub(crate) block_bytes_max: u64,
}

impl Limits {
    pub(crate) fn of(begin: &Begin) -> Self {
        let features = begin.features;
        Self {
            raw: features.raw(),
            embedded: features.embedded(),
            full: begin.from_guid == 0,
            block_bytes_max: match features.large_blocks() {
                true => BLOCK_BYTES_MAX,
                false => OLD_BLOCK_BYTES_MAX,
            },
        }
    }

    /// The number of levels of an object's block tree, which a raw stream defines.
    pub(crate) fn check_structure(&self, record: &Record, block: u64) -> Result<(), Kind> {
        let (shift, levels, pointers) = (record.u8(48), record.u8(49), record.u8(50));
        let last_block = record.u64(56);
        if !self.raw {
            return match (shift, levels, pointers) {
                (0, 0, 0) => Ok(()),
                _ => Err(Kind::Malformed(
                    "an object has fields that only raw streams have",
                )),
            };
        }
        let wrong = Err(Kind::Malformed("an object's tree is impossible"));
        if !POINTER_BLOCK_SHIFTS.contains(&shift)
            || !(1..=LEVELS_MAX).contains(&levels)
            || !(1..=3).contains(&pointers)
            || last_block >= OBJECT_BYTES_MAX / block
        {
            return wrong;
        }
        let per_level = u32::from(shift) - POINTER_SHIFT;
        let reach_shift = per_level * u32::from(levels - 1);
        let reach = u128::from(pointers) << reach_shift.min(100);
        if u128::from(last_block) >= reach {
            return wrong;
        }
        Ok(())
    }
}

/// Checks the checksum and compression types of an object.
pub(crate) fn check_kinds(record: &Record) -> Result<(), Kind> {
    match record.u8(32) > CHECKSUM_MAX || record.u8(33) >= COMPRESSIONS.end {
        true => Err(Kind::Malformed("an object has an unknown checksum")),
        false => Ok(()),
    }
}

/// The number of payload bytes for a block of `length` bytes, from its compression type and its stored size.
pub(crate) fn stored_length(
    (compression, stored): (u8, u64),
    length: u64,
    is_raw: bool,
    may_be_compressed: bool,
) -> Result<u64, Kind> {
    if compression == 0 && !is_raw {
        return Ok(length);
    }
    refuse_lzjb(compression)?;
    let whole_sectors = stored != 0 && stored % BLOCK_BYTES_MIN == 0;
    let fits = match compression {
        COMPRESSION_OFF => is_raw && stored == length,
        other => COMPRESSIONS.contains(&other) && stored < length && may_be_compressed,
    };
    match whole_sectors && fits {
        true => Ok(stored),
        false => Err(Kind::Malformed("a block has an impossible length")),
    }
}

fn refuse_lzjb(compression: u8) -> Result<(), Kind> {
    match compression == LZJB {
        true => Err(Kind::Unsupported(
            "has blocks compressed by lzjb, which ZFS decompresses without checks: send it neither compressed nor raw, or write the data again \
             with compression=lz4 there",
        )),
        false => Ok(()),
    }
}

/// A block embedded in its record.
pub(crate) fn check_embedded(record: &Record, limits: &Limits, block: u64) -> Result<Step, Kind> {
    let (compression, embedded_type) = (record.u8(40), record.u8(41));
    let (logical, physical) = (record.u32(48), record.u32(52));
    refuse_lzjb(compression)?;
    if !limits.embedded {
        return Err(Kind::Malformed("it has embedded blocks unannounced"));
    }
    // An older receive may have split large blocks, and an embedded one cannot be split.
    if block > OLD_BLOCK_BYTES_MAX && !limits.full {
        return Err(Kind::Unsupported(
            "has large embedded blocks (send it without embedded data)",
        ));
    }
    if u64::from(logical) != block
        || physical == 0
        || physical > EMBEDDED_BYTES_MAX
        || embedded_type != 0
        || !COMPRESSIONS.contains(&compression)
    {
        return Err(Kind::Malformed("an embedded block is impossible"));
    }
    Ok(Step::with(u64::from(physical.next_multiple_of(8))))
}
