//! The interface of the API to the daemon around it, which has access to pool servers, the cluster and this host. Every
//! method may block, and is called on a thread for blocking work.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use appliance::Appliance;
use control::answer::{Answer, PoolSummary};
use control::key::KeyView;
use control::operations::pool::create::PoolCreate;
use control::{Failure, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeover::timeline::TimedStep;
use units::{HeadName, PoolName};

use crate::fill::FillStore;
use crate::report::PeerReport;
use crate::view::{
    ApplianceFile, DiskView, DrillView, DropsView, HardwareFault, HeadView, LinkView, Overview,
    PowerView, ReceiverTest, ReceiverView, Safeguards, Said, Sensor, SentMessage,
};

/// Receives progress messages.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// The problem of a head on which Pacemaker does not respond.
pub const CLUSTER_SILENT: &str = "the cluster does not respond on this head";

/// The state of the cluster and the appliance file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterState {
    /// Name of the appliance.
    pub appliance: Option<String>,
    /// All heads.
    pub heads: Vec<HeadView>,
    /// Pools of the file and of the cluster.
    pub pools: BTreeMap<String, PoolLocation>,
    /// Connections between heads.
    pub links: Vec<LinkView>,
    /// The safeguards that a takeover depends on.
    pub safeguards: Safeguards,
    /// Losses of this head's heartbeats.
    pub heartbeats: Vec<HeartbeatLosses>,
    /// Inconsistencies, in sentences.
    pub problems: Vec<String>,
}

/// The current and the desired head of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolLocation {
    /// The head that serves it, according to the cluster.
    pub served_by: Option<String>,
    /// Whether the cluster reports a failure.
    pub has_failed: bool,
    /// The head that should serve it.
    pub home: Option<String>,
    /// The heads that may serve it.
    pub heads: Vec<String>,
    /// Its addresses for clients.
    pub addresses: Vec<String>,
    /// Heads on which the cluster would not start it now, each with the reason.
    pub cannot_serve: BTreeMap<String, String>,
    /// Why the cluster cannot serve it on any head, in a sentence: the file of this head names another pool.
    pub problem: Option<String>,
}

/// The kernel's counters of an interface since it came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Its name.
    pub interface: String,
    /// The network of the appliance that it leads to; empty if unknown.
    pub network: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets that were lost here, by reason.
    pub lost: Vec<(&'static str, u64)>,
}

/// A listening socket of a pool's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The name of its protocol.
    pub service: Cow<'static, str>,
    /// The TCP port.
    pub port: u16,
}

/// Packets to and from a peer that were lost or late, since this process started to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerLosses {
    /// Its address, or `other` for all further peers.
    pub peer: String,
    /// The service it uses.
    pub service: Cow<'static, str>,
    /// Packets by the sign of the loss.
    pub lost: Vec<(&'static str, u64)>,
}

/// Losses of heartbeats to another head over a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatLosses {
    /// The other head.
    pub to: String,
    /// The network.
    pub network: String,
    /// Packets by the sign of the loss.
    pub lost: Vec<(&'static str, u64)>,
    /// Number of link failures since Corosync started. It begins with one: a new link is down.
    pub downs: u64,
}

/// Losses of a protocol on this host since its boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLosses {
    /// `ip`, `ip6`, `tcp`, `udp` or `udp6`.
    pub protocol: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// Packets, or connections where the reason is one of `listen`.
    pub count: u64,
}

/// An appliance file as input, as text or as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplianceInput {
    /// The file's text (TOML).
    #[serde(default)]
    pub text: Option<String>,
    /// The same as JSON.
    #[serde(default)]
    #[schemars(with = "Option<Appliance>")]
    pub appliance: Option<Value>,
    /// Also query the other heads, by ssh.
    #[serde(default)]
    pub reach_heads: bool,
}

/// An action on an appliance file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplianceVerb {
    /// Find mistakes.
    Check,
    /// Report the difference.
    Plan,
    /// Apply the file.
    Apply,
}

/// Drills to run in a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrillInput {
    /// Their names; empty means all.
    #[serde(default)]
    pub names: Vec<String>,
    /// Rounds of each.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// The seed of random choices.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The time-outs to drill with, such as `fast`.
    #[serde(default)]
    pub profile: Option<String>,
}

/// A key that a head does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingKey {
    /// The dataset of the key.
    pub dataset: String,
    /// The result at its locations.
    pub why: String,
}

