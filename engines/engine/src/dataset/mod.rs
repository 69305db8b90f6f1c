//! Datasets of a pool: volumes, their snapshots and clones.

mod error;
mod property;
mod reference;

use serde::Serialize;
use units::{ByteCount, Extent, VolumeName};

pub use error::{DatasetError, DatasetErrorKind};
pub use property::{
    Property, PropertyEdits, PropertySource, UNKNOWN_PROPERTY_OR_VALUE, UserProperties, Value,
};
pub use reference::DatasetRef;

use crate::keys::NewKey;

/// A range of a volume that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub extent: Extent,
    /// It was freed, and reads as zeroes.
    pub freed: bool,
}

/// The kind of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// Files, or only other datasets.
    Filesystem,
    /// A block device.
    Volume,
    /// A kind that this version does not support, or a dataset of an unfinished receive.
    Other,
}

/// A dataset or snapshot as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DatasetInfo {
    /// Full name, `POOL/NAME` or `POOL/NAME@SNAPSHOT`.
    pub name: String,
    /// Its kind; for a snapshot, that of the original.
    pub kind: DatasetKind,
    /// Whether it is a snapshot.
    pub snapshot: bool,
    /// The origin of a clone.
    pub origin: Option<String>,
    /// Does not change when the dataset is renamed or the pool moves.
    pub guid: u64,
    /// The transaction group it was made in.
    pub creation_txg: u64,
    /// Seconds since 1970.
    pub creation_time_s: u64,
    /// Space charged to it and its descendants; for a snapshot, the space that destroying it would
    /// free.
    pub used: ByteCount,
    /// Space of its current contents.
    pub referenced: ByteCount,
    /// Space available to it; zero for snapshots.
    pub available: ByteCount,
    /// Contents before compression.
    pub logical_referenced: ByteCount,
    /// Space set aside for it.
    pub refreservation: ByteCount,
    /// Breakdown of the space, and its limits; zero for snapshots, except their own writes.
    pub space: SpaceUse,
    /// Files, directories and the like, as of the last transaction group. An empty file system has
    /// [`FileSystemSpec::OBJECTS_EMPTY`] at most.
    pub objects: u64,
    /// Of a volume that is complete; zeros while its key is missing.
    pub volume: Option<VolumeShape>,
}

/// The space of a dataset by use, and its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpaceUse {
    /// Its present contents.
    pub by_data: ByteCount,
    /// Space that only its snapshots reference.
    pub by_snapshots: ByteCount,
    /// Space of its descendants.
    pub by_children: ByteCount,
    /// Set aside and not used yet.
    pub by_reservation: ByteCount,
    /// Before compression, with all that is below it.
    pub logical: ByteCount,
    /// Limit for it and its descendants; zero for no limit.
    pub quota: ByteCount,
    /// Reserved for it and its descendants.
    pub reservation: ByteCount,
    /// Limit for its own contents; zero for no limit.
    pub ref_quota: ByteCount,
    /// Written since the snapshot before it.
    pub written: ByteCount,
    /// Size before compression in percent of that after it.
    pub compress_percent: u64,
}

/// The two fixed numbers of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeShape {
    /// The size that clients see.
    pub size: ByteCount,
    /// The unit of allocation, checksums and compression; never changes.
    pub block_size: ByteCount,
}

/// Which datasets a listing has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshots {
    /// List them after their dataset.
    Include,
    /// Leave them out.
    Skip,
    /// List nothing else, and open none of them: their kind is [`DatasetKind::Other`], and of sizes only what they use
    /// and refer to is known.
    Only,
}

/// Whether an operation includes descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only the dataset itself; refused if it has dependents.
    One,
    /// With its snapshots and all descendants.
    Recursive,
}

