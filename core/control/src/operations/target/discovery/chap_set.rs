//! `target discovery set`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::ChapOptions;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolArgument, PoolSelector, Route, Verb, schema_of,
};
use crate::{Effect, Failure, Secret};

/// Require a name and a secret for discovery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DiscoveryChapSet")]
pub struct ChapSet {
    /// The initiator's user name.
    pub user: String,
    /// Its secret.
    pub secret: Secret,
}

impl Operation for ChapSet {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { user: _, secret: _ } = self;
        Effect::Change
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target discovery set tank --user finder")
        .elsewhere("prompts for a secret: the example with a file"),
    Example::of(
        "bulkhead target discovery set tank --user finder --secret-file /root/finder.secret",
    ),
]);

/// Require a user name and a secret for discovery; the secret is never an argument
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
    #[command(flatten)]
    chap: ChapOptions,
}

impl Verb for ChapSet {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/discovery/chap",
        "Require a name and a secret for discovery",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"user": "finder", "secret": "twelve chars"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (user, secret) = arguments.chap.read()?;
        Ok((arguments.pool.into(), Self { user, secret }))
    }
}
