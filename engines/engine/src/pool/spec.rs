//! The layout of a new pool, and commands for its maintenance.

use std::path::PathBuf;

use units::PoolName;

/// The redundancy of a group of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupKind {
    /// Each device on its own: none may fail.
    Stripe,
    /// Each device holds all data: all but one may fail.
    Mirror,
    /// One may fail.
    Raidz1,
    /// Two may fail.
    Raidz2,
    /// Three may fail.
    Raidz3,
}

impl GroupKind {
    /// Devices that carry redundancy in a raidz.
    pub const fn parity(self) -> Option<u64> {
        match self {
            Self::Stripe | Self::Mirror => None,
            Self::Raidz1 => Some(1),
            Self::Raidz2 => Some(2),
            Self::Raidz3 => Some(3),
        }
    }

    /// Fewest devices.
    pub const fn devices_min(self) -> usize {
        match self {
            Self::Stripe => 1,
            Self::Mirror | Self::Raidz1 => 2,
            Self::Raidz2 => 3,
            Self::Raidz3 => 4,
        }
    }
}

/// The purpose of a group of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupRole {
    /// Holds the pool's data.
    Data,
    /// Stores the intent log, for fast synchronous writes.
    Log,
    /// Caches reads; may fail without loss.
    Cache,
    /// Replaces a failed device.
    Spare,
}

/// Devices that work together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Their redundancy.
    pub kind: GroupKind,
    /// Their purpose.
    pub role: GroupRole,
    /// Absolute paths of files or block devices.
    pub devices: Vec<PathBuf>,
}

/// A pool to be made.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name.
    pub name: PoolName,
    /// Its devices.
    pub groups: Vec<GroupSpec>,
    /// Properties such as `autotrim=on`, `failmode=wait`, `comment=...`, `ashift=12`, as text.
    /// All features of the library are enabled unless one is named `feature@x=disabled` here.
    pub properties: Vec<(String, String)>,
    /// Overwrite devices that belong to a pool that is not in use.
    pub overwrite: bool,
    /// The number of the record of its legs, which its labels have; none: it has no record.
    pub record: Option<u64>,
}

impl PoolSpec {
    /// A pool of one group.
    pub fn new(name: PoolName, kind: GroupKind, devices: Vec<PathBuf>) -> Self {
        Self {
            name,
            groups: vec![GroupSpec {
                kind,
                role: GroupRole::Data,
                devices,
            }],
            properties: Vec::new(),
            overwrite: false,
            record: None,
        }
    }

    /// All devices, in order.
    pub fn devices(&self) -> impl Iterator<Item = &PathBuf> {
        self.groups.iter().flat_map(|group| &group.devices)
    }
}

/// Commands for a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubCommand {
    /// Start, or resume after a pause.
    Start,
    /// Pause; survives a restart.
    Pause,
    /// Stop.
    Cancel,
}

/// Which device of a mirror a read uses, if several have the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBalancing {
    /// One of this host, if there is one.
    PreferLocal,
    /// The one with the shortest queue, on any host.
    LeastPending,
}

/// Commands for a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimCommand {
    /// Discard all free space on the devices.
    Start,
    /// Pause.
    Pause,
    /// Stop.
    Cancel,
}

/// A property of a pool.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PoolProperty {
    /// Its name.
    pub name: String,
    /// Its value, as a name where it has one.
    pub value: String,
    /// Whether the property is set explicitly.
    pub is_set: bool,
}
