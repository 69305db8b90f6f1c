//! Responses to control requests. The same values are printed by the command line's `--json`, so
//! their field names are stable. Sizes are in bytes, times in the unit that the field name states.

mod able_heads;
mod files;
mod frozen;
mod growth;
mod left_out;
mod load;
mod shared;
mod snapshots;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, PoolName, SnapshotName, VolumeName};

pub use able_heads::exclude_heads;
pub use files::{
    CheckView, FaultView, FileClientView, FileLockView, FilesystemView, OpenFileView,
    OpenFilesView, OpenView, OwnerView, OwnersView, ShareView,
};
pub use frozen::FrozenView;
pub use growth::{GroupChange, MovedBytes, PlanView, RateView, WorkView};
pub use shared::shared_names;
pub use snapshots::{BookmarkView, ChangedExtent, ChangesView, HoldView, SnapshotView};

use crate::advice::Advice;
use crate::copy_rate::RateMax;
use crate::exports::{AccessRule, NbdExport};
pub use crate::history::HistoryEntry;
pub use crate::key::KeyView;
use crate::legs::LegsView;
use crate::portal::PortalView;
use crate::read_balancing::ReadBalancing;
use crate::replication::{ReplicationGlance, ReplicationView};
use crate::rescue::RescueView;
pub use crate::space::PoolSpace;
use crate::transfer::{InterruptedView, TransferView};
pub use left_out::LeftOutView;
pub use load::{DeviceLoad, PoolLoad};

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The requested state is established.
    Done(Done),
    /// The overall status.
    Status(Box<Status>),
    /// A pool in detail.
    Pool(Box<PoolStatus>),
    /// The load of a pool's devices.
    Load(Box<PoolLoad>),
    /// Pools that were found.
    Pools(Vec<PoolSummary>),
    /// Volumes of a pool.
    Volumes(Vec<VolumeView>),
    /// The plan for the replacement of a disk.
    Replacement(Box<ReplacementView>),
    /// The consequences of a change of a pool's devices.
    Plan(Box<PlanView>),
    /// The use of space by a pool's datasets.
    Space(Vec<SpaceView>),
    /// A volume in detail.
    Volume(Box<VolumeView>),
    /// File systems of a pool.
    Filesystems(Vec<FilesystemView>),
    /// A file system in detail.
    Filesystem(Box<FilesystemView>),
    /// The findings of a file system check.
    Checked(CheckView),
    /// The files that NFS clients have open in a file system.
    OpenFiles(Box<OpenFilesView>),
    /// The space and the quotas of users, groups or projects.
    Owners(Box<OwnersView>),
    /// A volume or file system was rolled back to a snapshot.
    RolledBack(RolledBack),
    /// An active rescue.
    Rescue(Box<RescueView>),
    /// All rescues of a pool.
    Rescues(Vec<RescueView>),
    /// Keys of encrypted datasets.
    Keys(Vec<KeyView>),
    /// Snapshots.
    Snapshots(Vec<SnapshotView>),
    /// The changes of a volume between two snapshots.
    Changes(Box<ChangesView>),
    /// Holds of snapshots.
    Holds(Vec<HoldView>),
    /// Bookmarks of volumes and file systems.
    Bookmarks(Vec<BookmarkView>),
    /// Schedules of snapshots.
    Schedules(Vec<ScheduleView>),
    /// Targets of a pool.
    Targets(Vec<TargetView>),
    /// A target in detail.
    Target(Box<TargetView>),
    /// The access rule for discovery of a pool's targets.
    Discovery(DiscoveryView),
    /// The CHAP users of a target.
    Chap(ChapView),
    /// NBD exports of a pool.
    Nbd(Vec<NbdView>),
    /// Where a server listens.
    Portals(Vec<PortalView>),
    /// Events of a pool, oldest first.
    Events(Vec<Event>),
    /// The changes that a pool has stored, oldest first.
    History(Vec<HistoryEntry>),
    /// The result of a send or receive.
    Transfer(TransferView),
    /// The state that an interrupted receive left.
    Interrupted(InterruptedView),
    /// The replication of a pool.
    Replication(Box<ReplicationView>),
    /// Properties by name.
    Properties(BTreeMap<String, Property>),
}

