//! Access rules of exports.

use serde::{Deserialize, Serialize};
use units::{IscsiName, Network};

/// The clients that may use an export. An empty rule allows loopback (and Unix sockets) only. If
/// several lists have entries, a client must be in each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// Any client that reaches a portal. The lists are then ignored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everyone: bool,
    /// iSCSI initiators by name; empty means any name. NBD ignores it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initiators: Vec<IscsiName>,
    /// Clients by network; empty means any address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Network>,
    /// NBD clients by a name in their certificates (a DNS name or an address); empty means that any
    /// name is accepted. iSCSI ignores it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
}

impl AccessRule {
    /// Whether nothing has been allowed yet.
    pub fn is_empty(&self) -> bool {
        !self.everyone
            && self.initiators.is_empty()
            && self.networks.is_empty()
            && self.identities.is_empty()
    }

    /// The rule in short form.
    pub fn summary(&self) -> String {
        if self.everyone {
            return "everyone".to_owned();
        }
        if self.is_empty() {
            return "loopback only".to_owned();
        }
        let names = self.initiators.iter().map(ToString::to_string);
        let networks = self.networks.iter().map(ToString::to_string);
        let identities = self
            .identities
            .iter()
            .map(|name| format!("certificate:{name}"));
        let all = names.chain(networks).chain(identities);
        all.collect::<Vec<_>>().join(" ")
    }
}
