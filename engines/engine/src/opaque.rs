//! An opaque value of an engine, which its callers store and pass back.

use std::any::Any;
use std::sync::Arc;

/// A value that only the engine which made it can read. Copies share it; they are equal if they are the same one.
#[derive(Clone)]
pub struct Opaque(Arc<dyn Any + Send + Sync>);

impl Opaque {
    /// Holds `value` until the last copy is dropped.
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// The value.
    ///
    /// # Panics
    /// If another engine made it.
    pub fn get<T: Any>(&self) -> &T {
        self.0
            .downcast_ref()
            .expect("made by the engine that reads it")
    }
}

impl std::fmt::Debug for Opaque {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opaque")
    }
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Opaque {}
