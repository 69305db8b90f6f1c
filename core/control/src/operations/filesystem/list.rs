//! `filesystem list`

use crate::answer::FilesystemView;
use crate::operations::{Columns, Example, Examples, Route, Source, list_verb, schema_of};

/// The columns of the table.
pub const COLUMNS: Columns = Columns {
    shown: &["name", "used", "avail", "refer", "clients", "shared"],
    more: &[
        "snapshots",
        "reserved",
        "written",
        "logical",
        "ratio",
        "quota",
        "refquota",
        "origin",
    ],
};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead filesystem list tank --json"),
    Example::of("bulkhead filesystem list tank/home --sort used --reverse"),
]);

list_verb! {
    /// List the file systems of a pool, or of a dataset in it: space, and their shares
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    "FilesystemList",
    &[Route::get(
        "/pools/{pool}/filesystems",
        "File systems",
        schema_of::<Vec<FilesystemView>>,
    )
    .with(&[("only", Source::Query("null"))])]
}
