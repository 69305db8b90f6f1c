//! Snapshots of volumes.

use units::SnapshotName;

use super::{PoolSelector, noun, one_pool};
use crate::Failure;

noun! {
    /// Requests about snapshots.
    SnapshotRequest, SnapshotCommand, "snapshot";
    verbs { create::Create, list::List, rename::Rename, destroy::Destroy, clone::Clone }
    bare {}
    nouns {
        /// Automatic snapshots, and how many are retained
        schedule::Schedule(ScheduleRequest, ScheduleCommand)
    }
}

/// Returns the pool of all of them.
fn pool_of(names: &[SnapshotName]) -> Result<PoolSelector, Failure> {
    one_pool(names.iter().map(|name| name.volume().pool()))
}
