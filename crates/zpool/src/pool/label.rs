//! The label that ZFS writes on each device, with the whole list that it holds: the shape of the device's
//! part of the pool is for the library to read.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use labels::{Device, Uberblock};

use crate::device::OwnerOnDisk;
use crate::nvlist::NvList;

/// The best label of a device.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// Where the device was found.
    pub(crate) path: PathBuf,
    plain: labels::Label,
    pub(crate) list: NvList,
}

/// It is a label that has more to it.
impl Deref for Label {
    type Target = labels::Label;

    fn deref(&self) -> &labels::Label {
        &self.plain
    }
}

/// Reads the newest label of the file or block device at `path`; `None` if it has none.
pub(crate) fn read(path: &Path) -> rustix::io::Result<Option<Label>> {
    let found = Device::open(path)?.map(|device| {
        device.lists(|bytes| {
            Some(Label {
                path: path.to_owned(),
                plain: labels::Label::parse(bytes)?,
                list: NvList::unpack(bytes)?,
            })
        })
    });
    let labels = found.into_iter().flatten();
    Ok(labels.reduce(|best, next| if best.txg < next.txg { next } else { best }))
}

/// The newest uberblock on the device at `path`; `None` if none can be read.
pub(crate) fn newest_uberblock(path: &Path) -> Option<Uberblock> {
    Device::open(path).ok().flatten()?.newest_uberblock()
}

/// What is written on the device at `path` about its pool's owner.
pub(crate) fn owner_on_disk(path: &Path) -> Option<OwnerOnDisk> {
    let device = Device::open(path).ok().flatten()?;
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
