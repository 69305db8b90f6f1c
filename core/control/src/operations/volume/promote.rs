//! `volume promote`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::{Operation, PoolSelector, Verb};
use crate::{Effect, Failure};

/// Swap roles with the volume this one was cloned from, so that that one can be destroyed
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumePromote")]
#[command(after_help = "Example:\n  bulkhead volume promote tank/copy")]
pub struct Promote {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub name: VolumeName,
}

impl Operation for Promote {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Change
    }
}

impl Verb for Promote {
    type Arguments = Self;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
