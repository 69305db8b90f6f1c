//! `replicate run`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead replicate run tank/vm0")
    .elsewhere("needs two servers: tests/head/replication.rs")]);

/// Replicate now
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "ReplicateRun")]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// The volume or dataset
    pub dataset: VolumeName,
}

impl Operation for Run {
    /// It repeats a transfer that an administrator has set up.
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { dataset: _ } = self;
        Effect::Change
    }

    /// Its duration depends on the receiver, and it blocks other requests only briefly.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl Verb for Run {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/run",
        "Replicate now",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"dataset": "tank/vm0"}"#)];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.dataset.pool()), arguments))
    }
}
