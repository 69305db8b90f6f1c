//! `volume list`

use crate::answer::VolumeView;
use crate::operations::{Example, Examples, Route, look, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead volume list tank --json")]);

look! {
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
