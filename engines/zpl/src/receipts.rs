//! Receipts of changes of names, in an object of their own: each entry is written in the transaction of its change, and stands in the log
//! behind the names of the change's record. Kernel ZFS knows neither, and keeps both as they are.

use std::collections::{BTreeMap, HashMap};

use file_system::{Place, Receipt};

use crate::objects::{ObjectError, Objects, Step};

/// Entries: more than a few clients have requests under way.
const ENTRIES_MAX: u32 = 1 << 14;
/// A receipt, and a number that is not zero.
const ENTRY_BYTES: usize = 32;
const USED: u32 = 1;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// What is known of them, by place, and which of them are the oldest.
#[derive(Default)]
pub(crate) struct Receipts {
    /// The object; 0: there is none yet.
    object: u64,
    places: HashMap<Place, Kept>,
    by_age: BTreeMap<u64, Place>,
    next_age: u64,
}

#[derive(Clone, Copy)]
struct Kept {
    entry: u32,
    age: u64,
    receipt: Receipt,
}

/// A receipt that is about to be kept.
pub(crate) struct Noted {
    object: u64,
    entry: u32,
    receipt: Receipt,
    bytes: [u8; ENTRY_BYTES],
}

impl Noted {
    /// What writes it.
    pub(crate) fn step(&self) -> Step<'_> {
        Step::Write {
            object: self.object,
            offset: u64::from(self.entry) * ENTRY_BYTES as u64,
            bytes: &self.bytes,
            block_size: None,
        }
    }
}

impl Receipts {
    /// Those of an object.
    pub(crate) fn read<O: Objects>(objects: &O, object: u64) -> Result<Self, ObjectError> {
        let mut receipts = Self {
            object,
            ..Self::default()
        };
        if object == 0 {
            return Ok(receipts);
        }
        let mut buffer = vec![0; READ_BYTES];
        for first in (0..ENTRIES_MAX).step_by(READ_BYTES / ENTRY_BYTES) {
            objects.read(object, u64::from(first) * ENTRY_BYTES as u64, &mut buffer)?;
            for (entry, bytes) in (first..).zip(buffer.chunks_exact(ENTRY_BYTES)) {
                let (receipt, used) = bytes.split_first_chunk().expect("32 bytes");
                // Entries are used in order.
                if *used != USED.to_be_bytes() {
                    return Ok(receipts);
                }
                receipts.keep(entry, Receipt::from_bytes(receipt));
            }
        }
        Ok(receipts)
    }

    /// Prepares to keep a receipt. Nothing else is prepared until it is kept, or its change failed.
    pub(crate) fn note<O: Objects>(
        &mut self,
        objects: &O,
        receipt: &Receipt,
    ) -> Result<Noted, ObjectError> {
        if self.object == 0 {
            self.object = objects.make_receipts()?;
        }
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..Receipt::BYTES].copy_from_slice(&receipt.to_bytes());
        bytes[Receipt::BYTES..].copy_from_slice(&USED.to_be_bytes());
        Ok(Noted {
            object: self.object,
            entry: self.entry_for(&receipt.place),
            receipt: *receipt,
            bytes,
        })
    }

    /// Its change was made.
    pub(crate) fn keep_noted(&mut self, noted: &Noted) {
        self.keep(noted.entry, noted.receipt);
    }

    /// The last receipt of a place.
    pub(crate) fn find(&self, place: &Place) -> Option<Receipt> {
        self.places.get(place).map(|kept| kept.receipt)
    }

    /// The entry for a receipt of a place: its own, a new one, or the oldest.
    fn entry_for(&self, place: &Place) -> u32 {
        let used = self.places.len() as u32;
        match (self.places.get(place), self.by_age.first_key_value()) {
            (Some(kept), _) => kept.entry,
            (None, Some((_, oldest))) if used == ENTRIES_MAX => self.places[oldest].entry,
            (None, _) => used,
        }
    }

    fn keep(&mut self, entry: u32, receipt: Receipt) {
        let is_full = self.places.len() as u32 == ENTRIES_MAX;
        if is_full && !self.places.contains_key(&receipt.place) {
            let oldest = self.by_age.pop_first();
            oldest.and_then(|(_, place)| self.places.remove(&place));
        }
        let age = self.next_age;
        self.next_age += 1;
        let kept = Kept {
            entry,
            age,
            receipt,
        };
        if let Some(before) = self.places.insert(receipt.place, kept) {
            self.by_age.remove(&before.age);
        }
        self.by_age.insert(age, receipt.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(place: u32, number: u32) -> Receipt {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&place.to_be_bytes());
        Receipt {
            place: bytes,
            number,
            step: 0,
        }
    }

    fn keep(receipts: &mut Receipts, receipt: Receipt) -> u32 {
        let entry = receipts.entry_for(&receipt.place);
        receipts.keep(entry, receipt);
        entry
    }

    #[test]
    fn a_place_has_one_entry_and_the_oldest_goes_first() {
        let mut receipts = Receipts::default();
        for place in 0..ENTRIES_MAX {
            assert_eq!(keep(&mut receipts, receipt(place, 1)), place);
        }
        assert_eq!(keep(&mut receipts, receipt(0, 2)), 0);
        assert_eq!(receipts.find(&receipt(0, 0).place), Some(receipt(0, 2)));
        // The place 1 has waited longest now.
        assert_eq!(keep(&mut receipts, receipt(ENTRIES_MAX, 1)), 1);
        assert_eq!(receipts.find(&receipt(1, 0).place), None);
        assert_eq!(keep(&mut receipts, receipt(ENTRIES_MAX + 1, 1)), 2);
        assert_eq!(receipts.places.len(), ENTRIES_MAX as usize);
        assert_eq!(receipts.by_age.len(), ENTRIES_MAX as usize);
    }
}
