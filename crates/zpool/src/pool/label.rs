//! The label that ZFS writes on each device: which pool it belongs to, who used it last, and the
//! shape of its part of the pool.
//!
//! There are four copies, two at the start and two at the end of the device, so that one survives
//! whatever overwrites the others or a crash while one is written.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, SeekFrom, seek};

use crate::nvlist::NvList;

/// Bytes of one label.
const LABEL_BYTES: u64 = 256 << 10;
/// Where in a label the list of names and values begins, after boot blocks.
const LIST_OFFSET: u64 = 16 << 10;
/// Bytes of the list, without the checksum behind it.
const LIST_BYTES: usize = (112 << 10) - 40;
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
    let fd = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    )?;
    let size = seek(&fd, SeekFrom::End(0))?;
    if size < DEVICE_BYTES_MIN {
        return Ok(None);
    }
    let end = size - size % LABEL_BYTES;
    let mut best: Option<Label> = None;
    let mut bytes = vec![0; LIST_BYTES];
    for start in [0, LABEL_BYTES, end - 2 * LABEL_BYTES, end - LABEL_BYTES] {
        // A part that cannot be read is what the other copies are for.
        let Ok(()) = read_exactly(&fd, start + LIST_OFFSET, &mut bytes) else {
            continue;
        };
        let label = NvList::unpack(&bytes).and_then(|list| Label::parse(path, list));
        if let Some(label) = label {
            if best.as_ref().is_none_or(|best| best.txg < label.txg) {
                best = Some(label);
            }
        }
    }
    Ok(best)
}

fn read_exactly(fd: &rustix::fd::OwnedFd, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(fd, &mut bytes[done..], offset + done as u64) {
            Ok(0) => return Err(rustix::io::Errno::IO),
            Ok(count) => done += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
