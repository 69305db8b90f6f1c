//! The request `pool.scrub_schedule`: `pool scrub --schedule`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, WireOnly};
use crate::schedule::When;

/// Scrub on a schedule, or only on request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolScrubSchedule")]
pub struct ScrubSchedule {
    /// The schedule; none removes it.
    pub when: Option<When>,
}

impl Operation for ScrubSchedule {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { when: _ } = self;
        Effect::Change
    }
}

impl WireOnly for ScrubSchedule {}
