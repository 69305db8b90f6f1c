//! `replicate remove`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{Least, Operation, PoolSelector, Route, Verb, schema_of};
use crate::{Effect, Failure};

/// Do not replicate it any more; what has arrived stays there
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "ReplicateRemove")]
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
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/remove",
        "Replicate it no more",
        schema_of::<Done>,
        Least::Govern,
    )];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.dataset.pool()), arguments))
    }
}
