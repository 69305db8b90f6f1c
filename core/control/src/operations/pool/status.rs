//! `pool status`

use clap::Args;
use units::PoolName;

use crate::operations::{
    Example, Examples, Operation, PoolArgument, PoolSelector, Scheduling, Urgency, Verb,
};
use crate::{Effect, Failure};

/// States, errors, capacity, scan.
#[derive(Clone, Copy, Debug)]
pub struct Status;

impl Operation for Status {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn covers_all_pools(&self) -> bool {
        true
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Brief)
    }
}

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead pool status tank")]);

/// Show devices, errors, capacity and advice
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
}

impl Verb for Status {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
