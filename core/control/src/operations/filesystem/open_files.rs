//! `filesystem open-files`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::OpenFilesView;
use crate::operations::{
    Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead filesystem open-files tank/home")
    .elsewhere("needs a server: proof.nfs.older_locks")]);

/// Show which files NFS clients have open and locked, and which clients are blocked on a lock
///
/// Clients of version 3 open nothing: only their locks are known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemOpenFiles")]
#[command(after_help = EXAMPLES)]
pub struct OpenFiles {
    /// The file system
    #[arg(id = "filesystem", value_name = "FILESYSTEM")]
    pub name: VolumeName,
}

impl Operation for OpenFiles {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

impl Verb for OpenFiles {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/filesystems/{filesystem}/open-files",
        "Opens and locks of NFS clients",
        schema_of::<OpenFilesView>,
    )
    .with(&[("name", Source::Filesystem)])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
