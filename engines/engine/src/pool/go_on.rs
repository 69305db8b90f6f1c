//! How a suspended pool goes on.

use std::path::PathBuf;

use super::legs::Word;
use crate::Opaque;

/// How a pool goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoesOn {
    /// As it is.
    AsItIs,
    /// When this process has ended and the next one opens it.
    Anew(Anew),
}

/// A start from the devices that are back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anew {
    /// What the next start has to be told, if their labels do not tell enough.
    pub word: Option<Word>,
    /// The devices that it does without.
    pub without: Vec<PathBuf>,
    /// The pool does not resume in this process until this is dropped.
    attempt: Opaque,
}

impl Anew {
    /// A start with `word`, and without the devices `without`. While a copy of it lives, the engine keeps `attempt`.
    pub fn new(word: Option<Word>, without: Vec<PathBuf>, attempt: Opaque) -> Self {
        Self {
            word,
            without,
            attempt,
        }
    }
}
