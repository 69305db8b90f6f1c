//! `pool log-level`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool log-level tank").ends_with_the_server(),
    Example::of("bulkhead pool log-level tank info,legs=trace,nfs=debug")
        .undone_by(&["bulkhead pool log-level tank info"])
        .ends_with_the_server(),
])
.with_note(
    "A filter is a level (off, error, warn, info, debug, trace), or levels of modules, the most exact
one counts. Modules are crates of the source, with _ for -: legs and leg_zfs (decisions about legs),
pool_server (import, replay of intent logs, exports), zpool, nfs, iscsi, nbd. The filter lasts until
the server ends; RUST_LOG sets that of the next one.",
);

/// The filter of the server's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolLogLevel")]
pub struct LogLevel {
    /// The new filter; none: the present one is reported.
    #[serde(default)]
    pub filter: Option<String>,
}

impl Operation for LogLevel {
    /// A log at `trace` contains names that clients use, and reduces performance.
    fn effect(&self, _: &PoolName) -> Effect {
        match self.filter {
            None => Effect::Look,
            Some(_) => Effect::Govern,
        }
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Brief)
    }

    fn writes_to_the_pool(&self) -> bool {
        false
    }

    fn details(&self) -> Option<String> {
        self.filter.clone()
    }
}

/// Show or change the log level of a pool's running server
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// The new filter, such as `debug`, or `info,legs=trace` [default: show the present one]
    filter: Option<String>,
}

impl Verb for LogLevel {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/log-level",
        "Change the log level of the pool's server",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"filter": "info,legs=trace"}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { pool, filter } = arguments;
        Ok((PoolSelector::Pool(pool), Self { filter }))
    }
}
