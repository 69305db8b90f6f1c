//! `target chap clear`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::TargetArgument;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target chap clear iqn.2026-01.org.example:tank --user ann")
        .prepared_by(&[
            "bulkhead target chap set iqn.2026-01.org.example:tank --user ann --secret-file /root/ann.secret",
            "bulkhead target chap set iqn.2026-01.org.example:tank --user tank --secret-file /root/tank.secret",
        ]),
    Example::of("bulkhead target chap clear iqn.2026-01.org.example:tank --all")
        .prepared_by(&[
            "bulkhead target chap set iqn.2026-01.org.example:tank --user ann --secret-file /root/ann.secret",
            "bulkhead target chap set iqn.2026-01.org.example:tank --user tank --secret-file /root/tank.secret",
        ]),
]);

/// Remove users and secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetChapClear")]
pub struct ChapClear {
    /// Target.
    pub name: IscsiName,
    /// One user, or all with the mutual secret.
    pub user: Option<String>,
    /// Even though no secret is required afterwards: any client that the access rule allows needs
    /// none.
    #[serde(default)]
    pub no_secret: bool,
}

impl Operation for ChapClear {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            user: _,
            no_secret: _,
        } = self;
        Effect::Change
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

/// Remove a user, or all; without any, no secret is required
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    cleared: Cleared,
}

/// Users to remove.
#[derive(Debug, Args)]
pub struct Cleared {
    /// Only this user
    #[arg(long, required_unless_present = "all")]
    user: Option<String>,
    /// All users, and our own secret: no secret is required afterwards
    #[arg(long, conflicts_with_all = ["user", "no_secret"])]
    all: bool,
    /// Even though it is the last user: no secret is required afterwards
    #[arg(long)]
    no_secret: bool,
}

impl Cleared {
    /// Returns the user, or none for all, and whether the target may remain without a secret.
    pub fn into_parts(self) -> (Option<String>, bool) {
        (self.user, self.all || self.no_secret)
    }
}

impl Verb for ChapClear {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/targets/{target}/chap",
        "Forget secrets",
        schema_of::<Done>,
        Least::Change,
    )
    .with(&[
        ("name", Source::Target),
        ("user", Source::Query("null")),
        ("no_secret", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        let (user, no_secret) = arguments.cleared.into_parts();
        Ok((
            pool,
            Self {
                name,
                user,
                no_secret,
            },
        ))
    }
}
