//! The received part of an unfinished stream.

use engine::transfer::{StreamError, StreamFault};

use crate::image::Image;
use crate::stream::{Begin, Record, Rest};

/// The received part of a stream.
#[derive(Clone)]
pub(crate) struct Partial {
    /// Whether there was no such volume before.
    pub(crate) is_new: bool,
    pub(crate) image: Image,
    pub(crate) begin: Begin,
    /// The first block that has not arrived.
    pub(crate) next_block: u64,
    pub(crate) bytes: u64,
    /// Whether it is retained when the stream is interrupted.
    pub(crate) is_kept: bool,
    /// Whether a receive is active.
    pub(crate) is_under_way: bool,
}

impl Partial {
    /// Returns the token with which the sender resumes.
    pub(crate) fn token(&self) -> String {
        let rest = Rest {
            to_guid: self.begin.to_guid,
            from_guid: self.begin.from_guid,
            to_name: self.begin.to_name.clone(),
            offset: self.next_block * self.begin.block_size,
            bytes: self.bytes,
            is_raw: self.begin.encryption.is_some(),
        };
        rest.token()
    }

    /// Adds a record. Returns whether more follow.
    pub(crate) fn take(&mut self, record: Record) -> Result<bool, StreamError> {
        let blocks = self.begin.size / self.begin.block_size;
        let number = match &record {
            Record::End => return Ok(false),
            Record::Written(number, _) | Record::Freed(number) => *number,
        };
        if number >= blocks {
            return Err(StreamFault::Malformed.because("a block lies beyond the end"));
        }
        match record {
            Record::Written(_, block) if block.len() as u64 == self.begin.block_size => {
                self.image.blocks.insert(number, block.into());
            }
            Record::Freed(_) => drop(self.image.blocks.remove(&number)),
            _ => return Err(StreamFault::Malformed.because("a block has another length")),
        }
        self.next_block = number + 1;
        Ok(true)
    }
}
