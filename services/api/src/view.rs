//! Types of the API in addition to the responses of pool servers: the overview, background operations, and rates per
//! second.

use std::collections::BTreeMap;
use std::path::PathBuf;

use appliance::plan::Change;
use appliance::{Appliance, CheckReport, Plan};
use control::answer::{
    Answer, Event, FileSystemActivity, PoolStatus, PoolSummary, RequestActivity, VolumeActivity,
};
use control::{Advice, Failure};
use hardware::smart::DiskHealth;
use network_drops::Loss;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fill::ForecastView;

/// The overview.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// The appliance, if this head has an appliance file.
    pub appliance: Option<String>,
    /// The responding head.
    pub this_head: String,
    /// Version of Bulkhead.
    pub version: String,
    /// Time of the state, in milliseconds since 1970.
    pub at_ms: u64,
    /// The heads.
    pub heads: Vec<HeadView>,
    /// The pools.
    pub pools: Vec<PoolOverview>,
    /// The connections between heads.
    pub links: Vec<LinkView>,
    /// The safeguards that a takeover depends on.
    #[serde(default)]
    pub safeguards: Safeguards,
    /// Faults that the hardware of the heads reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware_faults: Vec<HardwareFault>,
    /// The latest start of a pool's service.
    pub last_takeover: Option<Takeover>,
    /// Conditions that need attention, the worst first.
    pub alerts: Vec<Alert>,
    /// The receivers of messages about alerts.
    #[serde(default)]
    pub receivers: Vec<ReceiverView>,
    /// Active and recent background operations.
    pub operations: Vec<Operation>,
}

/// A head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeadView {
    /// Its name.
    pub name: String,
    /// Whether it is the responding head.
    pub here: bool,
    /// `online`, `standby`, `pending` (a member of Corosync without Pacemaker), `offline`, `unclean` or `unknown`.
    pub state: String,
    /// More about its state.
    pub note: Option<String>,
}

/// A pool in the overview.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolOverview {
    /// Its name.
    pub name: String,
    /// `served`, `stopped`, `failed` or `unreachable`.
    pub state: String,
    /// Since when its server responds slowly, in milliseconds since 1970; the state of the pool is then an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_since_ms: Option<u64>,
    /// The head that serves it.
    pub served_by: Option<String>,
    /// The head that should serve it.
    pub home: Option<String>,
    /// The heads that may serve it.
    pub heads: Vec<String>,
    /// Its addresses for clients.
    pub addresses: Vec<String>,
    /// Its state, if its server responds.
    pub pool: Option<PoolStatus>,
    /// Volumes in it.
    pub volume_count: u64,
    /// iSCSI targets in it.
    pub target_count: u64,
    /// NBD exports in it.
    pub nbd_count: u64,
    /// Number of connected clients.
    pub session_count: u64,
    /// Running time of its server, in seconds.
    pub uptime_s: Option<u64>,
    /// Exports that cannot be served, in sentences.
    pub problems: Vec<String>,
    /// When it will be full, if its fill is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ForecastView>,
}

/// A pool that was found, with the head that serves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolFound {
    /// The pool.
    #[serde(flatten)]
    pub found: PoolSummary,
    /// The head that serves it.
    pub served_by: Option<String>,
}

/// A connection between two heads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkView {
    /// The network.
    pub network: String,
    /// The head that reports the state.
    pub from: String,
    /// The other head.
    pub to: String,
    /// `up`, `down` or `unknown`.
    pub state: String,
    /// Pools with addresses for clients in the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_pools: Vec<String>,
}

/// The safeguards that a takeover depends on, as this head sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Safeguards {
    /// Whether this head's partition of the cluster has quorum, if known.
    pub has_quorum: Option<bool>,
    /// Start of the loss of quorum, in milliseconds since 1970.
    pub no_quorum_since_ms: Option<u64>,
    /// The witness, if one votes.
    pub witness: Option<WitnessView>,
    /// The devices that power heads off.
    pub fence_devices: Vec<FenceDeviceView>,
    /// Heads that are lost, and not confirmed to be off.
    pub power_offs: Vec<PowerOffView>,
    /// Heads that could not serve a pool, and that the cluster does not try for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<ExclusionView>,
}

