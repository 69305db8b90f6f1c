//! Requests of an administrator.

use control::Failure;
use control::operations::pool::DeviceGroup;

/// A request about one leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegRequest {
    /// It is repaired: retry it at once.
    Readmit,
    /// It has a divergent history that is not needed: overwrite it.
    Discard,
    /// The leg of that name joins its group.
    Attach {
        /// Its name.
        new: String,
        /// Also if it contains data.
        overwrite: bool,
    },
    /// A group of legs joins the pool.
    Add {
        /// The group, with the names of its legs.
        group: DeviceGroup,
        /// Also if they contain data.
        overwrite: bool,
        /// Why it is refused, unless its addition has begun: it has less redundancy than the groups of the pool.
        mismatch: Option<Failure>,
    },
    /// It is replaced by another disk.
    Replace {
        /// The new name of the leg; `None` means that the same path has a new disk.
        new: Option<String>,
        /// Also if the new disk contains data.
        overwrite: bool,
    },
}

/// A request about the members of a pool's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRequest<'a> {
    /// The witness of that name, or none.
    Witness(Option<&'a str>),
    /// A third head of that name.
    Head(&'a str),
}
