//! How a pool is doing.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::copies::LeftOut;

/// State of a device, a group, or the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// Works.
    Online,
    /// Works, with less redundancy than it should have.
    Degraded,
    /// Given up because of errors.
    Faulted,
    /// Taken offline by an administrator.
    Offline,
    /// Physically removed.
    Removed,
    /// Cannot be opened.
    Unavailable,
    /// Not in use now (a spare).
    Available,
}

/// The purpose of a device or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The pool's data.
    Data,
    /// The intent log.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Tables of deduplication.
    Dedup,
    /// Caches reads.
    Cache,
    /// Not in use.
    Spare,
}

/// A device, or a group of devices.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceStatus {
    /// A path, or such as `mirror-0`.
    pub name: String,
    /// `disk`, `file`, `mirror`, `raidz`, `replacing`, `spare`, ...
    pub kind: String,
    /// Its GUID: operations accept it if a path would be ambiguous.
    pub guid: u64,
    /// Its purpose.
    pub role: Role,
    /// Its state.
    pub state: DeviceState,
    /// Why it is in that state, if there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks with checksum errors.
    pub checksum_errors: u64,
    /// I/O requests slower than 30 s.
    pub slow_io: u64,
    /// Total reads.
    pub read_count: u64,
    /// Total writes.
    pub write_count: u64,
    /// Total bytes read.
    pub read_bytes: u64,
    /// Total bytes written.
    pub write_bytes: u64,
    /// Bytes in use (of a group).
    pub allocated_bytes: u64,
    /// Bytes in all (of a group).
    pub size_bytes: u64,
    /// Bytes that a replacement of the device needs.
    pub needed_bytes: u64,
    /// Bytes that the device could hold more if it were expanded.
    pub expandable_bytes: u64,
    /// The smallest unit of its writes, as a power of two, for a group of data or logs; else 0.
    pub ashift: u64,
    /// Free space in small pieces, percent (of a group).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_percent: Option<u64>,
    /// Bytes that the last scan wrote here because they were wrong or missing.
    pub repaired_bytes: u64,
    /// Being rebuilt by the scan that runs.
    pub resilvering: bool,
    /// Devices of the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<DeviceStatus>,
}

/// I/O counters of a pool, group or device since the pool was opened. They only grow; those of a group are the sums of
/// its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    /// As [`DeviceStatus::name`]; the pool's.
    pub name: String,
    /// Duration of the count in nanoseconds, by a monotonic clock.
    pub counted_ns: u64,
    /// Bytes in use (of a group).
    pub allocated_bytes: u64,
    /// Bytes in all (of a group).
    pub size_bytes: u64,
    /// Reads.
    pub read_count: u64,
    /// Writes.
    pub write_count: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Number of reads with a device latency from 2^n ns to twice that, by n.
    pub read_waits: Vec<u64>,
    /// The same of writes.
    pub write_waits: Vec<u64>,
    /// Requests that wait to be sent to devices now.
    pub pending: u64,
    /// Requests that devices are at now.
    pub active: u64,
    /// Devices of the group.
    pub members: Vec<Load>,
}

/// The kind of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScanKind {
    /// Reads all data and repairs errors.
    Scrub,
    /// Fills a new or returned device.
    Resilver,
    /// Reads blocks with known errors again.
    ErrorScrub,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScanState {
    /// Active.
    Running,
    /// Stopped for now.
    Paused,
    /// Done.
    Finished,
    /// Given up.
    Canceled,
}

/// The latest scan.
#[derive(Clone, Debug, Serialize)]
pub struct ScanStatus {
    /// Its kind.
    pub kind: ScanKind,
    /// How far.
    pub state: ScanState,
    /// When it began, seconds since 1970.
    pub started_s: u64,
    /// When it ended, seconds since 1970; 0 before.
    pub ended_s: u64,
    /// Bytes to scan.
    pub total_bytes: u64,
    /// Bytes scanned.
    pub done_bytes: u64,
    /// Bytes repaired or filled in.
    pub repaired_bytes: u64,
    /// Blocks that could not be repaired.
    pub errors: u64,
    /// Estimated remaining seconds, while it runs and its speed is known.
    pub remaining_s: Option<u64>,
    /// Bytes a second since the pool was opened or the scan began, while it runs and the rate is known.
    pub bytes_per_s: Option<u64>,
    /// Share done.
    pub percent: f64,
}

/// Data that moves between devices of the pool: the removal of a group, or the expansion of a raidz group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MoveStatus {
    /// How far.
    pub state: MoveState,
    /// The group that is removed or expanded; none if it is no longer in the pool.
    pub group: Option<String>,
    /// When it began, seconds since 1970.
    pub started_s: u64,
    /// When it ended, seconds since 1970; 0 before.
    pub ended_s: u64,
    /// Bytes to move, with parity.
    pub total_bytes: u64,
    /// Bytes moved.
    pub done_bytes: u64,
    /// Paused until a resilver is complete.
    pub is_behind_resilver: bool,
}

