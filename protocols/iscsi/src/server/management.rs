//! Aborts of tasks: their scope, and a response that is sent when all aborted tasks have ended.

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

/// The tasks of a connection to abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The task with this tag.
    Task(u32),
    /// All tasks of a logical unit.
    Unit(u16),
    /// All tasks.
    All,
}

/// A request to abort.
#[derive(Clone)]
pub(crate) struct Abort {
    pub(crate) scope: Scope,
    /// Held by every task that cannot be stopped, until its end.
    pub(crate) barrier: Arc<Barrier>,
}

/// The state of a task on another thread, shared with its connection.
#[derive(Default)]
pub(crate) struct RunningTask {
    aborted: AtomicBool,
    ended: AtomicBool,
    barriers: Mutex<Vec<Arc<Barrier>>>,
}

impl RunningTask {
    /// Suppresses its response; `barrier` is held until its end.
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

    /// Records the end of the task. Returns whether its response may be sent, and the barriers to
    /// drop.
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
