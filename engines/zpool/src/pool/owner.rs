//! The owner's own state of an open pool, for comparison with the disks.

use std::path::Path;
use std::sync::Arc;

use engine::capabilities::Health;
use engine::pool::{Candidate, Suspension};

use super::Pool;
use super::discover::Contents;
use super::label;
use crate::device::{self, OpenDisk, Owner, OwnerOnDisk};

/// The owner of one pool.
#[derive(Debug)]
struct PoolOwner {
    pool: Pool,
    known: OpenedState,
}

/// The state since the pool was opened.
#[derive(Debug)]
struct OpenedState {
    guid: u64,
    /// Ours.
    host_id: u32,
    /// The newest label before the pool was opened.
    label_txg: u64,
    /// The newest transaction group when the pool had been opened.
    opened_txg: u64,
}

impl Pool {
    /// Starts to watch the pool's ownership: another head could acquire it while this process is
    /// stopped.
    pub(super) fn watch_ownership(&self, candidate: &Candidate) -> Option<Arc<dyn Owner>> {
        let newest = device::open_disks();
        let newest = newest
            .iter()
            .filter_map(|disk| label::newest_uberblock(&disk.path));
        let owner: Arc<dyn Owner> = Arc::new(PoolOwner {
            pool: self.alias(),
            known: OpenedState {
                guid: candidate.guid,
                host_id: self.engine().host_id().0.get(),
                label_txg: Contents::of(candidate).txg,
                opened_txg: newest.map(|one| one.txg).max().unwrap_or(0),
            },
        });
        match device::watch(Arc::clone(&owner)) {
            Ok(()) => Some(owner),
            Err(error) => {
                tracing::warn!(%error, "no thread to watch whether the pool is still ours");
                None
            }
        }
    }
}

impl Owner for PoolOwner {
    fn disks(&self) -> Vec<OpenDisk> {
        device::open_disks()
    }

    fn read(&self, disk: &Path) -> Option<OwnerOnDisk> {
        label::owner_on_disk(disk)
    }

    fn contradiction(&self, found: &OwnerOnDisk) -> Option<String> {
        // Read after the disk: a state of ours on it cannot be newer.
        let synced_txg = self.pool.health().map(|health| health.synced_txg);
        self.known.judge(found, synced_txg)
    }

    fn silence(&self) -> Option<String> {
        let suspended = self.pool.health()?.suspended;
        (suspended == Some(Suspension::OtherHost)).then(|| {
            "no sign of life could be written for too long, and another host may take the pool"
                .to_owned()
        })
    }
}

impl OpenedState {
    fn judge(&self, found: &OwnerOnDisk, synced_txg: Option<u64>) -> Option<String> {
        if found.pool_guid != self.guid {
            // A label of another pool of this process, or of a device removed from this one.
            return None;
        }
        match found.host_id {
            // Older labels rightly belong to the previous owner.
            Some(host) if host != self.host_id && found.label_txg > self.label_txg => {
                return Some(format!("its label was written by host {host:08x}"));
            }
            _ => {}
        }
        // The uberblock of the group being synced is written before the group counts as synced.
        let own_max = synced_txg? + 1;
        let is_foreign = found.newest_txg > own_max.max(self.opened_txg);
        is_foreign.then(|| {
            let newest_txg = found.newest_txg;
            format!("transaction group {newest_txg} is on it, and ours is {own_max} at most")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u32 = 1;
    const THEIRS: u32 = 2;

    #[test]
    fn later_write_of_another_head_contradicts_ownership() {
        let of = |host_id, label_txg, newest_txg| OwnerOnDisk {
            pool_guid: 5,
            host_id,
            label_txg,
            newest_txg,
        };
        for (found, synced_txg, contradicts) in [
            (of(Some(OURS), 110, 120), Some(120), false),
            (of(Some(OURS), 110, 121), Some(120), false),
            (of(Some(OURS), 110, 122), Some(120), true),
            // A label from before we opened it.
            (of(Some(THEIRS), 100, 120), Some(120), false),
            (of(Some(THEIRS), 119, 119), Some(120), true),
            (of(Some(THEIRS), 119, 119), None, true),
            (of(None, 119, 500), None, false),
            // Groups that were there when we opened it, after a rewind.
            (of(Some(OURS), 110, 115), Some(105), false),
            (
                OwnerOnDisk {
                    pool_guid: 6,
                    ..of(Some(THEIRS), 500, 500)
                },
                Some(120),
                false,
            ),
        ] {
            let known = OpenedState {
                guid: 5,
                host_id: OURS,
                label_txg: 100,
                opened_txg: 115,
            };
            let why = known.judge(&found, synced_txg);
            assert_eq!(why.is_some(), contradicts, "{found:?}: {why:?}");
        }
    }
}
