//! The state of a shelf.

use std::time::{Duration, Instant};

use engine::capabilities::Health;
use engine::pool::{DeviceState, Load, PoolError, PoolHealth, PoolStatus, Suspension};

use crate::pool::CephPool;
use crate::shelf::Shelf;

impl engine::Pool for CephPool {
    fn engine_name(&self) -> &'static str {
        crate::NAME
    }
}

impl Shelf {
    fn state(&self) -> (DeviceState, Option<Suspension>) {
        match (self.is_lost(), self.watch.is_overdue(Instant::now())) {
            (true, _) => (DeviceState::Unavailable, Some(Suspension::OtherHost)),
            (false, true) => (DeviceState::Unavailable, Some(Suspension::DevicesFailed)),
            (false, false) => (self.watch.state(), None),
        }
    }
}

impl Health for CephPool {
    fn is_lost(&self) -> bool {
        self.shelf.is_lost()
    }

    fn status(&self) -> Result<PoolStatus, PoolError> {
        let (state, suspended) = self.shelf.state();
        let statistics = self.shelf.space.statistics();
        let name = self.shelf.name().to_string();
        Ok(PoolStatus {
            name: name.clone(),
            guid: self.shelf.claimant.guid.0,
            state,
            suspended,
            damaged: 0,
            size_bytes: statistics.stored + statistics.free,
            allocated_bytes: statistics.stored,
            free_bytes: statistics.free,
            fragmentation_percent: None,
            dedup: None,
            scan: None,
            removal: None,
            expansion: None,
            devices: Vec::new(),
            left_out: Vec::new(),
            load: Load {
                name,
                ..Load::default()
            },
            features: Vec::new(),
            advice: Vec::new(),
        })
    }

    fn health(&self) -> Option<PoolHealth> {
        let (state, suspended) = self.shelf.state();
        Some(PoolHealth {
            state,
            suspended,
            synced_txg: self.shelf.change_count(),
            since_sync: Duration::ZERO,
            unrecorded: None,
        })
    }
}
