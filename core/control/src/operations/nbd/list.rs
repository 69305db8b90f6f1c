//! `nbd list`

use crate::answer::NbdView;
use crate::operations::{Columns, Example, Examples, Route, Source, list_verb, schema_of};

/// The columns of the table.
pub const COLUMNS: Columns = Columns {
    shown: &["export", "volume", "mode", "allowed", "clients"],
    more: &[],
};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead nbd list tank --json"),
    Example::of("bulkhead nbd list tank/vm0 --columns export,clients"),
]);

list_verb! {
    /// List the exports with their clients
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    "NbdList",
    &[Route::get(
        "/pools/{pool}/nbd",
        "NBD exports",
        schema_of::<Vec<NbdView>>,
    )
    .with(&[("only", Source::Query("null"))])]
}
