//! The changes that a pool stores in itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change that a pool has stored in its history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// Its transaction group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub txg: Option<u64>,
    /// The change, such as `create`, `snapshot` or `event scrub`; `command` if the details are a command line.
    pub what: String,
    /// The volume, file system or snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}
