//! The growth of a pool: long work on its devices, and the consequences of a change before it is made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Long work on the devices of a pool. One form for all kinds. In bytes and seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkView {
    /// `scrub`, `resilver`, `error scrub`, `removal` or `expansion`.
    pub kind: String,
    /// `running`, or `paused`: by an administrator, or an expansion until a resilver is complete.
    pub state: String,
    /// The group that is removed or expanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
    /// Mean bytes a second, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Estimated remaining seconds at that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_s: Option<u64>,
}

impl WorkView {
    /// Progress in percent.
    pub fn percent(&self) -> u64 {
        let total = u128::from(self.total.max(1));
        (u128::from(self.done) * 100 / total).min(100) as u64
    }
}

/// The consequences of a change of a pool's devices. The pool is not changed. In bytes and seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanView {
    /// The pool.
    pub pool: String,
    /// `add`, `attach`, `remove`, `replace` or `expand`.
    pub change: String,
    /// Why the change would be refused, in a sentence with the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Bytes that devices read and write for it. A group of a removal is named as a whole.
    pub moves: Vec<MovedBytes>,
    /// Bytes that the progress of the work counts: each block once, with parity where the work counts parity.
    pub total: u64,
    /// The measured rate that `duration_s` is based on; none if no comparable work was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateView>,
    /// Estimated duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<u64>,
    /// Groups of data, before and after.
    pub groups: Vec<GroupChange>,
    /// Usable space of the pool before, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable_before: Option<u64>,
    /// The same after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable_after: Option<u64>,
    /// Fill of the usable space before, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_percent_before: Option<u64>,
    /// The same after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_percent_after: Option<u64>,
    /// The redundancy until the change is complete, in sentences.
    pub meanwhile: Vec<String>,
    /// Further consequences, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The command that makes the change.
    pub command: String,
}

/// Bytes that a device reads and writes for a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedBytes {
    /// The device, or the group.
    pub device: String,
    /// Bytes that are read from it.
    pub read: u64,
    /// Bytes that are written to it.
    pub written: u64,
}

/// A measured rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateView {
    /// Bytes a second of the planned work.
    pub bytes_per_s: u64,
    /// The measured work, such as `scrub`.
    pub measured_by: String,
    /// When that ended, in seconds since 1970; 0 if it runs.
    pub ended: u64,
}

/// A group of data before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupChange {
    /// Its name. A group that does not exist yet is named by its devices.
    pub group: String,
    /// Allocated bytes before; none if it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_before: Option<u64>,
    /// Capacity before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_before: Option<u64>,
    /// Allocated bytes after; none if it is gone then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_after: Option<u64>,
    /// Capacity after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_after: Option<u64>,
}
