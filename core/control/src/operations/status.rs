//! `status`

use clap::Args;
use units::PoolName;

use crate::operations::{
    Example, Examples, Operation, PoolArgument, Route, Scheduling, Urgency, WireOnly, schema_of,
};
use crate::{Effect, answer};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead status"),
    Example::of("bulkhead status tank --json"),
    Example::of("bulkhead status tank --watch 2").elsewhere("never ends"),
]);

/// The overall status.
#[derive(Clone, Copy, Debug)]
pub struct Status;

impl Operation for Status {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn covers_all_pools(&self) -> bool {
        true
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Brief)
    }
}

impl WireOnly for Status {
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}",
        "A pool with its devices and exports",
        schema_of::<answer::Status>,
    )];
}

/// Show the overall status
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    #[command(flatten)]
    pub pool: PoolArgument,
    /// Repeat at this interval in seconds, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub watch: Option<u64>,
}
