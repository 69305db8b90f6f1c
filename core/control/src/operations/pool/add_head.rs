//! `pool add-head`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Add a third head to the members of a pool's record of legs; it can serve the pool from then on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolAddHead")]
pub struct AddHead {
    /// The head, by its name in `legs.toml` of all heads.
    pub head: String,
}

impl Operation for AddHead {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { head: _ } = self;
        Effect::Govern
    }

    fn writes_to_the_pool(&self) -> bool {
        false
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool add-head tank third")
        .elsewhere("needs three heads: tests/legs/third_head_of_legs.rs"),
])
.with_note(
    "The pool stays online, and both heads must respond. Before, legs.toml of all three heads must name the new one and its legs, and no witness,
and their leg-servers must have read it. Its legs are attached afterwards, each by `bulkhead pool attach`.",
);

/// Add a third head to a pool of two heads with legs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The head, as legs.toml names it
    head: String,
}

impl Verb for AddHead {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/add-head",
        "Add a third head to a pool of two heads with legs",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"head": "third"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { pool, head } = arguments;
        Ok((PoolSelector::Pool(pool), Self { head }))
    }
}
