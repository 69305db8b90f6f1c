//! `target unmap`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[
        Example::of("bulkhead target unmap iqn.2026-01.org.example:tank tank/vm0")
            .prepared_by(&["bulkhead target map iqn.2026-01.org.example:tank tank/vm0"]),
    ]);

/// Remove a volume from a target
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "TargetUnmap")]
#[command(after_help = EXAMPLES)]
pub struct Unmap {
    /// The target's name
    #[arg(value_name = "TARGET")]
    pub name: IscsiName,
    /// The volume
    pub volume: VolumeName,
    /// Even though initiators are connected: they lose the unit
    #[arg(long)]
    #[serde(default)]
    pub in_use: bool,
}

impl Operation for Unmap {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            volume: _,
            in_use: _,
        } = self;
        Effect::Change
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

impl Verb for Unmap {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/targets/{target}/unmap",
        "Undo a map",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"volume": "tank/vm0"}"#)
    .with(&[
        ("name", Source::Target),
        ("in_use", Source::Default("false")),
    ])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.volume.pool()), arguments))
    }
}