/// Sends messages about alerts.
pub trait Notifier: Send + Sync {
    /// Notes a sample. Called for each one; does not block.
    fn observed(&self, overview: &Overview);
    /// The receivers, with the results of the last attempts.
    fn receivers(&self) -> Vec<ReceiverView>;
    /// The last messages of this head, the newest first.
    fn history(&self) -> Vec<SentMessage>;
    /// Sends a test message to one receiver, or to all; fails if there is no such receiver.
    fn test(&self, receiver: Option<&str>) -> Result<Vec<ReceiverTest>, Failure>;
    /// The state that the heads exchange.
    fn report(&self) -> Value;
}

/// The daemon around the API.
pub trait Backend: Send + Sync + 'static {
    /// The name of this head.
    fn head(&self) -> String;
    /// Pools with a running server on this head.
    fn served(&self) -> Vec<PoolName>;
    /// Pools with a killed server on this host that was not restarted here.
    fn left(&self) -> Vec<PoolName>;
    /// Sends a request to a pool that no other head serves: to its server, or to a process that opens it.
    fn send_request(
        &self,
        pool: &PoolName,
        request: Request,
        progress: Progress<'_>,
    ) -> Result<Answer, Failure>;
    /// Sends a request to the server of a pool that runs here; fails at once if none does.
    fn ask_server(&self, pool: &PoolName, request: Request) -> Result<Answer, Failure>;
    /// Whether the server of a pool that has just not responded is alive and slow, as on an overloaded host. Its process
    /// may still hang. Does not block.
    fn is_slow(&self, pool: &PoolName) -> bool {
        let _ = pool;
        false
    }
    /// Pools that can be found on the devices of this head.
    fn discover(&self) -> Result<Vec<PoolSummary>, Failure>;
    /// Creates a pool.
    fn create(&self, create: PoolCreate) -> Result<Answer, Failure>;
    /// Starts the server of a pool here.
    fn serve(&self, pool: &PoolName) -> Result<Answer, Failure>;
    /// Has the cluster move a pool; refused if keys of it are missing on the head, unless `without_keys`.
    fn hand_over(
        &self,
        pool: &PoolName,
        to: &HeadName,
        without_keys: bool,
    ) -> Result<Answer, Failure>;
    /// Which of these keys are missing on this head; `None` if that is not known by the deadline. After it no more key
    /// commands are started.
    fn missing_keys(&self, keys: &[KeyView], deadline: Instant) -> Option<Vec<MissingKey>>;
    /// The report of this head about itself, for the other heads.
    fn report(&self) -> PeerReport {
        PeerReport::default()
    }
    /// The current state of the cluster and the file.
    fn cluster_state(&self) -> ClusterState;
    /// The steps of takeovers of a pool in the logs of this head.
    fn takeover_steps(&self, pool: &str) -> Vec<TimedStep>;
    /// The appliance file.
    fn appliance(&self, with_secrets: bool) -> Result<ApplianceFile, Failure>;
    /// Checks, plans or applies an appliance file.
    fn appliance_do(
        &self,
        verb: ApplianceVerb,
        input: &ApplianceInput,
        progress: Progress<'_>,
    ) -> Result<Said<Value>, Failure>;
    /// The JSON schema of the file.
    fn appliance_schema(&self) -> Value;
    /// The available drills.
    fn drills(&self) -> Vec<DrillView>;
    /// Runs drills until done or `cancel` is set.
    fn drill(
        &self,
        input: &DrillInput,
        cancel: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<Value, Failure>;
    /// Whole disks of this head.
    fn disks(&self) -> Result<Vec<DiskView>, Failure>;
    /// Switches the locate light of a disk's slot on this head.
    fn locate(&self, disk: &str, is_on: bool) -> Result<Answer, Failure>;
    /// Faults that the disks of this head and the BMCs of all heads report. May be some minutes old.
    fn hardware_faults(&self) -> Vec<HardwareFault>;
    /// The readings of the BMCs. May be some seconds old.
    fn sensors(&self) -> Vec<Sensor>;
    /// The packets that this head lost in the last interval. Starts the measurement of the next one if it is old.
    fn drops(&self) -> DropsView;
    /// The power supplies of the appliance file. May be some seconds old.
    fn power(&self) -> PowerView;
    /// The kernel's counters of this head's interfaces.
    fn interfaces(&self) -> Vec<InterfaceCounters>;
    /// Losses of clients of these listeners. Called for each sample; counts never decrease.
    fn client_losses(&self, listeners: &[Listener]) -> Vec<PeerLosses>;
    /// Losses of this head's protocols.
    fn host_losses(&self) -> Vec<HostLosses>;
    /// The sender of messages about alerts, if there is one.
    fn notifier(&self) -> Option<&dyn Notifier> {
        None
    }
    /// The fill of pools over time, if it is recorded.
    fn fills(&self) -> Option<&FillStore> {
        None
    }
    /// A file of the console with its type.
    fn console(&self, path: &str) -> Option<(&'static [u8], &'static str)>;
}
