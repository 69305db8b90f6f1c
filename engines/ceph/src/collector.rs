//! Wakes and stops the thread that removes discarded images.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Time until a removal that failed is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Pending {
    has_work: bool,
    is_stopped: bool,
}

/// Wakes the thread.
#[derive(Default)]
pub(crate) struct Collector {
    pending: Mutex<Pending>,
    changed: Condvar,
}

impl Collector {
    /// An image or a snapshot was discarded.
    pub(crate) fn wake(&self) {
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .has_work = true;
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_stopped
    }

    /// Blocks until there may be work. Returns `false` at the end.
    pub(crate) fn pause(&self) -> bool {
        let held = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |pending: &mut Pending| !pending.has_work && !pending.is_stopped;
        let waited = self.changed.wait_timeout_while(held, RETRY_INTERVAL, idle);
        let mut pending = waited.unwrap_or_else(PoisonError::into_inner).0;
        pending.has_work = false;
        !pending.is_stopped
    }
}
