//! `volume list`

use crate::answer::VolumeView;
use crate::operations::{Columns, Example, Examples, Route, Source, list_verb, schema_of};

/// The columns of the table.
pub const COLUMNS: Columns = Columns {
    shown: &["name", "size", "used", "refer", "block", "exports"],
    more: &[
        "avail",
        "snapshots",
        "reserved",
        "written",
        "logical",
        "ratio",
        "quota",
        "origin",
    ],
};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume list tank --json"),
    Example::of("bulkhead volume list tank --sort used --reverse"),
    Example::of("bulkhead volume list 'tank/vm*' --columns name,used,origin"),
]);

list_verb! {
    /// List the volumes of a pool, or of a dataset in it
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    "VolumeList",
    &[Route::get(
        "/pools/{pool}/volumes",
        "Volumes",
        schema_of::<Vec<VolumeView>>,
    )
    .with(&[("only", Source::Query("null"))])]
}
