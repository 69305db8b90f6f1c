//! `target destroy`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::TargetArgument;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Preview, Route, Scheduling, Source, Verb,
    schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target destroy iqn.2026-01.org.example:tank --dry-run"),
    Example::of("bulkhead target destroy iqn.2026-01.org.example:tank --mapped"),
]);

/// Remove a target and the maps of its volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetDestroy")]
pub struct Destroy {
    /// Which.
    pub name: IscsiName,
    /// Even though initiators are connected: their sessions are closed.
    #[serde(default)]
    pub in_use: bool,
    /// Even though volumes are mapped in it.
    #[serde(default)]
    pub mapped: bool,
    /// Preview options.
    #[serde(flatten)]
    pub preview: Preview,
}

impl Operation for Destroy {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name,
            in_use: _,
            mapped: _,
            preview,
        } = self;
        match preview.is_wanted() {
            true => Effect::Look,
            false => Effect::Destroy(vec![name.to_string()]),
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.preview.scheduling()
    }

    fn is_preview(&self) -> bool {
        self.preview.is_wanted()
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

/// Remove a target with its access rules and secrets; its volumes remain, and are no longer exported by it
#[derive(Debug, Args)]
#[command(
    visible_alias = "rm",
    after_help = EXAMPLES
)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
    /// Even though initiators are connected: their sessions are closed
    #[arg(long)]
    in_use: bool,
    /// Even though volumes are mapped in it: initiators lose them
    #[arg(long)]
    mapped: bool,
    #[command(flatten)]
    preview: Preview,
}

impl Verb for Destroy {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::delete(
        "/pools/{pool}/targets/{target}",
        "Remove a target; its name confirms",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[
        ("name", Source::Target),
        ("in_use", Source::Query("false")),
        // The name confirms that.
        ("mapped", Source::Query("true")),
        ("dry_run", Source::Query("false")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        let Arguments {
            in_use,
            mapped,
            preview,
            ..
        } = arguments;
        Ok((
            pool,
            Self {
                name,
                in_use,
                mapped,
                preview,
            },
        ))
    }
}
