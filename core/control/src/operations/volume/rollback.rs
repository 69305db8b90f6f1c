//! `volume rollback`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName};

use crate::operations::{Example, Examples, Operation, PoolSelector, Preview, Scheduling, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume rollback tank/vm0@monday"),
    Example::of("bulkhead volume rollback tank/vm0@monday --destroy-newer"),
]);

/// Roll a volume back to a snapshot, even while it is exported and in use
///
/// Changes since the snapshot are lost. Clients stay connected: iSCSI initiators are notified of
/// the new contents. Caches of clients are not changed: unmount the file system, or stop the
/// virtual machine, before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeRollback")]
#[command(after_help = EXAMPLES)]
pub struct Rollback {
    /// The snapshot, as POOL/NAME@SNAPSHOT
    #[arg(id = "snapshot", value_name = "SNAPSHOT")]
    pub to: SnapshotName,
    /// Destroy the volume's newer snapshots
    #[serde(default)]
    #[arg(long)]
    pub destroy_newer: bool,
    /// Preview options.
    #[serde(flatten)]
    #[command(flatten)]
    pub preview: Preview,
}

impl Operation for Rollback {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            to,
            destroy_newer,
            preview,
        } = self;
        match (preview.is_wanted(), destroy_newer) {
            (true, _) => Effect::Look,
            (false, true) => Effect::Destroy(vec![to.to_string()]),
            (false, false) => Effect::Revert(to.to_string()),
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.preview.scheduling()
    }

    fn is_preview(&self) -> bool {
        self.preview.is_wanted()
    }
}

impl Verb for Rollback {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        let pool = arguments.to.volume().pool();
        Ok((PoolSelector::Pool(pool), arguments))
    }
}
