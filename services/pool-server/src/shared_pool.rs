//! The pool handle of the server: used briefly by many threads, and taken by one at the end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use control::{Failure, FailureKind};
use engine::Pool;

/// A shared value that can be taken once.
pub struct Shared<T: ?Sized> {
    /// Each use holds a reference and releases it under the lock.
    inner: Mutex<Option<Arc<Box<T>>>>,
    given_back: Condvar,
}

/// The pool, until it is taken.
pub type SharedPool = Shared<dyn Pool>;

/// A use of the shared value, which delays a concurrent [`Shared::take`].
pub struct Using<'a, T: ?Sized> {
    shared: &'a Shared<T>,
    /// `None` only during release.
    used: Option<Arc<Box<T>>>,
}

impl<T: ?Sized> Shared<T> {
    /// Shares `value`.
    pub fn new(value: Box<T>) -> Self {
        Self {
            inner: Mutex::new(Some(Arc::new(value))),
            given_back: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Box<T>>>> {
        self.inner.lock().expect("no holder panics")
    }

    /// Returns the value unless it was taken. Never blocks, not even while [`Self::take`] does: a request may acquire a
    /// second use within the first, and would deadlock otherwise.
    pub fn get(&self) -> Option<Using<'_, T>> {
        let used = self.lock().clone();
        used.is_some().then_some(Using { shared: self, used })
    }

    /// Returns the value, or the failure for the client.
    pub fn require(&self) -> Result<Using<'_, T>, Failure> {
        self.get().ok_or_else(|| {
            Failure::new(FailureKind::Unavailable, "the pool is being closed")
                .advise("try again when the server has stopped")
        })
    }

    /// Takes the value after all uses are released.
    pub fn take(&self) -> Option<Box<T>> {
        let in_use = |inner: &mut Option<Arc<Box<T>>>| {
            inner.as_ref().is_some_and(|one| Arc::strong_count(one) > 1)
        };
        let unused = self.given_back.wait_while(self.lock(), in_use);
        let taken = unused.expect("no holder panics").take()?;
        Some(Arc::into_inner(taken).expect("the last reference"))
    }
}

impl<T: ?Sized> std::ops::Deref for Using<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.used.as_ref().expect("given back at the end only")
    }
}

impl<T: ?Sized> Drop for Using<'_, T> {
    fn drop(&mut self) {
        let _held = self.shared.lock();
        self.used = None;
        self.shared.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    #[test]
    fn take_waits_for_nested_uses() {
        let shared = Shared::new(Box::new(7));
        let using = shared.get().expect("there");
        std::thread::scope(|scope| {
            let (sender, taken) = channel();
            let shared = &shared;
            scope.spawn(move || sender.send(shared.take()).expect("somebody listens"));
            let waits = taken.recv_timeout(Duration::from_millis(100));
            assert_eq!(waits, Err(RecvTimeoutError::Timeout), "it is in use");
            assert_eq!(*shared.get().expect("not taken yet"), 7);
            drop(using);
            let taken = taken.recv_timeout(Duration::from_secs(60));
            assert_eq!(taken, Ok(Some(Box::new(7))));
        });
        assert!(shared.get().is_none() && shared.take().is_none());
        assert!(shared.require().is_err());
    }
}
