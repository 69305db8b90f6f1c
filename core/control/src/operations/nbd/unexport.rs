//! `nbd unexport`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead nbd unexport tank/vm0")
    .prepared_by(&["bulkhead nbd export tank/vm0 --name vm0"])]);

/// Remove the export of a volume
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "NbdUnexport")]
#[command(
    visible_alias = "rm",
    after_help = EXAMPLES
)]
pub struct Unexport {
    /// The volume
    pub volume: VolumeName,
    /// Only the export of this name
    #[arg(long)]
    pub name: Option<String>,
    /// Even though clients are connected: their connections are closed
    #[arg(long)]
    #[serde(default)]
    pub in_use: bool,
}

impl Operation for Unexport {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            volume: _,
            name: _,
            in_use: _,
        } = self;
        Effect::Change
    }
}

impl Verb for Unexport {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/nbd/{volume}",
        "Offer a volume no more",
        schema_of::<Done>,
        Least::Change,
    )
    .with(&[
        ("volume", Source::Volume),
        ("name", Source::Query("null")),
        ("in_use", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.volume.pool()), arguments))
    }
}
