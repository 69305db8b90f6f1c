//! The root of a transaction group, as far as it tells of the pool's owner.

/// What is of interest of an uberblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uberblock {
    /// Its transaction group.
    pub txg: u64,
    /// The last group that changed the pool's directory, which the root points to.
    pub root_txg: u64,
    /// When that was written, in seconds since 1970, by the clock of its writer.
    pub time_s: u64,
    /// Of the checksum of that directory: two roots of one group with different ones have different histories.
    pub sum: u64,
    /// Whether its writer leaves signs of life (`multihost=on`).
    pub is_watched: bool,
}

impl Uberblock {
    /// Uberblocks are that far apart, or a multiple, in bytes.
    pub(crate) const DISTANCE_MIN: usize = 1024;
    const MAGIC: u64 = 0x00ba_b10c;
    const MULTIHOST_MAGIC: u64 = 0xa11c_ea11;

    /// What tells it from other roots.
    pub fn id(&self) -> (u64, u64) {
        (self.txg, self.sum)
    }

    /// Whether these bytes begin as one does, of either byte order.
    pub(crate) fn is_marked(bytes: &[u8]) -> bool {
        let mark = bytes.first_chunk().map(|mark| u64::from_le_bytes(*mark));
        mark.is_some_and(|mark| mark == Self::MAGIC || mark.swap_bytes() == Self::MAGIC)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |index: usize, swapped: bool| -> Option<u64> {
            let bytes = bytes.get(index * 8..index * 8 + 8)?.try_into().ok()?;
            let number = u64::from_le_bytes(bytes);
            Some(if swapped { number.swap_bytes() } else { number })
        };
        // Written in the byte order of the machine that wrote it.
        let swapped = match number(0, false)? {
            Self::MAGIC => false,
            other if other.swap_bytes() == Self::MAGIC => true,
            _ => return None,
        };
        // Members 3 to 21 are a sum, a time, a block pointer (in which 10 is the group of its birth, and 12 to 15 are its checksum) and a version.
        let mut sum = 0_u64;
        for index in 17..21 {
            sum = sum.rotate_left(16) ^ number(index, swapped)?;
        }
        let (magic, delay_ns) = (number(22, swapped)?, number(23, swapped)?);
        Some(Self {
            txg: number(2, swapped)?,
            root_txg: number(15, swapped)?,
            time_s: number(4, swapped)?,
            sum,
            is_watched: magic == Self::MULTIHOST_MAGIC && delay_ns != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uberblock(txg: u64, multihost: [u64; 2], write: fn(u64) -> [u8; 8]) -> Vec<u8> {
        let mut members = [0; 128];
        members[0] = Uberblock::MAGIC;
        members[2] = txg;
        members[15] = txg - 1;
        members[4] = 1_800_000_000;
        members[20] = 0x11;
        members[22..24].copy_from_slice(&multihost);
        members.into_iter().flat_map(write).collect()
    }

    #[test]
    fn an_uberblock_of_either_byte_order_tells_its_group_and_whether_it_is_watched() {
        for write in [u64::to_le_bytes, u64::to_be_bytes] {
            for (multihost, is_watched) in [
                ([0, 0], false),
                ([Uberblock::MULTIHOST_MAGIC, 0], false),
                ([Uberblock::MULTIHOST_MAGIC, 5], true),
            ] {
                let found = Uberblock::parse(&uberblock(77, multihost, write));
                let expected = Uberblock {
                    txg: 77,
                    root_txg: 76,
                    time_s: 1_800_000_000,
                    sum: 0x11,
                    is_watched,
                };
                assert_eq!(found, Some(expected));
            }
        }
        assert_eq!(Uberblock::parse(&[0; 1024]), None);
        assert_eq!(Uberblock::parse(&[]), None);
    }
}
