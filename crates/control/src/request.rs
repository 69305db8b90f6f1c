//! What can be asked of an open pool, by noun. The command line makes these from its words; a
//! pool server receives them over its control socket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, SnapshotName, VolumeName};

pub use crate::key::{KeyRequest, KeySettings};
pub use crate::operations::nbd::NbdRequest;
pub use crate::operations::portal::PortalRequest;
pub use crate::operations::snapshot::SnapshotRequest;
pub use crate::operations::snapshot::schedule::ScheduleRequest;
pub use crate::operations::target::TargetRequest;
pub use crate::operations::target::discovery::DiscoveryRequest;
use crate::operations::{Operation, Turn};
use crate::replication::ReplicateRequest;
use crate::rescue::RescueRequest;
use crate::schedule::When;
use crate::transfer::TransferRequest;

/// Names and values of properties.
pub type Properties = BTreeMap<String, String>;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Everything at a glance.
    Status,
    /// About the pool itself.
    Pool(PoolRequest),
    /// About volumes.
    Volume(VolumeRequest),
    /// About keys of encrypted volumes.
    Key(KeyRequest),
    /// About snapshots.
    Snapshot(SnapshotRequest),
    /// About iSCSI targets.
    Target(TargetRequest),
    /// About NBD exports.
    Nbd(NbdRequest),
    /// About streams of snapshots.
    Transfer(TransferRequest),
    /// About replication.
    Replicate(ReplicateRequest),
    /// About the addresses that the server listens at.
    Portal(PortalRequest),
    /// About the server process.
    Server(ServerRequest),
}

impl Request {
    /// The same as a person may ask for it: only the cluster ends sessions without a word.
    #[must_use]
    pub fn by_a_person(self) -> Self {
        match self {
            Self::Pool(PoolRequest::Export) => Self::Pool(PoolRequest::Close { in_use: false }),
            other => other,
        }
    }

    /// What is true of it, if there is a definition of it.
    pub fn operation(&self) -> Option<&dyn Operation> {
        match self {
            Self::Snapshot(request) => Some(request.operation()),
            Self::Target(request) => Some(request.operation()),
            Self::Nbd(request) => Some(request.operation()),
            Self::Portal(request) => Some(request.operation()),
            Self::Status
            | Self::Pool(_)
            | Self::Volume(_)
            | Self::Key(_)
            | Self::Transfer(_)
            | Self::Replicate(_)
            | Self::Server(_) => None,
        }
    }

    /// Whether it can be answered from a pool that is open for reading only.
    pub fn only_looks(&self) -> bool {
        if let Some(operation) = self.operation() {
            return operation.turn() == Turn::Looks;
        }
        match self {
            Self::Status | Self::Replicate(ReplicateRequest::List) => true,
            Self::Pool(request) => matches!(
                request,
                PoolRequest::Status | PoolRequest::Events { .. } | PoolRequest::Get { .. }
            ),
            Self::Volume(request) => matches!(
                request,
                VolumeRequest::List
                    | VolumeRequest::Space
                    | VolumeRequest::Show { .. }
                    | VolumeRequest::Get { .. }
            ),
            Self::Key(request) => matches!(request, KeyRequest::Status { .. }),
            Self::Transfer(request) => matches!(request, TransferRequest::Interrupted { .. }),
            _ => false,
        }
    }
}

/// How the devices of one group work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// Each device for itself.
    Stripe,
    /// All devices hold the same.
    Mirror,
    /// One, two or three devices of the group may fail.
    Raidz {
        /// 1, 2 or 3.
        parity: u8,
    },
}

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupRole {
    /// Holds data.
    Data,
    /// Holds the intent log of synchronous writes.
    Log,
    /// Second-level read cache.
    Cache,
    /// Hot spare.
    Spare,
}

/// Devices that are added to a pool together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceGroup {
    /// How they work together.
    pub kind: GroupKind,
    /// What they are for.
    pub role: GroupRole,
    /// Files or block devices.
    pub devices: Vec<PathBuf>,
}

/// What to do with a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScrubAction {
    /// Start, or go on after a pause.
    Start,
    /// Go on after a pause, if there is one.
    Resume,
    /// Stop for now and keep the place.
    Pause,
    /// Stop for good.
    Stop,
}