/// The requested state is established.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// Whether a change was necessary; `false` means that the state existed already.
    pub changed: bool,
    /// The change that was made, or the state that already existed.
    pub message: String,
    /// The names of created objects, where there can be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
    /// The names of destroyed objects, or in a dry run of those that would be destroyed, where there can be several.
    /// Children follow their dataset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destroyed: Vec<String>,
}

impl Done {
    /// Returns the response for a change.
    pub fn changed(message: impl Into<String>) -> Answer {
        Self::made(Vec::new(), message)
    }

    /// Joins several results into one; none if there are none.
    pub fn joined(all: Vec<Self>) -> Option<Self> {
        let messages: Vec<&str> = all.iter().map(|done| done.message.as_str()).collect();
        (!all.is_empty()).then(|| Self {
            changed: all.iter().any(|done| done.changed),
            message: messages.join("; "),
            made: all.iter().flat_map(|done| done.made.clone()).collect(),
            destroyed: all.iter().flat_map(|done| done.destroyed.clone()).collect(),
        })
    }

    /// Returns the response for created objects.
    pub fn made(made: Vec<String>, message: impl Into<String>) -> Answer {
        Answer::Done(Self {
            changed: true,
            message: message.into(),
            made,
            destroyed: Vec::new(),
        })
    }

    /// Nothing had to be done.
    pub fn already(message: impl Into<String>) -> Answer {
        Answer::Done(Self {
            changed: false,
            message: message.into(),
            made: Vec::new(),
            destroyed: Vec::new(),
        })
    }
}

/// A volume or file system was rolled back to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RolledBack {
    /// The snapshot, with the volume's name.
    pub to: SnapshotName,
    /// The volume's size after the rollback; 0 for a file system.
    pub size: u64,
    /// Newer snapshots, which were destroyed.
    pub destroyed: Vec<SnapshotName>,
    /// Newer bookmarks, which were destroyed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destroyed_bookmarks: Vec<String>,
    /// The total duration.
    pub took_ms: u64,
    /// How long clients were paused; none if it was not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// Sessions that were notified of the new contents.
    pub sessions_told: u64,
    /// Connections that were closed, because the size changed and their protocol has no
    /// notification for that.
    pub connections_closed: u64,
}

/// A property's value and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Property {
    /// The value as text.
    pub value: String,
    /// `local`, `default`, `inherited from NAME`, or `-`.
    pub source: String,
}

/// A pool that was found on devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolSummary {
    /// Its name.
    pub name: PoolName,
    /// Its GUID, in decimal.
    pub guid: String,
    /// `served`, `unserved` (no head serves this pool of the appliance, and its disks are not found here), `unknown`
    /// (the cluster does not respond here), `exported`, `active`, `destroyed` or `damaged`.
    pub state: String,
    /// The other head that serves it, in the list of the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_elsewhere: Option<String>,
    /// Capacity, if the pool is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Allocated bytes, if the pool is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// The usable space, if the pool is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<PoolSpace>,
    /// Health, if the pool is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// The last host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_host: Option<String>,
    /// Devices with its labels.
    pub devices: Vec<String>,
    /// Devices in its labels that were not found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Copies of its devices, which are not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutView>,
    /// Devices with an ambiguous identity: the pool is not opened until one is chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unclear: Vec<String>,
}

