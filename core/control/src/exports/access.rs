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

    /// The rule in short form, such as `iqn.2026-01.org.example:a from 10.0.0.0/24`.
    pub fn summary(&self) -> String {
        let entries = self.entries();
        let mut is_first = true;
        let words = entries.iter().map(|entry| match entry.strip_prefix(FROM) {
            // Once for all networks.
            Some(network) if !std::mem::take(&mut is_first) => network,
            _ => entry.as_str(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// The entries in short form. A network is `from 10.0.0.0/24` where a client must also be in another list.
    pub fn entries(&self) -> Vec<String> {
        if self.everyone {
            return vec!["everyone".to_owned()];
        }
        if self.is_empty() {
            return vec!["loopback only".to_owned()];
        }
        let names = self.initiators.iter().map(ToString::to_string);
        let identities = self
            .identities
            .iter()
            .map(|name| format!("certificate:{name}"));
        let named: Vec<String> = names.chain(identities).collect();
        let from = if named.is_empty() { "" } else { FROM };
        let networks = self.networks.iter();
        let networks = networks.map(|network| format!("{from}{network}"));
        named.iter().cloned().chain(networks).collect()
    }

    /// Why clients in `networks` and under the names `initiators` still have access; none if they have none by this rule.
    pub fn still_allows(&self, initiators: &[IscsiName], networks: &[Network]) -> Option<String> {
        if self.everyone {
            return Some("everyone has access".to_owned());
        }
        let covers = |outer: &Network, inner: &Network| {
            outer.prefix_bits() <= inner.prefix_bits() && outer.contains(inner.address())
        };
        for denied in networks {
            if let Some(outer) = self.networks.iter().find(|known| covers(known, denied)) {
                return Some(format!("{denied} is a part of {outer}, which has access"));
            }
            if let Some(inner) = self.networks.iter().find(|known| covers(denied, known)) {
                return Some(format!("{inner}, a part of {denied}, has access"));
            }
        }
        let denied = initiators.first()?;
        let is_open = self.initiators.is_empty() && !self.networks.is_empty();
        is_open.then(|| {
            let networks: Vec<String> = self.networks.iter().map(ToString::to_string).collect();
            format!(
                "the rule lists no initiators, so that {denied} has access from {}",
                networks.join(" ")
            )
        })
    }
}

/// Precedes a network.
const FROM: &str = "from ";

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(initiators: &[&str], networks: &[&str]) -> AccessRule {
        AccessRule {
            initiators: initiators
                .iter()
                .map(|name| name.parse().expect("a name"))
                .collect(),
            networks: parsed(networks),
            ..AccessRule::default()
        }
    }

    fn parsed(networks: &[&str]) -> Vec<Network> {
        let networks = networks.iter();
        networks
            .map(|text| text.parse().expect("a network"))
            .collect()
    }

    const A: &str = "iqn.2026-01.org.example:a";
    const B: &str = "iqn.2026-01.org.example:b";

    /// A client must be in each list that has entries.
    #[test]
    fn rule_with_two_lists_reads_as_names_from_networks() {
        let both = rule(&[A, B], &["10.0.0.0/24", "10.0.1.0/24"]);
        assert_eq!(
            both.summary(),
            format!("{A} {B} from 10.0.0.0/24 10.0.1.0/24")
        );
        let lines = [A, B, "from 10.0.0.0/24", "from 10.0.1.0/24"];
        assert_eq!(both.entries(), lines);
        assert_eq!(rule(&[], &["10.0.0.0/24"]).summary(), "10.0.0.0/24");
        assert_eq!(rule(&[A], &[]).summary(), A);
        assert_eq!(rule(&[], &[]).summary(), "loopback only");
    }

    #[test]
    fn denied_clients_with_access_by_another_entry_are_found() {
        let networks = rule(&[], &["10.0.0.0/24"]);
        for (denied, part) in [
            ("10.0.0.5/32", Some("10.0.0.5/32 is a part of 10.0.0.0/24")),
            ("10.0.0.0/24", Some("10.0.0.0/24 is a part of 10.0.0.0/24")),
            ("10.0.0.0/8", Some("10.0.0.0/24, a part of 10.0.0.0/8")),
            ("10.0.1.0/24", None),
            ("::/0", None),
        ] {
            let why = networks.still_allows(&[], &parsed(&[denied]));
            let is_right = match part {
                None => why.is_none(),
                Some(part) => why.as_ref().is_some_and(|why| why.starts_with(part)),
            };
            assert!(is_right, "{denied}: {why:?}");
        }
        let name = [A.parse().expect("a name")];
        let why = networks.still_allows(&name, &[]);
        assert!(why.is_some_and(|why| why.contains("has access from 10.0.0.0/24")));
        assert_eq!(rule(&[B], &["10.0.0.0/24"]).still_allows(&name, &[]), None);
        assert_eq!(rule(&[], &[]).still_allows(&name, &[]), None);
    }
}
