//! `target discovery mutual`

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

/// Authenticate the server to initiators that require it during discovery, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DiscoveryMutualSet")]
pub struct MutualSet {
    /// Our user name.
    pub user: String,
    /// Its secret, unlike any initiator's.
    pub secret: Secret,
}

impl Operation for MutualSet {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { user: _, secret: _ } = self;
        Effect::Change
    }
}

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead target discovery mutual tank --user tank --secret-file /root/tank.secret",
)
.prepared_by(&[
    "bulkhead target discovery set tank --user finder --secret-file /root/finder.secret",
])]);

/// Authenticate the server to initiators that require it (mutual CHAP)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
    #[command(flatten)]
    chap: ChapOptions,
}

impl Verb for MutualSet {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/discovery/mutual",
        "Authenticate the server during discovery",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"user": "tank", "secret": "twelve chars"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (user, secret) = arguments.chap.read()?;
        Ok((arguments.pool.into(), Self { user, secret }))
    }
}
