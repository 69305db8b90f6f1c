//! `pool offline`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::DeviceArguments;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead pool offline tank /dev/disk/by-id/scsi-a --temporary",
)]);

/// Stop using a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolOffline")]
pub struct Offline {
    /// Device of the pool.
    pub device: PathBuf,
    /// Until the next import only.
    pub temporary: bool,
    /// Also if a device of its group has failed, and no redundancy is left then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_redundancy: bool,
}

impl Operation for Offline {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            device: _,
            temporary: _,
            without_redundancy: _,
        } = self;
        Effect::Change
    }
}

/// Stop using a device
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    device: DeviceArguments,
    /// Until the next import only
    #[arg(long)]
    temporary: bool,
    /// Also if a device of its group has failed, and no redundancy is left then
    #[arg(long)]
    without_redundancy: bool,
}

impl Verb for Offline {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/offline",
        "Stop using a device",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"device": "/dev/disk/by-id/scsi-a"}"#)
    .with(&[("temporary", Source::Default("false"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            device,
            temporary,
            without_redundancy,
        } = arguments;
        let (pool, device) = device.read()?;
        let offline = Self {
            device,
            temporary,
            without_redundancy,
        };
        Ok((pool, offline))
    }
}
