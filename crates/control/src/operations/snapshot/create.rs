//! `snapshot create`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName};

use crate::answer::Done;
use crate::operations::{Least, Operation, PoolSelector, Route, Verb, schema_of};
use crate::{Effect, Failure};

/// Keep the present contents of volumes; several are taken at one moment
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "SnapshotCreate")]
#[command(after_help = "Example:\n  bulkhead snapshot create tank/db/data@noon tank/db/log@noon")]
pub struct Create {
    /// Snapshots, as POOL/NAME@SNAPSHOT
    #[arg(id = "snapshots", value_name = "SNAPSHOTS", required = true)]
    pub names: Vec<SnapshotName>,
}

impl Operation for Create {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { names: _ } = self;
        Effect::Change
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl Verb for Create {
    type Arguments = Self;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/snapshots",
        "Make snapshots at one moment",
        schema_of::<Done>,
        Least::Change,
    )
    .with_lists()];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((super::pool_of(&arguments.names)?, arguments))
    }
}
