//! Where a server listens: asked for, and changed while it runs.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

/// The group of a portal that names none.
const fn first_group() -> u16 {
    1
}

/// Where iSCSI listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IscsiPortal {
    /// Address and port.
    pub address: SocketAddr,
    /// Portal group tag, from 1 on.
    #[serde(default = "first_group")]
    pub group: u16,
}

impl fmt::Display for IscsiPortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.address, self.group)
    }
}

impl FromStr for IscsiPortal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, group) = match text.rsplit_once(',') {
            Some((address, group)) => (address, group),
            None => (text, "1"),
        };
        let address = socket_address(address)?;
        match group.parse::<u16>() {
            Ok(group) if group > 0 => Ok(Self { address, group }),
            _ => Err("the portal group is a number from 1 to 65535".to_owned()),
        }
    }
}

/// Reads `ADDRESS:PORT`.
///
/// # Errors
///
/// What to write instead.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write ADDRESS:PORT with a numeric address, such as 10.0.0.1:3260 or [fd00::1]:3260"
            .to_owned()
    })
}

/// Requests about where the server listens. NBD addresses are `ADDRESS:PORT` or `unix:/PATH`. Either all that a
/// request says is done, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortalRequest {
    /// Where it listens, and who came in by it.
    List,
    /// Listen here, too.
    Add {
        /// Portals of iSCSI; port 0 takes a free one.
        #[serde(default)]
        iscsi: Vec<IscsiPortal>,
        /// Addresses of NBD.
        #[serde(default)]
        nbd: Vec<String>,
        /// Also at addresses that this machine does not have yet.
        #[serde(default)]
        may_come: bool,
    },
    /// Listen here no more.
    Remove {
        /// Portals of iSCSI.
        #[serde(default)]
        iscsi: Vec<SocketAddr>,
        /// Addresses of NBD.
        #[serde(default)]
        nbd: Vec<String>,
        /// Even though clients came in by them: their sessions end.
        #[serde(default)]
        in_use: bool,
    },
    /// Listen here, and nowhere else. Addresses may come later, with a takeover.
    Set {
        /// Portals of iSCSI.
        #[serde(default)]
        iscsi: Vec<IscsiPortal>,
        /// Addresses of NBD.
        #[serde(default)]
        nbd: Vec<String>,
        /// Even though clients came in by what goes: their sessions end.
        #[serde(default)]
        in_use: bool,
    },
}

/// A protocol of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// iSCSI.
    Iscsi,
    /// NBD.
    Nbd,
}

/// An address that a server listens at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortalView {
    /// The pool that is served there.
    pub pool: PoolName,
    /// To whom.
    pub protocol: Protocol,
    /// `ADDRESS:PORT`, or `unix:/PATH`.
    pub address: String,
    /// Portal group tag of iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u16>,
    /// Whether the machine has the address now. Clients cannot come before it has.
    pub is_here: bool,
    /// Sessions that came in by it.
    pub clients: u64,
}
