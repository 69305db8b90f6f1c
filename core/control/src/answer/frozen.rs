//! Volumes with paused writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume with paused writes of clients. Times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrozenView {
    /// Since when.
    pub since_ms: u64,
    /// When the freeze expires.
    pub until_ms: u64,
}

impl FrozenView {
    /// Longest time that a volume is frozen. The default command time-out of initiators is 30 s on Linux, 60 s on other
    /// systems.
    pub const SECONDS_MAX: u64 = 60;
}
