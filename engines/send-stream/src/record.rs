//! The offsets of the fields of a record. Little-endian; every record has the same length, and its
//! payload follows it.

use std::io::Read;

use crate::error::{StreamError, StreamErrorKind as Kind};

/// Length of every record, its payload not counted.
pub const RECORD_BYTES: usize = 312;

/// Types of records.
pub mod kind {
    pub const BEGIN: u32 = 0;
    pub const OBJECT: u32 = 1;
    pub const FREEOBJECTS: u32 = 2;
    pub const WRITE: u32 = 3;
    pub const FREE: u32 = 4;
    pub const END: u32 = 5;
    pub const SPILL: u32 = 7;
    pub const WRITE_EMBEDDED: u32 = 8;
    pub const OBJECT_RANGE: u32 = 9;
}

/// One record's bytes.
pub struct Record(pub [u8; RECORD_BYTES]);

impl Record {
    pub fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub fn u32(&self, at: usize) -> u32 {
        let bytes = self.0[at..at + 4].try_into();
        u32::from_le_bytes(bytes.expect("four bytes"))
    }

    pub fn u64(&self, at: usize) -> u64 {
        let bytes = self.0[at..at + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    }

    pub fn kind(&self) -> u32 {
        self.u32(0)
    }

    /// Only the first record uses it.
    pub fn payload_length(&self) -> u32 {
        self.u32(4)
    }
}

/// Reads into all of `buffer`; `offset` is the position in the stream.
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
