//! I_T nexuses and their pending unit attentions (SAM-5, section 5.14).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::command::NexusId;
use crate::sense::Asc;

use super::Target;

/// Maximum pending unit attentions of one nexus and unit; the oldest are retained.
const ATTENTIONS_MAX: usize = 8;

/// The state of a logged-in nexus.
pub(crate) struct NexusState {
    pub(crate) id: NexusId,
    /// Distinguishes this login from earlier ones of the same nexus.
    pub(crate) login: u64,
    /// Number of pending attentions, so that the usual command needs no lock.
    pending: AtomicUsize,
    attentions: Mutex<BTreeMap<u16, Vec<Asc>>>,
    lost: AtomicBool,
}

impl NexusState {
    pub(super) fn new(id: NexusId, login: u64) -> Self {
        Self {
            id,
            login,
            pending: AtomicUsize::new(0),
            attentions: Mutex::default(),
            lost: AtomicBool::new(false),
        }
    }

    fn attentions(&self) -> MutexGuard<'_, BTreeMap<u16, Vec<Asc>>> {
        self.attentions.lock().expect("no holder panics")
    }

    /// Queues an attention for a unit, once.
    pub(crate) fn queue_attention(&self, unit: u16, asc: Asc) {
        let mut all = self.attentions();
        let queue = all.entry(unit).or_default();
        if !queue.contains(&asc) && queue.len() < ATTENTIONS_MAX {
            queue.push(asc);
            self.pending.fetch_add(1, Ordering::Release);
        }
    }

    /// Removes and returns the oldest attention of a unit.
    pub(crate) fn take_attention(&self, unit: u16) -> Option<Asc> {
        if self.pending.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut all = self.attentions();
        let queue = all.get_mut(&unit)?;
        let asc = queue.remove(0);
        if queue.is_empty() {
            all.remove(&unit);
        }
        self.pending.fetch_sub(1, Ordering::Release);
        Some(asc)
    }

    /// Clears an attention of all units after REPORT LUNS has reported it.
    pub(crate) fn forget_attention(&self, asc: Asc) {
        if self.pending.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut all = self.attentions();
        for queue in all.values_mut() {
            let before = queue.len();
            queue.retain(|one| *one != asc);
            self.pending
                .fetch_sub(before - queue.len(), Ordering::Release);
        }
        all.retain(|_, queue| !queue.is_empty());
    }

    /// Clears all attentions of a removed unit.
    pub(super) fn forget_unit(&self, unit: u16) {
        if let Some(queue) = self.attentions().remove(&unit) {
            self.pending.fetch_sub(queue.len(), Ordering::Release);
        }
    }

    /// Whether the nexus is lost: its commands must have no effect.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Marks the nexus as lost; true the first time.
    pub(super) fn lose(&self) -> bool {
        !self.lost.swap(true, Ordering::AcqRel)
    }
}

/// A logged-in I_T nexus. Dropping it is a logout: an I_T nexus loss.
pub struct Nexus {
    pub(super) target: Arc<Target>,
    pub(crate) state: Arc<NexusState>,
}

impl Nexus {
    /// The ID of the nexus.
    pub fn id(&self) -> &NexusId {
        &self.state.id
    }

    /// The target of the nexus.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }
}

impl Drop for Nexus {
    fn drop(&mut self) {
        self.target.lose(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_attentions_are_reported_once_and_in_order() {
        let id = NexusId {
            initiator: "iqn.2026-01.org.example:a".parse().unwrap(),
            isid: [0; 6],
            portal_group: 1,
        };
        let nexus = NexusState::new(id, 1);
        nexus.queue_attention(0, Asc::POWER_ON_OR_RESET_OCCURRED);
        nexus.queue_attention(0, Asc::CAPACITY_DATA_HAS_CHANGED);
        nexus.queue_attention(0, Asc::POWER_ON_OR_RESET_OCCURRED);
        nexus.queue_attention(1, Asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        nexus.forget_attention(Asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        assert_eq!(nexus.take_attention(1), None);
        assert_eq!(
            nexus.take_attention(0),
            Some(Asc::POWER_ON_OR_RESET_OCCURRED)
        );
        assert_eq!(
            nexus.take_attention(0),
            Some(Asc::CAPACITY_DATA_HAS_CHANGED)
        );
        assert_eq!(nexus.pending.load(Ordering::Relaxed), 0);
    }
}
