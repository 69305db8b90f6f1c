//! `volume rename`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::{Operation, PoolSelector, Verb, one_pool};
use crate::{Effect, Failure};

/// Give a volume another name in its pool; exports and identity stay
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeRename")]
#[command(after_help = "Example:\n  bulkhead volume rename tank/vm0 tank/web")]
pub struct Rename {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub from: VolumeName,
    /// Its new name
    #[arg(id = "new_name", value_name = "NEW_NAME")]
    pub to: VolumeName,
}

impl Operation for Rename {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { from: _, to: _ } = self;
        Effect::Change
    }
}

impl Verb for Rename {
    type Arguments = Self;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        let pool = one_pool([arguments.from.pool(), arguments.to.pool()])?;
        Ok((pool, arguments))
    }
}
