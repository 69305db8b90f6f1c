//! `volume list`

use crate::answer::VolumeView;
use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead volume list tank --json")]);

read_only_verb! {
    /// List the volumes of a pool
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    &[Route::get(
        "/pools/{pool}/volumes",
        "Volumes",
        schema_of::<Vec<VolumeView>>,
    )]
}
