//! `filesystem list`

use crate::answer::FilesystemView;
use crate::operations::{Example, Examples, Route, read_only_verb, schema_of};

const EXAMPLES: Examples = Examples::of(&[Example::of("bulkhead filesystem list tank --json")]);

read_only_verb! {
    /// List the file systems of a pool: space, and their shares
    #[command(
        visible_alias = "ls",
        after_help = EXAMPLES
    )]
    List,
    &[Route::get(
        "/pools/{pool}/filesystems",
        "File systems",
        schema_of::<Vec<FilesystemView>>,
    )]
}
