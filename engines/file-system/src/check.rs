//! What a check of a file system tells: whether all that is stored fits together.

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The object that it is about.
    pub object: u64,
    /// Its path, if one leads to it.
    pub path: Option<String>,
    /// What is wrong, in a sentence without its subject.
    pub what: String,
}

/// What is told while it goes on.
#[derive(Clone, Debug)]
pub enum Told {
    /// How many steps are done, and of about how many.
    Progress {
        /// Done.
        done: u64,
        /// Of.
        of: u64,
    },
    /// Something does not fit.
    Fault(Fault),
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files, directories and the like.
    pub objects: u64,
    /// Names in directories.
    pub names: u64,
    /// What does not fit.
    pub faults: u64,
}
