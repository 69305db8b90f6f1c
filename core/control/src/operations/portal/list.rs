//! `portal list`

use crate::operations::{Example, Examples, Route, look, schema_of};
use crate::portal::PortalView;

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead portal list tank --json")
    .elsewhere("needs a server: tests/cluster/portals.rs")]);

look! {
    /// List where pools are served, with the number of clients that came in there
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    &[Route::get(
        "/pools/{pool}/portals",
        "Where clients reach the pool",
        schema_of::<Vec<PortalView>>,
    )]
}
