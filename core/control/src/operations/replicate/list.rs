//! `replicate list`

use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};
use crate::replication::ReplicationView;

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead replicate list tank")
    .elsewhere("nothing is printed where nothing is replicated: tests/head/replication.rs")]);

read_only_verb! {
    /// Show replicated datasets and their lag, and the pools that may replicate into this one
    #[command(visible_aliases = ["status", "ls"], after_help = EXAMPLES)]
    List,
    &[Route::get(
        "/pools/{pool}/replication",
        "Replicated datasets and their lag, and the pools that may replicate into this one",
        schema_of::<ReplicationView>,
    )]
}
