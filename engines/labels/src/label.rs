//! The contents of a label: its device and its pool.

use std::path::Path;

use crate::device::Device;
use crate::list::{Value, entries, nested};
use crate::uberblock::Uberblock;

/// Bytes of a device before and after the area that the pool allocates from: labels, and room for a boot loader.
const AROUND_BYTES: u64 = (4 << 20) + (512 << 10);

/// `state` of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelState {
    /// In use, or was when its host stopped without exporting it.
    Active,
    /// Exported: free for any host.
    Exported,
    /// Its pool was destroyed.
    Destroyed,
    /// A spare of a pool.
    Spare,
    /// A cache of a pool.
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

/// One label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The state of the device: which kind of owner it has.
    pub state: LabelState,
    /// The device's own GUID.
    pub guid: u64,
    /// Its pool's GUID; zero for spares and caches.
    pub pool_guid: u64,
    /// Its pool's name; empty for spares and caches.
    pub pool_name: String,
    /// GUID of its top-level vdev.
    pub top_guid: u64,
    /// When it was written.
    pub txg: u64,
    /// Host id of its last user.
    pub host_id: Option<u32>,
    /// Name of that host.
    pub host_name: Option<String>,
    /// Number of the record of its legs (`bulkhead:record`), if its pool has one.
    pub record: Option<u64>,
    /// Number of the import that wrote it (`bulkhead:start`).
    pub start: Option<u64>,
}

/// The name of the number of an import in a label (`BH_LABEL_START`).
pub const START: &str = "bulkhead:start";
/// The name of the number of a record in a label (`BH_LABEL_RECORD`).
pub const RECORD: &str = "bulkhead:record";

impl Label {
    /// Reads a packed list; `None` if it does not describe a device that belongs to a pool.
    pub fn parse(packed: &[u8]) -> Option<Self> {
        let entries = entries(packed)?;
        let number = |name| find_number(&entries, name);
        let text = |name| match find(&entries, name)? {
            Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Value::Number(_) => None,
        };
        let state = LabelState::from_raw(number("state")?)?;
        let label = Self {
            state,
            guid: number("guid")?,
            pool_guid: number("pool_guid").unwrap_or(0),
            pool_name: text("name").unwrap_or_default(),
            top_guid: number("top_guid").unwrap_or(0),
            txg: number("txg").unwrap_or(0),
            host_id: number("hostid").map(|id| id as u32),
            host_name: text("hostname"),
            record: number(RECORD),
            start: number(START),
        };
        let is_member = !matches!(state, LabelState::Spare | LabelState::Cache);
        // A device being added carries a label of transaction group 0 until it is in.
        let is_whole = label.pool_guid != 0 && !label.pool_name.is_empty() && label.txg != 0;
        (is_whole || !is_member).then_some(label)
    }

    /// The newest label of the file or block device at `path`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// The device cannot be opened.
    pub fn read(path: &Path) -> rustix::io::Result<Option<Self>> {
        Ok(Device::open(path)?.and_then(|device| device.newest_label()))
    }

    /// Like `parse`, but also `None` after `wipefs -a`, which leaves labels by which no pool is found.
    ///
    /// # Errors
    ///
    /// The device cannot be opened.
    pub fn read_unless_wiped(path: &Path) -> rustix::io::Result<Option<Self>> {
        let device = Device::open(path)?.filter(|device| !device.is_wiped());
        Ok(device.and_then(|device| device.newest_label()))
    }
}

/// The minimum bytes of a disk that can be attached to this one's mirror or replace it, from the packed list of a
/// label; `None` for a device that is not part of a mirror.
fn attachable_bytes_min(packed: &[u8]) -> Option<u64> {
    let group = nested(packed, "vdev_tree")?;
    // The allocatable size (asize) is a multiple of this; the rest of the smallest disk is unused.
    let room = find_number(&group, "asize")?;
    let shift = u32::try_from(find_number(&group, "metaslab_shift")?).ok()?;
    let step = 1_u64.checked_shl(shift)?;
    let is_raidz = find_number(&group, "nparity").is_some();
    (room - room % step)
        .checked_add(AROUND_BYTES)
        .filter(|_| !is_raidz)
}

/// The bytes of the smallest disk that can be attached to the device at `path` or replace it, computed from its label
/// as ZFS does. `None` if that is unknown or the device is part of a raidz.
///
/// # Errors
///
/// The device cannot be opened.
pub fn replacement_bytes_min(path: &Path) -> rustix::io::Result<Option<u64>> {
    let device = Device::open(path)?;
    Ok(device.and_then(|device| device.lists(attachable_bytes_min).into_iter().min()))
}

/// A device that was, or was about to be, detached from its pool: its label is written before the configuration of the
/// pool without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The device's own GUID.
    pub guid: u64,
    /// The GUID of its former pool.
    pub pool_guid: u64,
    /// The pool's uberblock at that time. Devices with an older one were outdated.
    pub root_txg: u64,
}

impl Detached {
    /// Reads a packed list and its uberblock; `None` if it is not that of a detached device.
    pub(crate) fn parse(packed: &[u8], uberblock: Uberblock) -> Option<Self> {
        let entries = entries(packed)?;
        let number = |name| find_number(&entries, name);
        // A device that is being added has a creation transaction group.
        let is_let_go = number("txg") == Some(0) && number("create_txg") == Some(0);
        let found = Self {
            guid: number("guid")?,
            pool_guid: number("pool_guid")?,
            root_txg: uberblock.root_txg,
        };
        (is_let_go && uberblock.txg == 0 && uberblock.root_txg != 0).then_some(found)
    }
}

