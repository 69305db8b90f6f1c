//! `pool replace-disk`

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{is_disk, joins, layout};
use crate::answer::ReplacementView;
use crate::operations::{
    Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Replace a bad disk by a new one, guided. A repeated request resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolReplaceDisk")]
pub struct ReplaceDisk {
    /// The bad disk; none selects the only bad one.
    pub device: Option<PathBuf>,
    /// Its replacement; none selects an unused disk that fits.
    pub with: Option<PathBuf>,
    /// Even if it has the label of a pool that is not in use.
    #[serde(default)]
    pub overwrite: bool,
    /// Perform it, and respond when the new disk is current; otherwise show the plan.
    #[serde(default)]
    pub perform: bool,
}

impl Operation for ReplaceDisk {
    fn effect(&self, pool: &PoolName) -> Effect {
        let Self {
            device,
            with,
            overwrite,
            perform,
        } = self;
        match perform {
            // The user confirms the chosen disk by naming the one that it replaces.
            true => {
                let whole = PathBuf::from(pool.as_str());
                let named = with.as_ref().or(device.as_ref());
                joins(named.unwrap_or(&whole), with.as_deref(), *overwrite)
            }
            // It is opened to check whether it could be used.
            false if !with.as_deref().is_none_or(is_disk) => Effect::Govern,
            false => Effect::Look,
        }
    }

    /// It runs until the disk is filled.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }

    fn is_resumable_by_repeat(&self) -> bool {
        self.perform
    }

    fn joining_devices(&self) -> Vec<PathBuf> {
        let with = self.with.iter().filter(|_| self.perform);
        with.cloned().collect()
    }

    fn leaving_device(&self) -> Option<PathBuf> {
        self.device.clone().filter(|_| self.perform)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool replace-disk tank"),
    Example::of("bulkhead pool replace-disk tank --yes"),
    Example::of("bulkhead pool replace-disk tank /dev/disk/by-id/scsi-a --with /dev/disk/by-id/scsi-d --yes"),
])
.with_note(
    "Clients are served all the time. If it is interrupted, or the server is killed or moves to another
head, the filling goes on by itself; the same command waits for its end.",
);

/// Replace a bad disk, step by step: shows the plan; --yes performs it until the new disk is
/// current
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The disk to replace [default: the bad one]
    device: Option<String>,
    /// The new disk [default: the smallest unused one that is blank and large enough, else a spare]
    #[arg(long, value_name = "DISK")]
    with: Option<String>,
    /// Perform it, and wait until the new disk is current
    #[arg(long)]
    yes: bool,
    /// Overwrite a disk that has the label of an exported or destroyed pool, was a spare, or
    /// contains a file system or partitions
    #[arg(long)]
    overwrite_old_labels: bool,
}

impl Verb for ReplaceDisk {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/replacement",
        "The plan of `replace_disk`: which disk is bad, which ones fit",
        schema_of::<ReplacementView>,
    )
    .with(&[
        ("device", Source::Query("null")),
        ("with", Source::Query("null")),
        ("overwrite", Source::Query("false")),
        ("perform", Source::Always("false")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let device = arguments.device.as_deref().map(layout::member_path);
        let with = arguments.with.as_deref().map(layout::device_path);
        let replace = Self {
            device: device.transpose()?,
            with: with.transpose()?,
            overwrite: arguments.overwrite_old_labels,
            perform: arguments.yes,
        };
        Ok((PoolSelector::Pool(arguments.pool), replace))
    }
}
