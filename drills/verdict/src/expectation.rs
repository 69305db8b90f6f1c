//! The expectation of a drill: the effect of the fault, where the pool is served afterwards, and whether a head is fenced.

use serde::Serialize;

/// What a fault does to the appliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
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

/// How the appliance learns of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notice {
    /// By silence in the cluster, or at once.
    Cluster,
    /// By the next monitor of the pool.
    Monitor,
    /// By a monitor of the pool that gets no answer.
    MonitorTimeout,
    /// By a disk that does not answer in its time.
    Disk,
    /// By silence in the cluster; then a BMC does not answer in its time.
    DeadBmc,
}

/// What must come of a drill.
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
    /// What the fault itself adds to every pause, in milliseconds, such as a slow BMC.
    pub added_ms: u32,
}
