//! Where a server listens: asked for, and changed while it runs.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
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

/// Where NBD listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for NbdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("write unix:PATH".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => socket_address(text).map(Self::Tcp),
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

/// Name of iSCSI among the protocols of a server.
pub const ISCSI: &str = "iscsi";
/// Name of NBD.
pub const NBD: &str = "nbd";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_and_listeners_are_read() {
        let portal: IscsiPortal = "[::1]:0,7".parse().expect("a portal");
        assert_eq!((portal.address.port(), portal.group), (0, 7));
        let portal: IscsiPortal = "10.0.0.1:3260".parse().expect("a portal");
        assert_eq!(portal.group, 1);
        for bad in ["host:3260", "10.0.0.1:3260,0", "10.0.0.1", ":3260"] {
            assert!(bad.parse::<IscsiPortal>().is_err(), "{bad}");
        }
        let unix: NbdAddress = "unix:/run/x".parse().expect("a listener");
        assert_eq!(unix, NbdAddress::Unix("/run/x".into()));
    }
}
