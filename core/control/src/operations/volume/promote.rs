//! `volume promote`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::effect::change_unless;
use crate::operations::{Example, Examples, Operation, PoolSelector, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead volume promote tank/copy")
    .prepared_by(&["bulkhead snapshot clone tank/vm0@monday tank/copy"])]);

/// Swap roles with the volume that this one was cloned from, so that the origin can be destroyed
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumePromote")]
#[command(after_help = EXAMPLES)]
pub struct Promote {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub name: VolumeName,
    /// Refuse to change a property that only an admin may set. A head sets it for other roles.
    #[serde(default)]
    #[arg(skip)]
    pub keep_rights: bool,
}

impl Operation for Promote {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            keep_rights,
        } = self;
        change_unless(!keep_rights)
    }

    fn details(&self) -> Option<String> {
        Some(self.name.to_string())
    }
}

impl Verb for Promote {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
