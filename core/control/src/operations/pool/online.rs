//! `pool online`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::DeviceArguments;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Use a device again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolOnline")]
pub struct Online {
    /// Device of the pool. A leg on one of several heads by its name in `pool status`, such as
    /// `left:/dev/disk/by-id/x`.
    pub device: PathBuf,
    /// Also use all of its size, if it is larger than when it joined. The group grows when this is done for each of its
    /// devices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expand: bool,
}

impl Operation for Online {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            device: _,
            expand: _,
        } = self;
        Effect::Change
    }

    /// It can resume a suspended pool on which a change may be blocked.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Resuming
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool online tank /dev/disk/by-id/scsi-a"),
    Example::of("bulkhead pool online tank /dev/disk/by-id/scsi-a --expand"),
])
.with_note(
    "A leg of a pool with legs on several heads returns automatically, until it has failed three times within an hour. Then
`pool status` shows it as faulted, with the time of the next retry. This command retries at once: LEG is HEAD:PATH.",
);

/// Use a device again
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    device: DeviceArguments,
    /// Also use all of its size, if it is larger than when it joined: repeat it for each device of the group
    #[arg(long)]
    expand: bool,
}

impl Verb for Online {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/online",
        "Use a device again",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"device": "/dev/disk/by-id/scsi-a"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, device) = arguments.device.read()?;
        let expand = arguments.expand;
        Ok((pool, Self { device, expand }))
    }
}