/// A pool in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its GUID, in decimal.
    pub guid: String,
    /// `ONLINE`, `DEGRADED`, `FAULTED`, `SUSPENDED`, ...
    pub health: String,
    /// Whether all I/O is paused because devices are missing.
    pub suspended: bool,
    /// Since when writes are paused, and why, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_wait: Option<WritesWait>,
    /// Capacity of the devices, with parity. [`Self::space`] is the usable space.
    pub size: u64,
    /// Allocated bytes of it.
    pub allocated: u64,
    /// Free bytes of it.
    pub free: u64,
    /// The usable space; none until it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<PoolSpace>,
    /// Fragmentation of the free space in percent, if known.
    pub fragmentation_percent: Option<u64>,
    /// Savings of deduplication, if blocks were written with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<DedupView>,
    /// The tree of devices.
    pub devices: Vec<DeviceView>,
    /// Copies of its devices that were found when it was opened, and are not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutView>,
    /// Its legs, if they are on several heads and a server has it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<LegsView>,
    /// The last or running scrub or resilver.
    pub scan: Option<ScanView>,
    /// Long work on its devices that is not complete: scrub, resilver, removal, expansion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<WorkView>,
    /// The schedule of scrubs, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub_schedule: Option<ScrubScheduleView>,
    /// The bound on the rate of scrubs and resilvers in bytes a second, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_rate_max: Option<RateMax>,
    /// The distribution of client reads over the legs of mirrors, unless it is the default, `prefer-local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_balancing: Option<ReadBalancing>,
    /// Recommended actions, in this order; empty when the pool is healthy.
    pub advice: Vec<Advice>,
    /// Summary of its replication to other pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replication: Vec<ReplicationGlance>,
    /// Data damaged beyond repair, the first hundred ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamageView>,
    /// Options that its server needs, so that all clients reach it; for a pool without a server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_options: Vec<String>,
    /// The load of the devices; sent as a separate response on request.
    #[serde(skip)]
    pub load: PoolLoad,
}

/// Writes of a pool are paused, and with them its administrative changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WritesWait {
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for WritesWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, since {}",
            self.why,
            crate::calendar::utc(self.since)
        )
    }
}

impl PoolStatus {
    /// The command that serves it.
    pub fn server_command(&self) -> String {
        let options = self
            .server_options
            .iter()
            .map(|option| format!(" {option}"));
        format!(
            "bulkhead pool-server {}{}",
            self.name,
            options.collect::<String>()
        )
    }
}

/// When a pool is scrubbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubScheduleView {
    /// In words, such as `monthly on 1 at 02:00`.
    pub when: crate::schedule::When,
    /// When a scrub is due next, in seconds since 1970.
    pub next: u64,
}

/// Data that is damaged beyond repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DamageView {
    /// The dataset, or `metadata of POOL`.
    pub dataset: String,
    /// First byte of the volume that is damaged; none if it is no range of a volume's data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Length in bytes; 0 if unknown.
    pub length: u64,
    /// The newest snapshot that does not share the damaged blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotName>,
}

/// The plan for the replacement of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacementView {
    /// The pool.
    pub pool: String,
    /// The new device of a replacement in progress; then no further choice is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<String>,
    /// Devices that should be replaced, the worst first.
    pub failing: Vec<FailingView>,
    /// Bytes that a new disk needs.
    pub needed_bytes: u64,
    /// Unused disks of this head.
    pub candidates: Vec<UnusedDiskView>,
    /// The device that would be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The disk that would replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Why it is not possible yet, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hindrance: Option<String>,
    /// The steps, in sentences.
    pub steps: Vec<String>,
}

/// A device that should be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailingView {
    /// Its path.
    pub device: String,
    /// As [`DeviceView::state`].
    pub state: String,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks with a checksum mismatch.
    pub checksum_errors: u64,
    /// Why it is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An unused disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusedDiskView {
    /// Its most stable path.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// The manufacturer's model name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The serial number printed on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Why it is not selected automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A device or a group of devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceView {
    /// Path, or the group's name such as `mirror-0`.
    pub name: String,
    /// `data`, `log`, `cache` or `spare`.
    pub role: String,
    /// `ONLINE`, `DEGRADED`, `FAULTED`, `OFFLINE`, `UNAVAIL`, `REMOVED`.
    pub state: String,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks with a checksum mismatch.
    pub checksum_errors: u64,
    /// Bytes that the last scrub or resilver repaired on it.
    #[serde(default)]
    pub repaired: u64,
    /// Capacity of a group in bytes, with parity; 0 for a member of a group, and where it is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: u64,
    /// Allocated bytes of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub allocated: u64,
    /// The reason for its state, if it has a fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Members of a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<DeviceView>,
}

/// A scrub or resilver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScanView {
    /// `scrub` or `resilver`.
    pub function: String,
    /// `running`, `paused`, `finished` or `canceled`.
    pub state: String,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub started: u64,
    /// When it ended, in seconds since 1970; 0 before.
    #[serde(default)]
    pub ended: u64,
    /// Estimated remaining seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_s: Option<u64>,
    /// Examined bytes.
    pub examined: u64,
    /// Bytes to examine.
    pub to_examine: u64,
    /// Bytes repaired.
    pub repaired: u64,
    /// Blocks that could not be repaired.
    pub errors: u64,
}