/// A head that could not serve a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExclusionView {
    /// The pool.
    pub pool: String,
    /// The head.
    pub head: String,
    /// Why, as its agent reported it.
    pub why: Option<String>,
    /// Time of the failure, in milliseconds since 1970.
    pub since_ms: Option<u64>,
}

/// A voting witness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessView {
    /// Its address.
    pub address: String,
    /// Whether its vote counts at every head that is up, if known.
    pub has_vote: Option<bool>,
    /// The heads at which it does not count.
    pub without_vote: Vec<String>,
    /// The reason, if known to this head.
    pub why: Option<String>,
    /// Start of the state, in milliseconds since 1970.
    pub since_ms: Option<u64>,
}

/// A device that powers a head off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FenceDeviceView {
    /// Its name in Pacemaker.
    pub name: String,
    /// The head that it powers off.
    pub head: String,
    /// 1 is tried first. All devices of a level are needed.
    pub level: u32,
    /// The network of the appliance that its address belongs to, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// `works`, `failed`, `unverified` (no head could start it) or `unknown` (no head that would use it is up).
    pub state: String,
    /// Why it failed.
    pub why: Option<String>,
    /// Start of the failure, in milliseconds since 1970.
    pub since_ms: Option<u64>,
}

/// A head that is lost, and that no fence device has confirmed to be off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PowerOffView {
    /// The head.
    pub head: String,
    /// Start of the cluster's wait, in milliseconds since 1970.
    pub since_ms: u64,
    /// Failed attempts.
    pub failed_count: u64,
    /// Why the fence agent of this head, which asks the witness, refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// A head has started to serve a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Takeover {
    /// The pool.
    pub pool: String,
    /// `takeover`, `hand-over`, `restart` or `start`.
    pub kind: String,
    /// The previous server, if known.
    pub from: Option<String>,
    /// The current server.
    pub to: String,
    /// Its start, in milliseconds since 1970.
    pub at_ms: u64,
    /// Time until clients could reach the pool again, in milliseconds, counted from the first step.
    pub duration_ms: Option<u64>,
    /// The steps, with their times.
    pub steps: Vec<Step>,
}

impl Takeover {
    /// The first step, if only the server itself has reported its start.
    pub const SERVER_STARTED: &str = "server started";

    /// Whether the duration counts from the start of the server: how long the pool was not served before that is not
    /// known.
    pub fn counts_from_start(&self) -> bool {
        let first = self.steps.first();
        first.is_some_and(|step| step.name == Self::SERVER_STARTED)
    }
}

/// A step of a takeover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The name.
    pub name: String,
    /// Milliseconds after the first step.
    pub after_ms: u64,
}

/// A condition that needs attention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// The subject, such as `pool tank`.
    pub about: String,
    /// The condition, in a sentence.
    pub sentence: String,
    /// Its start, in milliseconds since 1970, as observed by this head.
    #[serde(default)]
    pub since_ms: Option<u64>,
    /// The recommended action.
    pub advice: Option<Advice>,
    /// Consequences of the same cause, each in a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// A receiver of messages about alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverView {
    /// Its name in the appliance file.
    pub name: String,
    /// `mail`, `webhook`, `alertmanager`, `ntfy` or `program`.
    pub kind: String,
    /// Its destination, in words.
    pub destination: String,
    /// The least severity of alerts that it gets: `error`, `warning` or `info`.
    pub least: String,
    /// Messages that this head has delivered.
    pub sent_count: u64,
    /// Attempts of this head that failed.
    pub failed_count: u64,
    /// The last success of a head, in milliseconds since 1970.
    pub last_success_ms: Option<u64>,
    /// The last failure, in milliseconds since 1970.
    pub last_failure_ms: Option<u64>,
    /// The reason of the last failure.
    pub last_failure: Option<String>,
    /// The first failure since the last success, in milliseconds since 1970.
    pub failing_since_ms: Option<u64>,
    /// Whether several attempts failed since the last success.
    pub is_failing: bool,
}

