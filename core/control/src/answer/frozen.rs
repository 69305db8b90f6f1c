//! Volumes whose changes are held.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume whose writes by clients wait. Times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrozenView {
    /// Since when.
    pub since_ms: u64,
    /// When it ends by itself.
    pub until_ms: u64,
}

impl FrozenView {
    /// Longest time that a volume is frozen. Initiators on Linux give a command 30 s by default, others 60 s.
    pub const SECONDS_MAX: u64 = 60;
}
