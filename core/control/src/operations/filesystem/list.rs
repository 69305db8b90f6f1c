//! `filesystem list`

use crate::answer::FilesystemView;
use crate::operations::{Route, look, schema_of};

look! {
    /// List the file systems of a pool: space, and how they are shared
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead filesystem list tank --json"
    )]
    List,
    &[Route::get(
        "/pools/{pool}/filesystems",
        "File systems",
        schema_of::<Vec<FilesystemView>>,
    )]
}
