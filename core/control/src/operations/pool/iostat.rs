//! `pool iostat`

use std::time::Duration;

use clap::Args;
use units::PoolName;

use crate::answer::PoolLoad;
use crate::operations::{
    Example, Examples, Operation, Polling, PoolArgument, PoolSelector, Route, Scheduling, Urgency,
    Verb, schema_of,
};
use crate::{Effect, Failure};

/// Counters of the devices' I/O: the difference between two samples is the I/O in between.
#[derive(Clone, Copy, Debug)]
pub struct Iostat;

impl Operation for Iostat {
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

/// Interval of samples where only their number is given.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool iostat tank").ends_with_the_server(),
    Example::of("bulkhead pool iostat tank --interval 1 --count 2").ends_with_the_server(),
    Example::of("bulkhead pool iostat --json").ends_with_the_server(),
])
.with_note(
    "The first table is about the time since the pool was opened, each later one about the time since the one before.
OPS are reads and writes per second, BW bytes per second. WAIT is how long the devices took on average, P99 what 99
of 100 stayed below; both are shown where the terminal is wide enough. QUEUE is what waits and what is under way now.
With --json the counters themselves are printed, all of them since the pool was opened.",
);

/// Show the load of each device: operations, bytes, latencies
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
    /// Repeat at this interval in seconds, until interrupted
    #[arg(long, short, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: Option<u64>,
    /// Number of repetitions; every second if no interval is given
    #[arg(long, short, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: Option<u64>,
}

impl Verb for Iostat {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/iostat",
        "I/O counters of the pool's devices",
        schema_of::<PoolLoad>,
    )];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        Ok((arguments.pool.into(), Self))
    }

    fn again(arguments: &Arguments) -> Option<Polling> {
        let Arguments {
            pool: _,
            interval,
            count,
        } = arguments;
        (interval.is_some() || count.is_some()).then(|| Polling {
            interval: interval.map_or(INTERVAL_DEFAULT, Duration::from_secs),
            count: *count,
        })
    }
}
