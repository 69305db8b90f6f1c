//! `target list`

use crate::answer::TargetView;
use crate::operations::{Columns, Example, Examples, Route, Source, list_verb, schema_of};

/// The columns of the table.
pub const COLUMNS: Columns = Columns {
    shown: &["target", "unit", "volume", "allowed", "chap", "sessions"],
    more: &["groups"],
};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead target list --json"),
    Example::of("bulkhead target list tank/vm0"),
    Example::of("bulkhead target list 'iqn.*:tank' --columns target,volume"),
]);

list_verb! {
    /// List the targets with their volumes
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    "TargetList",
    &[Route::get(
        "/pools/{pool}/targets",
        "iSCSI targets",
        schema_of::<Vec<TargetView>>,
    )
    .with(&[("only", Source::Query("null"))])]
}