/// A message about alerts that was delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentMessage {
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The receiver.
    pub receiver: String,
    /// The head that sent it.
    pub head: String,
    /// Its subject.
    pub subject: String,
    /// Its text, shortened if it is long.
    pub text: String,
}

/// The result of a test message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverTest {
    /// The receiver.
    pub receiver: String,
    /// Whether it accepted the message.
    pub is_delivered: bool,
    /// The reason of the failure.
    pub why: Option<String>,
}

/// A background operation. It continues if the client disconnects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Identifies the operation in requests.
    pub id: String,
    /// `move`, `apply`, `drill` or `request`.
    pub kind: String,
    /// The action, in words.
    pub title: String,
    /// `running`, `done`, `failed` or `canceled`.
    pub state: String,
    /// The user that started it.
    pub who: String,
    /// When it began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// The time of its end, in milliseconds since 1970.
    pub ended_at_ms: Option<u64>,
    /// Its output, the newest line last.
    pub progress: Vec<String>,
    /// The result.
    #[schemars(with = "Option<Outcome>")]
    pub result: Option<Value>,
    /// The failure.
    pub failure: Option<Failure>,
}

/// The appliance file of this head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ApplianceFile {
    /// Its path.
    pub path: PathBuf,
    /// Its text (TOML).
    pub text: String,
    /// The parsed file, if it is valid.
    pub appliance: Option<Appliance>,
}

/// The command's output for an appliance file, with the file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Appliance{T}")]
pub struct Said<T> {
    /// The output.
    #[serde(flatten)]
    pub document: T,
    /// The file (TOML).
    pub toml: String,
    /// The exit code of the command.
    pub exit_code: i32,
}

/// The result of a plan; an invalid file has no plan.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a schema")]
pub enum Planned {
    /// The plan.
    Plan(Said<Plan>),
    /// The errors in the file.
    Errors(Said<CheckReport>),
}

/// The result of an operation.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a schema")]
pub enum Outcome {
    /// The result of a move or a request.
    Answered(Answer),
    /// The result of a drill.
    Drilled(DrillsReport),
    /// The result of an applied appliance file.
    Applied(Said<Applied>),
}

/// The changes made to match an appliance file.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "a schema")]
pub struct Applied {
    /// Whether any change was made.
    pub changed: bool,
    /// The changes.
    pub changes: Vec<Change>,
}

/// A drill that can be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillView {
    /// Its name.
    pub name: String,
    /// The fault.
    pub about: String,
    /// The expected outcome.
    pub expectation: DrillExpectation,
}

/// The expected outcome of a drill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillExpectation {
    /// The promise that applies.
    pub kind: DrillKind,
    /// The pool's head afterwards: `elsewhere`, `same` or `anywhere`.
    pub place: String,
    /// Whether a head is powered off: `required`, `forbidden` or `allowed`.
    pub fencing: String,
    /// The means of detection, such as `cluster` or `monitor`.
    pub notice: String,
    /// The part of every pause that the fault itself causes, in milliseconds.
    pub added_ms: u32,
}

/// The kind of a drill's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrillKind {
    /// A head or a server fails at once.
    Crash,
    /// A head or server stalls or is unreachable.
    CutOff,
    /// A pool is moved on purpose.
    Move,
    /// Redundancy masks the fault: the pool does not move.
    Hidden,
    /// The only promise is that the pool recovers without a loss of data.
    Unbounded,
}

/// The result of drills. The report has more fields.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillsReport {
    /// The drills.
    pub drills: Vec<DrillReport>,
}

/// All rounds of one drill with the verdict. The report has more fields.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillReport {
    /// Its name.
    pub drill: String,
    /// Why it was skipped.
    pub skipped: Option<String>,
    /// The bounds on its pauses.
    pub bounds: Option<DrillBounds>,
    /// Median of the pauses, in seconds.
    pub median_s: Option<f64>,
    /// The longest, in seconds.
    pub worst_s: Option<f64>,
    /// Median time of each step after the fault, in seconds.
    pub steps_s: BTreeMap<String, f64>,
    /// How the median exceeded its limit.
    pub broken: Option<Value>,
    /// The rounds.
    pub rounds: Vec<DrillRound>,
}

