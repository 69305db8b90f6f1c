//! `target chap show`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::TargetArgument;
use crate::operations::{Example, Examples, Operation, PoolSelector, Scheduling, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead target chap show iqn.2026-01.org.example:tank",
)]);

/// Show the users with a secret, and whether the target authenticates itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetChapShow")]
pub struct ChapShow {
    /// Target.
    pub name: IscsiName,
}

impl Operation for ChapShow {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

/// Show the users, without their secrets, and whether the target authenticates itself
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
}

impl Verb for ChapShow {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        Ok((pool, Self { name }))
    }
}
