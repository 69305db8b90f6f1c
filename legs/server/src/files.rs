//! The files of this host that the agent of the cluster reads about pools with legs.

use std::path::{Path, PathBuf};

use leg_door::{FenceRequest, LastOwner, LegFiles, PowerOff};

use crate::power_off;

/// The files of this host.
#[derive(Debug)]
pub struct HostFiles(PathBuf);

/// Those below the state directory `state`.
pub fn files(state: &Path) -> HostFiles {
    HostFiles(leg_memory::folder(state))
}

impl LegFiles for HostFiles {
    fn last_owner(&self, record: u64) -> LastOwner {
        match leg_memory::last_record(&self.0, record) {
            None => LastOwner::Unknown,
            Some(record) => record
                .owner
                .map_or(LastOwner::Exported, |owner| LastOwner::Head(owner.0)),
        }
    }

    fn requested_fence(&self, record: u64) -> Option<FenceRequest> {
        let request = leg_memory::requested_fence(&self.0, record)?;
        Some(FenceRequest {
            number: request.number,
            head: request.head,
            is_missed: request.is_missed,
        })
    }

    fn confirm_fence(&self, record: u64, number: u64) -> Result<(), String> {
        leg_memory::confirm_fence(&self.0, record, number).map_err(|error| error.to_string())
    }

    fn may_power_off(&self, request: &PowerOff<'_>) -> Result<String, String> {
        power_off::decide(&self.0, request)
    }
}
