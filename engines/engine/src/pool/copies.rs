//! Devices that were found and are not, or may not be, those of the pool: copies of its disks.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// A device with a label of the pool, as described by its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Where it is.
    pub path: PathBuf,
    /// Its newest transaction group.
    pub newest_txg: u64,
    /// When that was written, in seconds since 1970.
    pub newest_time_s: u64,
    /// Whether it is where the pool was last opened, by its own label.
    pub is_home: bool,
    /// Whether the pool was exported when it was written to last.
    pub is_exported: bool,
}

/// Why it is unclear which devices are those of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// These identify themselves as the same device, and each might be the only one with acknowledged writes; the one
    /// with the newest group first.
    Same(Vec<FoundDevice>),
    /// It holds an older state than other devices of the pool, which cannot do without it.
    Older {
        /// Which.
        device: FoundDevice,
        /// The newest transaction group of the pool.
        newest_txg: u64,
        /// When that was written, in seconds since 1970.
        newest_time_s: u64,
    },
    /// Each was in use without the others after an administrator confirmed that those are not newer; the one with the
    /// newest group first.
    Apart(Vec<FoundDevice>),
}

impl LeftOut {
    /// Where the device is.
    pub fn path(&self) -> &Path {
        match self {
            Self::SameDevice { path, .. }
            | Self::Copy { path, .. }
            | Self::Removed { path }
            | Self::Older { path, .. }
            | Self::Abandoned { path, .. } => path,
        }
    }
}

/// A device that was found and is not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// Another name of a device that is used.
    SameDevice {
        /// The name.
        path: PathBuf,
        /// The name that is used.
        used: PathBuf,
    },
    /// A copy, or a former disk: the device in use holds all writes that were acknowledged on it.
    Copy {
        /// Where it is.
        path: PathBuf,
        /// Where the one is that is used.
        used: PathBuf,
    },
    /// It is an image of a device of a group that was removed from the pool.
    Removed {
        /// Where it is.
        path: PathBuf,
    },
    /// It was in use without the other devices, and an administrator confirmed for these that it is not newer. The pool
    /// opens without it, until its contents are overwritten.
    Abandoned {
        /// Where it is.
        path: PathBuf,
        /// Its newest transaction group.
        newest_txg: u64,
    },
    /// Not at the path where the pool was last opened, with an older state than the devices next to it. The pool opens
    /// without it.
    Older {
        /// Where it is.
        path: PathBuf,
        /// Its newest transaction group.
        newest_txg: u64,
    },
}
