//! `pool set-witness`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Add a witness to the members of a pool's record of legs, or remove it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolSetWitness")]
pub struct SetWitness {
    /// The witness, by its name in `legs.toml` of both heads; none for both heads alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
}

impl Operation for SetWitness {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { witness: _ } = self;
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
    Example::of("bulkhead pool set-witness tank witness")
        .elsewhere("needs two heads: tests/legs/witness_of_legs.rs"),
    Example::of("bulkhead pool set-witness tank --none")
        .elsewhere("needs two heads: tests/legs/witness_of_legs.rs"),
])
.with_note(
    "The pool stays online, and both heads must respond. Before a witness is added, legs.toml of both heads must name it, and their
leg-servers must have read it. A removed witness is deleted from legs.toml afterwards.",
);

/// Add a witness to a pool of two heads with legs, or remove it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The witness, as legs.toml names it
    #[arg(required_unless_present = "none")]
    witness: Option<String>,
    /// Leave the record to both heads alone
    #[arg(long, conflicts_with = "witness")]
    none: bool,
}

impl Verb for SetWitness {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/set-witness",
        "Add a witness to a pool of two heads with legs, or remove it",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"witness": "witness"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            pool,
            witness,
            none: _,
        } = arguments;
        Ok((PoolSelector::Pool(pool), Self { witness }))
    }
}
