//! The expectation of a drill: the effect of the fault, where the pool is served afterwards, and whether a head is fenced.

use serde::Serialize;

/// The effect of a fault on the appliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A head or a server disappears at once.
    Crash,
    /// A head or a server is frozen or isolated.
    CutOff,
    /// A pool is moved on purpose.
    Move,
    /// Redundancy hides it: the pool stays where it is.
    Hidden,
    /// The only promise is that service resumes and that no data is lost.
    Unbounded,
}

/// Where the pool must be served afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On another head.
    Elsewhere,
    /// Where it was.
    Same,
    /// On any head.
    Anywhere,
}

/// Whether a head must be powered off by the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fencing {
    /// It must.
    Required,
    /// None may.
    Forbidden,
    /// Both are right.
    Allowed,
}

/// How the appliance detects a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notice {
    /// By silence in the cluster, or at once.
    Cluster,
    /// By the next monitor of the pool.
    Monitor,
    /// By a monitor operation of the pool that times out.
    MonitorTimeout,
    /// By a disk that exceeds its time-out.
    Disk,
    /// By a missing heartbeat in the cluster; then a BMC exceeds its time-out.
    DeadBmc,
}

/// The expectation of a drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Expectation {
    /// Which promise counts.
    pub kind: Kind,
    /// Where the pool is afterwards.
    pub place: Place,
    /// Whether a head is powered off.
    pub fencing: Fencing,
    /// How it is noticed.
    pub notice: Notice,
    /// The delay that the fault itself adds to every pause, in milliseconds, such as that of a slow
    /// BMC.
    pub added_ms: u32,
}
