//! `target discovery clear`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::target::chap_clear::Cleared;
use crate::operations::{
    Example, Examples, Least, Operation, PoolArgument, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target discovery clear tank --user finder"),
    Example::of("bulkhead target discovery clear tank --all"),
]);

/// Remove users and secrets; without any user every initiator may perform discovery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DiscoveryChapClear")]
pub struct ChapClear {
    /// One user, or all with the mutual secret.
    pub user: Option<String>,
    /// Even though no secret is required afterwards: every initiator may perform discovery.
    #[serde(default)]
    pub no_secret: bool,
}

impl Operation for ChapClear {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            user: _,
            no_secret: _,
        } = self;
        Effect::Change
    }
}

/// Remove a user, or all; without any, each initiator may discover the targets that it may use
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
    #[command(flatten)]
    cleared: Cleared,
}

impl Verb for ChapClear {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/discovery/chap",
        "Forget secrets",
        schema_of::<Done>,
        Least::Change,
    )
    .with(&[
        ("user", Source::Query("null")),
        ("no_secret", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (user, no_secret) = arguments.cleared.into_parts();
        Ok((arguments.pool.into(), Self { user, no_secret }))
    }
}
