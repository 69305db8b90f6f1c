//! Passes the records of a file system's stream, each after a check.
//!
//! A file system has any number of objects, in the order of their numbers. Each object's description precedes its
//! contents. So only the newest object is tracked. The contents of the objects are not inspected here.

use std::ops::Range;

use crate::begin::Begin;
use crate::error::StreamErrorKind as Kind;
use crate::limits::{
    BLOCK_BYTES_MIN, Limits, OBJECT_BYTES_MAX, RANGE_OBJECTS, Step, TO_THE_END, check_embedded,
    check_kinds, stored_length,
};
use crate::record::{Record, kind};

/// The ZPL master node, from which all objects are reached.
const MASTER_NODE: u64 = 1;
/// Numbers of objects.
const OBJECTS: Range<u64> = MASTER_NODE..1 << 48;
/// Slots of 512 bytes in a dnode block. No object extends into the next block.
const SLOTS: u64 = 32;
const SLOT_BYTES: u32 = 512;
/// Minimum bytes of a dnode that are not available to its bonus buffer.
const HEAD_BYTES: u32 = 192;
/// Contents of files, the only ones that are sent compressed.
const CONTENTS: u32 = 19;
/// Types of attributes: none, those from before 2010, and those since.
const NO_ATTRIBUTES: u32 = 0;
const OLD_ATTRIBUTES: u32 = 17;
const ATTRIBUTES: u32 = 44;
const TABLE_OF_USERS_SIZE: u32 = 36;
/// Some of an object's attributes have their own record (`DRR_OBJECT_SPILL`).
const HAS_SPILL: u8 = 1 << 2;

/// Types of objects that file systems have: the named ones, and those that only define how their contents are
/// byte-swapped (`DMU_OTN_…`), such as ours for receipts.
const fn is_of_files(object_type: u32) -> bool {
    const SWAPS: u32 = 10;
    match object_type {
        18..=22 | 25..=27 | 33..=36 | 40 | 44..=47 => true,
        0x80..=0xff => object_type & 0x1f < SWAPS,
        _ => false,
    }
}

/// The newest object.
#[derive(Clone, Copy)]
struct Object {
    number: u64,
    object_type: u32,
    block: u64,
    has_attributes: bool,
}

/// The state derived from the records so far.
pub struct FilesGuard {
    limits: Limits,
    object: Option<Object>,
    /// No record of a lower object may follow.
    next: u64,
    /// The offset in the newest object at which a receive would be resumed; it only increases.
    offset: u64,
}

impl FilesGuard {
    pub fn new(begin: &Begin) -> Self {
        Self {
            limits: Limits::of(begin),
            object: None,
            next: OBJECTS.start,
            offset: 0,
        }
    }

    pub fn check(&mut self, record: &Record) -> Result<Step, Kind> {
        match record.kind() {
            kind::OBJECT => self.object(record),
            kind::FREEOBJECTS => free_objects(record),
            kind::WRITE => self.write(record),
            kind::WRITE_EMBEDDED => self.write_embedded(record),
            kind::FREE => self.free(record),
            kind::SPILL => self.spill(record),
            kind::OBJECT_RANGE => self.object_range(record),
            kind::END => Ok(Step::END),
            _ => Err(Kind::Unsupported(
                "has records that a file system does not have",
            )),
        }
    }

    /// The object of a record, which must be the newest.
    fn newest(&self, number: u64) -> Result<Object, Kind> {
        let newest = self.object.filter(|object| object.number == number);
        newest.ok_or(Kind::Malformed(
            "an object is used where it is not described",
        ))
    }

    fn object(&mut self, record: &Record) -> Result<Step, Kind> {
        let (number, object_type) = (record.u64(8), record.u32(16));
        let block = u64::from(record.u32(24));
        let slots = u64::from(record.u8(34).max(1));
        if !OBJECTS.contains(&number) || number % SLOTS + slots > SLOTS {
            return Err(Kind::Malformed("an object has an impossible number"));
        }
        if number < self.next {
            return Err(Kind::Malformed("its records are out of order"));
        }
        if !is_of_files(object_type) || record.u8(35) & !HAS_SPILL != 0 {
            return Err(Kind::Malformed("an object has the wrong type"));
        }
        if !(BLOCK_BYTES_MIN..=self.limits.block_bytes_max).contains(&block)
            || block % BLOCK_BYTES_MIN != 0
        {
            return Err(Kind::Malformed("an object has an impossible block size"));
        }
        check_kinds(record)?;
        let payload = self.check_attributes(record, slots)?;
        self.limits.check_structure(record, block)?;
        self.object = Some(Object {
            number,
            object_type,
            block,
            has_attributes: record.u32(20) == ATTRIBUTES,
        });
        (self.next, self.offset) = (number + slots, 0);
        Ok(Step::with(payload.into()))
    }

