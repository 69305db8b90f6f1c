//! The results for RECEIVE COPY STATUS of successful copies. A failed copy has returned all
//! information in its sense data and stores no result.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Maximum results stored for one unit; the oldest is evicted first.
const RESULTS_MAX: usize = 32;

/// The progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) segments: u16,
    pub(crate) bytes: u64,
}

/// Results by login and list identifier.
#[derive(Default)]
pub(crate) struct CopyResults {
    held: Mutex<VecDeque<(u64, u8, Progress)>>,
}

impl CopyResults {
    fn held(&self) -> MutexGuard<'_, VecDeque<(u64, u8, Progress)>> {
        self.held.lock().expect("no holder panics")
    }

    pub(crate) fn hold(&self, login: u64, id: u8, progress: Progress) {
        let mut held = self.held();
        if held.len() == RESULTS_MAX {
            held.pop_front();
        }
        held.push_back((login, id, progress));
    }

    pub(crate) fn take(&self, login: u64, id: u8) -> Option<Progress> {
        let mut held = self.held();
        let at = held.iter().position(|one| (one.0, one.1) == (login, id))?;
        held.remove(at).map(|one| one.2)
    }

    pub(crate) fn discard(&self, login: u64, id: u8) {
        self.held().retain(|one| (one.0, one.1) != (login, id));
    }
}
