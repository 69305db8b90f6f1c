//! `snapshot diff`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName};

use crate::operations::{Example, Examples, Operation, PoolSelector, Scheduling, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead snapshot diff tank/vm0@monday").undone_by(&[]),
    Example::of("bulkhead snapshot diff tank/vm0@monday --json"),
]);

/// Show the parts of a volume that were written since a snapshot
///
/// They are whole blocks of the volume, found by the times of their writes, without reading data. A block that was
/// written with the same data is included. Without a second snapshot the command creates one, compares it, and destroys
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotDiff")]
pub struct Diff {
    /// The older snapshot.
    pub from: SnapshotName,
    /// The newer snapshot of the same volume; none means the present contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<SnapshotName>,
}

impl Operation for Diff {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { from: _, to } = self;
        match to {
            Some(_) => Effect::Look,
            None => Effect::Change,
        }
    }

    /// The duration is proportional to the changes, and the snapshot has a name that only this verb uses.
    fn scheduling(&self) -> Scheduling {
        match self.to {
            Some(_) => Scheduling::ReadOnly,
            None => Scheduling::Concurrent,
        }
    }
}

/// Show the parts of a volume that were written since a snapshot
///
/// They are whole blocks of the volume, found by the times of their writes, without reading data. A block that was
/// written with the same data is included. Without a second snapshot the command creates one, compares it, and destroys
/// it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The older snapshot, as POOL/NAME@SNAPSHOT
    snapshot: SnapshotName,
    /// The newer snapshot of the same volume, as SNAPSHOT or POOL/NAME@SNAPSHOT [default: the present contents]
    to: Option<String>,
}

impl Verb for Diff {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { snapshot: from, to } = arguments;
        let whole = to.map(|to| match to.contains('/') {
            true => to,
            false => format!("{}@{}", from.volume(), to.trim_start_matches('@')),
        });
        let to = whole.map(|to| to.parse::<SnapshotName>()).transpose();
        let to = to.map_err(|error| Failure::usage(error.to_string()))?;
        Ok((PoolSelector::Pool(from.volume().pool()), Self { from, to }))
    }
}
