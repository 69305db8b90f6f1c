//! How a suspended pool resumes.

use std::path::PathBuf;

use super::legs::Confirmation;
use crate::Opaque;

/// The ways to resume a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// As it is.
    InPlace,
    /// When this process has ended and the next one opens it.
    Restart(Restart),
}

/// A start from the devices that are back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The confirmation that the next start needs, if the labels do not suffice.
    pub word: Option<Confirmation>,
    /// The devices that it does without.
    pub without: Vec<PathBuf>,
    /// The pool does not resume in this process until this is dropped.
    attempt: Opaque,
}

impl Restart {
    /// A start with `word`, and without the devices `without`. The engine retains `attempt` until the last copy of this
    /// value is dropped.
    pub fn new(word: Option<Confirmation>, without: Vec<PathBuf>, attempt: Opaque) -> Self {
        Self {
            word,
            without,
            attempt,
        }
    }
}
