//! `pool add`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{DeviceGroup, OverwriteOption, grows, layout};
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool add tank mirror /dev/disk/by-id/scsi-e /dev/disk/by-id/scsi-f"),
    Example::of("bulkhead pool add tank mirror left:/dev/disk/by-id/scsi-e right:/dev/disk/by-id/scsi-f")
        .elsewhere("needs two heads: tests/legs/shapes_of_legs.rs"),
])
.with_note(
    "The second example is for a pool with legs on several heads. First add the new group to the configuration of each head, and restart
the leg-servers.",
);

/// Widen the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolAdd")]
pub struct Add {
    /// The devices to add.
    pub groups: Vec<DeviceGroup>,
    /// Even if the new groups have less redundancy than those of the pool.
    #[serde(default)]
    pub mismatched: bool,
    /// Even if it has the label of a pool that is not in use.
    #[serde(default)]
    pub overwrite: bool,
}

impl Operation for Add {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            groups,
            mismatched: _,
            overwrite,
        } = self;
        grows(groups, *overwrite)
    }

    fn joining_devices(&self) -> Vec<PathBuf> {
        let devices = self.groups.iter().flat_map(|group| &group.devices);
        let here = devices.flat_map(|device| layout::joining_here(Some(device)));
        here.collect()
    }
}

/// Widen a pool with further devices
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// Devices and keywords of groups, as in `pool create`
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<String>,
    /// Allow new devices with less redundancy than those of the pool, and a spare that is too small for all of them
    #[arg(long)]
    mismatched: bool,
    #[command(flatten)]
    old_labels: OverwriteOption,
}

impl Verb for Add {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/add",
        "Widen the pool; with `overwrite` the paths of the new devices confirm",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"groups": [{"kind": "stripe", "role": "spare", "devices": ["/dev/disk/by-id/scsi-e"]}]}"#)
    .with_lists()];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let add = Self {
            groups: layout::parse_joining(&arguments.devices)?,
            mismatched: arguments.mismatched,
            overwrite: arguments.old_labels.overwrite,
        };
        Ok((PoolSelector::Pool(arguments.pool), add))
    }
}
