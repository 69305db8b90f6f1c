//! `filesystem userspace`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName, VolumeName};

use crate::answer::OwnersView;
use crate::operations::{
    Columns, Example, Examples, Operation, PoolSelector, Route, Scheduling, Source, TableOptions,
    Verb, schema_of, table_arguments,
};
use crate::owners::OwnerKind;
use crate::{Effect, Failure};

/// The columns of the table.
pub const COLUMNS: Columns = Columns {
    shown: &["type", "name", "used", "quota", "objused", "objquota"],
    more: &["id"],
};

table_arguments!();

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead filesystem userspace tank/home"),
    Example::of("bulkhead filesystem userspace tank/home --group --sort used --reverse"),
    Example::of("bulkhead filesystem userspace tank/home@monday --json"),
])
.with_note("Without --sort those that use the most are first. `filesystem set` sets quotas: userquota@1000=10G.");

/// Show the space that each user, group or project uses in a file system, and their quotas
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FilesystemUserspace")]
pub struct Userspace {
    /// The file system.
    pub name: VolumeName,
    /// One of its snapshots, by its full name, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotName>,
    /// Users, groups or projects.
    #[serde(default)]
    pub of: OwnerKind,
}

impl Operation for Userspace {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            snapshot: _,
            of: _,
        } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }
}

/// Show the space that each user, group or project uses in a file system, and their quotas
///
/// The space is that of the last transaction group, a few seconds ago.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The file system, or one of its snapshots
    #[arg(value_name = "FILESYSTEM[@SNAPSHOT]")]
    filesystem: String,
    /// Groups instead of users
    #[arg(long, conflicts_with = "project")]
    group: bool,
    /// Projects instead of users
    #[arg(long)]
    project: bool,
    #[command(flatten)]
    table: TableArguments,
}

impl Verb for Userspace {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/filesystems/{filesystem}/userspace",
        "Space and quotas of users, groups or projects",
        schema_of::<OwnersView>,
    )
    .with(&[
        ("name", Source::Filesystem),
        ("snapshot", Source::Query("null")),
        ("of", Source::Query("\"user\"")),
    ])];

    fn table(arguments: &Arguments) -> TableOptions {
        (&arguments.table).into()
    }

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments {
            filesystem,
            group,
            project,
            table: _,
        } = arguments;
        let of = match (group, project) {
            (true, _) => OwnerKind::Group,
            (_, true) => OwnerKind::Project,
            _ => OwnerKind::User,
        };
        let usage = |error: units::NameError| Failure::usage(error.to_string());
        let (name, snapshot) = match filesystem.contains('@') {
            true => {
                let snapshot: SnapshotName = filesystem.parse().map_err(usage)?;
                (snapshot.volume(), Some(snapshot))
            }
            false => (filesystem.parse::<VolumeName>().map_err(usage)?, None),
        };
        Ok((PoolSelector::Pool(name.pool()), Self { name, snapshot, of }))
    }
}
