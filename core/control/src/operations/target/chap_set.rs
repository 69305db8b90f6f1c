//! `target chap set`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::{ChapOptions, TargetArgument};
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure, Secret};

/// Require a name and a secret from initiators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetChapSet")]
pub struct ChapSet {
    /// Target.
    pub name: IscsiName,
    /// The initiator's user name.
    pub user: String,
    /// Its secret.
    pub secret: Secret,
    /// The initiators that may use it, by name; none means any. Replaces the previous list.
    #[serde(default)]
    pub initiators: Vec<IscsiName>,
}

impl Operation for ChapSet {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            user: _,
            secret: _,
            initiators: _,
        } = self;
        Effect::Change
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target chap set iqn.2026-01.org.example:tank --user ann")
        .elsewhere("prompts for a secret: the example with a file"),
    Example::of("bulkhead target chap set iqn.2026-01.org.example:tank --user ann --initiator iqn.2026-01.org:ann")
        .elsewhere("prompts for a secret: the example with a file"),
    Example::of("bulkhead target chap set iqn.2026-01.org.example:tank --user ann --secret-file /root/ann.secret"),
]);

/// Require a user name and a secret from initiators; the secret is never an argument
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    chap: ChapOptions,
    /// The only initiator that may use it, by name; may be repeated. Without it any initiator may, under any name
    #[arg(long = "initiator", value_name = "IQN")]
    initiators: Vec<IscsiName>,
}

impl Verb for ChapSet {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/targets/{target}/chap",
        "Ask initiators for a name and a secret",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"user": "ann", "secret": "twelve chars"}"#)
    .with(&[("name", Source::Target)])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        let (user, secret) = arguments.chap.read()?;
        Ok((
            pool,
            Self {
                name,
                user,
                secret,
                initiators: arguments.initiators,
            },
        ))
    }
}
