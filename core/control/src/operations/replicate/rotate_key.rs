//! `replicate rotate-key`

use clap::Args;
use units::PoolName;

use crate::operations::{Example, Examples, Operation, PoolSelector, Verb, WhichPool};
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

/// Make another key for the pool; the other pools have to be told its new fingerprint
///
/// Nothing is replicated between this pool and the others until both sides know the fingerprint: the
/// answer says what to do where. What was missed follows with the next run.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for RotateKey {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
