//! The request `transfer.send`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, Scheduling, WireOnly};
use crate::transfer::SendWhat;

/// Write the stream of a snapshot to the passed descriptor. Its duration depends on the receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TransferSend")]
pub struct Send {
    /// The stream to send.
    pub what: SendWhat,
    /// Only estimate the size.
    #[serde(default)]
    pub estimate: bool,
}

impl Operation for Send {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            what: _,
            estimate: _,
        } = self;
        Effect::Govern
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl WireOnly for Send {}
