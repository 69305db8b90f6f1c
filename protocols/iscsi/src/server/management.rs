//! Aborting tasks: what is to be aborted, and an answer that is sent when all of it has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// An action that runs when the last task that holds the barrier has ended.
pub(crate) struct Barrier {
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Barrier {
    pub(crate) fn new(then: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            then: Mutex::new(Some(Box::new(then))),
        })
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        let then = self.then.get_mut().ok().and_then(Option::take);
        if let Some(then) = then {
            then();
        }
    }
}

/// Which tasks of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The one with this tag.
    Task(u32),
    /// All of a logical unit.
    Unit(u16),
    /// All.
    All,
}

/// A request to abort.
#[derive(Clone)]
pub(crate) struct Abort {
    pub(crate) scope: Scope,
    /// Held by every task that cannot be stopped, until it ends.
    pub(crate) barrier: Arc<Barrier>,
}

/// A task that runs on another thread, as its connection knows it.
#[derive(Default)]
pub(crate) struct RunningTask {
    aborted: AtomicBool,
    ended: AtomicBool,
    barriers: Mutex<Vec<Arc<Barrier>>>,
}

impl RunningTask {
    /// Its answer will not be sent; `barrier` waits for its end.
    pub(crate) fn abort(&self, barrier: &Arc<Barrier>) {
        let mut barriers = self.barriers.lock().expect("no holder panics");
        if !self.has_ended() {
            self.aborted.store(true, Ordering::Release);
            barriers.push(Arc::clone(barrier));
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The task has ended. Whether it may be answered. What waited for it goes on when the result
    /// is dropped.
    pub(crate) fn end(&self) -> (bool, Vec<Arc<Barrier>>) {
        let mut barriers = self.barriers.lock().expect("no holder panics");
        self.ended.store(true, Ordering::Release);
        (
            !self.aborted.load(Ordering::Acquire),
            std::mem::take(&mut *barriers),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_waits_for_every_aborted_task() {
        let passed = Arc::new(AtomicBool::new(false));
        let barrier = Barrier::new({
            let passed = Arc::clone(&passed);
            move || passed.store(true, Ordering::Release)
        });
        let (one, two) = (RunningTask::default(), RunningTask::default());
        one.abort(&barrier);
        let (answer, _) = two.end();
        assert!(answer);
        two.abort(&barrier);
        drop(barrier);
        assert!(!passed.load(Ordering::Acquire));
        let (answer, barriers) = one.end();
        assert!(!answer);
        drop(barriers);
        assert!(passed.load(Ordering::Acquire));
    }
}
