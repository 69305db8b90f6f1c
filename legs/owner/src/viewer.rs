//! Read access for other threads to the state of a pool with legs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::shown::{PublishedState, Stage};

/// The state that the deciding thread publishes.
pub(crate) struct Common {
    shown: Mutex<PublishedState>,
    changed: Condvar,
}

impl Common {
    /// The state of a pool that is being opened.
    pub(crate) fn new() -> Self {
        Self {
            shown: Mutex::new(PublishedState {
                stage: Stage::Opening,
                record: None,
                awaited: BTreeSet::new(),
                copying: BTreeSet::new(),
                held: BTreeMap::new(),
                troubles: BTreeMap::new(),
                last: None,
                unresponsive: BTreeMap::new(),
                differing: BTreeSet::new(),
                changes_taken_back: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn shown(&self) -> MutexGuard<'_, PublishedState> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn show(&self, change: impl FnOnce(&mut PublishedState)) {
        change(&mut self.shown());
        self.changed.notify_all();
    }

    /// Blocks until the condition is true.
    pub(crate) fn wait(&self, holds: impl Fn(&PublishedState) -> bool) -> PublishedState {
        let waited = self
            .changed
            .wait_while(self.shown(), |shown| !holds(shown))
            .unwrap_or_else(PoisonError::into_inner);
        waited.clone()
    }

    /// The same for a bounded time.
    pub(crate) fn wait_for(
        &self,
        limit: Duration,
        holds: impl Fn(&PublishedState) -> bool,
    ) -> PublishedState {
        let until = Instant::now() + limit;
        let mut shown = self.shown();
        while !holds(&shown) {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break;
            };
            let waited = self.changed.wait_timeout(shown, left);
            shown = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        shown.clone()
    }
}

/// A handle for reading the state of a pool with legs.
#[derive(Clone)]
pub struct Viewer(pub(crate) Arc<Common>);

impl Viewer {
    /// Returns the current state.
    pub fn shown(&self) -> PublishedState {
        self.0.shown().clone()
    }

    /// Blocks until the condition is true, for a bounded time. Returns the state then.
    pub fn wait_for(
        &self,
        limit: Duration,
        holds: impl Fn(&PublishedState) -> bool,
    ) -> PublishedState {
        self.0.wait_for(limit, holds)
    }
}
