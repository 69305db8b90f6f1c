//! `replicate remove`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead replicate remove tank/vm0")
    .elsewhere("needs two servers: tests/head/replication.rs")]);

/// Stop replicating a dataset; the copies at the receiver remain
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "ReplicateRemove")]
#[command(after_help = EXAMPLES)]
pub struct Remove {
    /// The volume or dataset
    pub dataset: VolumeName,
}

impl Operation for Remove {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { dataset: _ } = self;
        Effect::Govern
    }
}

impl Verb for Remove {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/remove",
        "Replicate it no more",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"dataset": "tank/vm0"}"#)];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.dataset.pool()), arguments))
    }
}
