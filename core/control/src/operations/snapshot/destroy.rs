//! `snapshot destroy`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName};

use crate::answer::Done;
use crate::operations::preview::previewed;
use crate::operations::{
    Confirmable, Confirmed, Example, Examples, Least, Operation, PoolSelector, Preview, Route,
    Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead snapshot destroy tank/vm0@monday --yes-destroy-data",
)]);

/// Destroy snapshots
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "SnapshotDestroy")]
#[command(
    visible_alias = "rm",
    after_help = EXAMPLES
)]
pub struct Destroy {
    /// Snapshots, as POOL/NAME@SNAPSHOT
    #[arg(id = "snapshots", value_name = "SNAPSHOTS", required = true)]
    pub names: Vec<SnapshotName>,
    /// Preview options.
    #[serde(flatten)]
    #[command(flatten)]
    pub preview: Preview,
}

impl Operation for Destroy {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { names, preview } = self;
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
        format!(
            "data that only {} snapshot(s) hold would be lost",
            self.names.len()
        )
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
        ("dry_run", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Confirmed<Self>) -> Result<(PoolSelector, Self), Failure> {
        let destroy = arguments.or_refuse();
        Ok((super::pool_of(&destroy.names)?, destroy))
    }
}
