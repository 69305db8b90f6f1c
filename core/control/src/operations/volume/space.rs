//! `volume space`

use crate::operations::{Example, Examples, read_only_verb};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume space tank"),
    Example::of("bulkhead volume set tank quota=1T"),
])
.with_note(
    "USED is the sum of the four columns after it. A quota on a dataset above volumes is for all of them
together, with their snapshots.",
);

read_only_verb! {
    /// Show the use of space: data, snapshots, children; quotas and reservations
    #[command(after_help = EXAMPLES)]
    Space,
    &[]
}