fn find<'a>(entries: &[(&[u8], Value<'a>)], name: &str) -> Option<Value<'a>> {
    let found = entries.iter().find(|(one, _)| *one == name.as_bytes());
    found.map(|(_, value)| *value)
}

/// The text of that name.
pub(crate) fn find_text<'a>(entries: &[(&[u8], Value<'a>)], name: &str) -> Option<&'a [u8]> {
    match find(entries, name)? {
        Value::Text(text) => Some(text),
        Value::Number(_) => None,
    }
}

/// The number of that name.
pub(crate) fn find_number(entries: &[(&[u8], Value<'_>)], name: &str) -> Option<u64> {
    match find(entries, name)? {
        Value::Number(number) => Some(number),
        Value::Text(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::tests::{a_list, a_number, a_text, packed};

    fn list(state: u64, txg: u64) -> Vec<u8> {
        packed(&[
            a_text("name", "tank"),
            a_number("state", state),
            a_number("txg", txg),
            a_number("pool_guid", 11),
            a_number("guid", 12),
            a_number("top_guid", 13),
            a_number("hostid", 0x00ab_cdef),
            a_text("hostname", "left"),
            a_number("bulkhead:record", 14),
            a_number("bulkhead:start", 15),
        ])
    }

    #[test]
    fn label_parses_pool_device_and_last_host() {
        let expected = Label {
            state: LabelState::Active,
            guid: 12,
            pool_guid: 11,
            pool_name: "tank".to_owned(),
            top_guid: 13,
            txg: 77,
            host_id: Some(0x00ab_cdef),
            host_name: Some("left".to_owned()),
            record: Some(14),
            start: Some(15),
        };
        assert_eq!(Label::parse(&list(0, 77)), Some(expected));
    }

    /// The label's own numbers differ from those of the vdev that it describes.
    #[test]
    fn smallest_replacement_disk_follows_from_asize_of_the_vdev() {
        let of = |group: &[Vec<u8>]| {
            let nested = a_list("vdev_tree", group);
            attachable_bytes_min(&packed(&[a_number("asize", 1), nested]))
        };
        let (room, shift) = (
            a_number("asize", (40 << 30) + 5),
            a_number("metaslab_shift", 29),
        );
        let mirror = of(&[room.clone(), shift.clone()]);
        assert_eq!(mirror, Some((40 << 30) + (4 << 20) + (512 << 10)));
        let most = a_number("asize", u64::MAX);
        assert_eq!(of(&[most, a_number("metaslab_shift", 9)]), None);
        assert_eq!(of(&[room.clone(), shift, a_number("nparity", 1)]), None);
        assert_eq!(of(&[room.clone(), a_number("metaslab_shift", 64)]), None);
        assert_eq!(of(&[room]), None);
        assert_eq!(attachable_bytes_min(&list(0, 77)), None);
    }

    #[test]
    fn label_with_txg_zero_is_none_and_spare_parses_without_pool() {
        assert_eq!(Label::parse(&list(0, 0)), None);
        assert_eq!(Label::parse(&list(9, 77)), None, "no state that is known");
        let spare = packed(&[a_number("state", 3), a_number("guid", 12)]);
        let state = Label::parse(&spare).map(|label| label.state);
        assert_eq!(state, Some(LabelState::Spare));
    }

    #[test]
    fn newest_valid_label_copy_is_used() {
        const MIB: u64 = 1 << 20;
        let dir = tempfile::tempdir().expect("a dir");
        let path = dir.path().join("disk");
        let file = std::fs::File::create(&path).expect("made");
        file.set_len(64 * MIB).expect("long enough");
        assert_eq!(Label::read(&path), Ok(None));
        // Labels of 256 KiB, two at each end; the list is 16 KiB into each.
        let starts = [0, 256 << 10, 64 * MIB - (512 << 10), 64 * MIB - (256 << 10)];
        for (start, bytes) in starts
            .iter()
            .zip([list(0, 5), list(1, 9), vec![255; 99], list(0, 7)])
        {
            use std::os::unix::fs::FileExt;
            file.write_all_at(&bytes, start + (16 << 10))
                .expect("written");
        }
        let found = Label::read(&path).expect("it opens").expect("a label");
        assert_eq!((found.txg, found.state), (9, LabelState::Exported));
        // `wipefs` leaves three uberblocks, in the first label. A spare has one in each.
        for (slots, is_there) in [([0, 0, 0, 1], false), ([0, 1, 2, 3], true)] {
            for (slot, start) in slots.into_iter().zip(starts) {
                use std::os::unix::fs::FileExt;
                let at = if is_there { start } else { slot * 1024 };
                file.write_all_at(&0x00ba_b10c_u64.to_le_bytes(), at + (128 << 10))
                    .expect("written");
            }
            let found = Label::read_unless_wiped(&path).expect("it opens");
            assert_eq!(found.is_some(), is_there);
        }
        assert!(Label::read(&dir.path().join("none")).is_err());
    }
}
