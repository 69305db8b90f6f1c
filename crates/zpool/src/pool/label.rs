//! The label that ZFS writes on each device: which pool it belongs to, who used it last, and the
//! shape of its part of the pool.
//!
//! There are four copies, two at the start and two at the end of the device, so that one survives
//! whatever overwrites the others or a crash while one is written. In each, a ring of uberblocks
//! follows the description: the roots of the last transaction groups.

use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, open, seek};
use rustix::io::Errno;

use crate::device::OwnerOnDisk;
use crate::nvlist::NvList;

/// Bytes of one label.
const LABEL_BYTES: u64 = 256 << 10;
/// Where in a label the list of names and values begins, after boot blocks.
const LIST_OFFSET: u64 = 16 << 10;
/// Bytes of the list, without the checksum behind it.
const LIST_BYTES: usize = (112 << 10) - 40;
/// Where in a label the ring of uberblocks begins.
const RING_OFFSET: u64 = 128 << 10;
/// Bytes of the ring.
const RING_BYTES: usize = 128 << 10;
/// Alignment that suits every disk.
const ALIGNMENT: usize = 4096;
/// Smallest device that ZFS accepts.
pub(crate) const DEVICE_BYTES_MIN: u64 = 64 << 20;

/// `state` of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelState {
    /// In use, or was when its host stopped without exporting it.
    Active,
    /// Free for any host.
    Exported,
    /// Its pool was destroyed.
    Destroyed,
    /// A spare of some pool.
    Spare,
    /// A cache of some pool.
    Cache,
}

impl LabelState {
    fn from_raw(raw: u64) -> Option<Self> {
        Some(match raw {
            0 => Self::Active,
            1 => Self::Exported,
            2 => Self::Destroyed,
            3 => Self::Spare,
            4 => Self::Cache,
            _ => return None,
        })
    }
}

/// The best label of a device.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// Where the device was found.
    pub(crate) path: PathBuf,
    pub(crate) state: LabelState,
    /// The device's own number.
    pub(crate) guid: u64,
    /// Its pool's number; zero for spares and caches.
    pub(crate) pool_guid: u64,
    /// Its pool's name; empty for spares and caches.
    pub(crate) pool_name: String,
    /// Number of the group it is in.
    pub(crate) top_guid: u64,
    /// When it was written.
    pub(crate) txg: u64,
    pub(crate) list: NvList,
}

impl Label {
    fn parse(path: &Path, list: NvList) -> Option<Self> {
        let view = list.view();
        let state = LabelState::from_raw(view.u64("state")?)?;
        let member = !matches!(state, LabelState::Spare | LabelState::Cache);
        let label = Self {
            path: path.to_owned(),
            state,
            guid: view.u64("guid")?,
            pool_guid: view.u64("pool_guid").unwrap_or(0),
            pool_name: view.text("name").unwrap_or_default(),
            top_guid: view.u64("top_guid").unwrap_or(0),
            txg: view.u64("txg").unwrap_or(0),
            list,
        };
        // A device being added carries a label of transaction group 0 until it is in.
        let whole = label.pool_guid != 0 && !label.pool_name.is_empty() && label.txg != 0;
        (whole || !member).then_some(label)
    }
}

/// Reads the newest label of the file or block device at `path`; `None` if it has none.
pub(crate) fn read(path: &Path) -> rustix::io::Result<Option<Label>> {
    let Some(device) = Device::open(path)? else {
        return Ok(None);
    };
    let mut best: Option<Label> = None;
    let mut memory = Aligned::new(LIST_BYTES);
    for start in device.labels() {
        // A part that cannot be read is what the other copies are for.
        let Ok(bytes) = device.read(start + LIST_OFFSET, LIST_BYTES, &mut memory) else {
            continue;
        };
        let label = NvList::unpack(bytes).and_then(|list| Label::parse(path, list));
        if let Some(label) = label {
            if best.as_ref().is_none_or(|best| best.txg < label.txg) {
                best = Some(label);
            }
        }
    }
    Ok(best)
}

/// The newest uberblock on the device at `path`; `None` if none can be read.
pub(crate) fn newest_uberblock(path: &Path) -> Option<Uberblock> {
    let device = Device::open(path).ok().flatten()?;
    let mut memory = Aligned::new(RING_BYTES);
    let mut newest: Option<Uberblock> = None;
    for start in device.labels() {
        let Ok(bytes) = device.read(start + RING_OFFSET, RING_BYTES, &mut memory) else {
            continue;
        };
        let found = bytes
            .chunks_exact(Uberblock::DISTANCE_MIN)
            .filter_map(Uberblock::parse);
        newest = newest.into_iter().chain(found).max_by_key(|one| one.txg);
    }
    newest
}

/// What is written on the device at `path` about its pool's owner.
pub(crate) fn owner_on_disk(path: &Path) -> Option<OwnerOnDisk> {
    let label = read(path).ok().flatten()?;
    Some(OwnerOnDisk {
        pool_guid: label.pool_guid,
        host_id: label.list.view().u64("hostid").map(|id| id as u32),
        label_txg: label.txg,
        newest_txg: newest_uberblock(path).map_or(0, |uberblock| uberblock.txg),
    })
}

/// What is of interest of an uberblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uberblock {
    /// Its transaction group.
    pub(crate) txg: u64,
    /// Whether its writer leaves signs of life (`multihost=on`).
    pub(crate) is_watched: bool,
}

impl Uberblock {
    /// Uberblocks are that far apart, or a multiple, in bytes.
    const DISTANCE_MIN: usize = 1024;
    const MAGIC: u64 = 0x00ba_b10c;
    const MULTIHOST_MAGIC: u64 = 0xa11c_ea11;

    fn parse(bytes: &[u8]) -> Option<Self> {
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
        // Members 3 to 21 are a sum, a time, a block pointer and a version.
        let (magic, delay_ns) = (number(22, swapped)?, number(23, swapped)?);
        Some(Self {
            txg: number(2, swapped)?,
            is_watched: magic == Self::MULTIHOST_MAGIC && delay_ns != 0,
        })
    }
}

/// An open device whose labels are read past the cache of this machine: what another head has
/// written since it was cached must be seen.
struct Device {
    fd: OwnedFd,
    size: u64,
}

impl Device {
    /// `None` if it is too small to carry labels.
    fn open(path: &Path) -> rustix::io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mut fd = open(path, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&fd)?.st_mode) == FileType::BlockDevice {
            fd = open(path, flags | OFlags::DIRECT, Mode::empty())?;
        }
        let size = seek(&fd, SeekFrom::End(0))?;
        Ok((size >= DEVICE_BYTES_MIN).then_some(Self { fd, size }))
    }

    /// Where its labels begin.
    fn labels(&self) -> [u64; 4] {
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
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pread(&self.fd, &mut bytes[done..], offset + done as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(&bytes[..length])
    }
}

/// Memory from which a part can be taken that is aligned for a disk.
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
    use super::*;

    fn uberblock(txg: u64, multihost: [u64; 2], write: fn(u64) -> [u8; 8]) -> Vec<u8> {
        let mut members = [0; 128];
        members[0] = Uberblock::MAGIC;
        members[2] = txg;
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
                    is_watched,
                };
                assert_eq!(found, Some(expected));
            }
        }
        assert_eq!(Uberblock::parse(&[0; 1024]), None);
        assert_eq!(Uberblock::parse(&[]), None);
    }
}
