//! `volume inherit`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::effect::{change_unless, governs};
use crate::operations::{
    Changed, Example, Examples, Operation, PoolSelector, Verb, dataset, pool_named,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[Example::of("bulkhead volume inherit tank/vm0 compression")]);

/// Remove a property's own value, so that the parent's is inherited
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeInherit")]
#[command(after_help = EXAMPLES)]
pub struct Inherit {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME", value_parser = dataset)]
    pub name: String,
    /// Which properties
    #[arg(required = true)]
    pub names: Vec<String>,
}

impl Operation for Inherit {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, names } = self;
        change_unless(governs(names.iter()))
    }

    fn properties(&self) -> Option<Changed<'_>> {
        Some(Changed::new(&self.name, &self.names))
    }
}

impl Verb for Inherit {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(pool_named(&arguments.name)), arguments))
    }
}
