//! The findings of a consistency check of a file system.

/// An inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The object that it is about.
    pub object: u64,
    /// Its path, if one leads to it.
    pub path: Option<String>,
    /// The fault, in a sentence without its subject.
    pub what: String,
}

/// A report during the check.
#[derive(Clone, Debug)]
pub enum Told {
    /// How many steps are done, and of about how many.
    Progress {
        /// Done.
        done: u64,
        /// Of.
        of: u64,
    },
    /// An inconsistency.
    Fault(Fault),
}

/// The totals of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files, directories and the like.
    pub objects: u64,
    /// Names in directories.
    pub names: u64,
    /// Inconsistencies found.
    pub faults: u64,
}
