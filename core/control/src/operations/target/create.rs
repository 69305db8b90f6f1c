//! `target create`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName};

use super::TargetArgument;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead target create iqn.2026-01.org.example:tank --pool tank",
)]);

/// Create a target without volumes; only loopback is allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetCreate")]
pub struct Create {
    /// Its name.
    pub name: IscsiName,
    /// Groups of portals that offer it; empty means all.
    pub portal_groups: Vec<u16>,
}

impl Operation for Create {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            portal_groups: _,
        } = self;
        Effect::Change
    }
}

/// Create a target; until `target allow`, only this host may use it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArgument,
    /// Group of portals that offers it; may be repeated [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    portal_group: Vec<u16>,
}

impl Verb for Create {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/targets",
        "Make a target",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"name": "iqn.2026-01.org.example:tank"}"#)
    .with(&[("portal_groups", Source::Default("[]"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let (pool, name) = arguments.target.into_parts();
        let portal_groups = arguments.portal_group;
        Ok((
            pool,
            Self {
                name,
                portal_groups,
            },
        ))
    }
}
