//! The request `transfer.interrupted`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::Effect;
use crate::operations::{Operation, Scheduling, WireOnly};

/// The state that an interrupted receive left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TransferInterrupted")]
pub struct Interrupted {
    /// The volume.
    pub volume: VolumeName,
}

impl Operation for Interrupted {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { volume: _ } = self;
        Effect::Govern
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

impl WireOnly for Interrupted {}