/// A volume to be made.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    /// Its name.
    pub name: VolumeName,
    /// Its size, a multiple of the block size.
    pub size: ByteCount,
    /// Its block size. Small blocks suit random writes, large ones compress better; the default of
    /// kernel ZFS is 16K.
    pub block_size: ByteCount,
    /// Reserves no space: blocks are allocated as they are written. Otherwise the full size is
    /// reserved.
    pub sparse: bool,
    /// Native properties such as `compression` = `zstd-3`, and user properties such as
    /// `bulkhead:target` = `...`.
    pub properties: Vec<(String, Value)>,
    /// A separate key. Without one it is like its parent: unencrypted, or encrypted with the
    /// parent's key.
    pub key: Option<NewKey>,
}

impl VolumeSpec {
    /// The default of kernel ZFS.
    pub const BLOCK_SIZE_DEFAULT: ByteCount = ByteCount::kib(16);

    /// A sparse volume with default block size and properties.
    pub fn sparse(name: VolumeName, size: ByteCount) -> Self {
        Self {
            name,
            size,
            block_size: Self::BLOCK_SIZE_DEFAULT,
            sparse: true,
            properties: Vec::new(),
            key: None,
        }
    }
}

/// A file system to be made.
#[derive(Clone, Debug)]
pub struct FileSystemSpec {
    /// Its name.
    pub name: VolumeName,
    /// Its root directory's owner.
    pub owner: u32,
    /// And group.
    pub group: u32,
    /// And permissions, with the bits for set-uid, set-gid and sticky.
    pub mode: u32,
    /// Names must be UTF-8. Cannot change after creation.
    pub utf8_only: bool,
    /// As [`VolumeSpec::properties`].
    pub properties: Vec<(String, Value)>,
    /// As [`VolumeSpec::key`].
    pub key: Option<NewKey>,
}

impl FileSystemSpec {
    /// Default permissions of the root directory.
    pub const MODE_DEFAULT: u32 = 0o755;

    /// Objects of an empty file system of any software: the root directory, lists, and the registry of attributes.
    /// Kernel ZFS creates one more for shares.
    pub const OBJECTS_EMPTY: u64 = 8;

    /// A file system owned by root, with default properties.
    pub fn plain(name: VolumeName) -> Self {
        Self {
            name,
            owner: 0,
            group: 0,
            mode: Self::MODE_DEFAULT,
            utf8_only: false,
            properties: Vec::new(),
            key: None,
        }
    }
}

/// A damaged range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The dataset or snapshot; `None` for the pool's own metadata, and for destroyed datasets.
    pub dataset: Option<String>,
    /// First byte and length, within a volume's data; `None` for all other objects.
    pub extent: Option<(u64, ByteCount)>,
    /// The transaction group in which it was written, if known: older snapshots do not share it.
    pub birth_txg: Option<u64>,
}

/// Returns the new reservation of a volume with a changing size: `reserved` bytes are reserved, the old size needed
/// `old` and the new one needs `new`. Returns none if it is unchanged.
pub fn adjusted(reserved: u64, old: u64, new: u64) -> Option<u64> {
    let is_whole = reserved >= old;
    let is_chosen = reserved != old;
    match is_whole {
        false => None,
        true if is_chosen => (new > reserved).then_some(new),
        true => (new != reserved).then_some(new),
    }
}

#[cfg(test)]
mod tests {
    use super::adjusted;

    #[test]
    fn reservation_follows_volume_size_unless_set_explicitly() {
        assert_eq!(adjusted(10, 10, 20), Some(20));
        assert_eq!(adjusted(10, 10, 5), Some(5));
        assert_eq!(adjusted(0, 10, 20), None, "sparse");
        assert_eq!(adjusted(7, 10, 5), None, "less was chosen");
        assert_eq!(adjusted(15, 10, 5), None, "more was chosen");
        assert_eq!(adjusted(15, 10, 12), None);
        assert_eq!(
            adjusted(15, 10, 20),
            Some(20),
            "all of it is reserved as before"
        );
    }
}
