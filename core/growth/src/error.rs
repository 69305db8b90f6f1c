//! Errors of planning.

/// The kind that a caller matches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthErrorKind {
    /// The request is invalid.
    Usage,
    /// A host, disk or pool of the request is not in the map.
    NotFound,
    /// A disk of the request is in the map already.
    Exists,
    /// The map has a feature without a predictable effect.
    Unsupported,
    /// The output of a tool is unexpected.
    Output,
}

/// Why no plan was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GrowthError {
    /// The kind that a caller matches on.
    pub kind: GrowthErrorKind,
    /// One sentence.
    pub message: String,
    /// The remedy, if there is one.
    pub advice: Option<String>,
}

impl GrowthError {
    fn new(kind: GrowthErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            advice: None,
        }
    }

    /// The request is invalid.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(GrowthErrorKind::Usage, message)
    }

    /// An object of the request does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(GrowthErrorKind::NotFound, message)
    }

    /// An object of the request exists already.
    pub fn exists(message: impl Into<String>) -> Self {
        Self::new(GrowthErrorKind::Exists, message)
    }

    /// The map has a feature without a predictable effect.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(GrowthErrorKind::Unsupported, message)
    }

    /// The output of a tool is not in the expected form.
    pub fn output(message: impl Into<String>) -> Self {
        Self::new(GrowthErrorKind::Output, message)
    }

    /// The same with a remedy.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}