impl PoolStatus {
    /// Replaces the names of devices that are legs by the names of the legs.
    pub fn name_legs(&mut self) {
        fn name_in(legs: &LegsView, devices: &mut [DeviceView]) {
            for device in devices {
                if let Some(name) = legs.name_of(&device.name) {
                    device.name = name.to_owned();
                }
                name_in(legs, &mut device.members);
            }
        }
        if let Some(legs) = &self.legs {
            name_in(legs, &mut self.devices);
        }
    }
}

impl ScanView {
    /// Progress in percent.
    pub fn percent(&self) -> u64 {
        let total = u128::from(self.to_examine.max(1));
        (u128::from(self.examined) * 100 / total).min(100) as u64
    }
}

/// An event of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number in the pool's history of events, from 1 on.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its kind, such as `suspended`; `docs/formats/events.md` lists all.
    pub kind: String,
    /// The device concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The event in a sentence.
    pub message: String,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeView {
    /// Its name.
    pub name: VolumeName,
    /// Its size; 0 while it is locked.
    pub size: u64,
    /// Its block size; 0 while it is locked.
    pub block_size: u32,
    /// It is encrypted and its key is not loaded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// It is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<FrozenView>,
    /// Space used by it and its snapshots.
    pub used: u64,
    /// Space used by its current contents.
    pub referenced: u64,
    /// Whether it has no reservation.
    pub sparse: bool,
    /// The snapshot it was cloned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Its use of space, and its limits.
    #[serde(default)]
    pub space: SpaceView,
    /// Its exports, such as `iscsi:IQN/0` and `nbd:NAME`.
    pub exports: Vec<String>,
    /// Its identity towards initiators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<crate::exports::Identity>,
    /// Properties; only in detail.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Property>,
}

/// The use of space by a dataset, and its limits. In bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpaceView {
    /// Its name; empty for a volume, which is named elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Space that it uses, with its children.
    pub used: u64,
    /// Space that is available to it.
    pub available: u64,
    /// Its present contents.
    pub by_data: u64,
    /// Space that only its snapshots use.
    pub by_snapshots: u64,
    /// Space of its children.
    pub by_children: u64,
    /// Reserved and not used yet.
    pub by_reservation: u64,
    /// Written since its newest snapshot.
    pub written: u64,
    /// Size before compression, with its children.
    pub logical_used: u64,
    /// Its contents before compression.
    pub logical_referenced: u64,
    /// The compression ratio in percent: 150 for 1.5.
    pub compress_percent: u64,
    /// Limit of its space, with its snapshots and children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    /// Limit of the space of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refquota: Option<u64>,
    /// Space reserved for it, its snapshots and children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<u64>,
    /// Space reserved for its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refreservation: Option<u64>,
}

/// Savings of deduplication in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DedupView {
    /// The deduplication ratio in percent: 250 for 2.5.
    pub percent: u64,
    /// Bytes that it saves.
    pub saved: u64,
}

/// A schedule of snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleView {
    /// The dataset that has the schedule: a volume, a parent of volumes, or the pool.
    pub of: String,
    /// Its rules; none excludes these volumes.
    pub rules: Vec<RuleView>,
    /// A volume without changes is skipped.
    pub skip_unchanged: bool,
    /// The volumes that it covers.
    pub volumes: Vec<VolumeName>,
}

/// A rule of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleView {
    /// The rule in words, such as `daily at 03:00 keep 7`.
    pub rule: crate::schedule::Rule,
    /// Its next due time, in seconds since 1970.
    pub next: u64,
    /// When its newest snapshot was taken, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<u64>,
    /// Its existing snapshots.
    pub snapshots: u64,
}

/// A target. Secrets are never part of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetView {
    /// Its name.
    pub name: IscsiName,
    /// Portal groups that offer it; empty means all.
    pub portal_groups: Vec<u16>,
    /// The clients that may log in.
    pub access: AccessRule,
    /// CHAP users.
    pub chap_users: Vec<String>,
    /// The user name by which the target authenticates itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
    /// Its logical units.
    pub units: Vec<UnitView>,
    /// Current sessions; none when no server runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionView>,
}

