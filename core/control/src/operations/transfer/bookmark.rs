//! The request `transfer.bookmark`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName};

use crate::Effect;
use crate::operations::{Operation, Scheduling, WireOnly};

/// Create a bookmark of a snapshot, as the start of a send after the snapshot is destroyed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TransferBookmark")]
pub struct Bookmark {
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// The bookmark's name, without the volume's.
    pub mark: String,
}

impl Operation for Bookmark {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            snapshot: _,
            mark: _,
        } = self;
        Effect::Govern
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl WireOnly for Bookmark {}
