//! Passes the records of a stream, each after a check. Those of file systems are checked by `files.rs`.
//!
//! A volume has two objects: the data, and a ZAP that holds its size. Their records have a fixed order, because a
//! receive can only be resumed at a position that only increases.

use std::io::{Read, Write};

use crate::begin::{Begin, Contents};
use crate::error::{StreamError, StreamErrorKind as Kind};
use crate::files::FilesGuard;
use crate::limits::{
    BLOCK_BYTES_MIN, Limits, OBJECT_BYTES_MAX, RANGE_OBJECTS, Step, TO_THE_END, check_embedded,
    check_kinds, stored_length,
};
use crate::record::{RECORD_BYTES, Record, fill, kind};

/// Object of a volume that holds its contents.
const DATA: u64 = 1;
/// Object of a volume that holds its size.
const TABLE: u64 = 2;
/// Types of the two objects.
const DATA_TYPE: u32 = 23;
const TABLE_TYPE: u32 = 24;
/// `DRR_RAW_BYTESWAP`: the block is in the other byte order.
const SWAPPED: u8 = 1 << 1;
/// Largest table of a volume.
const TABLE_BYTES_MAX: u64 = 128 << 10;
/// Size of the pieces in which data is read and passed on.
const PIECE_BYTES: usize = 256 << 10;

/// Counts of the records and bytes that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes after the first record, which the caller read.
    pub bytes: u64,
    /// Records, including the last.
    pub records: u64,
}

/// Passes all records after `begin`, up to and including the END record of this stream, from `source` to `sink`. On an
/// error `sink` holds whole records and at most a part of the last.
pub fn pass(
    begin: &Begin,
    source: &mut dyn Read,
    sink: &mut dyn Write,
) -> Result<Passed, StreamError> {
    let mut guard = Guard::new(begin);
    let mut of_files = FilesGuard::new(begin);
    let mut passed = Passed::default();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let offset = passed.bytes + (RECORD_BYTES + begin.payload.len()) as u64;
        let mut record = Record([0; RECORD_BYTES]);
        fill(source, &mut record.0, offset)?;
        let step = match (record.payload_length(), begin.contents) {
            (0, Contents::Volume) => guard.check(&record),
            (0, Contents::FileSystem) => of_files.check(&record),
            _ => Err(Kind::Malformed("a record has a payload of its own")),
        };
        let step = step.map_err(|kind| StreamError::new(kind, offset))?;
        let write = |error| StreamError::io(Kind::Write, offset, error);
        sink.write_all(&record.0).map_err(write)?;
        let mut left = step.payload_length;
        while left > 0 {
            let part = &mut piece[..(left as usize).min(PIECE_BYTES)];
            fill(source, part, offset + RECORD_BYTES as u64)?;
            sink.write_all(part).map_err(write)?;
            left -= part.len() as u64;
        }
        passed.bytes += RECORD_BYTES as u64 + step.payload_length;
        passed.records += 1;
        if step.is_end {
            sink.flush().map_err(write)?;
            return Ok(passed);
        }
    }
}

/// The state derived from the records so far.
struct Guard {
    limits: Limits,
    /// Block sizes of the two objects, once their records were read.
    data: Option<u64>,
    table: Option<u64>,
    /// The object and offset at which a receive would be resumed; they only increase.
    place: (u64, u64),
}

impl Guard {
    fn new(begin: &Begin) -> Self {
        Self {
            limits: Limits::of(begin),
            data: None,
            table: None,
            place: (0, 0),
        }
    }

    fn check(&mut self, record: &Record) -> Result<Step, Kind> {
        match record.kind() {
            kind::OBJECT => self.object(record),
            kind::FREEOBJECTS => self.free_objects(record),
            kind::WRITE => self.write(record),
            kind::WRITE_EMBEDDED => self.write_embedded(record),
            kind::FREE => self.free(record),
            kind::OBJECT_RANGE => self.object_range(record),
            kind::END => Ok(Step::END),
            _ => Err(Kind::Unsupported("has records that a volume does not have")),
        }
    }

    fn moved_to(&mut self, object: u64, offset: u64) -> Result<(), Kind> {
        if (object, offset) < self.place {
            return Err(Kind::Malformed("its records are out of order"));
        }
        self.place = (object, offset);
        Ok(())
    }

    /// The block size of `object`, which must be known by now.
    fn block_of(&self, object: u64) -> Result<u64, Kind> {
        let block = match object {
            DATA => self.data,
            TABLE => self.table,
            _ => return Err(Kind::Malformed("a volume has two objects")),
        };
        block.ok_or(Kind::Malformed("an object is used before it is described"))
    }

