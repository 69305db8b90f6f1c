//! `replicate revoke`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{Least, Operation, PoolOption, PoolSelector, Route, Verb, schema_of};
use crate::replication::Fingerprint;
use crate::{Effect, Failure};

/// Do not let a pool replicate into this one any more.
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

/// Do not let another pool replicate into this one any more
#[derive(Debug, Args)]
pub struct Arguments {
    /// The other pool's fingerprint
    fingerprint: Fingerprint,
    #[command(flatten)]
    pool: PoolOption,
}

impl Verb for Revoke {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/revoke",
        "Let it no more",
        schema_of::<Done>,
        Least::Govern,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let fingerprint = arguments.fingerprint;
        Ok((arguments.pool.into(), Self { fingerprint }))
    }
}
