//! `volume key change --inherit`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::Effect;
use crate::operations::{Operation, WireOnly};

/// Let a dataset share its parent's key again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyInherit")]
pub struct Inherit {
    /// Which.
    pub name: VolumeName,
}

impl Operation for Inherit {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name: _ } = self;
        Effect::Govern
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl WireOnly for Inherit {}
