//! Receipts of changes, in a separate object: each entry is written in the transaction of its change, and logged after
//! the change's record. Kernel ZFS ignores and preserves both.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use file_system::{Place, Receipt};

use crate::objects::{ObjectError, Objects, Step};

/// Entries: more than the requests in flight of a few clients.
const ENTRIES_MAX: u32 = 1 << 14;
/// Entries that one client can use after a start before its oldest one is reused: more than its requests in flight. A
/// client that changes much does not evict the entries of clients that reconnect for their replies. A session has no
/// more slots.
const ENTRIES_PER_CLIENT_MAX: usize = 256;
/// A receipt; its last number is not zero.
const ENTRY_BYTES: usize = Receipt::BYTES;
/// Bytes that are read at a time. After this many unused ones, no used ones follow.
const READ_BYTES: usize = 64 << 10;

/// The session, or the address, of a slot.
type Client = [u8; 16];

fn client_of(place: &Place) -> Client {
    *place.first_chunk().expect("20 bytes")
}

/// The receipts by slot, and their order of age.
#[derive(Default)]
pub(crate) struct Receipts {
    /// The object; 0 if it does not exist yet.
    object: u64,
    places: HashMap<Place, Kept>,
    by_age: BTreeMap<u64, Place>,
    /// The ages of the receipts that were stored since the start.
    by_client: HashMap<Client, BTreeSet<u64>>,
    next_age: u64,
    /// The first entry that was never used.
    next_entry: u32,
    /// Lower entries without a slot.
    free: Vec<u32>,
}

/// The state of a slot.
#[derive(Clone, Copy)]
struct Kept {
    entry: u32,
    age: u64,
    /// Empty before the first change.
    receipt: Option<Receipt>,
    /// Changes in progress.
    under_way: u32,
}

/// A receipt that is about to be stored.
pub(crate) struct Noted {
    object: u64,
    entry: u32,
    receipt: Receipt,
    bytes: [u8; ENTRY_BYTES],
}

