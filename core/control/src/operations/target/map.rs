//! `target map`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target map iqn.2026-01.org.example:tank tank/vm0"),
    Example::of("bulkhead target map iqn.2026-01.org.example:tank tank/iso --lun 7 --read-only"),
]);

/// Map a volume in a target as a logical unit
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "TargetMap")]
#[command(after_help = EXAMPLES)]
pub struct Map {
    /// The target's name
    #[arg(value_name = "TARGET")]
    pub name: IscsiName,
    /// The volume
    pub volume: VolumeName,
    /// Number of the unit [default: the lowest free one]
    #[arg(long, value_parser = clap::value_parser!(u16).range(..=LUN_MAX))]
    pub lun: Option<u16>,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
    /// Whether the unit starts with a volatile write cache: on acknowledges writes before they are
    /// durable, as a disk does, and loses those that were not flushed if the server dies under a
    /// running initiator [default: off]
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    pub write_cache: Option<bool>,
}

/// Highest unit number: flat space addressing has 14 bits (SAM-5, 4.7.7.3).
const LUN_MAX: i64 = 16_383;

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}

impl Operation for Map {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            volume: _,
            lun: _,
            read_only: _,
            write_cache: _,
        } = self;
        Effect::Change
    }

    fn exporting(&self) -> Option<&VolumeName> {
        Some(&self.volume)
    }

    fn target(&self) -> Option<&IscsiName> {
        Some(&self.name)
    }
}

impl Verb for Map {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/targets/{target}/map",
        "Show a volume as a logical unit",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"volume": "tank/vm0"}"#)
    .with(&[
        ("name", Source::Target),
        ("lun", Source::Default("null")),
        ("read_only", Source::Default("false")),
        ("write_cache", Source::Default("null")),
    ])];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.volume.pool()), arguments))
    }
}
