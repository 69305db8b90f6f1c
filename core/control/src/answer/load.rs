//! The load of a pool's devices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// I/O of a pool and its devices since the pool was opened. All counters only grow: the difference between two samples
/// is the I/O in between.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolLoad {
    /// The process that has the pool open. The counters start again when another process opens it.
    pub pid: u32,
    /// Nanoseconds of counting, on a monotonic clock: the interval between two samples.
    pub counted_ns: u64,
    /// Whether all I/O is paused because devices are missing.
    pub suspended: bool,
    /// The pool as a whole; its members are the groups and devices.
    pub whole: DeviceLoad,
    /// The names of legs, by the names of their devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub leg_names: BTreeMap<String, String>,
}

impl PoolLoad {
    /// Replaces the names of devices that are legs by the names of the legs.
    pub fn name_legs(&mut self) {
        fn name_in(names: &BTreeMap<String, String>, device: &mut DeviceLoad) {
            if let Some(name) = names.get(&device.name) {
                device.name.clone_from(name);
            }
            let members = device.members.iter_mut();
            members.for_each(|member| name_in(names, member));
        }
        name_in(&self.leg_names, &mut self.whole);
    }
}

/// I/O of a pool, a group or a device. Counts of a group and of the pool are the sums of their devices'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceLoad {
    /// As `DeviceView::name`; the name of the pool.
    pub name: String,
    /// Bytes in use; 0 for a device in a group.
    pub allocated: u64,
    /// Total bytes; 0 for a device in a group.
    pub size: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of reads by latency on a device: entry n counts those from 2^n nanoseconds to twice that; trailing zeros
    /// are omitted.
    pub read_waits: Vec<u64>,
    /// The same for writes.
    pub write_waits: Vec<u64>,
    /// Requests that are queued for devices.
    pub pending: u64,
    /// Requests that are active on devices.
    pub active: u64,
    /// Members of a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<DeviceLoad>,
}
