//! The words of `bulkhead volume rescue`.

use clap::Args;
use control::Failure;
use units::{PoolName, SnapshotName, VolumeName};

use crate::named::Named;

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead volume rescue tank/vm0
  bulkhead volume rescue tank/vm0@monday
  bulkhead volume rescue tank/vm0@monday --writable
  bulkhead volume rescue tank/vm0@monday --writable --allow-label-changes
  bulkhead volume rescue tank/vm0 --background --json
  bulkhead volume rescue tank/vm0 --end
  bulkhead volume rescue --list";

/// `volume rescue`
#[derive(Clone, Debug, Args)]
pub struct RescueArgs {
    /// The volume, or a snapshot as POOL/NAME@SNAPSHOT
    #[arg(value_name = "VOLUME[@SNAPSHOT]", required_unless_present = "list")]
    what: Option<Named>,
    /// End the rescue of the volume, regardless of its user
    #[arg(long, conflicts_with_all = ["writable", "read_only", "background", "list"])]
    pub end: bool,
    /// List the rescues of a pool, or of the volume's pool [default: all pools that are served here]
    #[arg(long, conflicts_with_all = ["writable", "read_only", "background"])]
    pub list: bool,
    /// For a snapshot: permit writes, on a clone that is discarded at the end
    #[arg(long, conflicts_with = "read_only")]
    writable: bool,
    /// Of a volume: refuse writes
    #[arg(long)]
    read_only: bool,
    /// Also print commands that change labels inside it: the owner of a guest's pool, the name of a volume group, the
    /// state of an array. Without it, all of these are opened read-only
    #[arg(long, conflicts_with_all = ["read_only", "end", "list"])]
    allow_label_changes: bool,
    /// Return at once; the rescue continues until it is ended, or until the pool's server exits
    #[arg(long)]
    pub background: bool,
}

impl RescueArgs {
    /// The pool that is named, by itself or with a volume.
    pub fn pool(&self) -> Option<PoolName> {
        self.what.as_ref().map(Named::pool)
    }

    /// The volume.
    pub fn volume(&self) -> Result<VolumeName, Failure> {
        match &self.what {
            Some(Named::Dataset(volume)) => Ok(volume.clone()),
            Some(Named::Snapshot(snapshot)) => Ok(snapshot.volume()),
            Some(Named::Pool(_)) | None => Err(Failure::usage("name the volume, such as tank/vm0")),
        }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> Option<&SnapshotName> {
        match &self.what {
            Some(Named::Snapshot(snapshot)) => Some(snapshot),
            _ => None,
        }
    }

    /// Whether commands that change labels are wanted.
    pub fn allows_label_changes(&self) -> bool {
        self.allow_label_changes
    }

    /// Whether it may be changed.
    pub fn is_writable(&self) -> bool {
        match self.snapshot() {
            None => !self.read_only,
            Some(_) => self.writable,
        }
    }
}
