//! `pool history`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::HistoryEntry;
use crate::operations::{
    Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool history tank"),
    Example::of("bulkhead pool history tank --limit 1000 --json"),
])
.with_note(
    "ZFS stores it in the pool: it moves with it, and also contains the changes by kernel ZFS.
It does not contain users: `bulkhead audit` does.",
);

/// Show the changes that the pool itself has stored, the oldest first
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolHistory")]
pub struct History {
    /// At most so many, the newest ones.
    #[serde(default)]
    pub limit: Option<u32>,
}

impl Operation for History {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { limit: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

/// Show the changes that the pool itself has stored, the oldest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// Show at most so many changes, the newest ones [default: 200]
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<u32>,
}

impl Verb for History {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/history",
        "The changes that the pool has stored",
        schema_of::<Vec<HistoryEntry>>,
    )
    .with(&[("limit", Source::Query("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { pool, limit } = arguments;
        Ok((PoolSelector::Pool(pool), Self { limit }))
    }
}
