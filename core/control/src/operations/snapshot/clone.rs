//! `snapshot clone`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName, VolumeName};

use crate::answer::Done;
use crate::effect::{change_unless, governs};
use crate::operations::{
    Changed, Example, Examples, Least, Operation, PoolSelector, PropertyOptions, Route, Source,
    Verb, one_pool, schema_of,
};
use crate::request::Properties;
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead snapshot clone tank/vm0@monday tank/copy",
)]);

/// Create a volume from a snapshot
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotClone")]
pub struct Clone {
    /// The snapshot.
    pub from: SnapshotName,
    /// The new volume.
    pub to: VolumeName,
    /// Properties of the new volume.
    pub properties: Properties,
    /// Refuse to change a property that only an admin may set. A head sets it for other roles.
    #[serde(default)]
    pub keep_rights: bool,
}

impl Operation for Clone {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            from: _,
            to: _,
            properties,
            keep_rights,
        } = self;
        change_unless(!keep_rights || governs(properties.keys()))
    }

    fn details(&self) -> Option<String> {
        let mut details = format!("{} to {}", self.from, self.to);
        if !self.properties.is_empty() {
            let names: Vec<&str> = self.properties.keys().map(String::as_str).collect();
            details.push_str(&format!(": {}", names.join(", ")));
        }
        Some(details)
    }

    fn properties(&self) -> Option<Changed<'_>> {
        Some(Changed::new(self.to.as_str(), self.properties.keys()))
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

/// Create a volume from a snapshot
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The snapshot, as POOL/NAME@SNAPSHOT
    snapshot: SnapshotName,
    /// The new volume, in the same pool
    volume: VolumeName,
    #[command(flatten)]
    properties: PropertyOptions,
}

impl Verb for Clone {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/snapshots/{snapshot}/clone",
        "Make a volume of a snapshot",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"to": "tank/copy"}"#)
    .with(&[
        ("from", Source::Snapshot),
        ("properties", Source::Default("{}")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            snapshot: from,
            volume: to,
            properties,
        } = arguments;
        let pool = one_pool([from.volume().pool(), to.pool()])?;
        Ok((
            pool,
            Self {
                from,
                to,
                properties: properties.into(),
                keep_rights: false,
            },
        ))
    }
}
