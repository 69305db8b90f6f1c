//! Lets the records of a stream through, one by one, each checked before it is passed on. Those of file systems are checked by
//! `files.rs`.
//!
//! A volume has two objects: the data, and a small table that holds its size. Their records come
//! in a fixed order, because a receive can only be resumed at a place that only moves forward.

use std::io::{Read, Write};

use crate::begin::{Begin, Contents};
use crate::error::{StreamError, StreamErrorKind as Kind};
use crate::files::FilesGuard;
use crate::record::{RECORD_BYTES, Record, kind};

/// Object of a volume that holds its contents.
const DATA: u64 = 1;
/// Object of a volume that holds its size.
const TABLE: u64 = 2;
/// Types of the two objects.
const DATA_TYPE: u32 = 23;
const TABLE_TYPE: u32 = 24;
/// Sizes of blocks.
pub(crate) const BLOCK_BYTES_MIN: u64 = 512;
const BLOCK_BYTES_MAX: u64 = 16 << 20;
/// What a block is split into where large blocks are not allowed.
const OLD_BLOCK_BYTES_MAX: u64 = 128 << 10;
/// Largest table of a volume.
const TABLE_BYTES_MAX: u64 = 128 << 10;
/// Largest volume, and largest file.
pub(crate) const OBJECT_BYTES_MAX: u64 = 1 << 60;
/// Longest contents that fit into a block pointer.
const EMBEDDED_BYTES_MAX: u32 = 112;
/// The first kind of compression that a stored block can have, and the one past the last.
const COMPRESSIONS: std::ops::Range<u8> = 3..17;
/// "Not compressed".
const COMPRESSION_OFF: u8 = 2;
/// Checksum kinds that an object may ask for: inherited, or the default.
const CHECKSUM_MAX: u8 = 1;
/// Levels of pointer blocks, and log2 of their sizes.
const LEVELS_MAX: u8 = 12;
const POINTER_BLOCK_SHIFTS: std::ops::RangeInclusive<u8> = 12..=17;
/// log2 of the size of a block pointer.
const POINTER_SHIFT: u32 = 7;
/// Objects of a raw stream come in ranges of this many.
pub(crate) const RANGE_OBJECTS: u64 = 32;
/// "To the end of the object".
pub(crate) const TO_THE_END: u64 = u64::MAX;
/// What is read and passed on in one piece.
const PIECE_BYTES: usize = 256 << 10;

/// What went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes after the first record, which the caller read.
    pub bytes: u64,
    /// Records, the last included.
    pub records: u64,
}

/// Reads into all of `buffer`; `offset` is where in the stream this is.
pub(crate) fn fill(
    source: &mut dyn Read,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), StreamError> {
    let mut got = 0;
    while got < buffer.len() {
        match source.read(&mut buffer[got..]) {
            Ok(0) => return Err(StreamError::new(Kind::Cut, offset + got as u64)),
            Ok(count) => got += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StreamError::io(Kind::Read, offset + got as u64, error)),
        }
    }
    Ok(())
}

/// Passes everything after `begin`, up to and with the record that ends this stream, from
/// `source` to `sink`. On an error `sink` holds whole records and at most a part of the last.
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

/// What follows a record.
pub(crate) struct Step {
    payload_length: u64,
    is_end: bool,
}

impl Step {
    /// The record that ends a stream.
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

/// What the first record allows.
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

    /// How deep an object's tree of pointers is, which a raw stream fixes.
    pub(crate) fn check_structure(&self, record: &Record, block: u64) -> Result<(), Kind> {
        let (shift, levels, pointers) = (record.u8(48), record.u8(49), record.u8(50));
        let last_block = record.u64(56);
        if !self.raw {
            return match (shift, levels, pointers) {
                (0, 0, 0) => Ok(()),
                _ => Err(Kind::Malformed(
                    "an object describes what only raw streams do",
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

/// Kinds of checksum and compression that an object asks for.
pub(crate) fn check_kinds(record: &Record) -> Result<(), Kind> {
    match record.u8(32) > CHECKSUM_MAX || record.u8(33) >= COMPRESSIONS.end {
        true => Err(Kind::Malformed("an object has an unknown checksum")),
        false => Ok(()),
    }
}

/// How many bytes follow for a block of `length` bytes, by its kind of compression and what it says is stored.
pub(crate) fn stored_length(
    (compression, stored): (u8, u64),
    length: u64,
    is_raw: bool,
    may_be_compressed: bool,
) -> Result<u64, Kind> {
    if compression == 0 && !is_raw {
        return Ok(length);
    }
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

/// A block that is inside its record.
pub(crate) fn check_embedded(record: &Record, limits: &Limits, block: u64) -> Result<Step, Kind> {
    let (compression, embedded_type) = (record.u8(40), record.u8(41));
    let (logical, physical) = (record.u32(48), record.u32(52));
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

/// What the records so far said.
struct Guard {
    limits: Limits,
    /// Block sizes of the two objects, once their records were seen.
    data: Option<u64>,
    table: Option<u64>,
    /// The place that a receive would be resumed at; it only moves forward.
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

    /// The block size of `object`, which has to be known by now.
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
            return Err(Kind::Malformed("it takes a volume's objects away"));
        }
        Ok(Step::with(0))
    }

    /// Checks the place of a block of `length` bytes.
    fn check_place(&mut self, object: u64, offset: u64, length: u64) -> Result<u64, Kind> {
        let block = self.block_of(object)?;
        let limit = match object {
            DATA => OBJECT_BYTES_MAX,
            _ => block,
        };
        let in_range = offset.checked_add(length).is_some_and(|end| end <= limit);
        if length != block || offset % block != 0 || !in_range {
            return Err(Kind::Malformed("a block is in an impossible place"));
        }
        self.moved_to(object, offset)?;
        Ok(block)
    }

    fn write(&mut self, record: &Record) -> Result<Step, Kind> {
        let (object, object_type) = (record.u64(8), record.u32(16));
        let (offset, length) = (record.u64(24), record.u64(32));
        let flags = record.u8(49);
        self.check_place(object, offset, length)?;
        let expected = if object == DATA {
            DATA_TYPE
        } else {
            TABLE_TYPE
        };
        if object_type != expected || flags & !3 != 0 {
            return Err(Kind::Malformed("a block has the wrong type"));
        }
        let compressed = (record.u8(50), record.u64(96));
        let stored = stored_length(compressed, length, self.limits.raw, object == DATA)?;
        Ok(Step::with(stored))
    }

    fn write_embedded(&mut self, record: &Record) -> Result<Step, Kind> {
        let (object, offset, length) = (record.u64(8), record.u64(16), record.u64(24));
        let block = self.check_place(object, offset, length)?;
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
            return Err(Kind::Malformed("it takes a volume's size away"));
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
