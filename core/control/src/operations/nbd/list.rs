//! `nbd list`

use crate::answer::NbdView;
use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead nbd list tank --json")]);

read_only_verb! {
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
