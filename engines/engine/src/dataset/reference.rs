//! A name that was checked: a pool (its root dataset), a volume or file system, or a snapshot.

use units::{PoolName, SnapshotName, VolumeName};

/// Any dataset or snapshot, by its checked name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetRef<'a>(&'a str);

impl<'a> DatasetRef<'a> {
    /// The full name.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// For names that a list of checked names was turned into.
    pub fn from_checked(name: &'a str) -> Self {
        Self(name)
    }

    /// The pool that it is in.
    pub fn pool(self) -> &'a str {
        self.0.split(['/', '@']).next().unwrap_or_default()
    }
}

impl<'a> From<&'a PoolName> for DatasetRef<'a> {
    fn from(name: &'a PoolName) -> Self {
        Self(name.as_str())
    }
}

impl<'a> From<&'a VolumeName> for DatasetRef<'a> {
    fn from(name: &'a VolumeName) -> Self {
        Self(name.as_str())
    }
}

impl<'a> From<&'a SnapshotName> for DatasetRef<'a> {
    fn from(name: &'a SnapshotName) -> Self {
        Self(name.as_str())
    }
}
