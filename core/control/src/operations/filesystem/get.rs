//! `filesystem get`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::operations::{
    Example, Examples, Operation, PoolSelector, Scheduling, Verb, dataset, pool_named,
    property_names,
};
use crate::{Effect, Failure, owners};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead filesystem get tank/home sharenfs quota used"),
    Example::of("bulkhead filesystem get tank/home userquota@1000 userused@1000"),
]);

/// Read properties
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemGet")]
#[command(after_help = EXAMPLES)]
pub struct Get {
    /// The file system, or a pool for the values that its file systems inherit
    #[arg(id = "filesystem", value_name = "FILESYSTEM", value_parser = dataset)]
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
        let Self { name, names } = arguments;
        let names = property_names(&names);
        let names = names.iter().map(|name| owners::with_number(name));
        let names = names.collect::<Result<_, _>>()?;
        Ok((PoolSelector::Pool(pool_named(&name)), Self { name, names }))
    }
}
