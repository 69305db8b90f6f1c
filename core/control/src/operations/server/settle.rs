//! The request `server.settle`

use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, Urgency, WireOnly};

/// Write cached changes to disk, so that a following export is short. Clients notice nothing.
#[derive(Clone, Copy, Debug)]
pub struct Settle;

impl Operation for Settle {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Change
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

impl WireOnly for Settle {}
