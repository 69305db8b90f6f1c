//! The request `transfer.receive`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::Effect;
use crate::operations::{Operation, Scheduling, WireOnly};

/// Receive the stream of the passed descriptor. Its duration depends on the sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TransferReceive")]
pub struct Receive {
    /// The volume.
    pub volume: VolumeName,
    /// The snapshot's name, without the volume's; none selects the stream's.
    #[serde(default)]
    pub tag: Option<String>,
    /// Discard the changes since the stream's base.
    #[serde(default)]
    pub force: bool,
    /// Retain the received part of a stream that is cut off.
    #[serde(default)]
    pub resumable: bool,
    /// Create missing parents.
    #[serde(default)]
    pub parents: bool,
}

impl Operation for Receive {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            volume,
            tag: _,
            force,
            resumable: _,
            parents: _,
        } = self;
        match force {
            true => Effect::Destroy(vec![volume.to_string()]),
            false => Effect::Govern,
        }
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl WireOnly for Receive {}
