//! Snapshots of volumes.

use super::noun;

noun! {
    /// Requests about snapshots.
    SnapshotRequest, SnapshotCommand, "snapshot";
    verbs {
        create::Create, list::List, rename::Rename, destroy::Destroy, clone::Clone, hold::Hold, release::Release,
        holds::Holds, bookmarks::Bookmarks, destroy_bookmark::DestroyBookmark,
        diff::Diff,
    }
    bare {}
    nouns {
        /// Automatic snapshots, and how many are retained
        schedule::Schedule(ScheduleRequest, ScheduleCommand)
    }
}
