//! `replicate list`

use crate::operations::{Example, Examples, Route, look, schema_of};
use crate::replication::ReplicationView;

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead replicate list tank")
    .elsewhere("nothing is printed where nothing is replicated: tests/head/replication.rs")]);

look! {
    /// What is replicated, how far behind it is, and who may replicate into the pool
    #[command(visible_aliases = ["status", "ls"], after_help = EXAMPLES)]
    List,
    &[Route::get(
        "/pools/{pool}/replication",
        "What is replicated, how far behind it is, and who may replicate into the pool",
        schema_of::<ReplicationView>,
    )]
}
