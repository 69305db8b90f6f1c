//! `nbd list`

use clap::Args;
use units::PoolName;

use crate::answer::NbdView;
use crate::operations::{Operation, PoolSelector, Route, Turn, Verb, WhichPool, schema_of};
use crate::{Effect, Failure};

/// All of the pool.
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

/// List the exports with their clients
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Example:\n  bulkhead nbd list tank --json"
)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for List {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/nbd",
        "NBD exports",
        schema_of::<Vec<NbdView>>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
