//! The LBA and length fields of a CDB.

use block_device::{Extent, Geometry};

use crate::TRANSFER_BYTES_MAX;
use crate::command::Cdb;
use crate::sense::{Asc, Sense};

/// A run of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    /// First byte of the length field, for the field pointer.
    length_at: u16,
}

impl Range {
    /// Decodes the range of a block command by the group of its operation code.
    pub(crate) fn of(cdb: &Cdb) -> Self {
        let (lba, blocks, length_at) = match cdb.opcode() {
            // COMPARE AND WRITE has one byte.
            0x89 => (cdb.be64(2), u64::from(cdb.byte(13)), 13),
            opcode => match opcode >> 5 {
                // In the 6-byte commands zero blocks mean 256.
                0 => {
                    let blocks = match cdb.byte(4) {
                        0 => 256,
                        blocks => u64::from(blocks),
                    };
                    (u64::from(cdb.be32(0) & 0x1f_ffff), blocks, 4)
                }
                4 => (cdb.be64(2), u64::from(cdb.be32(10)), 10),
                5 => (u64::from(cdb.be32(2)), u64::from(cdb.be32(6)), 6),
                _ => (u64::from(cdb.be32(2)), u64::from(cdb.be16(7)), 7),
            },
        };
        Self {
            lba,
            blocks,
            length_at,
        }
    }

    pub(crate) const fn new(lba: u64, blocks: u64) -> Self {
        Self {
            lba,
            blocks,
            length_at: 0,
        }
    }

    /// Returns the byte extent, if it lies within the device.
    pub(crate) fn extent(&self, geometry: &Geometry) -> Result<Extent, Sense> {
        let block = u64::from(geometry.logical_block);
        let capacity = geometry.size / block;
        match self.lba.checked_add(self.blocks) {
            Some(end) if end <= capacity => Ok(Extent::new(self.lba * block, self.blocks * block)),
            _ => Err(Sense::illegal(Asc::LBA_OUT_OF_RANGE)),
        }
    }

    /// Returns the byte extent of a command that transfers the range's data.
    pub(crate) fn transfer(&self, geometry: &Geometry) -> Result<Extent, Sense> {
        let extent = self.extent(geometry)?;
        self.at_most(extent, TRANSFER_BYTES_MAX)
    }

    /// Refuses an extent longer than `bytes_max`.
    pub(crate) fn at_most(&self, extent: Extent, bytes_max: u64) -> Result<Extent, Sense> {
        if extent.length > bytes_max {
            return Err(Sense::invalid_cdb(self.length_at, None));
        }
        Ok(extent)
    }

    /// Returns the error for the length field.
    pub(crate) fn invalid_length(&self) -> Sense {
        Sense::invalid_cdb(self.length_at, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> (u64, u64) {
        let range = Range::of(&Cdb::new(bytes));
        (range.lba, range.blocks)
    }

    #[test]
    fn fields_are_found_in_every_cdb_size() {
        assert_eq!(of(&[0x08, 0x1f, 0x02, 0x03, 0, 0]), (0x1f0203, 256));
        assert_eq!(of(&[0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0]), (0x01020304, 0x0506));
        assert_eq!(
            of(&[0xa8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]),
            (0x01020304, 0x05060708)
        );
        assert_eq!(
            of(&[0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0]),
            (0x0102030405060708, 0x090a0b0c)
        );
        assert_eq!(
            of(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 8, 9, 9, 9, 12, 0, 0]),
            (8, 12)
        );
    }

    #[test]
    fn a_range_that_overflows_is_out_of_range() {
        let geometry = Geometry {
            size: 1 << 20,
            logical_block: 512,
            physical_block: 4096,
            read_only: false,
        };
        let at = |lba, blocks| Range::new(lba, blocks).extent(&geometry);
        assert!(at(u64::MAX, 1).is_err());
        assert!(at(2047, 2).is_err());
        assert!(at(2049, 0).is_err());
        assert_eq!(at(2047, 1), Ok(Extent::new(2047 * 512, 512)));
    }
}
