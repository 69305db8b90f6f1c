//! `snapshot rename`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead snapshot rename tank/vm0@monday before-upgrade",
)]);

/// Rename a snapshot; its clones, and clients of the volume, notice nothing
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotRename")]
pub struct Rename {
    /// Which.
    pub from: SnapshotName,
    /// Of the same volume, with another name after the `@`.
    pub to: SnapshotName,
}

impl Operation for Rename {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { from: _, to: _ } = self;
        Effect::Change
    }
}

/// Rename a snapshot; its clones, and clients of the volume, notice nothing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The snapshot, as POOL/NAME@SNAPSHOT
    snapshot: SnapshotName,
    /// Its new name, the part after the @
    new_name: String,
}

impl Verb for Rename {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/snapshots/{snapshot}/rename",
        "Give a snapshot of a volume another name",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"to": "tank/vm0@before-upgrade"}"#)
    .with(&[("from", Source::Snapshot)])];

    /// The new name may also be in the form of stock ZFS, with the volume before it.
    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            snapshot: from,
            new_name,
        } = arguments;
        let whole = match new_name.contains('@') {
            true => new_name,
            false => format!("{}@{new_name}", from.volume()),
        };
        let to = whole.parse::<SnapshotName>();
        let to = to.map_err(|error| Failure::usage(error.to_string()))?;
        Ok((PoolSelector::Pool(from.volume().pool()), Self { from, to }))
    }
}
