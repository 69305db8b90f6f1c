//! The request `server.reload`

use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, WireOnly};

/// Reload the exports, as on SIGHUP.
#[derive(Clone, Copy, Debug)]
pub struct Reload;

impl Operation for Reload {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Change
    }
}

impl WireOnly for Reload {}
