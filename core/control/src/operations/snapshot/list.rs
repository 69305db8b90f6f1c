//! `snapshot list`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::SnapshotView;
use crate::operations::{
    Columns, Example, Examples, Operation, PoolOption, PoolSelector, Route, Scheduling, Source,
    TableOptions, Verb, duration_s, pool_or_snapshots, schema_of, table_arguments,
};
use crate::snapshot_set::SnapshotSet;
use crate::{Effect, Failure};

/// The columns of the table.
pub const COLUMNS: Columns = Columns {
    shown: &["name", "created", "age", "used", "refer"],
    more: &[],
};

table_arguments!();

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead snapshot list tank/vm0"),
    Example::of("bulkhead snapshot list 'tank/vm0@auto-*' --older-than 30d"),
    Example::of("bulkhead snapshot list 'tank/vm0@monday%'"),
    Example::of("bulkhead snapshot list tank/vm0 --recursive"),
    Example::of("bulkhead snapshot list tank --sort used --reverse"),
])
.with_note(
    "Each volume's snapshots are listed by creation, the oldest one first. With @PATTERN those with such a name are listed
(* and ?), with @FIRST%LAST those from FIRST to LAST.",
);

/// List the snapshots of a pool or a volume
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotList")]
pub struct List {
    /// Only of this volume.
    pub volume: Option<VolumeName>,
    /// Only these, by a name, a pattern or a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<SnapshotSet>,
    /// Also of all below the volume.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    /// Only those that are at least so many seconds old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than_s: Option<u64>,
}

impl Operation for List {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn covers_all_pools(&self) -> bool {
        self.volume.is_none() && self.only.is_none()
    }
}

/// List the snapshots of a pool or a volume
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = EXAMPLES
)]
pub struct Arguments {
    /// The pool, the volume, or VOLUME@PATTERN or VOLUME@FIRST%LAST [default: all pools that are served here, or the
    /// only one]
    of: Option<String>,
    /// Also list those of all volumes and file systems below
    #[arg(long, short)]
    recursive: bool,
    /// Only list those that are at least so old, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = duration_s)]
    older_than: Option<u64>,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    pool: PoolOption,
}

impl Verb for List {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/snapshots",
        "Snapshots",
        schema_of::<Vec<SnapshotView>>,
    )
    .with(&[
        ("volume", Source::Query("null")),
        ("only", Source::Query("null")),
        ("recursive", Source::Query("false")),
        ("older_than_s", Source::Query("null")),
    ])];

    fn table(arguments: &Arguments) -> TableOptions {
        (&arguments.table).into()
    }

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            of,
            recursive,
            older_than,
            table: _,
            pool,
        } = arguments;
        let mut list = Self {
            volume: None,
            only: None,
            recursive,
            older_than_s: older_than,
        };
        let Some(of) = pool.or(of) else {
            return Ok((PoolSelector::Single, list));
        };
        let (pool, volume, only) = pool_or_snapshots(&of)?;
        (list.volume, list.only) = (volume, only);
        Ok((PoolSelector::Pool(pool), list))
    }
}
