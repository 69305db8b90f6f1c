//! `replicate list`

use crate::operations::{Route, look, schema_of};
use crate::replication::ReplicationView;

look! {
    /// What is replicated, how far behind it is, and who may replicate into the pool
    #[command(visible_aliases = ["status", "ls"])]
    List,
    &[Route::get(
        "/pools/{pool}/replication",
        "What is replicated, how far behind it is, and who may replicate into the pool",
        schema_of::<ReplicationView>,
    )]
}
