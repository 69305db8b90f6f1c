//! `snapshot schedule list`

use crate::answer::ScheduleView;
use crate::operations::{Route, look, schema_of};

look! {
    /// List the schedules of a pool and when each rule is due next
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead snapshot schedule list tank --json"
    )]
    List,
    &[Route::get(
        "/pools/{pool}/schedules",
        "Schedules of snapshots",
        schema_of::<Vec<ScheduleView>>,
    )]
}
