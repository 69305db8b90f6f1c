//! `target discovery show`

use crate::answer::DiscoveryView;
use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead target discovery show tank")]);

read_only_verb! {
    /// Show the users, without their secrets
    #[command(after_help = EXAMPLES)]
    Show,
    &[Route::get(
        "/pools/{pool}/discovery",
        "The authentication that discovery requires",
        schema_of::<DiscoveryView>,
    )]
}
