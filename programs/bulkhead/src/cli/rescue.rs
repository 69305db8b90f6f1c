//! `bulkhead volume rescue`

use std::str::FromStr;

use clap::Args;
use control::Failure;
use units::{SnapshotName, VolumeName};

use super::Plan;

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead volume rescue tank/vm0
  bulkhead volume rescue tank/vm0@monday
  bulkhead volume rescue tank/vm0@monday --writable
  bulkhead volume rescue tank/vm0 --background --json
  bulkhead volume rescue tank/vm0 --end";

/// `volume rescue`
#[derive(Clone, Debug, Args)]
pub struct RescueArgs {
    /// The volume, or a snapshot as POOL/NAME@SNAPSHOT
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    pub what: VolumeOrSnapshot,
    /// End the rescue of the volume, whoever began it
    #[arg(long, conflicts_with_all = ["writable", "read_only", "background", "list"])]
    pub end: bool,
    /// List the rescues of the volume's pool
    #[arg(long, conflicts_with_all = ["writable", "read_only", "background"])]
    pub list: bool,
    /// Of a snapshot: let it be changed, on a clone that is thrown away at the end
    #[arg(long, conflicts_with = "read_only")]
    writable: bool,
    /// Of a volume: refuse writes
    #[arg(long)]
    read_only: bool,
    /// Return at once; the rescue lasts until it is ended, or the pool's server ends
    #[arg(long)]
    pub background: bool,
}

impl RescueArgs {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        Ok(Plan::Rescue(self))
    }

    /// Whether it may be changed.
    pub fn is_writable(&self) -> bool {
        match self.what {
            VolumeOrSnapshot::Volume(_) => !self.read_only,
            VolumeOrSnapshot::Snapshot(_) => self.writable,
        }
    }
}

/// A volume, or a snapshot of one.
#[derive(Clone, Debug)]
pub enum VolumeOrSnapshot {
    /// `POOL/NAME`
    Volume(VolumeName),
    /// `POOL/NAME@SNAPSHOT`
    Snapshot(SnapshotName),
}

impl VolumeOrSnapshot {
    /// The volume.
    pub fn volume(&self) -> VolumeName {
        match self {
            Self::Volume(name) => name.clone(),
            Self::Snapshot(name) => name.volume(),
        }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> Option<&SnapshotName> {
        match self {
            Self::Volume(_) => None,
            Self::Snapshot(name) => Some(name),
        }
    }
}

impl FromStr for VolumeOrSnapshot {
    type Err = units::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.contains('@') {
            true => text.parse().map(Self::Snapshot),
            false => text.parse().map(Self::Volume),
        }
    }
}
