//! `volume space`

use crate::operations::{Columns, Example, Examples, list_verb};

/// The columns of the table.
pub const COLUMNS: Columns = Columns {
    shown: &[
        "name",
        "used",
        "data",
        "snapshots",
        "below",
        "reserved",
        "avail",
        "ratio",
        "quota",
    ],
    more: &["written", "logical", "refquota"],
};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume space tank"),
    Example::of("bulkhead volume space tank --sort snapshots --reverse"),
    Example::of("bulkhead volume set tank quota=1T"),
])
.with_note(
    "USED is the sum of the four columns after it. A quota on a dataset above volumes is for all of them
together, with their snapshots.",
);

list_verb! {
    /// Show the use of space: data, snapshots, children; quotas and reservations
    #[command(after_help = EXAMPLES)]
    Space,
    "VolumeSpace",
    &[]
}
