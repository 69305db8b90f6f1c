//! `filesystem get`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::operations::{Operation, PoolSelector, Turn, Verb, dataset, pool_named};
use crate::{Effect, Failure};

/// Read properties
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemGet")]
#[command(after_help = "Example:\n  bulkhead filesystem get tank/home sharenfs quota used")]
pub struct Get {
    /// The file system, or a pool for what its file systems inherit
    #[arg(id = "filesystem", value_name = "FILESYSTEM", value_parser = dataset)]
    pub name: String,
    /// Which properties [default: all]
    pub names: Vec<String>,
}

impl Operation for Get {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, names: _ } = self;
        Effect::Look
    }

    fn turn(&self) -> Turn {
        Turn::Looks
    }
}

impl Verb for Get {
    type Arguments = Self;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(pool_named(&arguments.name)), arguments))
    }
}
