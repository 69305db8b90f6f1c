//! Where the disks of a head are, over how many paths and links it reaches disks and networks, and which disks of a pool
//! replace each other. The crate `head` reads them, and transfers them as lines of JSON.

use serde::{Deserialize, Serialize};

/// Where a disk is. Unknown parts are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskPlacement {
    /// The logical identifier of its enclosure.
    pub shelf: Option<String>,
    /// The name of its slot.
    pub slot: Option<String>,
    /// The paths over which the head reaches it.
    pub paths: Option<u32>,
    /// Its role in the pool that its label names.
    pub group: Option<DiskGroup>,
}

/// The role of a disk in a mirror or a raidz, by its label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskGroup {
    /// The name of the pool.
    pub pool: String,
    /// Identifies the mirror or raidz: the smallest number of its devices.
    pub id: u64,
    /// The index of the disk in it. A replacement has the index of the disk that it replaces.
    pub member: usize,
    /// The disks of the mirror or raidz.
    pub members: usize,
    /// The disks without which its data is lost.
    pub needed: usize,
}

/// The physical links of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceLinks {
    /// All of them: 1, or those of a bond.
    pub all: u32,
    /// Those that are up.
    pub working: u32,
}
