//! `snapshot schedule remove`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::operations::{Example, Examples, Operation, PoolSelector, Verb, dataset, pool_named};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[Example::of("bulkhead snapshot schedule remove tank/vm0")]);

/// Remove a schedule; the snapshots stay
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "ScheduleRemove")]
#[command(
    visible_alias = "rm",
    after_help = EXAMPLES
)]
pub struct Remove {
    /// Where the schedule is set
    #[arg(value_parser = dataset)]
    pub of: String,
}

impl Operation for Remove {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { of: _ } = self;
        Effect::Govern
    }
}

impl Verb for Remove {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(pool_named(&arguments.of)), arguments))
    }
}
