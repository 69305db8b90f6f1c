//! `replicate identity`

use clap::Args;
use units::PoolName;

use crate::operations::{
    Example, Examples, Least, Operation, PoolArgument, PoolSelector, Route, Verb, schema_of,
};
use crate::replication::ReplicationView;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead replicate identity tank")
    .elsewhere("needs two servers: tests/head/replication.rs")]);

/// Show the identity of the pool for replication; creates its key if it has none.
#[derive(Clone, Copy, Debug)]
pub struct Identity;

impl Operation for Identity {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Govern
    }
}

/// Print the fingerprint by which other pools identify this one; creates its key if it has none
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
}

impl Verb for Identity {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/identity",
        "The same, after a certificate was made for the pool if it has none",
        schema_of::<ReplicationView>,
        Least::Govern,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
