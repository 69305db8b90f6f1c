//! The uberblock: the root of a transaction group, as far as it concerns the pool's owner.

use sha2::{Digest, Sha256};

/// The fields of an uberblock that are used here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uberblock {
    /// Its transaction group.
    pub txg: u64,
    /// The last group that changed the MOS, which the uberblock points to.
    pub root_txg: u64,
    /// When it was written, in seconds since 1970, by the clock of its writer.
    pub time_s: u64,
    /// Part of the checksum of the MOS: two uberblocks of one group with different values have different histories.
    pub sum: u64,
    /// Whether its writer issues MMP writes (`multihost=on`).
    pub is_watched: bool,
}

impl Uberblock {
    /// Uberblocks have this distance, or a multiple of it, in bytes.
    pub(crate) const DISTANCE_MIN: usize = 1024;
    const MAGIC: u64 = 0x00ba_b10c;
    const MULTIHOST_MAGIC: u64 = 0xa11c_ea11;

    /// Whether the slot at `start` of `ring` has a valid checksum, as ZFS verifies it: SHA-256 of the slot, with the
    /// checksum in its last 40 bytes replaced by the slot's offset on the device. A write that was cut off leaves a new
    /// root with an old checksum. `ring_offset` is where the ring begins on the device.
    pub(crate) fn is_whole(ring: &[u8], start: usize, ring_offset: u64) -> bool {
        let whole = |bytes: &usize| {
            start % bytes == 0
                && ring
                    .get(start..start + bytes)
                    .is_some_and(|slot| has_valid_checksum(slot, ring_offset + start as u64))
        };
        SLOT_BYTES.iter().any(whole)
    }

    /// The identity of the root among all roots of the pool.
    pub fn id(&self) -> (u64, u64) {
        (self.txg, self.sum)
    }

    /// Whether these bytes start like an uberblock, of either byte order.
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
        // Written in the byte order of the host that wrote it.
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

/// Bytes of a slot, by the sector size of the device. The last one is the whole ring: the label of a device that joins
/// or leaves a pool has one uberblock, of group 0, written with the ring as one block.
const SLOT_BYTES: [usize; 5] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 17];
/// Marks the trailer of a slot (`ZEC_MAGIC`).
const TRAILER_MAGIC: u64 = 0x0210_da7a_b10c_7a11;
/// Bytes of the trailer: the mark, and four words of checksum.
const TRAILER_BYTES: usize = 40;

/// The words of some bytes.
fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> + '_ {
    bytes
        .chunks_exact(8)
        .filter_map(|word| word.try_into().ok())
}

/// Whether a slot at `offset` of its device has a trailer that matches its contents.
fn has_valid_checksum(slot: &[u8], offset: u64) -> bool {
    let Some((contents, trailer)) = slot.split_last_chunk::<TRAILER_BYTES>() else {
        return false;
    };
    let mut stored = words(trailer);
    let mark = stored.next().unwrap_or_default();
    let (read, offset): (fn([u8; 8]) -> u64, _) = match u64::from_le_bytes(mark) {
        TRAILER_MAGIC => (u64::from_le_bytes, offset.to_le_bytes()),
        other if other.swap_bytes() == TRAILER_MAGIC => (u64::from_be_bytes, offset.to_be_bytes()),
        _ => return false,
    };
    let sum = Sha256::new()
        .chain_update(contents)
        .chain_update(mark)
        .chain_update(offset)
        .chain_update([0; 24])
        .finalize();
    words(&sum).map(u64::from_be_bytes).eq(stored.map(read))
}

/// Writes the trailer of a slot at `offset` of its device, in the byte order of this host.
#[cfg(test)]
pub(crate) fn seal(slot: &mut [u8], offset: u64) {
    let end = slot.len() - TRAILER_BYTES;
    slot[end..end + 8].copy_from_slice(&TRAILER_MAGIC.to_le_bytes());
    slot[end + 8..end + 16].copy_from_slice(&offset.to_le_bytes());
    slot[end + 16..].fill(0);
    let sum = Sha256::digest(&*slot);
    for (index, word) in words(&sum).enumerate() {
        let at = end + 8 + 8 * index;
        slot[at..at + 8].copy_from_slice(&u64::from_be_bytes(word).to_le_bytes());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn uberblock(txg: u64, multihost: [u64; 2], write: fn(u64) -> [u8; 8]) -> Vec<u8> {
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
    fn uberblock_of_either_byte_order_yields_txg_and_multihost() {
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
