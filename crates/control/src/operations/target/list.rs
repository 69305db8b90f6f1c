//! `target list`

use clap::Args;
use units::PoolName;

use crate::answer::TargetView;
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

/// List the targets with their volumes
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Example:\n  bulkhead target list --json"
)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for List {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/targets",
        "iSCSI targets",
        schema_of::<Vec<TargetView>>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
