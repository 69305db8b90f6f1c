//! `portal list`

use clap::Args;
use units::PoolName;

use crate::operations::{Operation, PoolSelector, Route, Turn, Verb, WhichPool, schema_of};
use crate::portal::PortalView;
use crate::{Effect, Failure};

/// Where the server listens, and who came in by it.
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

/// List where pools are served, with the number of clients that came in there
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Example:\n  bulkhead portal list tank --json"
)]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for List {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/portals",
        "iSCSI portals and NBD addresses",
        schema_of::<Vec<PortalView>>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
