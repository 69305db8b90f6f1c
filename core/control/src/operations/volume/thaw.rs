//! `volume thaw`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Verb, one_pool, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead volume thaw tank/web")
    .prepared_by(&["bulkhead volume freeze tank/web --for 60s"])
    .undone_by(&[])
    .ends_with_the_server()])
.with_note(
    "It fails with exit code 4 if one of the volumes is not frozen any more: its time was over, or its
server ended. Then clients wrote meanwhile, and a copy may not be consistent. All volumes are
thawed in any case.",
);

/// Resume writes to frozen volumes; fails if they did not stay frozen until now
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeThaw")]
#[command(after_help = EXAMPLES)]
pub struct Thaw {
    /// The volumes, all of one pool
    #[arg(id = "volumes", value_name = "VOLUMES", required = true)]
    pub names: Vec<VolumeName>,
}

impl Operation for Thaw {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { names: _ } = self;
        Effect::Change
    }

    fn details(&self) -> Option<String> {
        Some(super::listed(&self.names))
    }

    // Clients wait for it.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }

    fn writes_to_the_pool(&self) -> bool {
        false
    }
}

impl Verb for Thaw {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/thaw",
        "Let writes of frozen volumes continue",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"names": ["tank/vm0"]}"#)
    .with_lists()];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        let pool = one_pool(arguments.names.iter().map(VolumeName::pool))?;
        Ok((pool, arguments))
    }
}
