//! Access rules of exports.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use serving::Peer;
use units::Network;

/// The rule of one export. The default denies every client on another host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Clients on this host: loopback and Unix sockets.
    #[default]
    Local,
    /// All clients. For tests; must be stated explicitly.
    Everyone,
    /// Clients that match.
    Listed {
        /// Networks that a TCP client must belong to; empty means any. Unix sockets are protected
        /// by the permissions of their files instead.
        networks: Vec<Network>,
        /// Names (DNS names or addresses), one of which the client's certificate must have; empty
        /// means that no certificate is required.
        identities: Vec<String>,
    },
}

/// The properties of a client that rules depend on.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) encrypted: bool,
    /// Its verified certificate.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// The result of a rule for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admitted,
    /// The client may be admitted with a certificate.
    NeedsTls,
    Refused,
}

impl Access {
    pub(crate) fn judge(&self, client: &Client) -> Verdict {
        let admitted = |yes| {
            if yes {
                Verdict::Admitted
            } else {
                Verdict::Refused
            }
        };
        match self {
            Self::Local => admitted(client.peer.is_local()),
            Self::Everyone => Verdict::Admitted,
            Self::Listed {
                networks,
                identities,
            } => {
                if let Some(address) = client.peer.address() {
                    if !networks.is_empty()
                        && !networks.iter().any(|network| network.contains(address))
                    {
                        return Verdict::Refused;
                    }
                }
                if identities.is_empty() {
                    // A list without an entry denies all clients.
                    return admitted(!networks.is_empty());
                }
                if !client.encrypted {
                    return Verdict::NeedsTls;
                }
                admitted(client.has_identity(identities))
            }
        }
    }
}

impl Client {
    fn has_identity(&self, identities: &[String]) -> bool {
        let Some(certificate) = &self.certificate else {
            return false;
        };
        let Ok(parsed) = ParsedCertificate::try_from(certificate) else {
            return false;
        };
        identities.iter().any(|identity| {
            ServerName::try_from(identity.as_str())
                .is_ok_and(|name| rustls::client::verify_server_name(&parsed, &name).is_ok())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Client {
        Client {
            peer: Peer::Tcp {
                remote: format!("{address}:1000").parse().unwrap(),
                local: "127.0.0.1:10809".parse().unwrap(),
            },
            encrypted: false,
            certificate: None,
        }
    }

    #[test]
    fn access_without_rules_is_limited_to_the_local_host() {
        let rule = Access::default();
        assert_eq!(rule.judge(&from("127.0.0.1")), Verdict::Admitted);
        assert_eq!(rule.judge(&from("[::1]")), Verdict::Admitted);
        assert_eq!(rule.judge(&from("192.0.2.7")), Verdict::Refused);
        assert_eq!(
            Access::Everyone.judge(&from("192.0.2.7")),
            Verdict::Admitted
        );
    }

    #[test]
    fn listed_networks_and_identities_both_have_to_match() {
        let listed = |networks: &[&str], identities: &[&str]| Access::Listed {
            networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
            identities: identities.iter().map(|&text| text.to_owned()).collect(),
        };
        let near = listed(&["192.0.2.0/24"], &[]);
        assert_eq!(near.judge(&from("192.0.2.7")), Verdict::Admitted);
        assert_eq!(near.judge(&from("127.0.0.1")), Verdict::Refused);
        let known = listed(&["192.0.2.0/24"], &["head.example"]);
        assert_eq!(known.judge(&from("192.0.2.7")), Verdict::NeedsTls);
        assert_eq!(known.judge(&from("198.51.100.1")), Verdict::Refused);
        let nameless = Client {
            encrypted: true,
            ..from("192.0.2.7")
        };
        assert_eq!(known.judge(&nameless), Verdict::Refused);
        assert_eq!(listed(&[], &[]).judge(&from("127.0.0.1")), Verdict::Refused);
    }
}
