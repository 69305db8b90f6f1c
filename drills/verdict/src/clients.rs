//! How the clients of a drill detect a dead connection.

use serde::Serialize;

/// How the clients find out that a connection is dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clients {
    /// They ping when a reply is missing for a tenth of a second.
    #[default]
    Pinging,
    /// They rely on the time-outs of TCP, as stock clients do for the first seconds.
    Patient,
}

impl std::str::FromStr for Clients {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "pinging" => Ok(Self::Pinging),
            "patient" => Ok(Self::Patient),
            _ => Err("clients are pinging or patient".to_owned()),
        }
    }
}