    /// The number of attribute bytes that follow.
    fn check_attributes(&self, record: &Record, slots: u64) -> Result<u32, Kind> {
        let (of_type, length, raw_length) = (record.u32(20), record.u32(28), record.u32(36));
        let room = slots as u32 * SLOT_BYTES - HEAD_BYTES;
        let is_known = matches!(
            of_type,
            OLD_ATTRIBUTES | ATTRIBUTES | TABLE_OF_USERS_SIZE | NO_ATTRIBUTES
        );
        let fits = match self.limits.raw {
            true => raw_length >= length && raw_length <= room && raw_length % 8 == 0,
            false => raw_length == 0 && length <= room,
        };
        if !is_known || !fits || (of_type == NO_ATTRIBUTES) != (length == 0) {
            return Err(Kind::Malformed("an object has impossible attributes"));
        }
        Ok(match self.limits.raw {
            true => raw_length,
            false => length.next_multiple_of(8),
        })
    }

    /// Checks the offset of a block of `length` bytes.
    fn check_offset(&mut self, number: u64, offset: u64, length: u64) -> Result<Object, Kind> {
        let object = self.newest(number)?;
        // The library marks spilled attributes this way when it sends the blocks of an encrypted file system raw.
        if offset == length.wrapping_mul(2).wrapping_neg() && length != 0 {
            return Err(Kind::Unsupported(
                "has no key, and files with long attributes, which ZFS sends in a wrong form with --raw: send it without --raw",
            ));
        }
        let end = offset.checked_add(length);
        let in_range = end.is_some_and(|end| end <= OBJECT_BYTES_MAX);
        let is_alone = object.block.is_power_of_two() || offset == 0;
        if length != object.block || offset % object.block != 0 || !in_range || !is_alone {
            return Err(Kind::Malformed("a block has an impossible offset"));
        }
        if offset < self.offset {
            return Err(Kind::Malformed("its records are out of order"));
        }
        self.offset = offset;
        Ok(object)
    }

    fn write(&mut self, record: &Record) -> Result<Step, Kind> {
        let (offset, length) = (record.u64(24), record.u64(32));
        let object = self.check_offset(record.u64(8), offset, length)?;
        if record.u32(16) != object.object_type || record.u8(49) & !3 != 0 {
            return Err(Kind::Malformed("a block has the wrong type"));
        }
        let may_be_compressed = self.limits.raw || object.object_type == CONTENTS;
        let stored = stored_length(
            (record.u8(50), record.u64(96)),
            length,
            self.limits.raw,
            may_be_compressed,
        )?;
        Ok(Step::with(stored))
    }

    fn write_embedded(&mut self, record: &Record) -> Result<Step, Kind> {
        let (offset, length) = (record.u64(16), record.u64(24));
        let object = self.check_offset(record.u64(8), offset, length)?;
        check_embedded(record, &self.limits, object.block)
    }

    fn free(&self, record: &Record) -> Result<Step, Kind> {
        let (offset, length) = (record.u64(16), record.u64(24));
        let block = self.newest(record.u64(8))?.block;
        let to_the_end = length == TO_THE_END;
        let in_range = to_the_end || offset.checked_add(length).is_some();
        let aligned = offset % block == 0 && (to_the_end || length % block == 0);
        if !in_range || !aligned {
            return Err(Kind::Malformed("it frees an impossible range"));
        }
        Ok(Step::with(0))
    }

    /// A spill block: attributes that do not fit into the bonus buffer.
    fn spill(&self, record: &Record) -> Result<Step, Kind> {
        /// `DRR_SPILL_UNMODIFIED`.
        const FLAGS: u8 = 1 << 2;
        let (length, compression, stored) = (record.u64(16), record.u8(33), record.u64(40));
        let object = self.newest(record.u64(8))?;
        let limit = self.limits.block_bytes_max;
        if !object.has_attributes
            || record.u8(32) & !FLAGS != 0
            || !(BLOCK_BYTES_MIN..=limit).contains(&length)
            || length % BLOCK_BYTES_MIN != 0
        {
            return Err(Kind::Malformed("a block of attributes is impossible"));
        }
        if !self.limits.raw {
            return match (compression, stored) {
                (0, 0) => Ok(Step::with(length)),
                _ => Err(Kind::Malformed("a block of attributes is compressed")),
            };
        }
        // The library omits it.
        if ![NO_ATTRIBUTES, ATTRIBUTES].contains(&record.u32(84)) {
            return Err(Kind::Malformed("a block of attributes has the wrong type"));
        }
        stored_length((compression, stored), length, true, true).map(Step::with)
    }

    fn object_range(&self, record: &Record) -> Result<Step, Kind> {
        let (first, count) = (record.u64(8), record.u64(16));
        if !self.limits.raw || first % RANGE_OBJECTS != 0 || count != RANGE_OBJECTS {
            return Err(Kind::Malformed("a range of objects is impossible"));
        }
        Ok(Step::with(0))
    }
}

fn free_objects(record: &Record) -> Result<Step, Kind> {
    let (first, count) = (record.u64(8), record.u64(16));
    let Some(end) = first.checked_add(count) else {
        return Err(Kind::Malformed("a range of objects has no end"));
    };
    if (first..end).contains(&MASTER_NODE) {
        return Err(Kind::Malformed("it frees the master node"));
    }
    Ok(Step::with(0))
}
