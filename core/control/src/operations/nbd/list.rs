//! `nbd list`

use crate::answer::NbdView;
use crate::operations::{Example, Examples, Route, look, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead nbd list tank --json")]);

look! {
    /// List the exports with their clients
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    &[Route::get(
        "/pools/{pool}/nbd",
        "NBD exports",
        schema_of::<Vec<NbdView>>,
    )]
}
