//! `volume get`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::operations::{
    Example, Examples, Operation, PoolSelector, Scheduling, Verb, dataset, pool_named,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume get tank/vm0 compression compressratio"),
    Example::of("bulkhead volume get tank/vm0 volsize,used,sync"),
    Example::of("bulkhead volume get tank/vm0 all"),
]);

/// Read properties
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeGet")]
#[command(after_help = EXAMPLES)]
pub struct Get {
    /// The volume, or a pool for the values that its volumes inherit
    #[arg(id = "volume", value_name = "VOLUME", value_parser = dataset)]
    pub name: String,
    /// Which properties, separated by blanks or commas, or `all` [default: all]
    pub names: Vec<String>,
}

impl Operation for Get {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, names: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

impl Verb for Get {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(pool_named(&arguments.name)), arguments))
    }
}
