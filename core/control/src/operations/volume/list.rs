//! `volume list`

use crate::answer::VolumeView;
use crate::operations::{Route, look, schema_of};

look! {
    /// List the volumes of a pool
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead volume list tank --json"
    )]
    List,
    &[Route::get(
        "/pools/{pool}/volumes",
        "Volumes",
        schema_of::<Vec<VolumeView>>,
    )]
}
