//! `snapshot list`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::SnapshotView;
use crate::operations::{
    Example, Examples, Operation, PoolOption, PoolSelector, Route, Scheduling, Source, Verb,
    pool_or_volume, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead snapshot list tank/vm0")]);

/// List the snapshots of a pool or a volume
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotList")]
pub struct List {
    /// Only of this volume.
    pub volume: Option<VolumeName>,
}

impl Operation for List {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { volume: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn covers_all_pools(&self) -> bool {
        self.volume.is_none()
    }
}

/// List the snapshots of a pool or a volume
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = EXAMPLES
)]
pub struct Arguments {
    /// The pool or the volume [default: all pools that are served here, or the only one]
    of: Option<String>,
    #[command(flatten)]
    pool: PoolOption,
}

impl Verb for List {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/snapshots",
        "Snapshots",
        schema_of::<Vec<SnapshotView>>,
    )
    .with(&[("volume", Source::Query("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Some(of) = arguments.pool.or(arguments.of) else {
            return Ok((PoolSelector::Single, Self { volume: None }));
        };
        let (pool, volume) = pool_or_volume(&of)?;
        Ok((PoolSelector::Pool(pool), Self { volume }))
    }
}
