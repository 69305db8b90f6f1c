//! `filesystem rename`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::effect::change_unless;
use crate::operations::{Example, Examples, Operation, PoolSelector, Verb, one_pool};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead filesystem rename tank/home tank/people",
)]);

/// Rename a file system within its pool; its children move along, and open files stay open
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "FilesystemRename")]
#[command(after_help = EXAMPLES)]
pub struct Rename {
    /// The file system
    #[arg(id = "filesystem", value_name = "FILESYSTEM")]
    pub from: VolumeName,
    /// Its new name
    #[arg(id = "new_name", value_name = "NEW_NAME")]
    pub to: VolumeName,
    /// Refuse to change a property that only an admin may set. A head sets it for other roles.
    #[serde(default)]
    #[arg(skip)]
    pub keep_rights: bool,
}

impl Operation for Rename {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            from: _,
            to: _,
            keep_rights,
        } = self;
        change_unless(!keep_rights)
    }

    fn details(&self) -> Option<String> {
        Some(format!("{} to {}", self.from, self.to))
    }
}

impl Verb for Rename {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        let pool = one_pool([arguments.from.pool(), arguments.to.pool()])?;
        Ok((pool, arguments))
    }
}
