//! `pool replace`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{OverwriteOption, joins, layout};
use crate::answer::Done;
use crate::operations::{Least, Operation, PoolSelector, Route, Source, Verb, schema_of};
use crate::{Effect, Failure};

/// Put `new` in the place of `old`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolReplace")]
pub struct Replace {
    /// Device of the pool.
    pub old: PathBuf,
    /// Its successor; none means that the same path holds a new disk.
    pub new: Option<PathBuf>,
    /// Also if it carries the label of a pool that is not in use.
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
        joins(new.as_ref().unwrap_or(old), *overwrite)
    }

    fn joining_devices(&self) -> Vec<PathBuf> {
        self.new.iter().cloned().collect()
    }
}

/// Put a new device in the place of another
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  bulkhead pool replace tank /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-d"
)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// A device of the pool
    device: String,
    /// Its successor; without it, a new disk is at the old path
    new_device: Option<String>,
    #[command(flatten)]
    old_labels: OverwriteOption,
}

impl Verb for Replace {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replace",
        "Put a disk in the place of another; with `overwrite` the path of the new one confirms",
        schema_of::<Done>,
        Least::Change,
    )
    .with(&[("new", Source::Default("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let new = arguments.new_device.as_deref().map(layout::device_path);
        let replace = Self {
            new: new.transpose()?,
            old: layout::member_path(&arguments.device)?,
            overwrite: arguments.old_labels.overwrite,
        };
        Ok((PoolSelector::Pool(arguments.pool), replace))
    }
}
