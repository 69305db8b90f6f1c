//! `volume key status`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::key::KeyView;
use crate::operations::{
    Example, Examples, Operation, PoolOption, PoolSelector, Route, Scheduling, Source, Verb,
    dataset, pool_or_volume, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead volume key status tank --json")
    .elsewhere("needs keys: tests/head/encryption.rs")]);

/// Show the keys, whether they are loaded, and their locations
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyStatus")]
pub struct Status {
    /// Only of this dataset.
    #[serde(default)]
    pub name: Option<VolumeName>,
}

impl Operation for Status {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn covers_all_pools(&self) -> bool {
        self.name.is_none()
    }
}

/// Show the keys, whether they are loaded, and their locations
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume or the pool [default: the only pool that is served or known here]
    #[arg(value_name = "VOLUME|POOL", value_parser = dataset)]
    of: Option<String>,
    /// The pool
    #[command(flatten)]
    pool: PoolOption,
}

impl Verb for Status {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/keys",
        "Keys of encrypted volumes, and whether they are loaded",
        schema_of::<Vec<KeyView>>,
    )
    .with(&[("name", Source::Query("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Some(of) = arguments.pool.or(arguments.of) else {
            return Ok((PoolSelector::Single, Self { name: None }));
        };
        let (pool, name) = pool_or_volume(&of)?;
        Ok((PoolSelector::Pool(pool), Self { name }))
    }
}
