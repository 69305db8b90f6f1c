//! The begin of a `volume rescue`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName, VolumeName};

use crate::Effect;
use crate::operations::{Least, Operation, Route, Source, WireOnly, schema_of};
use crate::rescue::RescueView;

/// A rescue to begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RescueBegin")]
pub struct Begin {
    /// The volume.
    pub volume: VolumeName,
    /// One of its snapshots; none means the volume itself, which no client may use then.
    #[serde(default)]
    pub snapshot: Option<SnapshotName>,
    /// Whether it is writable; of a snapshot a clone is written to, and destroyed at the end.
    #[serde(default)]
    pub writable: bool,
    /// Whether the response includes commands that change labels inside it: the owner of a pool, the name of a volume
    /// group, the events of an array. Requires `writable`.
    #[serde(default)]
    pub allow_label_changes: bool,
    /// A file with a lock next to it; the rescue is ended when no process holds that lock any more.
    /// None: it lasts until `rescue end`, or until the server exits.
    #[serde(default)]
    pub lease: Option<PathBuf>,
}

impl Operation for Begin {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            volume: _,
            snapshot: _,
            writable: _,
            allow_label_changes: _,
            lease: _,
        } = self;
        Effect::Govern
    }
}

impl WireOnly for Begin {
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/rescues",
        "Open a volume that is not in use, or a snapshot, at a socket of the head",
        schema_of::<RescueView>,
        Least::Govern,
    )
    .body(r#"{"volume": "tank/vm0"}"#)
    .with(&[
        ("snapshot", Source::Default("null")),
        ("writable", Source::Default("false")),
        ("allow_label_changes", Source::Default("false")),
        ("lease", Source::Default("null")),
    ])];
}
