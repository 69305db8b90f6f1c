//! Operations on the power of a head.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Changes of the power. None of them is graceful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// The plug is pulled.
    Off,
    /// Power returns and the head boots. Nothing happens to a head that has power.
    On,
    /// Off and on again.
    Cycle,
}

impl FromStr for Power {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            "cycle" => Ok(Self::Cycle),
            _ => Err("write off, on or cycle".to_owned()),
        }
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Cycle => "cycle",
        })
    }
}
