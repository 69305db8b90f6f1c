//! The request `server.ping`

use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, Urgency, WireOnly};

/// Check that the server responds, and return its pool.
#[derive(Clone, Copy, Debug)]
pub struct Ping;

impl Operation for Ping {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Look
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Brief)
    }
}

impl WireOnly for Ping {}

/// Returns the reply of a pool's server while no write is blocked.
pub fn serving(pool: &PoolName) -> String {
    format!("serving pool {pool}")
}
