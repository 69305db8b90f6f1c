//! `filesystem show`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::FilesystemView;
use crate::operations::{
    Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead filesystem show tank/home")]);

/// Show one file system with its properties, its share, and its clients
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemShow")]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// The file system
    #[arg(id = "filesystem", value_name = "FILESYSTEM")]
    pub name: VolumeName,
}

impl Operation for Show {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

impl Verb for Show {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/filesystems/{filesystem}",
        "A file system",
        schema_of::<FilesystemView>,
    )
    .with(&[("name", Source::Filesystem)])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
