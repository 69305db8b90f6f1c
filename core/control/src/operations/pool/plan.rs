//! `pool plan`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{DeviceGroup, is_disk, layout};
use crate::answer::PlanView;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Show the consequences of a change of the devices without making it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolPlan")]
pub struct Plan {
    /// The change.
    pub change: PlannedChange,
}

/// A change of the devices of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedChange {
    /// As `pool add`.
    Add {
        /// The devices to add.
        groups: Vec<DeviceGroup>,
    },
    /// As `pool attach`: one more device in a mirror or in a raidz group.
    Attach {
        /// Device or raidz group of the pool.
        existing: PathBuf,
        /// Device to add.
        new: PathBuf,
    },
    /// As `pool remove`.
    Remove {
        /// Device or group of the pool.
        device: PathBuf,
    },
    /// As `pool replace`.
    Replace {
        /// Device of the pool.
        old: PathBuf,
        /// Its replacement.
        new: PathBuf,
    },
    /// As `pool online --expand`.
    Expand {
        /// Device of the pool.
        device: PathBuf,
    },
}

impl PlannedChange {
    /// The devices that would join the pool.
    pub fn new_devices(&self) -> Vec<&PathBuf> {
        match self {
            Self::Add { groups } => groups.iter().flat_map(|group| &group.devices).collect(),
            Self::Attach { existing: _, new } | Self::Replace { old: _, new } => vec![new],
            Self::Remove { device: _ } | Self::Expand { device: _ } => Vec::new(),
        }
    }
}

impl Operation for Plan {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { change } = self;
        // New devices are opened to read their sizes.
        let mut new = change.new_devices().into_iter();
        match new.all(|device| is_disk(device)) {
            true => Effect::Look,
            false => Effect::Govern,
        }
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool plan tank add mirror /dev/disk/by-id/scsi-e /dev/disk/by-id/scsi-f").ends_with_the_server(),
    Example::of("bulkhead pool plan tank replace /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-d").ends_with_the_server(),
    Example::of("bulkhead pool plan tank attach /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-d").ends_with_the_server(),
    Example::of("bulkhead pool plan tank remove mirror-1").ends_with_the_server(),
    Example::of("bulkhead pool plan tank expand /dev/disk/by-id/scsi-a --json").ends_with_the_server(),
])
.with_note(
    "It shows the bytes that move, by device, the duration at the rate that was measured, the fill before and after, the redundancy
until the end, and why the pool would refuse. The pool is not changed.",
);

/// Show the consequences of `add`, `attach`, `remove`, `replace` or `online --expand`, without performing it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The change
    #[arg(value_enum)]
    change: ChangeName,
    /// The arguments of the verb of that name: devices, and for `add` keywords of groups
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<String>,
}

/// The changes on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ChangeName {
    /// A group, log, cache or spare more
    Add,
    /// A device more in a mirror or a raidz group
    Attach,
    /// The data of a group moves to the other groups
    Remove,
    /// A new device in place of an old one
    Replace,
    /// All of the size of a device that has grown
    Expand,
}

fn wrong_count(pool: &PoolName, change: &str, arguments: &str) -> Failure {
    Failure::usage(format!("write `pool plan {pool} {change} {arguments}`"))
}

impl Verb for Plan {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/plan",
        "The consequences of a change of the devices, which is not made",
        schema_of::<PlanView>,
        Least::Look,
    )
    .body(r#"{"change": {"remove": {"device": "mirror-1"}}}"#)
    .with_lists()];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            pool,
            change,
            devices,
        } = arguments;
        let change = match (change, devices.as_slice()) {
            (ChangeName::Add, devices) => PlannedChange::Add {
                groups: layout::parse_joining(devices)?,
            },
            (ChangeName::Attach, [existing, new]) => PlannedChange::Attach {
                existing: layout::member_path(existing)?,
                new: layout::joining_path(new)?,
            },
            (ChangeName::Attach, _) => return Err(wrong_count(&pool, "attach", "DEVICE NEW")),
            (ChangeName::Remove, [device]) => PlannedChange::Remove {
                device: layout::member_path(device)?,
            },
            (ChangeName::Remove, _) => return Err(wrong_count(&pool, "remove", "DEVICE")),
            (ChangeName::Replace, [old, new]) => PlannedChange::Replace {
                old: layout::member_path(old)?,
                new: layout::joining_path(new)?,
            },
            (ChangeName::Replace, _) => return Err(wrong_count(&pool, "replace", "OLD NEW")),
            (ChangeName::Expand, [device]) => PlannedChange::Expand {
                device: layout::member_path(device)?,
            },
            (ChangeName::Expand, _) => return Err(wrong_count(&pool, "expand", "DEVICE")),
        };
        Ok((PoolSelector::Pool(pool), Self { change }))
    }
}
