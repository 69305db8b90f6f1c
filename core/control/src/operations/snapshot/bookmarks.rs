//! `snapshot bookmarks`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::BookmarkView;
use crate::operations::{
    Example, Examples, Operation, PoolOption, PoolSelector, Route, Scheduling, Source, Verb,
    pool_or_volume, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead snapshot bookmarks tank/vm0"),
    Example::of("bulkhead snapshot bookmarks tank --json"),
]);

/// List the bookmarks of volumes and file systems
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotBookmarks")]
pub struct Bookmarks {
    /// Only of this volume or file system, and of all below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeName>,
}

impl Operation for Bookmarks {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { volume: _ } = self;
        Effect::Look
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::ReadOnly
    }

    fn covers_all_pools(&self) -> bool {
        self.volume.is_none()
    }
}

/// List the bookmarks of volumes and file systems
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool, the volume or the file system [default: all pools that are served here, or the only one]
    of: Option<String>,
    #[command(flatten)]
    pool: PoolOption,
}

impl Verb for Bookmarks {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/bookmarks",
        "Bookmarks of volumes and file systems",
        schema_of::<Vec<BookmarkView>>,
    )
    .with(&[("volume", Source::Query("null"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Some(of) = arguments.pool.or(arguments.of) else {
            return Ok((PoolSelector::Single, Self::default()));
        };
        let (pool, volume) = pool_or_volume(&of)?;
        Ok((PoolSelector::Pool(pool), Self { volume }))
    }
}
