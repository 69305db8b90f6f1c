//! `filesystem check`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::{Example, Examples, Operation, PoolSelector, Scheduling, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead filesystem check tank/home")]);

/// Check the consistency of names, files and directories of a file system
///
/// A scrub verifies that stored data is unchanged. This verifies that it is consistent: every name
/// refers to a file, every file has as many names as its link count, and every directory is
/// reachable from the root. It reads a snapshot, which it creates and destroys, so that clients are
/// not interrupted. Nothing is repaired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemCheck")]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// The file system
    #[arg(id = "filesystem", value_name = "FILESYSTEM")]
    pub name: VolumeName,
}

impl Operation for Check {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Change
    }

    /// The duration of the check is proportional to the number of files, and it uses a snapshot
    /// with a name that only checks use.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl Verb for Check {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
