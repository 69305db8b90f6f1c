//! `pool export`, as sent by a user.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead pool export tank")]);

/// Drain the sessions and export; a server exits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolClose")]
pub struct Close {
    /// Even though clients are connected: their sessions are closed.
    #[serde(default)]
    pub in_use: bool,
}

impl Operation for Close {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { in_use: _ } = self;
        Effect::Govern
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

/// Drain the sessions, export the pool, and stop its server
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// Even though clients are connected: their sessions are closed
    #[arg(long)]
    in_use: bool,
}

impl Verb for Close {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/export",
        "Let go of the pool",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[("in_use", Source::Default("false"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { pool, in_use } = arguments;
        Ok((PoolSelector::Pool(pool), Self { in_use }))
    }
}