/// Requests about the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolRequest {
    /// States, errors, capacity, scan.
    Status,
    /// What happened to it.
    Events {
        /// Only what has a higher number.
        after: Option<u64>,
    },
    /// Drain the sessions and export, whoever is connected; a server ends. So the agent of the cluster asks, which
    /// has decided, and which may be of an older version than the server.
    Export,
    /// The same for a person.
    Close {
        /// Even though clients are connected: their sessions end.
        #[serde(default)]
        in_use: bool,
    },
    /// Destroy the pool; a server ends. The caller has seen the confirmation word.
    Destroy {
        /// Even though clients are connected: their sessions end.
        #[serde(default)]
        in_use: bool,
    },
    /// Check (and repair) every block.
    Scrub {
        /// What to do.
        action: ScrubAction,
        /// Answer when the scrub has ended.
        wait: bool,
    },
    /// Scrub on a schedule, or only on request.
    ScrubSchedule {
        /// When; none to forget the schedule.
        when: Option<When>,
    },
    /// Forget errors and resume a suspended pool.
    Clear {
        /// One device, or all.
        device: Option<PathBuf>,
        /// A suspended pool may go on without the devices that are still gone, although they may hold what was
        /// acknowledged and the others lack. That is lost then.
        #[serde(default)]
        missing_devices_are_not_newer: bool,
    },
    /// Make a mirror of `existing` and `new`, or widen one.
    Attach {
        /// Device of the pool.
        existing: PathBuf,
        /// Device to add.
        new: PathBuf,
        /// Also if it carries the label of a pool that is not in use.
        #[serde(default)]
        overwrite: bool,
    },
    /// Take one side off a mirror.
    Detach {
        /// Device of the pool.
        device: PathBuf,
    },
    /// Put `new` in the place of `old`.
    Replace {
        /// Device of the pool.
        old: PathBuf,
        /// Its successor; none means that the same path holds a new disk.
        new: Option<PathBuf>,
        /// Also if it carries the label of a pool that is not in use.
        #[serde(default)]
        overwrite: bool,
    },
    /// Put a new disk in the place of a bad one, guided. Asked again, it goes on where it was.
    ReplaceDisk {
        /// The bad one; none for the only one that is bad.
        device: Option<PathBuf>,
        /// Its successor; none for an unused disk that fits.
        with: Option<PathBuf>,
        /// Also if it carries the label of a pool that is not in use.
        #[serde(default)]
        overwrite: bool,
        /// Do it, and answer when the new disk holds everything; otherwise say what would be done.
        #[serde(default)]
        perform: bool,
    },
    /// Use a device again.
    Online {
        /// Device of the pool.
        device: PathBuf,
    },
    /// Stop using a device.
    Offline {
        /// Device of the pool.
        device: PathBuf,
        /// Until the next import only.
        temporary: bool,
    },
    /// Widen the pool.
    Add {
        /// What to add.
        groups: Vec<DeviceGroup>,
        /// Also if the new groups survive less than those of the pool.
        #[serde(default)]
        mismatched: bool,
        /// Also if it carries the label of a pool that is not in use.
        #[serde(default)]
        overwrite: bool,
    },
    /// Evacuate and remove a device.
    Remove {
        /// Device of the pool.
        device: PathBuf,
    },
    /// Read properties of the pool.
    Get {
        /// Which; empty means all.
        names: Vec<String>,
    },
    /// Change properties of the pool.
    Set {
        /// New values.
        properties: Properties,
    },
}

/// A volume to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeCreate {
    /// Its name.
    pub name: VolumeName,
    /// Size in bytes: a multiple of the block size.
    pub size: u64,
    /// Block size in bytes: a power of two, 512 to 16M.
    pub block_size: Option<u32>,
    /// No space is reserved.
    pub sparse: bool,
    /// Native (`compression`, `checksum`, `dedup`, `sync`, ...) and user (`a:b`) properties.
    pub properties: Properties,
    /// Make missing parents.
    pub parents: bool,
    /// An existing volume of the same size is success.
    pub exist_ok: bool,
    /// A key of its own. Without one it is as its parent is: plain, or encrypted with the parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySettings>,
}

/// Requests about volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeRequest {
    /// Make one.
    Create(VolumeCreate),
    /// All of the pool.
    List,
    /// Where the space goes: the pool, what is below it, and all volumes.
    Space,
    /// One in detail.
    Show {
        /// Which.
        name: VolumeName,
    },
    /// Grow, or shrink with the confirmation.
    Resize {
        /// Which.
        name: VolumeName,
        /// New size in bytes.
        size: u64,
        /// Data beyond a smaller size may be lost.
        allow_shrink: bool,
    },
    /// Destroy it. The caller has seen the confirmation word.
    Destroy {
        /// Which.
        name: VolumeName,
        /// Its snapshots too.
        recursive: bool,
        /// Even though it is exported: its exports end first.
        exported: bool,
    },
    /// Give it another name.
    Rename {
        /// Which.
        from: VolumeName,
        /// To what, in the same pool.
        to: VolumeName,
    },
    /// Take it back to one of its snapshots, also while it is in use.
    Rollback {
        /// The snapshot.
        to: SnapshotName,
        /// Destroy the snapshots that are newer.
        #[serde(default)]
        destroy_newer: bool,
    },
    /// A second look at it, beside its clients.
    Rescue(RescueRequest),
    /// Make a clone depend on nothing: swap roles with its origin.
    Promote {
        /// The clone.
        name: VolumeName,
    },
    /// Give up what its intent log holds. The caller has seen the confirmation word.
    DiscardLog {
        /// Which.
        name: VolumeName,
    },
    /// Read properties.
    Get {
        /// Volume, or the pool's name for the root dataset.
        name: String,
        /// Which; empty means all.
        names: Vec<String>,
    },
    /// Change properties.
    Set {
        /// Volume, or the pool's name for the root dataset.
        name: String,
        /// New values.
        properties: Properties,
    },
    /// Take the parent's value again.
    Inherit {
        /// Volume.
        name: String,
        /// Which properties.
        names: Vec<String>,
    },
}

/// Requests about the server process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerRequest {
    /// Read the exports again, as SIGHUP does.
    Reload,
    /// Is it alive, and which pool is it.
    Ping,
    /// Write down what waits in memory, so that an export soon after is short. Clients notice nothing.
    Settle,
}

/// A pool to be made; performed by the command line itself, since no server has it yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolCreate {
    /// Its name.
    pub name: PoolName,
    /// Its devices.
    pub groups: Vec<DeviceGroup>,
    /// Its properties.
    pub properties: Properties,
    /// Devices that carry another pool's old label may be overwritten.
    pub overwrite: bool,
}
