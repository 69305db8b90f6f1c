//! `target chap mutual`

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

/// Authenticate the target to initiators that require it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetMutualSet")]
pub struct MutualSet {
    /// Target.
    pub name: IscsiName,
    /// The target's user name.
    pub user: String,
    /// Its secret, unlike any initiator's.
    pub secret: Secret,
}

impl Operation for MutualSet {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            user: _,
            secret: _,
        } = self;
        Effect::Change
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target chap mutual iqn.2026-01.org.example:tank --user tank \\
      --secret-file /root/tank.secret")
        .prepared_by(&["bulkhead target chap set iqn.2026-01.org.example:tank --user ann --secret-file /root/ann.secret"]),
]);

/// Authenticate the target to initiators that require it (mutual CHAP)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    chap: ChapOptions,
}

impl Verb for MutualSet {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/targets/{target}/mutual",
        "Prove the target to initiators",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"user": "tank", "secret": "twelve chars"}"#)
    .with(&[("name", Source::Target)])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        let (user, secret) = arguments.chap.read()?;
        Ok((pool, Self { name, user, secret }))
    }
}
