//! `replicate revoke`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolOption, PoolSelector, Route, Verb, schema_of,
};
use crate::replication::Fingerprint;
use crate::{Effect, Failure};

/// Stop accepting replication from a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReplicateRevoke")]
pub struct Revoke {
    /// Its certificate.
    pub fingerprint: Fingerprint,
}

impl Operation for Revoke {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { fingerprint: _ } = self;
        Effect::Govern
    }
}

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead replicate revoke \\
      5f0c1b6ad2e98a7c3b4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3",
)
.elsewhere("needs two servers: tests/head/replication.rs")]);

/// Stop accepting replication from another pool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The other pool's fingerprint
    fingerprint: Fingerprint,
    #[command(flatten)]
    pool: PoolOption,
}

impl Verb for Revoke {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/revoke",
        "Let it no more",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(
        r#"{"fingerprint": "5f0c1b6ad2e98a7c3b4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3"}"#,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let fingerprint = arguments.fingerprint;
        Ok((arguments.pool.into(), Self { fingerprint }))
    }
}