/// Limits on the pause of a client, in seconds.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillBounds {
    /// Limit on the median of all rounds.
    pub median_s: f64,
    /// Limit on each round.
    pub worst_s: f64,
}

/// The result of one round. The report has more fields.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillRound {
    /// Errors seen by an application.
    pub errors: Vec<String>,
    /// Lost acknowledged writes, and contents that were never written.
    pub violations: Vec<String>,
    /// Times at which the pool was open in two processes.
    pub double_imports: Vec<String>,
    /// The broken promises.
    pub broken: Vec<Value>,
}

/// A streamed change: the name of the event, and its data.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
#[allow(dead_code, reason = "a schema")]
pub enum Streamed {
    /// The overview, sent when any part of it has changed.
    Overview(Box<Overview>),
    /// The rates of volumes and file systems, each second.
    Metrics(Metrics),
    /// An event of a pool.
    Event(PoolEvent),
    /// A new operation, its progress, or its end.
    Operation(Operation),
}

/// A refusal of a request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Refusal {
    /// The reason, and the recommended action.
    pub failure: Failure,
    /// Whether login is impossible because there is no user.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub no_users: bool,
}

/// Rates of volumes and file systems, measured over about a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Time of the measurement, in milliseconds since 1970.
    pub at_ms: u64,
    /// The exported volumes.
    pub volumes: Vec<VolumeRates>,
    /// The shared file systems.
    #[serde(default)]
    pub filesystems: Vec<FileSystemRates>,
}

/// Rates of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeRates {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub volume: String,
    /// Bytes read in a second.
    pub read_bytes_per_s: f64,
    /// Bytes written in a second.
    pub write_bytes_per_s: f64,
    /// Reads in a second.
    pub read_ops_per_s: f64,
    /// Writes in a second.
    pub write_ops_per_s: f64,
    /// Mean time of a read, in microseconds, if there was one.
    pub read_latency_us: Option<f64>,
    /// Mean time of a write, in microseconds, if there was one.
    pub write_latency_us: Option<f64>,
}

impl VolumeRates {
    /// The rates between two samples that are `seconds` apart.
    pub fn between(pool: &str, old: &VolumeActivity, new: &VolumeActivity, seconds: f64) -> Self {
        let rate = |old, new| per_second(old, new, seconds);
        Self {
            pool: pool.to_owned(),
            volume: new.name.to_string(),
            read_bytes_per_s: rate(old.read_bytes, new.read_bytes),
            write_bytes_per_s: rate(old.write_bytes, new.write_bytes),
            read_ops_per_s: rate(old.reads, new.reads),
            write_ops_per_s: rate(old.writes, new.writes),
            read_latency_us: mean(old.read_us, new.read_us, old.reads, new.reads),
            write_latency_us: mean(old.write_us, new.write_us, old.writes, new.writes),
        }
    }
}

/// Rates of a file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemRates {
    /// Its pool.
    pub pool: String,
    /// Its name; empty for the sum of all that are too many for counters of their own.
    pub filesystem: String,
    /// Bytes read in a second.
    pub read_bytes_per_s: f64,
    /// Bytes written in a second.
    pub write_bytes_per_s: f64,
    /// Reads in a second.
    pub read_ops_per_s: f64,
    /// Writes in a second.
    pub write_ops_per_s: f64,
    /// All other requests in a second: names, attributes, opens, locks.
    pub other_ops_per_s: f64,
    /// Mean time of a read, in microseconds, if there was one.
    pub read_latency_us: Option<f64>,
    /// Mean time of a write, in microseconds, if there was one.
    pub write_latency_us: Option<f64>,
    /// Mean time of another request, in microseconds, if there was one.
    pub other_latency_us: Option<f64>,
}

