//! `portal list`

use crate::operations::{Route, look, schema_of};
use crate::portal::PortalView;

look! {
    /// List where pools are served, with the number of clients that came in there
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead portal list tank --json"
    )]
    List,
    &[Route::get(
        "/pools/{pool}/portals",
        "Where clients reach the pool",
        schema_of::<Vec<PortalView>>,
    )]
}
