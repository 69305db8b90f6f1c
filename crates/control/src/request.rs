//! What can be asked of an open pool, by noun. The command line makes these from its words; a
//! pool server receives them over its control socket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

pub use crate::operations::key::KeyRequest;
pub use crate::operations::nbd::NbdRequest;
pub use crate::operations::portal::PortalRequest;
pub use crate::operations::snapshot::SnapshotRequest;
pub use crate::operations::snapshot::schedule::ScheduleRequest;
pub use crate::operations::target::TargetRequest;
pub use crate::operations::target::discovery::DiscoveryRequest;
pub use crate::operations::volume::VolumeRequest;
pub use crate::operations::volume::rescue::RescueRequest;
use crate::operations::{Operation, Turn};
use crate::replication::ReplicateRequest;
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
            Self::Volume(request) => Some(request.operation()),
            Self::Key(request) => Some(request.operation()),
            Self::Snapshot(request) => Some(request.operation()),
            Self::Target(request) => Some(request.operation()),
            Self::Nbd(request) => Some(request.operation()),
            Self::Portal(request) => Some(request.operation()),
            Self::Status
            | Self::Pool(_)
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
