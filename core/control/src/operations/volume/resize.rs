//! `volume resize`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::{Operation, PoolSelector, Verb, bytes};
use crate::{Effect, Failure};

/// Change a volume's size; connected clients are told
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeResize")]
#[command(after_help = "Example:\n  bulkhead volume resize tank/vm0 --size 20G")]
pub struct Resize {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub name: VolumeName,
    /// The new size, such as 20G
    #[arg(long, value_parser = bytes)]
    pub size: u64,
    /// What lies beyond the new size may be lost
    #[arg(long)]
    pub allow_shrink: bool,
}

impl Operation for Resize {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name,
            size: _,
            allow_shrink,
        } = self;
        match allow_shrink {
            true => Effect::Destroy(vec![name.to_string()]),
            false => Effect::Change,
        }
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl Verb for Resize {
    type Arguments = Self;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
