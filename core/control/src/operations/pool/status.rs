//! `pool status`

use clap::Args;
use units::PoolName;

use crate::operations::{Operation, PoolSelector, Turn, Urgency, Verb, WhichPool};
use crate::{Effect, Failure};

/// States, errors, capacity, scan.
#[derive(Clone, Copy, Debug)]
pub struct Status;

impl Operation for Status {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Look
    }

    fn turn(&self) -> Turn {
        Turn::Looks
    }

    fn covers_all_pools(&self) -> bool {
        true
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Brief)
    }
}

/// Show devices, errors, capacity and what to do
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for Status {
    type Arguments = Arguments;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
