//! `pool detach`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::DeviceArguments;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Take one side off a mirror.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolDetach")]
pub struct Detach {
    /// Device of the pool.
    pub device: PathBuf,
    /// Also if a device of its group has failed, and no redundancy is left then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_redundancy: bool,
}

impl Operation for Detach {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            device: _,
            without_redundancy: _,
        } = self;
        Effect::Govern
    }

    fn leaving_device(&self) -> Option<PathBuf> {
        Some(self.device.clone())
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool detach tank /dev/disk/by-id/scsi-c")
        .prepared_by(&["bulkhead pool attach tank /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-c"]),
    Example::of("bulkhead pool detach tank right:/dev/disk/by-id/scsi-b")
        .elsewhere("needs two heads: services/pool-access/src/places.rs"),
])
.with_note(
    "The second example is for a pool that continued without the record of its legs: it removes a leg of another head, by the name of the
leg in the configuration.",
);

/// Take a device off a mirror
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    device: DeviceArguments,
    /// Also if a device of its group has failed, and no redundancy is left then
    #[arg(long)]
    without_redundancy: bool,
}

impl Verb for Detach {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/detach",
        "Take one side off a mirror",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"device": "/dev/disk/by-id/scsi-c"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            device,
            without_redundancy,
        } = arguments;
        let (pool, device) = device.read()?;
        let detach = Self {
            device,
            without_redundancy,
        };
        Ok((pool, detach))
    }
}
