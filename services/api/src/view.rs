//! What the API shows beside the answers of pool servers: everything at a glance, what takes long,
//! what is measured each second.

use std::collections::BTreeMap;
use std::path::PathBuf;

use appliance::plan::Change;
use appliance::{Appliance, CheckReport, Plan};
use control::answer::{
    Answer, Event, FileSystemActivity, PoolStatus, PoolSummary, RequestActivity, VolumeActivity,
};
use control::{Advice, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// The appliance, if this head has the file that describes one.
    pub appliance: Option<String>,
    /// The head that answers.
    pub this_head: String,
    /// Version of the program.
    pub version: String,
    /// When this was true, in milliseconds since 1970.
    pub at_ms: u64,
    /// The heads.
    pub heads: Vec<HeadView>,
    /// The pools.
    pub pools: Vec<PoolOverview>,
    /// The connections between heads.
    pub links: Vec<LinkView>,
    /// What a takeover depends on.
    #[serde(default)]
    pub safeguards: Safeguards,
    /// The last time that a head began to serve a pool.
    pub last_takeover: Option<Takeover>,
    /// What somebody should look at, the worst first.
    pub alerts: Vec<Alert>,
    /// What runs in the background, and what ran last.
    pub operations: Vec<Operation>,
}

/// A head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeadView {
    /// Its name.
    pub name: String,
    /// Whether it is the one that answers.
    pub here: bool,
    /// `online`, `standby`, `offline`, `unclean` or `unknown`.
    pub state: String,
    /// What else is to be said of it.
    pub note: Option<String>,
}

/// A pool among others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolOverview {
    /// Its name.
    pub name: String,
    /// `served`, `stopped`, `failed` or `unreachable`.
    pub state: String,
    /// The head that serves it.
    pub served_by: Option<String>,
    /// The head that should.
    pub home: Option<String>,
    /// The heads that may.
    pub heads: Vec<String>,
    /// Where its clients reach it.
    pub addresses: Vec<String>,
    /// Its state, if its server answers.
    pub pool: Option<PoolStatus>,
    /// Volumes in it.
    pub volume_count: u64,
    /// iSCSI targets in it.
    pub target_count: u64,
    /// NBD exports in it.
    pub nbd_count: u64,
    /// Clients now.
    pub session_count: u64,
    /// How long its server runs, in seconds.
    pub uptime_s: Option<u64>,
    /// Exports that cannot be served, in sentences.
    pub problems: Vec<String>,
}

/// A pool that was found, and who serves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolFound {
    /// What was found.
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
    /// The head that looks.
    pub from: String,
    /// The head that it looks at.
    pub to: String,
    /// `up`, `down` or `unknown`.
    pub state: String,
}

/// What a takeover depends on, as this head sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Safeguards {
    /// Whether the part of the cluster that this head is in may act, if that is known.
    pub has_quorum: Option<bool>,
    /// Since when it may not, in milliseconds since 1970.
    pub no_quorum_since_ms: Option<u64>,
    /// The witness, if one votes.
    pub witness: Option<WitnessView>,
    /// What powers heads off.
    pub fence_devices: Vec<FenceDeviceView>,
    /// Heads that are lost, and not confirmed to be off.
    pub power_offs: Vec<PowerOffView>,
}

/// A witness that votes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessView {
    /// Where it is.
    pub address: String,
    /// Whether its vote counts at every head that is up, if that is known.
    pub has_vote: Option<bool>,
    /// The heads at which it does not count.
    pub without_vote: Vec<String>,
    /// Why, as far as this head knows.
    pub why: Option<String>,
    /// Since when, in milliseconds since 1970.
    pub since_ms: Option<u64>,
}

/// A device that powers a head off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FenceDeviceView {
    /// What Pacemaker calls it.
    pub name: String,
    /// The head that it powers off.
    pub head: String,
    /// 1 is tried first. All devices of a level are needed.
    pub level: u32,
    /// `works`, `failed`, `unverified` (no head could start it) or `unknown` (no head that would use it is up).
    pub state: String,
    /// Why it failed.
    pub why: Option<String>,
    /// Since when it does not work, in milliseconds since 1970.
    pub since_ms: Option<u64>,
}

/// A head that is lost, and that no fence device has confirmed to be off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PowerOffView {
    /// The head.
    pub head: String,
    /// Since when the cluster waits, in milliseconds since 1970.
    pub since_ms: u64,
    /// Attempts that failed.
    pub failed_count: u64,
}

/// A head began to serve a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Takeover {
    /// The pool.
    pub pool: String,
    /// `takeover`, `hand-over`, `restart` or `start`.
    pub kind: String,
    /// Who served it before, if that is known.
    pub from: Option<String>,
    /// Who serves it now.
    pub to: String,
    /// When it began, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took until clients could reach the pool again, in milliseconds.
    pub duration_ms: Option<u64>,
    /// What happened when.
    pub steps: Vec<Step>,
}

/// A step of a takeover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What.
    pub name: String,
    /// Milliseconds after the first one.
    pub after_ms: u64,
}

/// Something that somebody should look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// What it is about, such as `pool tank`.
    pub about: String,
    /// What is the matter.
    pub sentence: String,
    /// Since when, in milliseconds since 1970, as far as this head saw it.
    #[serde(default)]
    pub since_ms: Option<u64>,
    /// What to do.
    pub advice: Option<Advice>,
}

/// Something that takes long, and goes on when its asker is gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// By this it is asked for.
    pub id: String,
    /// `move`, `apply`, `drill` or `request`.
    pub kind: String,
    /// What it does.
    pub title: String,
    /// `running`, `done`, `failed` or `canceled`.
    pub state: String,
    /// Who asked for it.
    pub who: String,
    /// When it began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// When it ended.
    pub ended_at_ms: Option<u64>,
    /// What it said, the newest line last.
    pub progress: Vec<String>,
    /// What came of it.
    #[schemars(with = "Option<Outcome>")]
    pub result: Option<Value>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// The appliance file of this head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ApplianceFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its text (TOML).
    pub text: String,
    /// What it says, if it can be read.
    pub appliance: Option<Appliance>,
}

