//! Pools that could be opened.

use std::path::PathBuf;
use std::sync::Arc;

use engine::Opaque;
use engine::pool::legs::{GroupContent, Leg, LegGroup, Legs};
use engine::pool::{
    Candidate, CandidateDevice, CandidateDevices, CandidateState, DiscoverError, GroupRole,
};

use crate::host::MemoryEngine;
use crate::numbers::now_s;
use crate::pool_properties;
use crate::state::{Shared, State};
use crate::vdevs::{Group, Leaf, Trouble};
use crate::world::{Label, LabelState};

/// What the import needs of a candidate.
pub(crate) struct Found {
    pub(crate) shared: Arc<Shared>,
    /// The pool's state when it was found.
    pub(crate) txg: u64,
}

impl MemoryEngine {
    pub(crate) fn found_in(&self, places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError> {
        let disks = self.world.disks();
        let mut labels: Vec<Label> = Vec::new();
        for place in places {
            let is_there = |path: &PathBuf| path == place || path.parent() == Some(place);
            let there: Vec<_> = disks
                .iter()
                .filter(|(path, disk)| disk.is_present && is_there(path))
                .collect();
            if there.is_empty() {
                let cause = std::io::ErrorKind::NotFound.into();
                return Err(DiscoverError {
                    path: place.clone(),
                    cause,
                });
            }
            let own = there.into_iter().filter_map(|(_, disk)| disk.label.clone());
            labels.extend(
                own.filter(|label| {
                    matches!(label.state, LabelState::Active | LabelState::Exported)
                }),
            );
        }
        drop(disks);
        labels.sort_by_key(|label| label.pool_guid);
        labels.dedup_by_key(|label| label.pool_guid);
        let found = labels.iter();
        let found = found.filter_map(|label| Some((label, self.pool(label.pool_guid)?)));
        Ok(found
            .map(|(label, shared)| self.candidate(label, &shared))
            .collect())
    }

    fn candidate(&self, label: &Label, shared: &Arc<Shared>) -> Candidate {
        let state = shared.lock();
        let devices = match self.world.is_volumes_only {
            true => CandidateDevices::default(),
            false => self.devices_of(&state),
        };
        Candidate {
            name: state.name.to_string(),
            guid: state.guid,
            state: match label.state {
                LabelState::Exported => CandidateState::Exported,
                _ => CandidateState::Active,
            },
            host_id: Some(label.host.0.get()),
            host_name: Some(label.host_name.clone()),
            is_watched: pool_properties::get(&state.properties, "multihost") == Some("on"),
            note: state.note.clone(),
            devices,
            detail: Opaque::new(Found {
                shared: Arc::clone(shared),
                txg: state.tree.txg,
            }),
        }
    }

    fn devices_of(&self, state: &State) -> CandidateDevices {
        let present = self.world.present();
        let device = |leaf: &Leaf| CandidateDevice {
            path: leaf.path.clone(),
            guid: leaf.guid,
            present: present.contains(&leaf.path),
        };
        let leg = |leaf: &Leaf| Leg {
            guid: leaf.guid,
            path: leaf.path.clone(),
            labelled: leaf.path.clone(),
            is_present: present.contains(&leaf.path),
            is_marked: leaf.trouble != Trouble::None,
        };
        let group = |group: &Group| LegGroup {
            content: match group.role {
                GroupRole::Log => GroupContent::Log,
                _ => GroupContent::Data,
            },
            members: group
                .members
                .iter()
                .map(|member| member.leaves.iter().map(leg).collect())
                .collect(),
            needed: group.members.len() - group.losses_max(),
        };
        let holds = |group: &&Group| matches!(group.role, GroupRole::Data | GroupRole::Log);
        CandidateDevices {
            all: state.vdevs.leaves().map(device).collect(),
            legs: Legs {
                groups: state.vdevs.groups.iter().filter(holds).map(group).collect(),
                groups_missing: 0,
                pool_guid: state.guid,
                newest_txg: state.tree.txg,
                newest_time_s: now_s(),
                record: state.record,
            },
            ..CandidateDevices::default()
        }
    }
}