    fn object(&mut self, record: &Record) -> Result<Step, Kind> {
        let (object, object_type) = (record.u64(8), record.u32(16));
        let block = u64::from(record.u32(24));
        let expected = match object {
            DATA => DATA_TYPE,
            TABLE => TABLE_TYPE,
            _ => return Err(Kind::Malformed("a volume has two objects")),
        };
        if object_type != expected {
            return Err(Kind::Malformed("an object has the wrong type"));
        }
        let (bonus_type, bonus_length, raw_bonus) =
            (record.u32(20), record.u32(28), record.u32(36));
        let (slots, flags) = (record.u8(34), record.u8(35));
        if bonus_type != 0 || bonus_length != 0 || raw_bonus != 0 || slots > 1 || flags & !1 != 0 {
            return Err(Kind::Malformed("an object has more than a volume's has"));
        }
        let limit = match object {
            DATA => self.limits.block_bytes_max,
            _ => TABLE_BYTES_MAX,
        };
        if !(BLOCK_BYTES_MIN..=limit).contains(&block)
            || (object == DATA && !block.is_power_of_two())
            || block % BLOCK_BYTES_MIN != 0
        {
            return Err(Kind::Malformed("an object has an impossible block size"));
        }
        check_kinds(record)?;
        self.limits.check_structure(record, block)?;
        self.moved_to(object, 0)?;
        match object {
            DATA => self.data = Some(block),
            _ => self.table = Some(block),
        }
        Ok(Step::with(0))
    }

    fn free_objects(&mut self, record: &Record) -> Result<Step, Kind> {
        let (first, count) = (record.u64(8), record.u64(16));
        if first.checked_add(count).is_none() {
            return Err(Kind::Malformed("a range of objects has no end"));
        }
        let frees = |object: u64| (first..first + count).contains(&object);
        if frees(DATA) || frees(TABLE) {
            return Err(Kind::Malformed("it frees a volume's objects"));
        }
        Ok(Step::with(0))
    }

    /// Checks the offset of a block of `length` bytes.
    fn check_offset(&mut self, object: u64, offset: u64, length: u64) -> Result<u64, Kind> {
        let block = self.block_of(object)?;
        let limit = match object {
            DATA => OBJECT_BYTES_MAX,
            _ => block,
        };
        let in_range = offset.checked_add(length).is_some_and(|end| end <= limit);
        if length != block || offset % block != 0 || !in_range {
            return Err(Kind::Malformed("a block has an impossible offset"));
        }
        self.moved_to(object, offset)?;
        Ok(block)
    }

    fn write(&mut self, record: &Record) -> Result<Step, Kind> {
        let (object, object_type) = (record.u64(8), record.u32(16));
        let (offset, length) = (record.u64(24), record.u64(32));
        let flags = record.u8(49);
        self.check_offset(object, offset, length)?;
        let expected = if object == DATA {
            DATA_TYPE
        } else {
            TABLE_TYPE
        };
        if object_type != expected || flags & !3 != 0 {
            return Err(Kind::Malformed("a block has the wrong type"));
        }
        if object == TABLE && flags & SWAPPED != 0 {
            return Err(Kind::Unsupported(
                "is raw, and of a volume made on a host of the other byte order",
            ));
        }
        let compressed = (record.u8(50), record.u64(96));
        let stored = stored_length(compressed, length, self.limits.raw, object == DATA)?;
        Ok(Step::with(stored))
    }

    fn write_embedded(&mut self, record: &Record) -> Result<Step, Kind> {
        let (object, offset, length) = (record.u64(8), record.u64(16), record.u64(24));
        let block = self.check_offset(object, offset, length)?;
        check_embedded(record, &self.limits, block)
    }

    fn free(&mut self, record: &Record) -> Result<Step, Kind> {
        let (object, offset, length) = (record.u64(8), record.u64(16), record.u64(24));
        let block = self.block_of(object)?;
        let to_the_end = length == TO_THE_END;
        let in_range = to_the_end || offset.checked_add(length).is_some();
        let aligned = offset % block == 0 && (to_the_end || length % block == 0);
        if !in_range || !aligned {
            return Err(Kind::Malformed("it frees an impossible range"));
        }
        if object == TABLE && offset < block {
            return Err(Kind::Malformed("it frees a volume's size"));
        }
        Ok(Step::with(0))
    }

    fn object_range(&mut self, record: &Record) -> Result<Step, Kind> {
        let (first, count) = (record.u64(8), record.u64(16));
        if !self.limits.raw || first != 0 || count != RANGE_OBJECTS {
            return Err(Kind::Malformed("a range of objects is impossible"));
        }
        Ok(Step::with(0))
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
