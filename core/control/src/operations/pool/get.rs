//! `pool get`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::operations::{Example, Examples, Operation, PoolSelector, Scheduling, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead pool get tank autotrim comment")]);

/// Read properties of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolGet")]
pub struct Get {
    /// Their names, each one or several, separated by commas; none or `all` means all.
    pub names: Vec<String>,
}

impl Operation for Get {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { names: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

/// Read properties of a pool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// Which properties, separated by blanks or commas, or `all` [default: all]
    names: Vec<String>,
}

impl Verb for Get {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { pool, names } = arguments;
        Ok((PoolSelector::Pool(pool), Self { names }))
    }
}
