//! `replicate list`

use clap::Args;
use units::PoolName;

use crate::operations::{Operation, PoolSelector, Route, Turn, Verb, WhichPool, schema_of};
use crate::replication::ReplicationView;
use crate::{Effect, Failure};

/// Everything about replication.
#[derive(Clone, Copy, Debug)]
pub struct List;

impl Operation for List {
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

/// What is replicated, how far behind it is, and who may replicate into the pool
#[derive(Debug, Args)]
#[command(visible_aliases = ["status", "ls"])]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for List {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/replication",
        "What is replicated, how far behind it is, and who may replicate into the pool",
        schema_of::<ReplicationView>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
