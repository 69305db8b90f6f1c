//! Reads the parts of the labels from a device.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, SeekFrom, fstat, seek};
use rustix::io::Errno;

use crate::label::{Detached, Label};
use crate::open::open_disk;
use crate::uberblock::Uberblock;

/// Bytes of one label.
const LABEL_BYTES: u64 = 256 << 10;
/// Offset of the packed list in a label, after boot blocks.
const LIST_OFFSET: u64 = 16 << 10;
/// Bytes of the list, without the checksum after it.
const LIST_BYTES: usize = (112 << 10) - 40;
/// Offset of the ring of uberblocks in a label.
const RING_OFFSET: u64 = 128 << 10;
/// Bytes of the ring.
const RING_BYTES: usize = 128 << 10;
/// Alignment that suits every disk.
const ALIGNMENT: usize = 4096;
/// Smallest device that ZFS accepts.
pub const DEVICE_BYTES_MIN: u64 = 64 << 20;

/// A source of a device's bytes.
pub trait Source {
    /// Fills `bytes` from `offset`, in bytes. Both are multiples of 4096, and so is the address.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be read or are past the end of the device.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()>;
}

impl Source for OwnedFd {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pread(self, &mut bytes[done..], offset + done as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// An open device. Its labels are read with the page cache of this host bypassed, because another head may have written
/// since they were cached.
#[derive(Debug)]
pub struct Device<S = OwnedFd> {
    source: S,
    size: u64,
}

impl Device {
    /// The file or block device at `path`; `None` if it is too small to carry labels.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is neither.
    pub fn open(path: &Path) -> rustix::io::Result<Option<Self>> {
        let mut fd = open_disk(path, OFlags::RDONLY)?;
        if FileType::from_raw_mode(fstat(&fd)?.st_mode) == FileType::BlockDevice {
            fd = open_disk(path, OFlags::RDONLY | OFlags::DIRECT)?;
        }
        let size = seek(&fd, SeekFrom::End(0))?;
        Ok(Self::of(fd, size))
    }
}

impl<S: Source> Device<S> {
    /// A device of `size` bytes; `None` if it is too small to carry labels.
    pub fn of(source: S, size: u64) -> Option<Self> {
        (size >= DEVICE_BYTES_MIN).then_some(Self { source, size })
    }

    /// Applies `parse` to the packed list of each label. An unreadable label is skipped: the other copies cover for it.
    pub fn lists<T>(&self, mut parse: impl FnMut(&[u8]) -> Option<T>) -> Vec<T> {
        let mut memory = Aligned::new(LIST_BYTES);
        let starts = self.starts().into_iter();
        let found = starts.filter_map(|start| {
            let bytes = self.read(start + LIST_OFFSET, LIST_BYTES, &mut memory);
            bytes.ok().and_then(&mut parse)
        });
        found.collect()
    }

    /// Applies `parse` to the packed list of the first label.
    pub fn first_list<T>(&self, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut memory = Aligned::new(LIST_BYTES);
        let bytes = self.read(LIST_OFFSET, LIST_BYTES, &mut memory).ok()?;
        parse(bytes)
    }

    /// The newest label, or the first of several; `None` if it has none.
    pub fn newest_label(&self) -> Option<Label> {
        newest_settled(self.labels(), |label| label.txg, None)
    }

    /// The label of a device that was detached from its pool.
    pub fn detached(&self) -> Option<Detached> {
        let uberblock = self.newest_uberblock()?;
        self.lists(|packed| Detached::parse(packed, uberblock))
            .pop()
    }

    /// Every readable label.
    pub fn labels(&self) -> Vec<Label> {
        self.lists(Label::parse)
    }

    /// The newest valid uberblock; `None` if there is none.
    pub fn newest_uberblock(&self) -> Option<Uberblock> {
        self.rings().newest().next()
    }

    /// The newest valid uberblock, and the transaction group of the previous one; 0 if there is none.
    pub fn newest_uberblocks(&self) -> Option<(Uberblock, u64)> {
        let rings = self.rings();
        let mut newest = rings.newest();
        let first = newest.next()?;
        Some((first, newest.next().map_or(0, |before| before.txg)))
    }

    /// The valid uberblocks, one per transaction group, in ascending order.
    pub fn uberblocks(&self) -> Vec<Uberblock> {
        let mut all: Vec<_> = self.rings().newest().collect();
        all.reverse();
        all
    }

    fn rings(&self) -> Rings {
        let mut memory = Aligned::new(RING_BYTES);
        let mut rings = Rings::default();
        for start in self.starts() {
            if let Ok(bytes) = self.read(start + RING_OFFSET, RING_BYTES, &mut memory) {
                rings.add(start + RING_OFFSET, bytes);
            }
        }
        rings
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the device was wiped by `wipefs -a`: that erases the marks of uberblocks until fewer than four are left,
    /// and leaves the lists of names and values as they were. A device of a pool has one in each label from the
    /// beginning. One that cannot be read is not empty.
    pub fn is_wiped(&self) -> bool {
        let mut memory = Aligned::new(RING_BYTES);
        let mut marks = 0;
        for start in self.starts() {
            let Ok(bytes) = self.read(start + RING_OFFSET, RING_BYTES, &mut memory) else {
                return false;
            };
            let found = bytes
                .chunks_exact(Uberblock::DISTANCE_MIN)
                .filter(|chunk| Uberblock::is_marked(chunk));
            marks += found.count();
        }
        marks < self.starts().len()
    }

    /// Where its labels begin.
    fn starts(&self) -> [u64; 4] {
        let end = self.size - self.size % LABEL_BYTES;
        [0, LABEL_BYTES, end - 2 * LABEL_BYTES, end - LABEL_BYTES]
    }

    /// Reads `length` bytes at `offset`, which is a multiple of the alignment.
    fn read<'a>(
        &self,
        offset: u64,
        length: usize,
        memory: &'a mut Aligned,
    ) -> rustix::io::Result<&'a [u8]> {
        let bytes = memory.bytes(length.next_multiple_of(ALIGNMENT));
        self.source.read(offset, bytes)?;
        Ok(&bytes[..length])
    }
}

/// The rings of uberblocks of one device.
#[derive(Default)]
struct Rings {
    /// Where each ring starts on the device, in bytes, and its contents.
    bytes: Vec<(u64, Vec<u8>)>,
    /// Uberblock candidates by transaction group: the ring and the offset in it.
    found: BTreeMap<u64, Vec<(usize, usize, Uberblock)>>,
}

impl Rings {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let slots = bytes.chunks_exact(Uberblock::DISTANCE_MIN).enumerate();
        for (index, slot) in slots {
            if let Some(one) = Uberblock::parse(slot) {
                let place = (self.bytes.len(), index * Uberblock::DISTANCE_MIN, one);
                self.found.entry(one.txg).or_default().push(place);
            }
        }
        self.bytes.push((offset, bytes.to_vec()));
    }

