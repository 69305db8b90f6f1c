//! What the API needs of the program around it, which knows pool servers, the cluster and this
//! machine. Everything here may block, and is called on threads for that.

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
use takeover::timeline::Told;
use units::{HeadName, PoolName};

use crate::peer_keys::MissingKey;
use crate::view::{
    ApplianceFile, DiskView, DrillView, HeadView, LinkView, Safeguards, Said, Sensor,
};

/// Tells how far something is.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// What the cluster and the appliance file say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Name of the appliance.
    pub appliance: Option<String>,
    /// All heads.
    pub heads: Vec<HeadView>,
    /// Pools of the file and of the cluster.
    pub pools: BTreeMap<String, PoolPlace>,
    /// Connections between heads.
    pub links: Vec<LinkView>,
    /// What a takeover depends on.
    pub safeguards: Safeguards,
    /// What heartbeats of this head lost.
    pub heartbeats: Vec<HeartbeatLosses>,
    /// What does not fit, in sentences.
    pub problems: Vec<String>,
}

/// Where a pool is and should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolPlace {
    /// The head that serves it, by the cluster.
    pub served_by: Option<String>,
    /// Whether the cluster says that it failed.
    pub has_failed: bool,
    /// The head that should.
    pub home: Option<String>,
    /// The heads that may.
    pub heads: Vec<String>,
    /// Where its clients reach it.
    pub addresses: Vec<String>,
}

/// What the kernel counted at an interface since it came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Its name.
    pub interface: String,
    /// The network of the appliance that it leads to; empty if that is not known.
    pub network: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets that were lost here, by reason.
    pub lost: Vec<(&'static str, u64)>,
}

/// Where a pool's server takes connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The name of its protocol.
    pub service: Cow<'static, str>,
    /// The TCP port.
    pub port: u16,
}

/// Packets to and from a peer that were lost or late, since this program began to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerLosses {
    /// Its address, or `other` for all further peers.
    pub peer: String,
    /// What it uses.
    pub service: Cow<'static, str>,
    /// Packets by what showed the loss.
    pub lost: Vec<(&'static str, u64)>,
}

/// What heartbeats to another head lost over a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatLosses {
    /// The other head.
    pub to: String,
    /// The network.
    pub network: String,
    /// Packets by what showed the loss.
    pub lost: Vec<(&'static str, u64)>,
    /// How often the link went down since Corosync started. It begins with one: a new link is down.
    pub downs: u64,
}

/// What a protocol of this machine lost since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLosses {
    /// `ip`, `ip6`, `tcp`, `udp` or `udp6`.
    pub protocol: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Packets, or connections where the reason is one of `listen`.
    pub count: u64,
}

/// An appliance file to be looked at, as text or as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplianceInput {
    /// The file's text (TOML).
    #[serde(default)]
    pub text: Option<String>,
    /// The same as JSON.
    #[serde(default)]
    #[schemars(with = "Option<Appliance>")]
    pub appliance: Option<Value>,
    /// Also ask the other heads, by ssh.
    #[serde(default)]
    pub reach_heads: bool,
}

/// What to do with an appliance file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplianceVerb {
    /// Find mistakes.
    Check,
    /// Tell the difference.
    Plan,
    /// Make it so.
    Apply,
}

/// Drills to run in a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrillInput {
    /// Which; empty means all.
    #[serde(default)]
    pub names: Vec<String>,
    /// How often each.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Where chance begins.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The time-outs to drill with, such as `fast`.
    #[serde(default)]
    pub profile: Option<String>,
}

/// The program around the API.
pub trait Backend: Send + Sync + 'static {
    /// The name of this head.
    fn head(&self) -> String;
    /// Pools whose servers run here.
    fn served(&self) -> Vec<PoolName>;
    /// Pools whose servers on this machine were killed, and that nobody serves here since.
    fn left(&self) -> Vec<PoolName>;
    /// Asks a pool that no other head serves: its server, or a process that opens it.
    fn ask(
        &self,
        pool: &PoolName,
        request: Request,
        progress: Progress<'_>,
    ) -> Result<Answer, Failure>;
    /// Asks the server of a pool that runs here; fails at once if none does.
    fn ask_server(&self, pool: &PoolName, request: Request) -> Result<Answer, Failure>;
    /// Pools that can be found on the devices of this head.
    fn discover(&self) -> Result<Vec<PoolSummary>, Failure>;
    /// Makes a pool.
    fn create(&self, create: PoolCreate) -> Result<Answer, Failure>;
    /// Starts the server of a pool here.
    fn serve(&self, pool: &PoolName) -> Result<Answer, Failure>;
    /// Has the cluster hand a pool over; refused if the head lacks keys of it, unless `without_keys`.
    fn hand_over(
        &self,
        pool: &PoolName,
        to: &HeadName,
        without_keys: bool,
    ) -> Result<Answer, Failure>;
    /// Which of these keys are not to be had on this head; none if that was not found out by the deadline. After it no more
    /// key programs are started.
    fn missing_keys(&self, keys: &[KeyView], deadline: Instant) -> Option<Vec<MissingKey>>;
    /// What the cluster and the file say now.
    fn surroundings(&self) -> Surroundings;
    /// What the logs of this head tell of takeovers of a pool, by this head or another.
    fn takeover_steps(&self, pool: &str) -> Vec<Told>;
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
    /// The drills that there are.
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
    /// Power and temperatures, as far as there are BMCs. May be some seconds old.
    fn sensors(&self) -> Vec<Sensor>;
    /// What the kernel counted at the interfaces of this head.
    fn interfaces(&self) -> Vec<InterfaceCounters>;
    /// What clients of these listeners lost. Is called at each look; counts never fall.
    fn client_losses(&self, listeners: &[Listener]) -> Vec<PeerLosses>;
    /// What the protocols of this head lost.
    fn host_losses(&self) -> Vec<HostLosses>;
    /// A file of the console with its type.
    fn console(&self, path: &str) -> Option<(&'static [u8], &'static str)>;
}
