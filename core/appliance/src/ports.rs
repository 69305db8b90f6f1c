//! The ports that the servers of pools have on the pools' addresses.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::file::Pool;

/// The port of iSCSI (RFC 7143, section 14).
pub const ISCSI_PORT: u16 = 3260;
/// The port of NBD, as IANA assigned it.
pub const NBD_PORT: u16 = 10809;

/// Where the server of a pool listens, as options of `bulkhead pool-server` and `bulkhead portal` say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Portals {
    /// Portals of iSCSI: `ADDRESS:PORT,GROUP`.
    pub iscsi: BTreeSet<String>,
    /// Listeners of NBD: `ADDRESS:PORT`.
    pub nbd: BTreeSet<String>,
}

impl Portals {
    /// Those of `pool`: both protocols at each address, and a portal group for each in the order of the file.
    pub fn of(pool: &Pool) -> Self {
        let addresses = || pool.addresses.iter().map(|one| one.address);
        let portal = |(group, address)| format!("{},{group}", SocketAddr::new(address, ISCSI_PORT));
        let listener = |address| SocketAddr::new(address, NBD_PORT).to_string();
        Self {
            iscsi: (1..).zip(addresses()).map(portal).collect(),
            nbd: addresses().map(listener).collect(),
        }
    }

    /// As words of a command line.
    pub fn words(&self) -> Vec<String> {
        let portals = self.iscsi.iter().map(|one| ["--iscsi", one]);
        let listeners = self.nbd.iter().map(|one| ["--nbd", one]);
        let words = portals.chain(listeners).flatten();
        words.map(str::to_owned).collect()
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        Self {
            iscsi: self.iscsi.difference(&other.iscsi).cloned().collect(),
            nbd: self.nbd.difference(&other.nbd).cloned().collect(),
        }
    }
}
