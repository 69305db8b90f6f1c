//! `volume show`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::VolumeView;
use crate::operations::{
    Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead volume show tank/vm0")]);

/// Show one volume with its properties, identity and exports
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeShow")]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub name: VolumeName,
}

impl Operation for Show {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl Verb for Show {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/volumes/{volume}",
        "A volume",
        schema_of::<VolumeView>,
    )
    .with(&[("name", Source::Volume)])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