    /// The valid uberblocks, one per transaction group, newest first. Verifies only those that are consumed.
    fn newest(&self) -> impl Iterator<Item = Uberblock> + '_ {
        self.found.values().rev().filter_map(|copies| {
            let mut copies = copies.iter().rev();
            let valid = copies.find(|(ring, start, _)| {
                let (offset, bytes) = &self.bytes[*ring];
                Uberblock::is_whole(bytes, *start, *offset)
            });
            valid.map(|(_, _, one)| *one)
        })
    }
}

/// Erases the labels that `wipefs -a` left on the device at `path` ([`Device::is_wiped`]); returns whether there were
/// any.
///
/// # Errors
///
/// It cannot be opened or written.
pub fn forget_wiped(path: &Path) -> rustix::io::Result<bool> {
    let device = Device::open(path)?;
    let is_left = |device: &Device| !device.labels().is_empty() && device.is_wiped();
    let Some(device) = device.filter(is_left) else {
        return Ok(false);
    };
    let fd = open_disk(path, OFlags::WRONLY | OFlags::DSYNC)?;
    let zeros = vec![0; (RING_OFFSET - LIST_OFFSET) as usize];
    for start in device.starts() {
        let mut done = 0;
        while done < zeros.len() {
            let at = start + LIST_OFFSET + done as u64;
            match rustix::io::pwrite(&fd, &zeros[done..], at) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(true)
}

/// The area at the start of the device at `path` that changes only with the configuration of a pool.
///
/// # Errors
///
/// It cannot be opened, or is shorter.
pub(crate) fn beginning(path: &Path) -> rustix::io::Result<Vec<u8>> {
    let fd = open_disk(path, OFlags::RDONLY | OFlags::DIRECT)
        .or_else(|_| open_disk(path, OFlags::RDONLY))?;
    let mut memory = Aligned::new(RING_OFFSET as usize);
    let bytes = memory.bytes(RING_OFFSET as usize);
    fd.read(0, bytes)?;
    Ok(bytes.to_vec())
}

/// Whether a write of this size at `offset` of a device may be that of an uberblock. Each is written to all labels;
/// only the first one is considered here.
pub fn may_write_root(offset: u64, length: usize) -> bool {
    (RING_OFFSET..LABEL_BYTES).contains(&offset) && length <= RING_BYTES
}

/// The transaction group of the newest uberblock that such a write of `data` stores on the device.
pub fn root_written(data: &[u8]) -> Option<u64> {
    let roots = data
        .chunks(Uberblock::DISTANCE_MIN)
        .filter_map(Uberblock::parse);
    roots.map(|root| root.txg).max()
}

/// The newest label of one device, or the first of several devices. Half of the labels are written before the uberblock
/// that commits their transaction group: a label that is newer than its pool's newest uberblock describes a change
/// that was never committed, such as an export.
pub fn newest_settled<T>(
    labels: Vec<T>,
    txg: impl Fn(&T) -> u64,
    newest: Option<Uberblock>,
) -> Option<T> {
    let is_settled = |label: &T| newest.is_none_or(|newest| txg(label) <= newest.txg);
    let settled = labels.into_iter().filter(is_settled);
    settled.reduce(
        |best, next| {
            if txg(&best) < txg(&next) { next } else { best }
        },
    )
}

/// Memory that contains a part with a disk's alignment.
struct Aligned(Vec<u8>);

impl Aligned {
    fn new(length: usize) -> Self {
        Self(vec![0; length.next_multiple_of(ALIGNMENT) + ALIGNMENT])
    }

    fn bytes(&mut self, length: usize) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::uberblock::{seal, tests::uberblock};

    struct Memory(RefCell<Vec<u8>>);

    impl Source for &Memory {
        fn read(&self, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()> {
            let start = usize::try_from(offset).expect("in memory");
            let length = bytes.len();
            bytes.copy_from_slice(&self.0.borrow()[start..start + length]);
            Ok(())
        }
    }

    /// A power failure during the write of an uberblock leaves its first sectors on the disk.
    #[test]
    fn uberblock_without_valid_checksum_is_ignored() {
        const SLOT_BYTES: usize = 4096;
        let size = DEVICE_BYTES_MIN;
        let memory = Memory(RefCell::new(vec![0; size as usize]));
        let device = Device::of(&memory, size).expect("large enough");
        let write = |txg: u64, sectors: usize| {
            for start in device.starts() {
                let offset = start + RING_OFFSET + txg * SLOT_BYTES as u64;
                let mut slot = uberblock(txg, [0, 0], u64::to_le_bytes);
                slot.resize(SLOT_BYTES, 0);
                seal(&mut slot, offset);
                let at = offset as usize;
                memory.0.borrow_mut()[at..at + 512 * sectors]
                    .copy_from_slice(&slot[..512 * sectors]);
            }
        };
        let groups = || -> Vec<u64> { device.uberblocks().iter().map(|one| one.txg).collect() };
        for txg in [5, 6, 7] {
            write(txg, 8);
        }
        write(8, 7);
        assert_eq!(groups(), [5, 6, 7]);
        let newest = device.newest_uberblocks();
        assert_eq!(newest.map(|(one, before)| (one.txg, before)), Some((7, 6)));
        write(8, 8);
        assert_eq!(groups(), [5, 6, 7, 8]);

        // A device that leaves its pool: one uberblock, with the checksum at the end of the ring.
        for start in &device.starts()[1..] {
            let offset = start + RING_OFFSET;
            let mut ring = uberblock(1, [0, 0], u64::to_le_bytes);
            ring.resize(RING_BYTES, 0);
            // Its transaction group.
            ring[16..24].fill(0);
            seal(&mut ring, offset);
            let at = offset as usize;
            memory.0.borrow_mut()[at..at + RING_BYTES].copy_from_slice(&ring);
        }
        assert_eq!(groups(), [0, 5, 6, 7, 8]);
        for txg in [5, 6, 7, 8] {
            write(txg, 8);
        }

        // One of the four copies is sufficient.
        for start in &device.starts()[1..] {
            let at = (start + RING_OFFSET) as usize + 8 * SLOT_BYTES;
            memory.0.borrow_mut()[at + 600] ^= 1;
        }
        assert_eq!(device.newest_uberblock().map(|one| one.txg), Some(8));
        let at = RING_OFFSET as usize + 8 * SLOT_BYTES;
        memory.0.borrow_mut()[at + 600] ^= 1;
        assert_eq!(device.newest_uberblock().map(|one| one.txg), Some(7));
    }
}
