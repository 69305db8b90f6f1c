//! `filesystem set`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::effect::set;
use crate::operations::{
    Changed, Example, Examples, Operation, PoolSelector, Verb, dataset, pool_named, property,
};
use crate::request::Properties;
use crate::{Effect, Failure, owners};

/// Change properties
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FilesystemSet")]
pub struct Set {
    /// File system, or the pool's name for the root dataset.
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

const EXAMPLES: Examples = Examples::of(&[
    Example::of(
        "bulkhead filesystem set tank/home sharenfs=rw=192.0.2.0/24,ro=198.51.100.7 quota=500G",
    ),
    Example::of("bulkhead filesystem set tank/home sharenfs=off"),
    Example::of("bulkhead filesystem set tank/home userquota@1000=10G userobjquota@1000=50000")
        .undone_by(&[
            "bulkhead filesystem set tank/home userquota@1000=none userobjquota@1000=none",
        ]),
]);

/// Change properties
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The file system, or a pool for the values that its file systems inherit
    #[arg(value_parser = dataset)]
    filesystem: String,
    /// New values
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
}

impl Verb for Set {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            filesystem: name,
            properties,
        } = arguments;
        let numbered = |(name, value): (String, String)| Ok((owners::with_number(&name)?, value));
        let properties = properties.into_iter().map(numbered);
        let properties = properties.collect::<Result<Properties, Failure>>()?;
        Ok((
            PoolSelector::Pool(pool_named(&name)),
            Self { name, properties },
        ))
    }
}
