//! `replicate rotate-key`

use clap::Args;
use units::PoolName;

use crate::operations::{Example, Examples, Operation, PoolArgument, PoolSelector, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead replicate rotate-key tank")
    .elsewhere("needs two servers: tests/head/replication.rs")]);

/// Create a new key for the pool, with a new fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct RotateKey;

impl Operation for RotateKey {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Govern
    }
}

/// Create a new key for the pool; the other pools need its new fingerprint
///
/// Replication between this pool and its peers stops until both sides have the fingerprint: the output lists the
/// commands for each side. Missed runs are made up for by the next run.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
}

impl Verb for RotateKey {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
