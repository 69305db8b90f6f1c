//! `volume list`

use clap::Args;
use units::PoolName;

use crate::answer::VolumeView;
use crate::operations::{Operation, PoolSelector, Route, Turn, Verb, WhichPool, schema_of};
use crate::{Effect, Failure};

/// All volumes of the pool.
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

/// List the volumes of a pool
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Example:\n  bulkhead volume list tank --json"
)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for List {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/volumes",
        "Volumes",
        schema_of::<Vec<VolumeView>>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
