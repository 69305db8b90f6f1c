//! `target list`

use crate::answer::TargetView;
use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead target list --json")]);

read_only_verb! {
    /// List the targets with their volumes
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    &[Route::get(
        "/pools/{pool}/targets",
        "iSCSI targets",
        schema_of::<Vec<TargetView>>,
    )]
}
