//! `pool remove`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{DeviceArguments, text};
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[
        Example::of("bulkhead pool remove tank /dev/disk/by-id/scsi-e")
            .prepared_by(&["bulkhead pool add tank spare /dev/disk/by-id/scsi-e"]),
    ]);

/// Evacuate and remove a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolRemove")]
pub struct Remove {
    /// Device of the pool.
    pub device: PathBuf,
}

impl Operation for Remove {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { device } = self;
        Effect::Destroy(vec![text(device)])
    }

    fn leaving_device(&self) -> Option<PathBuf> {
        Some(self.device.clone())
    }
}

/// Move the data off a device (or drop a log, cache or spare) and remove it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    device: DeviceArguments,
}

impl Verb for Remove {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/remove",
        "Evacuate and remove a device; its path confirms",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"device": "/dev/disk/by-id/scsi-e"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, device) = arguments.device.read()?;
        Ok((pool, Self { device }))
    }
}
