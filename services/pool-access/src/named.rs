//! The argument of a command: a pool, a dataset in it, or a snapshot.

use std::str::FromStr;

use units::{PoolName, SnapshotName, VolumeName};

/// It, as it was written.
#[derive(Clone, Debug)]
pub enum Named {
    /// `POOL`
    Pool(PoolName),
    /// `POOL/NAME`
    Dataset(VolumeName),
    /// `POOL/NAME@SNAPSHOT`
    Snapshot(SnapshotName),
}

impl Named {
    /// Returns the pool of the argument.
    pub fn pool(&self) -> PoolName {
        match self {
            Self::Pool(pool) => pool.clone(),
            Self::Dataset(name) => name.pool(),
            Self::Snapshot(name) => name.volume().pool(),
        }
    }
}

impl FromStr for Named {
    type Err = units::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('@') {
            text.parse().map(Self::Snapshot)
        } else if text.contains('/') {
            text.parse().map(Self::Dataset)
        } else {
            text.parse().map(Self::Pool)
        }
    }
}
