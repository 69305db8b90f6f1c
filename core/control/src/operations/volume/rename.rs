//! `volume rename`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::effect::change_unless;
use crate::operations::{Example, Examples, Operation, PoolSelector, Verb, one_pool};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[Example::of("bulkhead volume rename tank/vm0 tank/mail")]);

/// Rename a volume within its pool; exports and identity are retained
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeRename")]
#[command(after_help = EXAMPLES)]
pub struct Rename {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
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
