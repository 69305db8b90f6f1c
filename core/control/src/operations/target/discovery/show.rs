//! `target discovery show`

use crate::answer::DiscoveryView;
use crate::operations::{Route, look, schema_of};

look! {
    /// Show the users, without their secrets
    #[command(after_help = "Example:\n  bulkhead target discovery show tank")]
    Show,
    &[Route::get(
        "/pools/{pool}/discovery",
        "What whoever asks for targets has to prove",
        schema_of::<DiscoveryView>,
    )]
}