impl FileSystemRates {
    /// The rates between two samples that are `seconds` apart.
    pub fn between(
        pool: &str,
        old: &FileSystemActivity,
        new: &FileSystemActivity,
        seconds: f64,
    ) -> Self {
        let rate = |old, new| per_second(old, new, seconds);
        let latency = |old: &RequestActivity, new: &RequestActivity| {
            mean(old.us, new.us, old.count, new.count)
        };
        Self {
            pool: pool.to_owned(),
            filesystem: new.name.clone(),
            read_bytes_per_s: rate(old.reads.bytes, new.reads.bytes),
            write_bytes_per_s: rate(old.writes.bytes, new.writes.bytes),
            read_ops_per_s: rate(old.reads.count, new.reads.count),
            write_ops_per_s: rate(old.writes.count, new.writes.count),
            other_ops_per_s: rate(old.others.count, new.others.count),
            read_latency_us: latency(&old.reads, &new.reads),
            write_latency_us: latency(&old.writes, &new.writes),
            other_latency_us: latency(&old.others, &new.others),
        }
    }
}

fn per_second(old: u64, new: u64, seconds: f64) -> f64 {
    new.saturating_sub(old) as f64 / seconds.max(0.001)
}

/// Mean time in microseconds, if there was a request.
fn mean(old_us: u64, new_us: u64, old: u64, new: u64) -> Option<f64> {
    let count = new.saturating_sub(old);
    (count > 0).then(|| new_us.saturating_sub(old_us) as f64 / count as f64)
}

/// A streamed event of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolEvent {
    /// The pool.
    pub pool: String,
    /// The event.
    pub event: Event,
}

/// A disk of this head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskView {
    /// Its persistent path.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its model.
    pub model: Option<String>,
    /// Its user, such as `pool tank`.
    pub used_by: Option<String>,
    /// Its slot, if it is in an enclosure: the enclosure and the name of the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Whether the slot has a locate light.
    #[serde(default)]
    pub has_light: bool,
    /// The number of paths of a multipath device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<usize>,
    /// Its health by SMART, at most some minutes old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<DiskHealth>,
}

/// A fault that the hardware of a head reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareFault {
    /// The head.
    pub head: String,
    /// `disk` or `sensor`.
    pub kind: String,
    /// The path of the disk, or the name of the sensor.
    pub name: String,
    /// The model, serial number and slot of a disk, as far as they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the part has failed, or predicts that.
    pub is_failing: bool,
    /// The faults, a sentence each.
    pub faults: Vec<String>,
}

/// The packets that this head lost in the last interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DropsView {
    /// The length of the interval; none if the first one is being measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// The losses, the largest first.
    pub losses: Vec<DropView>,
    /// How many smaller ones are left out.
    pub more: usize,
    /// What could not be read, with the remedy.
    pub notes: Vec<String>,
}

/// Packets that were lost for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DropView {
    /// How many, where, why, and between which addresses.
    #[serde(flatten)]
    pub loss: Loss,
    /// The cause, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

/// The power supplies of the appliance file, as this head reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PowerView {
    /// The supplies.
    pub feeds: Vec<PowerSupply>,
    /// The power of each head: `good`, `battery`, `low` or `unknown`.
    pub heads: BTreeMap<String, String>,
    /// When heads shut down.
    pub next: String,
    /// Sentences about the supplies.
    pub problems: Vec<String>,
}

/// An uninterruptible power supply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PowerSupply {
    /// Its name in the appliance file.
    pub name: String,
    /// Its name in NUT: `NAME@ADDRESS`.
    pub ups: String,
    /// `mains`, `battery`, `low` or `unknown`.
    pub state: String,
    /// Its status, as reported, such as `OL CHRG`. Absent if it has not responded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The charge of its battery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge_percent: Option<u8>,
    /// How long its battery can supply the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_s: Option<u32>,
    /// The heads that it supplies.
    pub heads: Vec<String>,
}

/// A reading of a head's sensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sensor {
    /// The head.
    pub head: String,
    /// Its name in the BMC.
    pub name: String,
    /// `watts`, `degrees_celsius`, `rpm`, `volts`, `amps` or `percent`.
    pub unit: String,
    /// The reading.
    pub value: f64,
    /// `ok`, `warning` or `critical`, by the thresholds of the BMC.
    #[serde(default)]
    pub state: String,
}
