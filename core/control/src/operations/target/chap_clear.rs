//! `target chap clear`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::WhichTarget;
use crate::answer::Done;
use crate::operations::{Least, Operation, PoolSelector, Route, Source, Verb, schema_of};
use crate::{Effect, Failure};

/// Forget users and secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetChapClear")]
pub struct ChapClear {
    /// Target.
    pub name: IscsiName,
    /// One user, or all with the mutual secret.
    pub user: Option<String>,
}

impl Operation for ChapClear {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _, user: _ } = self;
        Effect::Change
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

/// Forget users and secrets
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  bulkhead target chap clear iqn.2026-01.org.example:tank --user ann"
)]
pub struct Arguments {
    #[command(flatten)]
    target: WhichTarget,
    /// Only this user
    #[arg(long)]
    user: Option<String>,
}

impl Verb for ChapClear {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/targets/{target}/chap",
        "Forget secrets",
        schema_of::<Done>,
        Least::Change,
    )
    .with(&[("name", Source::Target), ("user", Source::Query("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.told();
        let user = arguments.user;
        Ok((pool, Self { name, user }))
    }
}
