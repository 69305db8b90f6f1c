//! `target show`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::TargetArgument;
use crate::answer::TargetView;
use crate::operations::{
    Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

/// One target in detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetShow")]
pub struct Show {
    /// Which.
    pub name: IscsiName,
}

impl Operation for Show {
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

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead target show iqn.2026-01.org.example:tank",
)]);

/// Show one target
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
}

impl Verb for Show {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/targets/{target}",
        "A target with its units and sessions",
        schema_of::<TargetView>,
    )
    .with(&[("name", Source::Target)])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        Ok((pool, Self { name }))
    }
}
