//! `target discovery show`

use clap::Args;
use units::PoolName;

use crate::answer::DiscoveryView;
use crate::operations::{Operation, PoolSelector, Route, Turn, Verb, WhichPool, schema_of};
use crate::{Effect, Failure};

/// Who may ask.
#[derive(Clone, Copy, Debug)]
pub struct Show;

impl Operation for Show {
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

/// Show the users, without their secrets
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bulkhead target discovery show tank")]
pub struct Arguments {
    #[command(flatten)]
    pool: WhichPool,
}

impl Verb for Show {
    type Arguments = Arguments;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/discovery",
        "What whoever asks for targets has to prove",
        schema_of::<DiscoveryView>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }
}
