//! The thread that watches an open shelf: once a second it checks that this process is still the owner, and reads the
//! state and the free space of the cluster.

use ceph_sys::{CephError, ObjectChange};

use crate::SHELF_OBJECT;
use crate::records::OWNER;
use crate::shelf::Shelf;
use crate::space::Statistics;
use crate::watch::Groups;

/// Polls between two measurements of reserved volumes.
const POLLS_PER_MEASUREMENT: u32 = 10;

/// The state of all placement groups, by the names of their states.
fn groups(document: &serde_json::Value) -> Groups {
    let all = document["pgmap"]["pgs_by_state"].as_array();
    let names = all
        .into_iter()
        .flatten()
        .filter_map(|state| state["state_name"].as_str());
    let mut worst = Groups::Complete;
    for part in names.flat_map(|name| name.split('+')) {
        match part {
            "down" | "incomplete" | "stale" | "unknown" | "peered" | "inactive" => {
                return Groups::Inactive;
            }
            "degraded" | "undersized" => worst = Groups::Degraded,
            _ => {}
        }
    }
    worst
}

impl Shelf {
    /// The body of the watch's thread.
    pub(crate) fn watch(&self) {
        let mut polls = 0_u32;
        while self.watch.pause() {
            if let Err(error) = self.poll_owner() {
                if matches!(
                    error,
                    CephError::CANCELED | CephError::BLOCKLISTED | CephError::NOT_FOUND
                ) {
                    self.lose(error);
                    return;
                }
            }
            if let Err(error) = self.poll_cluster() {
                tracing::warn!(pool = %self.name(), "the state of the cluster: {error}");
            }
            polls = polls.wrapping_add(1);
            if polls % POLLS_PER_MEASUREMENT == 0 {
                self.measure_reserved();
            }
        }
    }

    /// Whether this process is still the owner: a comparison that changes nothing.
    fn poll_owner(&self) -> Result<(), CephError> {
        if self.is_read_only {
            return Ok(());
        }
        let records = self.records();
        let guard = records.owner.bytes();
        let unchanged = ObjectChange {
            guard: Some((OWNER, &guard)),
            ..ObjectChange::default()
        };
        // A cluster that does not respond is detected by this request, too.
        let _writing = self.watch.write();
        self.namespace.change(SHELF_OBJECT, &unchanged)
    }

    /// Reads the free space and the state of the cluster.
    pub(crate) fn poll_cluster(&self) -> Result<(), CephError> {
        let cluster = self.namespace.cluster();
        let document = |command: &str| {
            let output = cluster.mon_command(command)?;
            serde_json::from_slice(&output).map_err(|_| CephError::INVALID)
        };
        let usage: serde_json::Value =
            document(r#"{"prefix":"df","detail":"detail","format":"json"}"#)?;
        if let Some(statistics) = Statistics::of_pool(&usage, &self.location.pool) {
            self.space.update(statistics);
        }
        let states: serde_json::Value = document(r#"{"prefix":"status","format":"json"}"#)?;
        self.watch.set_groups(groups(&states));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Groups {
        let states: Vec<_> = names
            .iter()
            .map(|name| serde_json::json!({"state_name": name, "count": 1}))
            .collect();
        groups(&serde_json::json!({"pgmap": {"pgs_by_state": states}}))
    }

    #[test]
    fn worst_group_determines_the_state() {
        assert_eq!(of(&["active+clean"]), Groups::Complete);
        assert_eq!(of(&["active+clean+scrubbing"]), Groups::Complete);
        assert_eq!(
            of(&["active+clean", "active+undersized+degraded"]),
            Groups::Degraded
        );
        assert_eq!(
            of(&["undersized+degraded+peered", "active+clean"]),
            Groups::Inactive
        );
        assert_eq!(of(&[]), Groups::Complete);
    }
}
