//! The request `server.reload`

use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, WireOnly};

/// Read the exports again, as SIGHUP does.
#[derive(Clone, Copy, Debug)]
pub struct Reload;

impl Operation for Reload {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Change
    }
}

impl WireOnly for Reload {}
