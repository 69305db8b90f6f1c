//! `pool read-balancing`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, schema_of,
};
use crate::read_balancing::ReadBalancing as Mode;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool read-balancing tank"),
    Example::of("bulkhead pool read-balancing tank least-pending")
        .undone_by(&["bulkhead pool read-balancing tank prefer-local"]),
])
.with_note(
    "It concerns mirrors with a leg on another head. With prefer-local, the default, that leg is read
only for data that no leg of this head returns. With least-pending it is also read while the queue
of this head's leg is longer. The mode is kept in the pool, takes effect at once, and moves with the
pool.",
);

/// The distribution of client reads over the legs of mirrors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolReadBalancing")]
pub struct ReadBalancing {
    /// The new mode; none: the present one is reported.
    #[serde(default)]
    pub mode: Option<Mode>,
}

impl Operation for ReadBalancing {
    fn effect(&self, _: &PoolName) -> Effect {
        match self.mode {
            None => Effect::Look,
            Some(_) => Effect::Change,
        }
    }

    fn details(&self) -> Option<String> {
        self.mode.map(|mode| mode.to_string())
    }
}

/// Show or choose the legs that client reads use
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The new mode: `prefer-local` or `least-pending` [default: show the present one]
    mode: Option<String>,
}

impl Verb for ReadBalancing {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/read-balancing",
        "Choose the legs that client reads use",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"mode": "least-pending"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { pool, mode } = arguments;
        let mode = mode.map(|text| text.parse::<Mode>()).transpose();
        let mode = mode.map_err(|error| Failure::usage(error.to_string()))?;
        Ok((PoolSelector::Pool(pool), Self { mode }))
    }
}
