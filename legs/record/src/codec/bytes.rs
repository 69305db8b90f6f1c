//! Encodes and decodes the fields of records and messages.

use crate::lender::LenderState;
use crate::member::Tag;
use crate::record::{Ballot, DiskId, MemberId, Session, Version};

/// Too short, or an invalid value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed")]
pub struct Malformed;

/// CRC32C of the header followed by the body.
pub(super) fn checksum(header: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), body)
}

/// Appends to a buffer.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Returns the encoded bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends these bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// One byte.
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// 1 for true, 0 for false.
    pub fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    /// Four bytes.
    pub fn short(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    /// The length of a list, in four bytes.
    pub fn count(&mut self, count: usize) {
        self.short(count as u32);
    }

    /// Eight bytes.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// A flag and a number, which is 0 if there is none.
    pub fn maybe(&mut self, number: Option<u64>) {
        self.flag(number.is_some());
        self.number(number.unwrap_or_default());
    }

    /// Epoch and nonce.
    pub fn ballot(&mut self, ballot: Ballot) {
        self.number(ballot.epoch);
        self.number(ballot.nonce);
    }

    /// Epoch and sequence.
    pub fn version(&mut self, version: Version) {
        self.number(version.epoch);
        self.number(version.sequence);
    }

    /// A ballot and a short number.
    pub fn session(&mut self, session: Session) {
        self.ballot(session.ballot);
        self.short(session.number);
    }

    /// The boot of a process and a short number.
    pub fn tag(&mut self, tag: Tag) {
        self.number(tag.boot);
        self.short(tag.number);
    }

    /// The ballot that claimed a disk, and the session that writes to it.
    pub fn lender_state(&mut self, lender_state: &LenderState) {
        self.ballot(lender_state.enforced);
        self.session(lender_state.mark);
    }
}

/// Reads from the beginning of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// From the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Takes the unread bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Checks that all bytes are read.
    ///
    /// # Errors
    ///
    /// Bytes are left.
    pub fn end(&self) -> Result<(), Malformed> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(Malformed),
        }
    }

    /// As many bytes.
    ///
    /// # Errors
    ///
    /// Fewer bytes are left. The same applies to all methods below.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.take().map(|[byte]| byte)
    }

    /// 1 for true, 0 for false.
    ///
    /// # Errors
    ///
    /// The byte is neither 0 nor 1.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Four bytes.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn short(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn number(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    /// A flag and a number.
    ///
    /// # Errors
    ///
    /// There is no number, and its bytes are not 0.
    pub fn maybe(&mut self) -> Result<Option<u64>, Malformed> {
        match (self.flag()?, self.number()?) {
            (false, 0) => Ok(None),
            (true, number) => Ok(Some(number)),
            (false, _) => Err(Malformed),
        }
    }

    /// The number of a disk.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn disk(&mut self) -> Result<DiskId, Malformed> {
        self.number().map(DiskId)
    }

    /// The number of a member.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn member(&mut self) -> Result<MemberId, Malformed> {
        self.number().map(MemberId)
    }

    /// Epoch and nonce.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn ballot(&mut self) -> Result<Ballot, Malformed> {
        Ok(Ballot {
            epoch: self.number()?,
            nonce: self.number()?,
        })
    }

    /// Epoch and sequence.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn version(&mut self) -> Result<Version, Malformed> {
        Ok(Version {
            epoch: self.number()?,
            sequence: self.number()?,
        })
    }

    /// A ballot and a short number.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn session(&mut self) -> Result<Session, Malformed> {
        Ok(Session {
            ballot: self.ballot()?,
            number: self.short()?,
        })
    }

    /// The boot of a process and a short number.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn tag(&mut self) -> Result<Tag, Malformed> {
        Ok(Tag {
            boot: self.number()?,
            number: self.short()?,
        })
    }

    /// The ballot that claimed a disk, and the session that writes to it.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn lender_state(&mut self) -> Result<LenderState, Malformed> {
        Ok(LenderState {
            enforced: self.ballot()?,
            mark: self.session()?,
        })
    }
}
