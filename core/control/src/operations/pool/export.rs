//! The request `pool.export`

use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, Urgency, WireOnly};

/// Drain the sessions and export, regardless of clients; a server exits. Sent by the agent of the cluster, which has
/// already decided, and may be of an older version than the server.
#[derive(Clone, Copy, Debug)]
pub struct Export;

impl Operation for Export {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Govern
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

impl WireOnly for Export {}
