//! `pool set`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::operations::{Changed, Example, Examples, Operation, PoolSelector, Verb, property};
use crate::request::Properties;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead pool set tank autotrim=on comment=rack-7",
)]);

/// Change properties of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolSet")]
pub struct Set {
    /// New values.
    pub properties: Properties,
}

impl Operation for Set {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { properties: _ } = self;
        Effect::Govern
    }

    fn properties(&self) -> Option<Changed<'_>> {
        Some(Changed::new("the pool", self.properties.keys()))
    }
}

/// Change properties of a pool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// New values
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
}

impl Verb for Set {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let properties = arguments.properties.into_iter().collect();
        Ok((PoolSelector::Pool(arguments.pool), Self { properties }))
    }
}
