//! `replicate promote`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead replicate promote vault/from-tank")
        .elsewhere("needs two servers: tests/head/replication.rs"),
    Example::of("bulkhead replicate promote vault/from-tank --original-is-lost")
        .elsewhere("needs two servers: tests/head/replication.rs"),
])
.with_note("The first shows the volumes that would be served, and their age.");

/// Replace lost originals by their copies, with identities and exports
///
/// For the loss of the originals' site. Initiators find the same disks under the same names.
/// Missing targets are created. Afterwards these volumes accept no replication any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "ReplicatePromote")]
#[command(after_help = EXAMPLES)]
pub struct Promote {
    /// The copy, or the dataset above copies
    pub dataset: VolumeName,
    /// Confirm that the originals are served nowhere, and never will be again
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub original_is_lost: bool,
}

impl Operation for Promote {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            dataset: _,
            original_is_lost: _,
        } = self;
        Effect::Govern
    }
}

impl Verb for Promote {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/promote",
        "Replace an original by its copy",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"dataset": "vault/from-tank"}"#)
    .with(&[("original_is_lost", Source::Default("false"))])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.dataset.pool()), arguments))
    }
}
