//! How a suspended pool goes on.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use super::legs::Word;

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
    attempt: Attempt,
}

/// What an engine holds as long as somebody may act on its answer.
#[derive(Clone)]
pub struct Attempt(Arc<dyn Any + Send + Sync>);

impl Attempt {
    /// Holds `guard` until its last copy is dropped.
    pub fn holding(guard: impl Any + Send + Sync) -> Self {
        Self(Arc::new(guard))
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attempt")
    }
}

impl PartialEq for Attempt {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Attempt {}

impl Anew {
    /// A start with `word`, and without the devices `without`. While a copy of it lives, the engine keeps `attempt`.
    pub fn new(word: Option<Word>, without: Vec<PathBuf>, attempt: Attempt) -> Self {
        Self {
            word,
            without,
            attempt,
        }
    }
}
