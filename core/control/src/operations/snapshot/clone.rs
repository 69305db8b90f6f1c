//! `snapshot clone`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName, VolumeName};

use crate::answer::Done;
use crate::effect::set;
use crate::operations::{
    Least, Operation, PoolSelector, PropertyOptions, Route, Source, Verb, one_pool, schema_of,
};
use crate::request::Properties;
use crate::{Effect, Failure};

/// Make a volume of a snapshot
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotClone")]
pub struct Clone {
    /// The snapshot.
    pub from: SnapshotName,
    /// The new volume.
    pub to: VolumeName,
    /// Properties of the new volume.
    pub properties: Properties,
}

impl Operation for Clone {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            from: _,
            to: _,
            properties,
        } = self;
        set(properties)
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

/// Make a volume of a snapshot
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bulkhead snapshot clone tank/vm0@monday tank/copy")]
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
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/snapshots/{snapshot}/clone",
        "Make a volume of a snapshot",
        schema_of::<Done>,
        Least::Change,
    )
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
            },
        ))
    }
}
