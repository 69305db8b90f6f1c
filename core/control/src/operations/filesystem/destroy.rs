//! `filesystem destroy`

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
    Example::of("bulkhead filesystem destroy tank/home --recursive --dry-run")
        .prepared_by(&["bulkhead snapshot destroy tank/home@monday --yes-destroy-data"]),
    Example::of("bulkhead filesystem destroy tank/home --yes-destroy-data")
        .prepared_by(&["bulkhead snapshot destroy tank/home@monday --yes-destroy-data"]),
]);

/// Destroy a file system, or a dataset that holds volumes
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemDestroy")]
#[command(
    visible_alias = "rm",
    after_help = EXAMPLES
)]
pub struct Destroy {
    /// The file system
    #[arg(id = "filesystem", value_name = "FILESYSTEM")]
    pub name: VolumeName,
    /// Also its snapshots and all its children: file systems, volumes, and their snapshots
    #[arg(long, short)]
    pub recursive: bool,
    /// Even though it is shared, or in use: clients lose it, and its children are no longer exported
    #[arg(long, visible_alias = "in-use", overrides_with = "shared")]
    pub shared: bool,
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
            shared: _,
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
    const HELP: &'static str = "Yes, its files shall be lost";

    fn loss(&self) -> String {
        format!("the files of {} would be lost", self.name)
    }
}

impl Verb for Destroy {
    type Arguments = Confirmed<Self>;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/filesystems/{filesystem}",
        "Destroy a file system; its name confirms",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[
        ("name", Source::Filesystem),
        ("recursive", Source::Query("false")),
        ("shared", Source::Query("false")),
        ("dry_run", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Confirmed<Self>) -> Result<(PoolSelector, Self), Failure> {
        let destroy = arguments.or_refuse();
        Ok((PoolSelector::Pool(destroy.name.pool()), destroy))
    }
}
