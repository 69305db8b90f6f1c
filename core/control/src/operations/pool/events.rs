//! `pool events`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::PoolRequest;
use crate::Effect;
use crate::answer::Event;
use crate::operations::{
    Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, Urgency, WireOnly,
    schema_of,
};

/// The events of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolEvents")]
pub struct Events {
    /// Only events with a higher number.
    pub after: Option<u64>,
}

impl Operation for Events {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { after: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Brief)
    }
}

impl WireOnly for Events {
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/events",
        "Events of the pool",
        schema_of::<Vec<Event>>,
    )
    .with(&[("after", Source::Query("null"))])];
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool events tank"),
    Example::of("bulkhead pool events tank --follow --json")
        .elsewhere("never ends: tests/head/trouble.rs"),
])
.with_note(
    "The events are stored in the pool: they move with it, and `zpool history` shows them, too. With
--follow and --json, each event is a line.",
);

/// Show events: failures and returns of devices, repairs, scrubs, suspensions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pub pool: PoolName,
    /// Continue with new events, until interrupted
    #[arg(long, short)]
    pub follow: bool,
}

impl Arguments {
    /// Returns the request for the events until now.
    pub fn request(self) -> (PoolSelector, PoolRequest) {
        let events = Events { after: None };
        (PoolSelector::Pool(self.pool), events.into())
    }
}
