//! The labels of a device, with the whole list in each: the library reads the device's part of the configuration.

use std::hash::Hasher;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use labels::{Detached, Device, Source, Uberblock};

use crate::device::{self, OwnerOnDisk};
use crate::nvlist::NvList;

/// A label of a device.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// Where the device was found.
    pub(crate) path: PathBuf,
    plain: labels::Label,
    pub(crate) list: NvList,
    /// Equal for equal bytes.
    pub(crate) sum: u64,
}

/// It is a label with further contents.
impl Deref for Label {
    type Target = labels::Label;

    fn deref(&self) -> &labels::Label {
        &self.plain
    }
}

/// The contents of a device that belongs to a pool.
#[derive(Debug)]
pub(crate) struct Written {
    /// Its labels, one at least.
    pub(crate) labels: Vec<Label>,
    /// Its uberblocks, in ascending order.
    pub(crate) roots: Vec<Uberblock>,
    /// Its length in bytes.
    pub(crate) size: u64,
}

impl Written {
    pub(crate) fn newest(&self) -> Option<Uberblock> {
        self.roots.last().copied()
    }

    /// The newest label, whether its transaction group was finished or not.
    pub(crate) fn last(&self) -> &Label {
        let newest = self.labels.iter().max_by_key(|label| label.txg);
        newest.expect("one at least")
    }
}

/// The state of a device by its labels.
#[derive(Debug)]
pub(crate) enum Membership {
    /// It belongs to a pool.
    Member(Written),
    /// Its pool has detached it; its path.
    Detached(PathBuf, Detached),
}

/// Reads the file or block device at `path`; `None` if it has no label.
pub(crate) fn read(path: &Path) -> rustix::io::Result<Option<Membership>> {
    let Some(device) = Device::open(path)? else {
        return Ok(None);
    };
    let labels = device.lists(|bytes| {
        Some(Label {
            path: path.to_owned(),
            plain: labels::Label::parse(bytes)?,
            list: NvList::unpack(bytes)?,
            sum: sum(bytes),
        })
    });
    if labels.is_empty() {
        let detached = device.detached();
        return Ok(detached.map(|label| Membership::Detached(path.to_owned(), label)));
    }
    Ok(Some(Membership::Member(Written {
        labels,
        roots: device.uberblocks(),
        size: device.size(),
    })))
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The newest uberblock on the device at `path`; `None` if none can be read.
pub(crate) fn newest_uberblock(path: &Path) -> Option<Uberblock> {
    Device::open(path).ok().flatten()?.newest_uberblock()
}

/// Like [`newest_uberblock`], with the transaction group of the previous one.
pub(crate) fn newest_uberblocks(path: &Path) -> Option<(Uberblock, u64)> {
    Device::open(path).ok().flatten()?.newest_uberblocks()
}

/// The pool's owner as recorded on the device at `path`. A device on another host is read by its driver.
pub(crate) fn owner_on_disk(path: &Path) -> Option<OwnerOnDisk> {
    match device::far_labels(path) {
        Some(device) => owner_by(&device),
        None => owner_by(&Device::open(path).ok().flatten()?),
    }
}

fn owner_by<S: Source>(device: &Device<S>) -> Option<OwnerOnDisk> {
    let label = device.newest_label()?;
    Some(OwnerOnDisk {
        pool_guid: label.pool_guid,
        host_id: label.host_id,
        label_txg: label.txg,
        newest_txg: device
            .newest_uberblock()
            .map_or(0, |uberblock| uberblock.txg),
    })
}