/// The exports of a protocol that has no view of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProtocolView {
    /// The protocol.
    pub name: String,
    /// Where it listens.
    pub listeners: Vec<String>,
    /// The exports.
    pub exports: Vec<ExportView>,
    /// Ways in which clients can secure their connections, such as `TLS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secured_by: Vec<String>,
    /// Set during the grace period, while clients may reclaim their state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryView>,
}

/// The grace period: clients may reclaim the opens and locks that they held at the previous server. Conflicting
/// requests are refused until it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryView {
    /// Milliseconds until it expires, if no client reclaims state before.
    pub remaining_ms: u64,
    /// Clients that have not reclaimed yet; it expires early when none is left. None: it is not
    /// known which clients held state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_clients: Option<u64>,
}

/// An export that clients of a protocol can connect to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportView {
    /// Its name.
    pub name: String,
    /// Its volumes.
    pub volumes: Vec<VolumeName>,
    /// Sessions now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionView>,
}

/// The authentication required for discovery of a pool's targets. Secrets are never part of a
/// response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiscoveryView {
    /// The pool.
    pub pool: String,
    /// CHAP users; with none, every initiator may perform discovery.
    pub chap_users: Vec<String>,
    /// The user name by which the server authenticates itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
}

/// The mutual authentication of initiators and a target. Secrets are never part of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChapView {
    /// The target.
    pub target: IscsiName,
    /// CHAP users; with none, no secret is required.
    pub chap_users: Vec<String>,
    /// The user name by which the target authenticates itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
    /// The initiators that may use a user's secret, where they are restricted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub initiators: BTreeMap<String, Vec<IscsiName>>,
}

/// A logical unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitView {
    /// Its number.
    pub lun: u16,
    /// The volume.
    pub volume: VolumeName,
    /// Writes are refused.
    pub read_only: bool,
    /// Whether its write cache is enabled at the start.
    pub write_cache: bool,
    /// NAA designator in hex.
    pub naa: String,
    /// Unit serial number.
    pub serial: String,
}

/// A session of an export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// The name that the client reports; the export's name where the protocol has no such name.
    pub name: String,
    /// Where from.
    pub peers: Vec<String>,
}

/// An NBD export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NbdView {
    /// The volume.
    pub volume: VolumeName,
    /// Name, mode and access.
    pub export: NbdExport,
    /// Clients now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionView>,
}

/// The overall status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The pool.
    pub pool: PoolStatus,
    /// The other head that serves it, for a pool of the appliance without a server on this head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_by: Option<String>,
    /// The server, if one runs.
    pub server: Option<ServerStatus>,
    /// Number of volumes.
    pub volume_count: u64,
    /// Targets with their units and sessions.
    pub targets: Vec<TargetView>,
    /// NBD exports with their clients.
    pub nbd: Vec<NbdView>,
    /// The exports of other protocols.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_protocols: Vec<ProtocolView>,
    /// The access rule for discovery of targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<DiscoveryView>,
    /// Export documents that cannot be served, in sentences.
    pub problems: Vec<String>,
    /// I/O on the volumes shown, since the server started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<VolumeActivity>,
    /// I/O in the shared file systems, since the server started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_system_activity: Vec<FileSystemActivity>,
}

/// I/O of clients on a volume since the server started. Times are from the arrival of a request to its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeActivity {
    /// The volume.
    pub name: VolumeName,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of all reads, in microseconds.
    pub read_us: u64,
    /// Reads by latency: up to 64 us, 256 us, 1024 us, each four times the previous one, the last
    /// without a bound.
    pub read_times: Vec<u64>,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time of all writes, in microseconds, including durability.
    pub write_us: u64,
    /// Writes by latency, as for reads.
    pub write_times: Vec<u64>,
    /// Requests that failed.
    pub errors: u64,
    /// Writes among them that were refused for lack of space.
    #[serde(default)]
    pub refused_for_space: u64,
    /// It is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<FrozenView>,
}

