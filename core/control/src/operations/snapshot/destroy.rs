//! `snapshot destroy`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::preview::previewed;
use crate::operations::{
    Confirmable, Confirmed, Example, Examples, Least, Operation, PoolSelector, Preview, Route,
    Scheduling, Source, Verb, duration_s, one_pool, schema_of,
};
use crate::snapshot_set::SnapshotSet;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead snapshot destroy tank/vm0@monday --yes-destroy-data"),
    Example::of("bulkhead snapshot destroy 'tank/vm0@auto-*' --older-than 30d --dry-run"),
    Example::of("bulkhead snapshot destroy tank/vm0@%monday --dry-run"),
])
.with_note(
    "VOLUME@PATTERN names all snapshots with such a name (* and ?), VOLUME@FIRST%LAST those from FIRST to LAST by
creation; without FIRST or LAST, from the oldest one or to the newest one. Without --yes-destroy-data the command only
lists them. If one of them cannot be destroyed, none is.",
);

/// Destroy snapshots
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "SnapshotDestroy")]
#[command(
    visible_alias = "rm",
    after_help = EXAMPLES
)]
pub struct Destroy {
    /// Snapshots, as POOL/NAME@SNAPSHOT, @PATTERN or @FIRST%LAST
    #[arg(id = "snapshots", value_name = "SNAPSHOTS", required = true)]
    pub names: Vec<SnapshotSet>,
    /// Also those of all volumes and file systems below
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[arg(long, short)]
    pub recursive: bool,
    /// Only those that are at least so old, such as 12h or 30d
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long = "older-than", value_name = "TIME", value_parser = duration_s)]
    pub older_than_s: Option<u64>,
    /// Preview options.
    #[serde(flatten)]
    #[command(flatten)]
    pub preview: Preview,
}

impl Operation for Destroy {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { names, preview, .. } = self;
        match preview.is_wanted() {
            true => Effect::Look,
            false => Effect::Destroy(names.iter().map(ToString::to_string).collect()),
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.preview.scheduling()
    }

    fn is_preview(&self) -> bool {
        self.preview.is_wanted()
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

previewed!(Destroy);

impl Confirmable for Destroy {
    const HELP: &'static str = "Confirm the loss of the data that only they hold";

    fn loss(&self) -> String {
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        format!("data that only {} contain would be lost", names.join(", "))
    }
}

impl Verb for Destroy {
    type Arguments = Confirmed<Self>;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/snapshots/{snapshot}",
        "Destroy a snapshot; its name confirms",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[
        ("names", Source::Snapshots),
        ("recursive", Source::Query("false")),
        ("older_than_s", Source::Query("null")),
        ("dry_run", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Confirmed<Self>) -> Result<(PoolSelector, Self), Failure> {
        let destroy = arguments.or_refuse();
        let pool = one_pool(destroy.names.iter().map(SnapshotSet::pool))?;
        Ok((pool, destroy))
    }
}
