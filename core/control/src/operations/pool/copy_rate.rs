//! `pool copy-rate`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::copy_rate::RateMax;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool copy-rate tank"),
    Example::of("bulkhead pool copy-rate tank 50M")
        .undone_by(&["bulkhead pool copy-rate tank unlimited"]),
])
.with_note(
    "A copy is the resilver of a device or leg, or a scrub. It yields to clients with any bound, and also without one.
The bound is in bytes a second, from 1M to 1T. It counts each block once, however many devices are read or written for
it. It is kept in the pool, takes effect at once, and moves with the pool.",
);

/// The bound on the rate of copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolCopyRate")]
pub struct CopyRate {
    /// The new bound: `unlimited`, or bytes a second, such as `50M`; none: the present bound is reported.
    #[serde(default)]
    pub max: Option<RateMax>,
}

impl Operation for CopyRate {
    fn effect(&self, _: &PoolName) -> Effect {
        match self.max {
            None => Effect::Look,
            Some(_) => Effect::Change,
        }
    }

    fn details(&self) -> Option<String> {
        self.max.map(|rate| rate.to_string())
    }
}

/// Show or bound the rate of copies: resilvers and scrubs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The new bound in bytes a second, such as 50M, or `unlimited` [default: show the present one]
    rate: Option<String>,
}

impl Verb for CopyRate {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/copy-rate",
        "Bound the rate of resilvers and scrubs",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"max": "50M"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { pool, rate } = arguments;
        let max = rate.map(|text| text.parse::<RateMax>()).transpose();
        let max = max.map_err(|error| Failure::usage(error.to_string()))?;
        Ok((PoolSelector::Pool(pool), Self { max }))
    }
}
