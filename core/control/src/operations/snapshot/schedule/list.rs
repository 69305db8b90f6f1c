//! `snapshot schedule list`

use crate::answer::ScheduleView;
use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};

const EXAMPLES: Examples =
    Examples::of(&[Example::of("bulkhead snapshot schedule list tank --json")]);

read_only_verb! {
    /// List the schedules of a pool and when each rule is due next
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    &[Route::get(
        "/pools/{pool}/schedules",
        "Schedules of snapshots",
        schema_of::<Vec<ScheduleView>>,
    )]
}
