//! `target deny`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::{ClientOptions, TargetArgument, Who};
use crate::operations::{Example, Examples, Operation, PoolSelector, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[
        Example::of("bulkhead target deny iqn.2026-01.org.example:tank --everyone")
            .prepared_by(&["bulkhead target allow iqn.2026-01.org.example:tank --everyone"]),
    ]);

/// Remove entries from the access rule of a target. Sessions that are no longer allowed are closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetDeny")]
pub struct Deny {
    /// Target.
    pub name: IscsiName,
    /// The clients.
    pub who: Who,
}

impl Operation for Deny {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, who: _ } = self;
        Effect::Change
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

/// Remove clients from the access rule of a target
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    who: ClientOptions,
}

impl Verb for Deny {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        let who = arguments.who.into();
        Ok((pool, Self { name, who }))
    }
}
