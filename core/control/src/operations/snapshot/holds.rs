//! `snapshot holds`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::HoldView;
use crate::operations::{
    Example, Examples, Operation, PoolOption, PoolSelector, Route, Scheduling, Source, Verb,
    pool_or_snapshots, schema_of,
};
use crate::snapshot_set::SnapshotSet;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead snapshot holds tank"),
    Example::of("bulkhead snapshot holds tank/vm0@monday"),
]);

/// List the holds of snapshots
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotHolds")]
pub struct Holds {
    /// Only of snapshots of this volume or file system, and of all below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeName>,
    /// Only of these snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<SnapshotSet>,
}

impl Operation for Holds {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { volume: _, only: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn covers_all_pools(&self) -> bool {
        self.volume.is_none() && self.only.is_none()
    }
}

/// List the holds of snapshots
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool, the volume or file system, or its snapshots [default: all pools that are served here, or the only one]
    of: Option<String>,
    #[command(flatten)]
    pool: PoolOption,
}

impl Verb for Holds {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/holds",
        "Holds of snapshots",
        schema_of::<Vec<HoldView>>,
    )
    .with(&[
        ("volume", Source::Query("null")),
        ("only", Source::Query("null")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Some(of) = arguments.pool.or(arguments.of) else {
            return Ok((PoolSelector::Single, Self::default()));
        };
        let (pool, volume, only) = pool_or_snapshots(&of)?;
        Ok((PoolSelector::Pool(pool), Self { volume, only }))
    }
}
