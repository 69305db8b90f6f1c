//! `volume space`

use clap::Args;
use units::PoolName;

use crate::operations::{Operation, PoolSelector, Turn, Verb, WhichPool};
use crate::{Effect, Failure};

/// Where the space goes: the pool, what is below it, and all volumes.
#[derive(Clone, Copy, Debug)]
pub struct Space;

impl Operation for Space {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Look
    }

    fn turn(&self) -> Turn {
        Turn::Looks
    }

    fn covers_all_pools(&self) -> bool {
        true
    }
}

const EXAMPLES: &str = "Examples:
  bulkhead volume space tank
  bulkhead volume set tank quota=1T

USED is the sum of the four columns after it. A quota on a dataset above volumes is for all of them
together, with their snapshots.";

/// Show where the space goes: data, snapshots, what is below; quotas and reservations
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for Space {
    type Arguments = Arguments;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
