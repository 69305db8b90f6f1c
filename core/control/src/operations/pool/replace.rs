//! `pool replace`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{OverwriteOption, joins, layout};
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Replace `old` by `new`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolReplace")]
pub struct Replace {
    /// Device of the pool. A leg on one of several heads by its name in `pool status`, such as
    /// `left:/dev/disk/by-id/x`.
    pub old: PathBuf,
    /// Its replacement; none means that there is a new disk at the same path. A leg by its present name in `legs.toml`
    /// of each head.
    pub new: Option<PathBuf>,
    /// Even if it has the label of a pool that is not in use.
    #[serde(default)]
    pub overwrite: bool,
}

impl Operation for Replace {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            old,
            new,
            overwrite,
        } = self;
        joins(new.as_ref().unwrap_or(old), new.as_deref(), *overwrite)
    }

    fn joining_devices(&self) -> Vec<PathBuf> {
        layout::joining_here(self.new.as_ref())
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool replace tank /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-d"),
    Example::of("bulkhead pool replace tank right:/dev/disk/by-id/scsi-b right:/dev/disk/by-id/scsi-e")
        .elsewhere("needs two heads: tests/legs/replaced_legs.rs"),
])
.with_note(
    "The second example is for a pool with legs on several heads. First change the path in the configuration of each head, and
restart the leg-servers. The old disk no longer counts as a copy from then on, and the new one is resynchronized in full.",
);

/// Replace a device by a new one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// A device of the pool; a leg as HEAD:PATH
    device: String,
    /// Its replacement; without it, there must be a new disk at the old path
    new_device: Option<String>,
    #[command(flatten)]
    old_labels: OverwriteOption,
}

impl Verb for Replace {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replace",
        "Replace a disk by another; with `overwrite` the path of the new one confirms",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"old": "/dev/disk/by-id/scsi-a", "new": "/dev/disk/by-id/scsi-d"}"#)
    .with(&[("new", Source::Default("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let new = arguments.new_device.as_deref().map(layout::joining_path);
        let replace = Self {
            new: new.transpose()?,
            old: layout::member_path(&arguments.device)?,
            overwrite: arguments.old_labels.overwrite,
        };
        Ok((PoolSelector::Pool(arguments.pool), replace))
    }
}
