//! `snapshot hold`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, one_pool, schema_of,
};
use crate::snapshot_set::SnapshotSet;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead snapshot hold backup tank/vm0@monday",
)
.undone_by(&["bulkhead snapshot release backup tank/vm0@monday"])])
.with_note(
    "A snapshot can have several holds of different names. Each hold is released by its name.",
);

/// Hold snapshots: only the destruction of the pool destroys them until they are released
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "SnapshotHold")]
#[command(after_help = EXAMPLES)]
pub struct Hold {
    /// The name of the hold, such as the software that needs it
    pub tag: String,
    /// Snapshots, as POOL/NAME@SNAPSHOT, @PATTERN or @FIRST%LAST
    #[arg(id = "snapshots", value_name = "SNAPSHOTS", required = true)]
    pub names: Vec<SnapshotSet>,
    /// Also those of all volumes and file systems below
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[arg(long, short)]
    pub recursive: bool,
}

impl Operation for Hold {
    /// It determines how long data is retained.
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            tag: _,
            names: _,
            recursive: _,
        } = self;
        Effect::Govern
    }

    fn details(&self) -> Option<String> {
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        Some(format!("{}: {}", self.tag, names.join(", ")))
    }
}

impl Verb for Hold {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/snapshots/{snapshot}/hold",
        "Hold a snapshot: until it is released, only the destruction of the pool destroys it",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"tag": "backup"}"#)
    .with(&[
        ("names", Source::Snapshots),
        ("recursive", Source::Default("false")),
    ])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        let pool = one_pool(arguments.names.iter().map(SnapshotSet::pool))?;
        Ok((pool, arguments))
    }
}
