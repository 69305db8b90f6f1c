//! The request `transfer.abort`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::Effect;
use crate::operations::{Operation, Scheduling, WireOnly};

/// Discard the state that an interrupted receive left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TransferAbort")]
pub struct Abort {
    /// The volume.
    pub volume: VolumeName,
}

impl Operation for Abort {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { volume: _ } = self;
        Effect::Govern
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl WireOnly for Abort {}
