//! Copies of a pool's devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A copy of a device of a pool, which is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutView {
    /// Where it is.
    pub device: String,
    /// The device that is used; none where the pool is opened without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// Whether its data was given up by `pool confirm`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_abandoned: bool,
}

impl std::fmt::Display for LeftOutView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.used {
            Some(used) => write!(f, "{} is a copy of {used}", self.device),
            None if self.is_abandoned => write!(
                f,
                "{} was in use without the rest of the pool, and `pool confirm` gave up its data",
                self.device
            ),
            None => write!(
                f,
                "{} is an older copy of a device of the pool",
                self.device
            ),
        }
    }
}
