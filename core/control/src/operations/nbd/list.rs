//! `nbd list`

use crate::answer::NbdView;
use crate::operations::{Route, look, schema_of};

look! {
    /// List the exports with their clients
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead nbd list tank --json"
    )]
    List,
    &[Route::get(
        "/pools/{pool}/nbd",
        "NBD exports",
        schema_of::<Vec<NbdView>>,
    )]
}
