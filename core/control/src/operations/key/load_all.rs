//! `volume key load POOL`

use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, WireOnly};

/// Load every missing key that can be found.
#[derive(Clone, Copy, Debug)]
pub struct LoadAll;

impl Operation for LoadAll {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Change
    }
}

impl WireOnly for LoadAll {}
