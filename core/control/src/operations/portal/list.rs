//! `portal list`

use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};
use crate::portal::PortalView;

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead portal list tank --json")
    .elsewhere("needs a server: tests/cluster/portals.rs")]);

read_only_verb! {
    /// List the portals of pools, with the number of clients of each
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
