//! The desired state of a server: targets, portals, rules. Plain data; [`super::IscsiServer`]
//! compares it with the current state and applies the difference.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use units::{IscsiName, Network};

use crate::protocol::chap::Chap;

/// The desired state of a server.
#[derive(Clone, Default)]
pub struct DesiredState {
    /// Targets; names are unique.
    pub targets: Vec<DesiredTarget>,
    /// Portals; addresses are unique.
    pub portals: Vec<DesiredPortal>,
    /// The credentials for discovery sessions; `None` allows discovery without authentication.
    pub discovery: Option<Chap>,
}

/// A target.
#[derive(Clone)]
pub struct DesiredTarget {
    /// Its name.
    pub name: IscsiName,
    /// Portal groups that serve it; empty means all.
    pub portal_groups: Vec<u16>,
    /// Its access rule.
    pub access: Access,
    /// Its logical units.
    pub target: Arc<scsi::Target>,
}

impl DesiredTarget {
    /// Whether portal group `group` serves it.
    pub fn is_in_group(&self, group: u16) -> bool {
        self.portal_groups.is_empty() || self.portal_groups.contains(&group)
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesiredPortal {
    /// Address and port; this host need not have it yet. Port 0 selects a free one.
    pub address: SocketAddr,
    /// Portal group tag.
    pub group: u16,
}

impl DesiredPortal {
    /// Whether it accepts a connection to the local address `local`: it is that address, or the
    /// wildcard of its family.
    pub fn takes(&self, local: SocketAddr) -> bool {
        let (ip, here) = (self.address.ip(), local.ip());
        let is_any = ip.is_unspecified() && ip.is_ipv4() == here.is_ipv4();
        self.address.port() == local.port() && (is_any || ip.to_canonical() == here.to_canonical())
    }
}

/// The initiator names that may log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Initiators {
    /// Not specified: with neither networks nor CHAP, only loopback portals accept initiators.
    #[default]
    Unspecified,
    /// Every name.
    Everyone,
    /// Only these.
    Listed(Vec<IscsiName>),
}

/// An access rule. All specified parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The initiator names.
    pub initiators: Initiators,
    /// The client networks; empty means any.
    pub networks: Vec<Network>,
    /// The CHAP credentials.
    pub chap: Option<Chap>,
}

impl Access {
    /// A rule that admits every initiator.
    pub fn everyone() -> Self {
        Self {
            initiators: Initiators::Everyone,
            ..Self::default()
        }
    }

    /// Whether `initiator` may log in from `remote` to the local address `local`. It may still have
    /// to authenticate.
    pub fn allows(&self, initiator: &IscsiName, remote: IpAddr, local: IpAddr) -> bool {
        let remote_fits = self.networks.is_empty()
            || self.networks.iter().any(|network| network.contains(remote));
        let name_fits = match &self.initiators {
            Initiators::Everyone => true,
            Initiators::Listed(names) => names.contains(initiator),
            Initiators::Unspecified => {
                let has_rule = !self.networks.is_empty() || self.chap.is_some();
                has_rule || local.to_canonical().is_loopback()
            }
        };
        remote_fits && name_fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> IscsiName {
        format!("iqn.2026-01.org.example:{text}").parse().unwrap()
    }

    fn allows(access: &Access, who: &str, remote: &str, local: &str) -> bool {
        access.allows(&name(who), remote.parse().unwrap(), local.parse().unwrap())
    }

    #[test]
    fn access_without_rules_is_limited_to_loopback_portals() {
        let access = Access::default();
        assert!(allows(&access, "a", "127.0.0.1", "127.0.0.1"));
        assert!(allows(&access, "a", "::1", "::1"));
        assert!(!allows(&access, "a", "192.0.2.1", "192.0.2.9"));
        assert!(!allows(&access, "a", "192.0.2.9", "192.0.2.9"));
        assert!(allows(&Access::everyone(), "a", "192.0.2.1", "192.0.2.9"));
    }

    #[test]
    fn portal_accepts_its_address_or_the_wildcard_of_its_family() {
        let takes = |portal: &str, local: &str| {
            let (address, group) = (portal.parse().unwrap(), 1);
            DesiredPortal { address, group }.takes(local.parse().unwrap())
        };
        assert!(takes("192.0.2.1:3260", "192.0.2.1:3260"));
        assert!(!takes("192.0.2.1:3260", "192.0.2.2:3260"));
        assert!(!takes("192.0.2.1:3260", "192.0.2.1:3261"));
        assert!(takes("0.0.0.0:3260", "192.0.2.1:3260"));
        assert!(!takes("[::]:3260", "192.0.2.1:3260"));
    }

    #[test]
    fn names_and_networks_must_both_fit() {
        let access = Access {
            initiators: Initiators::Listed(vec![name("a")]),
            networks: vec!["192.0.2.0/24".parse().unwrap()],
            chap: None,
        };
        assert!(allows(&access, "a", "192.0.2.1", "198.51.100.1"));
        assert!(!allows(&access, "b", "192.0.2.1", "198.51.100.1"));
        assert!(!allows(&access, "a", "203.0.113.1", "198.51.100.1"));
        assert!(!allows(&access, "b", "127.0.0.1", "127.0.0.1"));
    }
}
