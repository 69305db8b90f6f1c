//! `pool discard-leg`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure, FailureKind};

/// Discard the contents of a leg with a divergent history: it is resynchronized in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolDiscardLeg")]
pub struct DiscardLeg {
    /// The leg, by its name in `pool status`.
    pub leg: String,
}

impl Operation for DiscardLeg {
    fn effect(&self, pool: &PoolName) -> Effect {
        let Self { leg: _ } = self;
        Effect::Destroy(vec![pool.to_string()])
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
    Example::of("bulkhead pool discard-leg tank right:/dev/disk/by-id/scsi-b --overwrite-with tank")
        .elsewhere("needs two heads: tests/legs/pair_of_legs.rs"),
])
.with_note(
    "A leg that was written to while it was no part of this pool is not overwritten: it may hold the only copy of some writes. Inspect
it first, on its own head. This command discards it: all its data is replaced by a copy of the pool.",
);

/// Discard the contents of a divergent leg, and resynchronize it in full
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The leg, by its name in `pool status`: HEAD:PATH
    leg: String,
    /// The name of the pool once more: data that only this leg holds is lost
    #[arg(long, value_name = "POOL")]
    overwrite_with: Option<PoolName>,
}

impl Verb for DiscardLeg {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/discard-leg",
        "Discard the contents of a leg with a divergent history; the pool's name confirms",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"leg": "right:/dev/disk/by-id/scsi-b"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            pool,
            leg,
            overwrite_with,
        } = arguments;
        if overwrite_with.as_ref() != Some(&pool) {
            let message = format!("all data that only leg {leg} holds would be lost");
            let failure = Failure::new(FailureKind::NeedsConfirmation, message);
            return Err(failure.advise(format!(
                "look at it first; if it shall become a copy of pool {pool}, add --overwrite-with {pool}"
            )));
        }
        Ok((PoolSelector::Pool(pool), Self { leg }))
    }
}
