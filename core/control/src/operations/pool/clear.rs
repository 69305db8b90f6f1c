//! `pool clear`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::layout;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Source, Urgency, Verb,
    schema_of,
};
use crate::{Effect, Failure};

/// Clear errors and resume a suspended pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolClear")]
pub struct Clear {
    /// One device, or all.
    pub device: Option<PathBuf>,
    /// Allow a suspended pool to resume without the devices that are still missing, although they may hold acknowledged
    /// data that the remaining devices do not have. That data is lost then.
    #[serde(default)]
    pub missing_devices_are_not_newer: bool,
}

impl Operation for Clear {
    fn effect(&self, pool: &PoolName) -> Effect {
        let Self {
            device: _,
            missing_devices_are_not_newer,
        } = self;
        match missing_devices_are_not_newer {
            true => Effect::Destroy(vec![pool.to_string()]),
            false => Effect::Change,
        }
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Resuming
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool clear tank"),
])
.with_note(
    "A suspended pool resumes with the devices that have returned, unless a missing device may be the only one with some
acknowledged data. Then the error names the confirmation for that.",
);

/// Clear device errors, and resume a suspended pool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// Only this device
    device: Option<String>,
    /// Resume without the devices that are still missing, although they may hold newer data: data that only they hold
    /// is lost
    #[arg(long)]
    missing_devices_are_not_newer: bool,
}

impl Verb for Clear {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/clear",
        "Clear errors, and resume a suspended pool; with `missing_devices_are_not_newer` its name confirms",
        schema_of::<Done>,
        Least::Change,
    )
    .with(&[
        ("device", Source::Default("null")),
        ("missing_devices_are_not_newer", Source::Default("false")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            pool,
            device,
            missing_devices_are_not_newer,
        } = arguments;
        let device = device.as_deref().map(layout::member_path).transpose()?;
        let clear = Self {
            device,
            missing_devices_are_not_newer,
        };
        Ok((PoolSelector::Pool(pool), clear))
    }
}
