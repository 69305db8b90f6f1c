//! `pool destroy`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::answer::Done;
use crate::operations::preview::previewed;
use crate::operations::{
    Confirmable, Confirmed, Example, Examples, Least, Operation, PoolSelector, Preview, Route,
    Scheduling, Source, Urgency, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead pool destroy tank --yes-destroy-all-data",
)]);

/// Destroy the pool; a server exits. The caller has checked the confirmation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolDestroy")]
pub struct Destroy {
    /// Even though clients are connected: their sessions are closed.
    #[serde(default)]
    pub in_use: bool,
    /// Preview options.
    #[serde(flatten)]
    pub preview: Preview,
}

impl Operation for Destroy {
    fn effect(&self, pool: &PoolName) -> Effect {
        let Self { in_use: _, preview } = self;
        match preview.is_wanted() {
            true => Effect::Look,
            false => Effect::Destroy(vec![pool.to_string()]),
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.preview.scheduling()
    }

    fn is_preview(&self) -> bool {
        self.preview.is_wanted()
    }

    fn urgency(&self) -> Option<Urgency> {
        Some(Urgency::Long)
    }
}

/// Destroy a pool with all its data
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// Even though clients are connected: their sessions are closed
    #[arg(long)]
    in_use: bool,
    #[command(flatten)]
    preview: Preview,
}

previewed!(Arguments);

impl Confirmable for Arguments {
    const OPTION: &'static str = "yes-destroy-all-data";
    const HELP: &'static str = "Yes, every volume and snapshot of the pool shall be lost";

    fn loss(&self) -> String {
        format!(
            "pool {} would be lost with every volume and snapshot",
            self.pool
        )
    }
}

impl Verb for Destroy {
    type Arguments = Confirmed<Arguments>;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}",
        "Destroy the pool; its name confirms",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[
        ("in_use", Source::Query("false")),
        ("dry_run", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Confirmed<Arguments>) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            pool,
            in_use,
            preview,
        } = arguments.or_refuse();
        Ok((PoolSelector::Pool(pool), Self { in_use, preview }))
    }
}
