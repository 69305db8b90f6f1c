//! `target list`

use crate::answer::TargetView;
use crate::operations::{Route, look, schema_of};

look! {
    /// List the targets with their volumes
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead target list --json"
    )]
    List,
    &[Route::get(
        "/pools/{pool}/targets",
        "iSCSI targets",
        schema_of::<Vec<TargetView>>,
    )]
}
