//! `target discovery show`

use crate::answer::DiscoveryView;
use crate::operations::{Example, Examples, Route, look, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead target discovery show tank")]);

look! {
    /// Show the users, without their secrets
    #[command(after_help = EXAMPLES)]
    Show,
    &[Route::get(
        "/pools/{pool}/discovery",
        "What whoever asks for targets has to prove",
        schema_of::<DiscoveryView>,
    )]
}
