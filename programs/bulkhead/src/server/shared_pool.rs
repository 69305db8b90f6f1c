//! The pool of the server: many use it for a moment, one takes it away at the end.

use std::sync::{RwLock, RwLockReadGuard};

use control::{Failure, FailureKind};
use zpool::Pool;

/// The pool, until it is taken away.
pub struct SharedPool(RwLock<Option<Pool>>);

/// A use of the pool; it is not closed meanwhile.
pub struct Using<'a>(RwLockReadGuard<'a, Option<Pool>>);

impl SharedPool {
    /// Shares `pool`.
    pub fn new(pool: Pool) -> Self {
        Self(RwLock::new(Some(pool)))
    }

    /// The pool, if it was not taken away.
    pub fn get(&self) -> Option<Using<'_>> {
        let guard = self.0.read().expect("no holder panics");
        guard.is_some().then_some(Using(guard))
    }

    /// The pool, or the failure to tell whoever asked.
    pub fn require(&self) -> Result<Using<'_>, Failure> {
        self.get().ok_or_else(|| {
            Failure::new(FailureKind::Unavailable, "the pool is being closed")
                .advise("ask again when the server has ended")
        })
    }

    /// Takes the pool away, after all uses.
    pub fn take(&self) -> Option<Pool> {
        self.0.write().expect("no holder panics").take()
    }
}

impl std::ops::Deref for Using<'_> {
    type Target = Pool;
    fn deref(&self) -> &Pool {
        self.0.as_ref().expect("looked at when it was made")
    }
}