impl Noted {
    /// The step that writes it.
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
    /// The receipts of an object.
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
            if !receipts.take_entries(first, &buffer) {
                break;
            }
        }
        Ok(receipts)
    }

    /// Loads the entries from `first` on; returns whether one of them is used.
    fn take_entries(&mut self, first: u32, bytes: &[u8]) -> bool {
        let mut is_used = false;
        for (entry, bytes) in (first..).zip(bytes.chunks_exact(ENTRY_BYTES)) {
            let bytes = bytes.first_chunk().expect("32 bytes");
            if bytes.ends_with(&[0; 4]) {
                continue;
            }
            is_used = true;
            let receipt = Receipt::from_bytes(bytes);
            self.free.extend(self.next_entry..entry);
            self.next_entry = entry + 1;
            self.put(receipt.place, entry, Some(receipt), 0);
        }
        is_used
    }

    /// Prepares to store a receipt. It must be [ended](Self::end).
    pub(crate) fn note<O: Objects>(
        &mut self,
        objects: &O,
        receipt: &Receipt,
    ) -> Result<Noted, ObjectError> {
        if self.object == 0 {
            self.object = objects.make_receipts()?;
        }
        Ok(Noted {
            object: self.object,
            entry: self.begin(receipt.place),
            receipt: *receipt,
            bytes: receipt.to_bytes(),
        })
    }

    /// The change of a receipt completed or failed.
    pub(crate) fn end(&mut self, noted: &Noted, is_made: bool) {
        self.finish(noted.entry, noted.receipt, is_made);
    }

    /// The last receipt of a slot.
    pub(crate) fn find(&self, place: &Place) -> Option<Receipt> {
        self.places.get(place).and_then(|kept| kept.receipt)
    }

    /// The entry for a change of a slot: its own, or a newly assigned one.
    fn begin(&mut self, place: Place) -> u32 {
        let (entry, receipt, under_way) = match self.places.get(&place) {
            Some(kept) => (kept.entry, kept.receipt, kept.under_way + 1),
            None => (self.new_entry(&client_of(&place)), None, 1),
        };
        let age = self.put(place, entry, receipt, under_way);
        let ages = self.by_client.entry(client_of(&place)).or_default();
        ages.insert(age);
        entry
    }

    /// The oldest entry of a client that has many, else a free one, else that of the slot with the oldest change.
    fn new_entry(&mut self, client: &Client) -> u32 {
        let own = self.by_client.get(client);
        let own = own.filter(|ages| ages.len() >= ENTRIES_PER_CLIENT_MAX);
        if let Some(oldest) = own.and_then(|ages| self.oldest(ages.iter())) {
            return self.forget(&oldest);
        }
        if let Some(entry) = self.free.pop() {
            return entry;
        }
        if self.next_entry < ENTRIES_MAX {
            self.next_entry += 1;
            return self.next_entry - 1;
        }
        let oldest = self.oldest(self.by_age.keys());
        self.forget(&oldest.expect("fewer changes than entries are under way"))
    }

    /// The first slot in the order of these ages without a pending change.
    fn oldest<'a>(&self, mut ages: impl Iterator<Item = &'a u64>) -> Option<Place> {
        let is_idle = |place: &Place| {
            let kept = self.places.get(place);
            kept.is_some_and(|kept| kept.under_way == 0)
        };
        ages.find_map(|age| self.by_age.get(age).copied().filter(is_idle))
    }

    fn finish(&mut self, entry: u32, receipt: Receipt, is_made: bool) {
        let place = receipt.place;
        let Some(kept) = self.places.get_mut(&place) else {
            // Enough newer receipts arrived since.
            return;
        };
        kept.under_way -= 1;
        if is_made {
            kept.receipt = Some(receipt);
        } else if kept.receipt.is_none() && kept.under_way == 0 {
            self.forget(&place);
            self.free.push(entry);
        }
    }

    /// Marks a slot as the youngest.
    fn put(&mut self, place: Place, entry: u32, receipt: Option<Receipt>, under_way: u32) -> u64 {
        let age = self.next_age;
        self.next_age += 1;
        let kept = Kept {
            entry,
            age,
            receipt,
            under_way,
        };
        if let Some(before) = self.places.insert(place, kept) {
            self.forget_age(&place, before.age);
        }
        self.by_age.insert(age, place);
        age
    }

    /// A slot loses its entry.
    fn forget(&mut self, place: &Place) -> u32 {
        let kept = self.places.remove(place).expect("it has an entry");
        self.forget_age(place, kept.age);
        kept.entry
    }

    fn forget_age(&mut self, place: &Place, age: u64) {
        self.by_age.remove(&age);
        let client = client_of(place);
        if let Some(ages) = self.by_client.get_mut(&client) {
            ages.remove(&age);
            if ages.is_empty() {
                self.by_client.remove(&client);
            }
        }
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
            call: 5,
        }
    }

    fn keep(receipts: &mut Receipts, receipt: Receipt) -> u32 {
        let entry = receipts.begin(receipt.place);
        receipts.finish(entry, receipt, true);
        entry
    }

    #[test]
    fn each_slot_has_one_receipt_and_the_oldest_is_evicted() {
        let mut receipts = Receipts::default();
        for place in 0..ENTRIES_MAX {
            assert_eq!(keep(&mut receipts, receipt(place, 1)), place);
        }
        assert_eq!(keep(&mut receipts, receipt(0, 2)), 0);
        assert_eq!(receipts.find(&receipt(0, 0).place), Some(receipt(0, 2)));
        // Slot 1 is the oldest now.
        assert_eq!(keep(&mut receipts, receipt(ENTRIES_MAX, 1)), 1);
        assert_eq!(receipts.find(&receipt(1, 0).place), None);
        assert_eq!(keep(&mut receipts, receipt(ENTRIES_MAX + 1, 1)), 2);
        assert_eq!(receipts.places.len(), ENTRIES_MAX as usize);
        assert_eq!(receipts.by_age.len(), ENTRIES_MAX as usize);
    }

    /// The slots of an address, one for each of its calls, or slots of a session.
    fn receipt_of(client: u8, number: u32) -> Receipt {
        let mut place = [client; 20];
        place[16..].copy_from_slice(&number.to_be_bytes());
        Receipt {
            place,
            ..receipt(0, number)
        }
    }

    #[test]
    fn busy_client_evicts_only_its_own_receipts() {
        let many = ENTRIES_PER_CLIENT_MAX as u32;
        let mut receipts = Receipts::default();
        let waits = receipt_of(1, 7);
        keep(&mut receipts, waits);
        let under_way = receipts.begin(receipt_of(2, 0).place);
        for number in 1..2 * ENTRIES_MAX {
            keep(&mut receipts, receipt_of(2, number));
        }
        assert_eq!(receipts.find(&waits.place), Some(waits));
        assert_eq!(receipts.places.len(), 1 + many as usize);
        let last = 2 * ENTRIES_MAX - 1;
        for number in [last, last + 2 - many] {
            let kept = receipt_of(2, number);
            assert_eq!(receipts.find(&kept.place), Some(kept));
        }
        let gone = receipt_of(2, last + 1 - many);
        assert_eq!(receipts.find(&gone.place), None);
        receipts.finish(under_way, receipt_of(2, 0), true);
        let ended = receipt_of(2, 0);
        assert_eq!(receipts.find(&ended.place), Some(ended));
    }

    /// The order of stored receipts is unknown after a start.
    #[test]
    fn receipts_from_before_the_start_are_not_evicted_by_client() {
        let mut bytes = vec![0; READ_BYTES];
        let before = ENTRIES_PER_CLIENT_MAX as u32;
        for entry in 0..before {
            let place = &mut bytes[entry as usize * ENTRY_BYTES..][..ENTRY_BYTES];
            place.copy_from_slice(&receipt_of(1, entry).to_bytes());
        }
        let mut receipts = Receipts::default();
        receipts.take_entries(0, &bytes);
        for number in before..4 * before {
            keep(&mut receipts, receipt_of(1, number));
        }
        for number in 0..before {
            let kept = receipt_of(1, number);
            assert_eq!(receipts.find(&kept.place), Some(kept));
        }
        assert_eq!(receipts.places.len(), 2 * before as usize);
    }

    /// Changes of attributes run concurrently: no two of them share an entry, and a failed change frees its entry.
    #[test]
    fn concurrent_changes_have_separate_entries() {
        let mut receipts = Receipts::default();
        let entries = [0, 1, 2].map(|place| receipts.begin(receipt(place, 1).place));
        assert_eq!(entries, [0, 1, 2]);
        receipts.finish(1, receipt(1, 1), false);
        assert_eq!(receipts.find(&receipt(1, 1).place), None);
        assert_eq!(receipts.find(&receipt(0, 1).place), None, "not made yet");
        receipts.finish(0, receipt(0, 1), true);
        assert_eq!(receipts.find(&receipt(0, 1).place), Some(receipt(0, 1)));
        assert_eq!(keep(&mut receipts, receipt(3, 1)), 1);
        // The stored receipt stays when the next change fails.
        let entry = receipts.begin(receipt(0, 2).place);
        receipts.finish(entry, receipt(0, 2), false);
        assert_eq!(receipts.find(&receipt(0, 1).place), Some(receipt(0, 1)));
        assert_eq!(keep(&mut receipts, receipt(4, 1)), 3);
    }

    /// A crash can leave an unwritten entry before written ones.
    #[test]
    fn unwritten_entry_is_reused_by_the_next_slot() {
        let mut bytes = vec![0; READ_BYTES];
        for entry in [0, 3] {
            let place = &mut bytes[entry * ENTRY_BYTES..][..ENTRY_BYTES];
            place.copy_from_slice(&receipt(entry as u32, 1).to_bytes());
        }
        let mut receipts = Receipts::default();
        assert!(receipts.take_entries(0, &bytes));
        assert!(!receipts.take_entries(2048, &vec![0; READ_BYTES]));
        assert_eq!(receipts.find(&receipt(3, 1).place), Some(receipt(3, 1)));
        let mut given = [10, 11, 12].map(|place| keep(&mut receipts, receipt(place, 1)));
        given.sort_unstable();
        assert_eq!(given, [1, 2, 4]);
    }
}
