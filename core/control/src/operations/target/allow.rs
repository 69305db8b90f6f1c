//! `target allow`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::{ClientOptions, TargetArgument, Who};
use crate::operations::{Example, Examples, Operation, PoolSelector, Verb};
use crate::{Effect, Failure};

/// Add to the access rule of a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetAllow")]
pub struct Allow {
    /// Target.
    pub name: IscsiName,
    /// The clients.
    pub who: Who,
}

impl Operation for Allow {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, who: _ } = self;
        Effect::Change
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of(
        "bulkhead target allow iqn.2026-01.org.example:tank --initiator iqn.1993-08.org.debian:01:abc",
    ),
    Example::of("bulkhead target allow iqn.2026-01.org.example:tank --network 10.0.0.0/24"),
    Example::of("bulkhead target allow iqn.2026-01.org.example:tank --everyone"),
    Example::of(
        "bulkhead target allow iqn.2026-01.org.example:tank --network 10.0.0.0/24 --instead-of-everyone",
    ),
]);

/// Add clients to the access rule of a target
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    who: ClientOptions,
    /// If all clients are allowed: only those that are named from now on
    #[arg(long, conflicts_with = "everyone")]
    instead_of_everyone: bool,
}

impl Verb for Allow {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        let who = Who {
            instead_of_everyone: arguments.instead_of_everyone,
            ..arguments.who.into()
        };
        Ok((pool, Self { name, who }))
    }
}
