//! `target discovery clear`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Least, Operation, PoolSelector, Route, Source, Verb, WhichPool, schema_of,
};
use crate::{Effect, Failure};

/// Forget users and secrets; without any user everybody may ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DiscoveryChapClear")]
pub struct ChapClear {
    /// One user, or all with the mutual secret.
    pub user: Option<String>,
}

impl Operation for ChapClear {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { user: _ } = self;
        Effect::Change
    }
}

/// Forget users and secrets; without any, everybody is told of the targets that he may use
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bulkhead target discovery clear tank")]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
    /// Only this user
    #[arg(long)]
    user: Option<String>,
}

impl Verb for ChapClear {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/discovery/chap",
        "Forget secrets",
        schema_of::<Done>,
        Least::Change,
    )
    .with(&[("user", Source::Query("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let user = arguments.user;
        Ok((arguments.pool.into(), Self { user }))
    }
}
