//! `snapshot schedule list`

use clap::Args;
use units::PoolName;

use crate::answer::ScheduleView;
use crate::operations::{Operation, PoolSelector, Route, Turn, Verb, WhichPool, schema_of};
use crate::{Effect, Failure};

/// All schedules with their next moments.
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

/// List the schedules of a pool and when each rule is due next
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Example:\n  bulkhead snapshot schedule list tank --json"
)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for List {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/schedules",
        "Schedules of snapshots",
        schema_of::<Vec<ScheduleView>>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
