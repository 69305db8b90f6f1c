//! The findings of a consistency check of a file system.

/// An inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The object with the fault.
    pub object: u64,
    /// Its path, if one was found.
    pub path: Option<String>,
    /// The fault, in a sentence without its subject.
    pub what: String,
}

/// A report during the check.
#[derive(Clone, Debug)]
pub enum CheckReport {
    /// The completed steps, and their estimated number.
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
    /// Files, directories and other objects.
    pub objects: u64,
    /// Names in directories.
    pub names: u64,
    /// Inconsistencies found.
    pub faults: u64,
}