/// What the command says of an appliance file, with what was given to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Appliance{T}")]
pub struct Said<T> {
    /// What it says.
    #[serde(flatten)]
    pub document: T,
    /// The file (TOML).
    pub toml: String,
    /// How the command ended.
    pub exit_code: i32,
}

/// What a plan comes to: errors in the file leave none.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a schema")]
pub enum Planned {
    /// What is to be done.
    Plan(Said<Plan>),
    /// What is wrong.
    Errors(Said<CheckReport>),
}

/// What comes of an operation.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a schema")]
pub enum Outcome {
    /// Of a move or a request.
    Answered(Answer),
    /// Of a drill.
    Drilled(DrillsReport),
    /// Of an appliance file that was applied.
    Applied(Said<Applied>),
}

/// What was done to make the heads what an appliance file says.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "a schema")]
pub struct Applied {
    /// Whether anything was not as the file says.
    pub changed: bool,
    /// What was.
    pub changes: Vec<Change>,
}

/// A drill that can be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillView {
    /// Its name.
    pub name: String,
    /// What is done.
    pub about: String,
    /// What must come of it.
    pub expectation: DrillExpectation,
}

/// What must come of a drill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillExpectation {
    /// Which promise counts.
    pub kind: DrillKind,
    /// Where the pool is afterwards: `elsewhere`, `same` or `anywhere`.
    pub place: String,
    /// Whether a head is powered off: `required`, `forbidden` or `allowed`.
    pub fencing: String,
    /// How it is noticed, such as `cluster` or `monitor`.
    pub notice: String,
    /// What the fault itself adds to every pause, in milliseconds.
    pub added_ms: u32,
}

/// What a drill's fault does to the appliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrillKind {
    /// A head or a server is gone from one moment to the next.
    Crash,
    /// It stands still, or nobody hears it.
    CutOff,
    /// A pool is moved on purpose.
    Move,
    /// Redundancy hides it: the pool stays where it is.
    Hidden,
    /// Nothing is promised but that it comes back, and that nothing is lost.
    Unbounded,
}

/// What came of drills; the report has more.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillsReport {
    /// Each.
    pub drills: Vec<DrillReport>,
}

/// All rounds of one drill, judged; the report has more.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillReport {
    /// Its name.
    pub drill: String,
    /// Why it was not run.
    pub skipped: Option<String>,
    /// The bounds on its pauses.
    pub bounds: Option<DrillBounds>,
    /// The middle of the pauses, in seconds.
    pub median_s: Option<f64>,
    /// The longest, in seconds.
    pub worst_s: Option<f64>,
    /// The middle of each step's time after the fault, in seconds.
    pub steps_s: BTreeMap<String, f64>,
    /// How the median broke its promise.
    pub broken: Option<Value>,
    /// The rounds.
    pub rounds: Vec<DrillRound>,
}

/// Bounds on the pause that a client sees, in seconds.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillBounds {
    /// Of the median of all rounds.
    pub median_s: f64,
    /// Of each.
    pub worst_s: f64,
}

/// What came of a fault; the report has more.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct DrillRound {
    /// Errors that an application saw.
    pub errors: Vec<String>,
    /// Acknowledged writes that are not there, or contents that nobody wrote.
    pub violations: Vec<String>,
    /// Moments at which the pool was open in two processes.
    pub double_imports: Vec<String>,
    /// What was not as promised.
    pub broken: Vec<Value>,
}

/// A change as it is streamed: the name of the event, and its data.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
#[allow(dead_code, reason = "a schema")]
pub enum Streamed {
    /// Everything, when something of it has changed.
    Overview(Box<Overview>),
    /// What volumes and file systems do, each second.
    Metrics(Metrics),
    /// Something that happened to a pool.
    Event(PoolEvent),
    /// An operation has begun, says something, or has ended.
    Operation(Operation),
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Refusal {
    /// Why, and what to do.
    pub failure: Failure,
    /// Whether nobody can log in, since there is no user.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub no_users: bool,
}

/// What volumes and file systems do, measured over about a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Each volume that is shown.
    pub volumes: Vec<VolumeRates>,
    /// Each file system that is shared.
    #[serde(default)]
    pub filesystems: Vec<FileSystemRates>,
}

/// What a volume does.
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
    /// What happened between two looks that are `seconds` apart.
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

/// What clients do in a file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemRates {
    /// Its pool.
    pub pool: String,
    /// Its name. Empty: all that are too many to be counted by themselves, together.
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
    /// What happened between two looks that are `seconds` apart.
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

/// Microseconds of each, if there was one.
fn mean(old_us: u64, new_us: u64, old: u64, new: u64) -> Option<f64> {
    let count = new.saturating_sub(old);
    (count > 0).then(|| new_us.saturating_sub(old_us) as f64 / count as f64)
}

/// Something that happened to a pool, as it is streamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolEvent {
    /// The pool.
    pub pool: String,
    /// What happened.
    pub event: Event,
}

/// A disk of this head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskView {
    /// Where it is, by a name that stays.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// What it calls itself.
    pub model: Option<String>,
    /// Who uses it, such as `pool tank`.
    pub used_by: Option<String>,
}

/// What a sensor of a head says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sensor {
    /// The head.
    pub head: String,
    /// What the BMC calls it.
    pub name: String,
    /// `watts` or `degrees_celsius`.
    pub unit: String,
    /// How much.
    pub value: f64,
}
