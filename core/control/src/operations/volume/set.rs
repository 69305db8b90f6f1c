//! `volume set`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::effect::set;
use crate::operations::{
    Changed, Example, Examples, Operation, PoolSelector, Verb, dataset, pool_named, property,
};
use crate::request::Properties;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead volume set tank/vm0 sync=always org.example:owner=ann",
)]);

/// Change properties
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "VolumeSet")]
pub struct Set {
    /// Volume, or the pool's name for the root dataset.
    pub name: String,
    /// New values.
    pub properties: Properties,
}

impl Operation for Set {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            properties,
        } = self;
        set(properties)
    }

    fn properties(&self) -> Option<Changed<'_>> {
        Some(Changed::new(&self.name, self.properties.keys()))
    }
}

/// Change properties
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume, or a pool for the values that its volumes inherit
    #[arg(value_parser = dataset)]
    volume: String,
    /// New values
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
}

impl Verb for Set {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            volume: name,
            properties,
        } = arguments;
        let properties = properties.into_iter().collect();
        Ok((
            PoolSelector::Pool(pool_named(&name)),
            Self { name, properties },
        ))
    }
}
