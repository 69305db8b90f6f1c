//! `volume destroy`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::preview::previewed;
use crate::operations::{
    Confirmable, Confirmed, Example, Examples, Least, Operation, PoolSelector, Preview, Route,
    Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume destroy tank/vm0 --recursive --dry-run")
        .prepared_by(&["bulkhead snapshot destroy tank/vm0@monday --yes-destroy-data"]),
    Example::of("bulkhead volume destroy tank/vm0 --yes-destroy-data")
        .prepared_by(&["bulkhead snapshot destroy tank/vm0@monday --yes-destroy-data"]),
]);

/// Destroy a volume, with its snapshots if requested
///
/// A dataset that holds volumes is no volume: `bulkhead filesystem destroy --recursive` destroys it with all its
/// children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeDestroy")]
#[command(
    visible_alias = "rm",
    after_help = EXAMPLES
)]
pub struct Destroy {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub name: VolumeName,
    /// Its snapshots too
    #[arg(long, short)]
    pub recursive: bool,
    /// Even though it is exported, or in use: its exports are removed first
    #[arg(long, visible_alias = "in-use", overrides_with = "exported")]
    pub exported: bool,
    /// Preview options.
    #[serde(flatten)]
    #[command(flatten)]
    pub preview: Preview,
}

impl Operation for Destroy {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name,
            recursive: _,
            exported: _,
            preview,
        } = self;
        match preview.is_wanted() {
            true => Effect::Look,
            false => Effect::Destroy(vec![name.to_string()]),
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.preview.scheduling()
    }

    fn is_preview(&self) -> bool {
        self.preview.is_wanted()
    }
}

previewed!(Destroy);

impl Confirmable for Destroy {
    const HELP: &'static str = "Yes, its contents shall be lost";

    fn loss(&self) -> String {
        format!("the contents of {} would be lost", self.name)
    }
}

impl Verb for Destroy {
    type Arguments = Confirmed<Self>;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/volumes/{volume}",
        "Destroy a volume; its name confirms",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[
        ("name", Source::Volume),
        ("recursive", Source::Query("false")),
        ("exported", Source::Query("false")),
        ("dry_run", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Confirmed<Self>) -> Result<(PoolSelector, Self), Failure> {
        let destroy = arguments.or_refuse();
        Ok((PoolSelector::Pool(destroy.name.pool()), destroy))
    }
}
