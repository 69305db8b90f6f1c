//! The end of a `volume rescue`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::Effect;
use crate::answer::Done;
use crate::operations::{Least, Operation, Route, Source, WireOnly, schema_of};

/// End the rescue of a volume; there is at most one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RescueEnd")]
pub struct End {
    /// The volume.
    pub volume: VolumeName,
}

impl Operation for End {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { volume: _ } = self;
        Effect::Govern
    }
}

impl WireOnly for End {
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/rescues/{volume}",
        "End it",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[("volume", Source::Volume)])];
}
