//! `pool attach`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{OverwriteOption, joins, layout};
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Mirror `existing` to `new`, or widen a mirror.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolAttach")]
pub struct Attach {
    /// Device of the pool. A leg on one of several heads by its name in `pool status`, such as
    /// `left:/dev/disk/by-id/x`.
    pub existing: PathBuf,
    /// Device to add. A leg by its name in `legs.toml` of each head.
    pub new: PathBuf,
    /// Even if it has the label of a pool that is not in use.
    #[serde(default)]
    pub overwrite: bool,
}

impl Operation for Attach {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            existing: _,
            new,
            overwrite,
        } = self;
        joins(new, Some(new), *overwrite)
    }

    fn joining_devices(&self) -> Vec<PathBuf> {
        layout::joining_here(Some(&self.new))
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool attach tank /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-c"),
    Example::of("bulkhead pool attach tank left:/dev/disk/by-id/scsi-a third:/dev/disk/by-id/scsi-c")
        .elsewhere("needs two heads: tests/legs/attached_legs.rs"),
])
.with_note(
    "The second example is for a pool with legs on several heads. First add the new leg to the configuration of each head, and restart
the leg-servers and the pool's server.",
);

/// Add a device to a mirror, or turn a single device into a mirror
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// A device of the pool; a leg as HEAD:PATH
    device: String,
    /// The device to add
    new_device: String,
    #[command(flatten)]
    old_labels: OverwriteOption,
}

impl Verb for Attach {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/attach",
        "Widen a mirror; with `overwrite` the path of the new device confirms",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"existing": "/dev/disk/by-id/scsi-a", "new": "/dev/disk/by-id/scsi-c"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let attach = Self {
            existing: layout::member_path(&arguments.device)?,
            new: layout::joining_path(&arguments.new_device)?,
            overwrite: arguments.old_labels.overwrite,
        };
        Ok((PoolSelector::Pool(arguments.pool), attach))
    }
}