/// The progress of a [`MoveStatus`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveState {
    /// Active.
    #[default]
    Running,
    /// All data is in its new location.
    Finished,
    /// Canceled.
    Canceled,
}

/// The reason why a pool is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspension {
    /// Its devices failed.
    DevicesFailed,
    /// Another host might have imported it.
    OtherHost,
}

/// A feature that is enabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FeatureStatus {
    /// Its full name, such as `org.openzfs:block_cloning`.
    pub name: String,
    /// Whether the pool uses it.
    pub active: bool,
}

/// Statistics of deduplication, over all blocks written with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DedupStatus {
    /// Space of the blocks.
    pub stored_bytes: u64,
    /// Space that they would need without it.
    pub referenced_bytes: u64,
}

/// How a pool is doing.
#[derive(Clone, Debug, Serialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its number.
    pub guid: u64,
    /// Its state.
    pub state: DeviceState,
    /// Whether I/O is blocked, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// Files and blocks with unrepairable damage.
    pub damaged: u64,
    /// Bytes of all groups for data, with redundancy.
    pub size_bytes: u64,
    /// Bytes in use.
    pub allocated_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Free space in small pieces, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_percent: Option<u64>,
    /// The savings of deduplication, if it was ever used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup: Option<DedupStatus>,
    /// The latest scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanStatus>,
    /// The latest removal of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<MoveStatus>,
    /// The latest expansion of a raidz group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expansion: Option<MoveStatus>,
    /// Groups and devices, caches and spares last.
    pub devices: Vec<DeviceStatus>,
    /// Devices that were found when the pool was opened, and are not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// I/O counters since the pool was opened.
    pub load: Load,
    /// Features that are enabled.
    pub features: Vec<FeatureStatus>,
    /// Recommended actions.
    pub advice: Vec<String>,
}

/// The state that is available without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PoolHealth {
    /// State of the whole.
    pub state: DeviceState,
    /// Whether I/O is blocked, and why.
    pub suspended: Option<Suspension>,
    /// The newest transaction group on disk.
    pub synced_txg: u64,
    /// Since the latest transaction group began to be written.
    pub since_sync: Duration,
    /// The device for which commits wait until it is on record that the pool does without it.
    pub unrecorded: Option<Unrecorded>,
}

/// A device that failed to make writes durable, which is not yet recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unrecorded {
    /// Its number.
    pub guid: u64,
    /// When it failed, in seconds since 1970.
    pub since_s: u64,
}

fn collect_leaves<'a>(device: &'a DeviceStatus, leaves: &mut Vec<&'a DeviceStatus>) {
    if device.children.is_empty() {
        leaves.push(device);
    }
    for child in &device.children {
        collect_leaves(child, leaves);
    }
}

impl PoolStatus {
    /// The advice that concerns no single device.
    pub fn general_advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        match self.suspended {
            Some(Suspension::DevicesFailed) => advice.push(
                "I/O is blocked because too many devices failed: bring them back, then clear the pool"
                    .to_owned(),
            ),
            Some(Suspension::OtherHost) => advice.push(
                "I/O is stopped because another host may use the pool: export it there, or stop \
                 this server"
                    .to_owned(),
            ),
            None => {}
        }
        if self.damaged > 0 {
            advice.push("some data is lost: restore it from a backup, then scrub".to_owned());
        }
        advice
    }

    /// All devices that are no groups.
    pub fn leaves(&self) -> Vec<&DeviceStatus> {
        let mut leaves = Vec::new();
        for device in &self.devices {
            collect_leaves(device, &mut leaves);
        }
        leaves
    }

    /// The names of the data devices that a device of `bytes` cannot replace.
    pub fn too_large_for(&self, bytes: u64) -> Vec<&str> {
        let data = self.leaves().into_iter();
        let large = data.filter(|leaf| leaf.role == Role::Data && leaf.needed_bytes > bytes);
        large.map(|leaf| leaf.name.as_str()).collect()
    }

    /// The device or group called `name` (a path, a name such as `mirror-0`, or a number).
    pub fn find(&self, name: &str) -> Option<&DeviceStatus> {
        fn find_in<'a>(
            devices: &'a [DeviceStatus],
            is_it: &dyn Fn(&DeviceStatus) -> bool,
        ) -> Option<&'a DeviceStatus> {
            devices.iter().find_map(|device| {
                if is_it(device) {
                    Some(device)
                } else {
                    find_in(&device.children, is_it)
                }
            })
        }
        let guid = name.parse::<u64>().ok();
        find_in(&self.devices, &|device| {
            device.name == name || guid == Some(device.guid)
        })
    }
}

impl ScanStatus {
    /// How long it has run, or ran.
    pub fn duration(&self) -> Duration {
        let end = if self.ended_s == 0 {
            UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
        } else {
            self.ended_s
        };
        Duration::from_secs(end.saturating_sub(self.started_s))
    }
}