/// I/O of clients in a file system since the server began to share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemActivity {
    /// The file system. Empty: the total of those beyond the limit of separate counters.
    pub name: String,
    /// Requests that read from files.
    pub reads: RequestActivity,
    /// Requests that wrote to files. Includes the time for durability where it was requested.
    pub writes: RequestActivity,
    /// All other requests: names, attributes, opens, locks, and commits of earlier writes.
    pub others: RequestActivity,
    /// Requests that failed by an I/O error, which are counted nowhere else.
    pub errors: u64,
}

/// Requests of one kind. Times are from the arrival of a request to its response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestActivity {
    /// Requests.
    pub count: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Time of all of them, in microseconds.
    pub us: u64,
    /// Requests by latency, in the classes of [`VolumeActivity::read_times`].
    pub times: Vec<u64>,
}

/// The server process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStatus {
    /// Process id.
    pub pid: u32,
    /// Version of the binary.
    pub version: String,
    /// The loaded ZFS library: version, kind, build. Empty from an older server.
    #[serde(default)]
    pub library: String,
    /// Seconds since the process was started.
    pub uptime_s: u64,
    /// Milliseconds from the process's start to listening.
    pub listening_after_ms: Option<u64>,
    /// Milliseconds from the process's start to the first read served.
    pub first_read_after_ms: Option<u64>,
    /// Milliseconds from the process's start until all intent logs of earlier owners were replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_after_ms: Option<u64>,
    /// Addresses of each protocol, by its name: `ADDRESS:PORT`, `ADDRESS:PORT,GROUP` or `unix:/PATH`. Absent from an
    /// older server.
    #[serde(default)]
    pub listeners: BTreeMap<String, Vec<String>>,
    /// `listeners` of iSCSI, under the older name.
    pub iscsi_portals: Vec<String>,
    /// `listeners` of NBD, under the older name.
    pub nbd_listeners: Vec<String>,
    /// Volumes that are open now.
    pub open_volume_count: u64,
    /// Whether it is draining its sessions before it exits.
    pub draining: bool,
    /// Number of failed devices that were brought back.
    #[serde(default)]
    pub device_returns: u64,
    /// Lines of its log that were dropped because the pipe was not read.
    #[serde(default)]
    pub log_lines_dropped: u64,
    /// Set while the pool does not respond because its devices are missing: the age of the pool's
    /// part of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_status_age_ms: Option<u64>,
}

impl ServerStatus {
    /// The same, listening there.
    #[must_use]
    pub fn listening(mut self, listeners: BTreeMap<String, Vec<String>>) -> Self {
        let of = |name| listeners.get(name).cloned().unwrap_or_default();
        self.iscsi_portals = of(protocol_list::iscsi::PROTOCOL.name);
        self.nbd_listeners = of(protocol_list::nbd::PROTOCOL.name);
        self.listeners = listeners;
        self
    }

    /// Returns the addresses of each protocol, by its name, also for an older server.
    pub fn all_listeners(&self) -> Vec<(&str, &[String])> {
        if self.listeners.is_empty() {
            return vec![
                (protocol_list::iscsi::PROTOCOL.name, &self.iscsi_portals),
                (protocol_list::nbd::PROTOCOL.name, &self.nbd_listeners),
            ];
        }
        let all = self.listeners.iter();
        all.map(|(name, places)| (name.as_str(), places.as_slice()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legs::LegView;

    #[test]
    fn leg_devices_are_listed_by_leg_name() {
        let device = |name: &str, members| DeviceView {
            name: name.to_owned(),
            members,
            ..DeviceView::default()
        };
        let leg = LegView {
            name: "a:/x".to_owned(),
            device: "/run/legs/tank/11".to_owned(),
            ..LegView::default()
        };
        let mut status = PoolStatus {
            devices: vec![
                device("mirror-0", vec![device(&leg.device, Vec::new())]),
                device("/dev/cache", Vec::new()),
            ],
            legs: Some(LegsView {
                legs: vec![leg],
                ..LegsView::default()
            }),
            ..PoolStatus::default()
        };
        status.name_legs();
        assert_eq!(status.devices[0].members[0].name, "a:/x");
        assert_eq!(status.devices[0].name, "mirror-0");
        assert_eq!(status.devices[1].name, "/dev/cache");
    }
}
