//! The property `sharenfs` in the grammar of ZFS on Linux: the clients of a file system and their
//! identities. Pure.
//!
//! A value that cannot be honoured is refused: an unknown option, an implicit share with every
//! host, a reply before data is durable. `off` and an empty value disable the share.

use std::net::{IpAddr, Ipv6Addr};

use file_system::{Identity, is_owner};

/// Bytes of the property.
const TEXT_BYTES_MAX: usize = 8192;
/// Networks of one share.
const NETWORKS_MAX: usize = 256;
/// User and group of squashed users, by default.
const NOBODY: u32 = 65_534;

/// Why a value is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The value is too long.
    #[error(
        "sharenfs is longer than {TEXT_BYTES_MAX} bytes or has more than {NETWORKS_MAX} networks: name larger networks"
    )]
    TooLong,
    /// The share would be open to every host.
    #[error(
        "sharenfs {option:?} shares with everybody: name the networks, for example rw=192.0.2.0/24"
    )]
    Everybody {
        /// The option.
        option: String,
    },
    /// The option is unknown.
    #[error("sharenfs has the option {option:?}, which is not supported: remove it")]
    UnknownOption {
        /// The option.
        option: String,
    },
    /// The share has no client.
    #[error("sharenfs has no networks: add rw=NETWORK or ro=NETWORK, or set it to off")]
    Nobody,
    /// The value is neither an address nor a network.
    #[error(
        "sharenfs names {text:?}: write an address or a network such as 192.0.2.0/24 or [2001:db8::]/64"
    )]
    BadNetwork {
        /// The value.
        text: String,
    },
    /// The network has host bits.
    #[error("sharenfs names {text:?}, which has host bits behind its prefix: write {network}")]
    HostBits {
        /// The value.
        text: String,
        /// The network that contains it.
        network: String,
    },
    /// The network is listed with different rights.
    #[error("sharenfs names {text:?} for rw and for ro: keep one of them")]
    BothWays {
        /// The network.
        text: String,
    },
    /// The security flavor is unknown.
    #[error(
        "sharenfs has the unknown sec={text}: write sys, krb5, krb5i or krb5p, several separated by colons"
    )]
    Security {
        /// The value.
        text: String,
    },
    /// The transport security is unknown.
    #[error(
        "sharenfs has the unknown xprtsec={text}: write none, tls or mtls, several separated by colons"
    )]
    Transport {
        /// The value.
        text: String,
    },
    /// The value is not a valid number.
    #[error("sharenfs has {option}={text:?}: write a number from 0 to 4294967294")]
    BadNumber {
        /// The option.
        option: String,
        /// The value.
        text: String,
    },
    /// The option is repeated, or used together with its opposite.
    #[error("sharenfs has the option {option:?} twice or with its opposite: keep one of them")]
    Twice {
        /// The option.
        option: String,
    },
}

/// A range of addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// The users that are mapped to the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// None: root is root.
    Nobody,
    /// Root.
    #[default]
    Root,
    /// All users.
    Everybody,
}

/// The security of a connection (RFC 9289).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// None.
    #[default]
    Plain,
    /// TLS without a client certificate.
    Tls,
    /// TLS with a client certificate that a configured authority signed.
    Mutual,
}

/// The security flavor of a call (RFC 2623, 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// AUTH_SYS: user IDs that the server trusts.
    #[default]
    System,
    /// By Kerberos.
    Kerberos,
    /// Kerberos with integrity protection.
    Integrity,
    /// Kerberos with encryption.
    Privacy,
}

impl Security {
    /// The flavors of Kerberos.
    pub const SECURED: [Self; 3] = [Self::Kerberos, Self::Integrity, Self::Privacy];

    /// The number of the pseudo-flavor.
    pub const fn flavor(self) -> u32 {
        match self {
            Self::System => crate::rpc::AUTH_SYS,
            Self::Kerberos => 390_003,
            Self::Integrity => 390_004,
            Self::Privacy => 390_005,
        }
    }

    /// The service number of `RPCSEC_GSS` (RFC 2203, 5.2.1).
    pub const fn service(self) -> Option<u32> {
        match self {
            Self::System => None,
            Self::Kerberos => Some(1),
            Self::Integrity => Some(2),
            Self::Privacy => Some(3),
        }
    }
}

/// The access of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// A share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    networks: Vec<(Network, Access)>,
    squash: Squash,
    anonymous: (u32, u32),
    needs_low_port: bool,
    /// Empty: all transports.
    transports: Vec<Transport>,
    /// In the order that clients receive.
    securities: Vec<Security>,
}

/// The first unprivileged port.
const FIRST_OPEN_PORT: u16 = 1024;

impl Share {
    /// Parses the property; `None` if the share is off.
    pub fn parse(text: &str) -> Result<Option<Self>, ShareError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ShareError::TooLong);
        }
        if matches!(text, "" | "off") {
            return Ok(None);
        }
        let mut parsed = Parsed::default();
        for option in text.split(',') {
            parsed.option(option)?;
        }
        if parsed.networks.is_empty() {
            return Err(ShareError::Nobody);
        }
        Ok(Some(Self {
            networks: parsed.networks,
            squash: parsed.squash.unwrap_or_default(),
            anonymous: (
                parsed.anonymous_uid.unwrap_or(NOBODY),
                parsed.anonymous_gid.unwrap_or(NOBODY),
            ),
            needs_low_port: parsed.needs_low_port.unwrap_or(true),
            transports: parsed.transports.unwrap_or_default(),
            securities: parsed.securities.unwrap_or_else(|| vec![Security::System]),
        }))
    }

    /// Returns the access of a client: that of the smallest matching network; the lesser one of two
    /// equal networks.
    pub fn access(&self, address: IpAddr, port: u16) -> Option<Access> {
        if self.needs_low_port && port >= FIRST_OPEN_PORT {
            return None;
        }
        let matching = self
            .networks
            .iter()
            .filter(|(network, _)| network.contains(address));
        let best = matching
            .max_by_key(|(network, access)| (network.prefix_bits, std::cmp::Reverse(*access)));
        best.map(|(_, access)| *access)
    }

    /// Whether a client may use it over this transport.
    pub fn allows(&self, transport: Transport) -> bool {
        self.transports.is_empty() || self.transports.contains(&transport)
    }

    /// The minimum transport security.
    pub fn least(&self) -> Transport {
        let all = [Transport::Plain, Transport::Tls];
        let least = all.into_iter().find(|one| self.allows(*one));
        least.unwrap_or(Transport::Mutual)
    }

    /// The accepted security flavors.
    pub fn securities(&self) -> &[Security] {
        &self.securities
    }

    /// Removes Kerberos, which the server does not have. Returns whether a flavor is left.
    pub fn remove_kerberos(&mut self) -> bool {
        self.securities.retain(|one| *one == Security::System);
        !self.securities.is_empty()
    }

    /// The identity of an anonymous client.
    pub fn anonymous(&self) -> Identity {
        let (uid, gid) = self.anonymous;
        Identity {
            uid,
            gid,
            groups: Vec::new(),
        }
    }

    /// Maps the identity that a client states.
    pub fn identity(&self, who: Identity) -> Identity {
        let (uid, gid) = self.anonymous;
        match self.squash {
            Squash::Nobody => who,
            Squash::Root => Identity {
                uid: if who.uid == 0 { uid } else { who.uid },
                gid: if who.gid == 0 { gid } else { who.gid },
                groups: who
                    .groups
                    .into_iter()
                    .map(|group| if group == 0 { gid } else { group })
                    .collect(),
            },
            Squash::Everybody => self.anonymous(),
        }
    }
}

#[derive(Default)]
struct Parsed {
    networks: Vec<(Network, Access)>,
    squash: Option<Squash>,
    anonymous_uid: Option<u32>,
    anonymous_gid: Option<u32>,
    needs_low_port: Option<bool>,
    transports: Option<Vec<Transport>>,
    securities: Option<Vec<Security>>,
}

impl Parsed {
    fn option(&mut self, option: &str) -> Result<(), ShareError> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let owned = || option.to_owned();
        match (name, value) {
            ("on" | "rw" | "ro", None) => return Err(ShareError::Everybody { option: owned() }),
            ("rw", Some(hosts)) => self.hosts(hosts, Access::ReadWrite)?,
            ("ro", Some(hosts)) => self.hosts(hosts, Access::ReadOnly)?,
            ("sec", Some(text)) => set(&mut self.securities, securities(text)?, option)?,
            ("xprtsec", Some(text)) => set(&mut self.transports, transports(text)?, option)?,
            // All users are squashed, including root.
            ("root_squash", None) if self.squash == Some(Squash::Everybody) => {}
            ("root_squash", None) => set(&mut self.squash, Squash::Root, option)?,
            ("all_squash", None) if self.squash == Some(Squash::Root) => {
                self.squash = Some(Squash::Everybody);
            }
            ("no_root_squash", None) => set(&mut self.squash, Squash::Nobody, option)?,
            ("all_squash", None) => set(&mut self.squash, Squash::Everybody, option)?,
            ("anonuid", Some(text)) => set(&mut self.anonymous_uid, number(name, text)?, option)?,
            ("anongid", Some(text)) => set(&mut self.anonymous_gid, number(name, text)?, option)?,
            ("secure", None) => set(&mut self.needs_low_port, true, option)?,
            ("insecure", None) => set(&mut self.needs_low_port, false, option)?,
            // The server always does this.
            ("sync" | "no_subtree_check", None) => {}
            _ => return Err(ShareError::UnknownOption { option: owned() }),
        }
        Ok(())
    }

    /// Parses addresses and networks separated by colons; IPv6 addresses are in brackets.
    fn hosts(&mut self, mut text: &str, access: Access) -> Result<(), ShareError> {
        loop {
            let bracket = text
                .find('[')
                .filter(|at| text[..*at].trim_start_matches('@').is_empty());
            let search_from = bracket.and_then(|_| text.find(']')).unwrap_or(0);
            let end = text[search_from..].find(':').map(|at| search_from + at);
            let (host, rest) = match end {
                Some(end) => (&text[..end], Some(&text[end + 1..])),
                None => (text, None),
            };
            if self.networks.len() >= NETWORKS_MAX {
                return Err(ShareError::TooLong);
            }
            let network = Network::parse(host)?;
            let is_other =
                |(known, given): &(Network, Access)| *known == network && *given != access;
            if self.networks.iter().any(is_other) {
                return Err(ShareError::BothWays {
                    text: host.to_owned(),
                });
            }
            self.networks.push((network, access));
            match rest {
                Some(rest) => text = rest,
                None => return Ok(()),
            }
        }
    }
}

fn set<T>(place: &mut Option<T>, value: T, option: &str) -> Result<(), ShareError> {
    if place.replace(value).is_some() {
        return Err(ShareError::Twice {
            option: option.to_owned(),
        });
    }
    Ok(())
}

fn transports(text: &str) -> Result<Vec<Transport>, ShareError> {
    let known = text.split(':').map(|name| match name {
        "none" => Some(Transport::Plain),
        "tls" => Some(Transport::Tls),
        "mtls" => Some(Transport::Mutual),
        _ => None,
    });
    known
        .collect::<Option<_>>()
        .ok_or_else(|| ShareError::Transport {
            text: text.to_owned(),
        })
}

fn securities(text: &str) -> Result<Vec<Security>, ShareError> {
    let bad = || ShareError::Security {
        text: text.to_owned(),
    };
    let mut all = Vec::new();
    for name in text.split(':') {
        let one = match name {
            "sys" => Security::System,
            "krb5" => Security::Kerberos,
            "krb5i" => Security::Integrity,
            "krb5p" => Security::Privacy,
            _ => return Err(bad()),
        };
        if all.contains(&one) {
            return Err(bad());
        }
        all.push(one);
    }
    Ok(all)
}

fn number(option: &str, text: &str) -> Result<u32, ShareError> {
    let number = text.parse().ok().filter(|number| is_owner(*number));
    number.ok_or_else(|| ShareError::BadNumber {
        option: option.to_owned(),
        text: text.to_owned(),
    })
}

impl Network {
    /// Parses `192.0.2.7`, `192.0.2.0/24`, `[2001:db8::7]`, `[2001:db8::]/64`, each optionally
    /// after an `@`.
    fn parse(text: &str) -> Result<Self, ShareError> {
        let bad = || ShareError::BadNetwork {
            text: text.to_owned(),
        };
        let network = text.strip_prefix('@').unwrap_or(text);
        let (address, prefix) = match network.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (network, None),
        };
        let (address, bits): (IpAddr, u8) = match address.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or_else(bad)?;
                (inner.parse::<Ipv6Addr>().map_err(|_| bad())?.into(), 128)
            }
            None => (
                address
                    .parse::<std::net::Ipv4Addr>()
                    .map_err(|_| bad())?
                    .into(),
                32,
            ),
        };
        let prefix_bits = match prefix {
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= bits)
                .ok_or_else(bad)?,
            None => bits,
        };
        let network = Self {
            address,
            prefix_bits,
        };
        if prefix_bits == 0 {
            return Err(ShareError::Everybody {
                option: text.to_owned(),
            });
        }
        // Host bits are a mistake: the author meant another network.
        match network.masked(address) {
            Some(masked) if masked == network.value() => Ok(network),
            Some(masked) => Err(ShareError::HostBits {
                text: text.to_owned(),
                network: match address {
                    IpAddr::V4(_) => {
                        let address = std::net::Ipv4Addr::from_bits(masked as u32);
                        format!("{address}/{prefix_bits}")
                    }
                    IpAddr::V6(_) => {
                        format!("[{}]/{prefix_bits}", Ipv6Addr::from_bits(masked))
                    }
                },
            }),
            None => Err(bad()),
        }
    }

    fn value(&self) -> u128 {
        match self.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// Returns the network bits of an address; `None` if it is of the other family.
    fn masked(&self, address: IpAddr) -> Option<u128> {
        let (value, bits): (u128, u8) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(_), IpAddr::V4(address)) => (address.to_bits().into(), 32),
            (IpAddr::V6(_), IpAddr::V6(address)) => (address.to_bits(), 128),
            _ => return None,
        };
        let rest = u32::from(bits - self.prefix_bits);
        Some(
            value
                .checked_shr(rest)
                .unwrap_or(0)
                .checked_shl(rest)
                .unwrap_or(0),
        )
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.masked(address) == Some(self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(share: &str, address: &str) -> Option<Access> {
        let share = Share::parse(share).expect("a share").expect("not off");
        share.access(address.parse().expect("an address"), 700)
    }

    #[test]
    fn nothing_is_shared_without_a_network() {
        assert_eq!(Share::parse("off"), Ok(None));
        assert_eq!(Share::parse(""), Ok(None));
        for text in ["on", "rw", "ro", "sec=sys,rw"] {
            let parsed = Share::parse(text);
            assert!(
                matches!(parsed, Err(ShareError::Everybody { .. })),
                "{text}: {parsed:?}"
            );
        }
        assert_eq!(
            Share::parse("sec=sys,no_root_squash"),
            Err(ShareError::Nobody)
        );
    }

    #[test]
    fn most_specific_network_applies() {
        let share = "ro=10.0.0.0/8:[2001:db8::]/32,rw=10.1.0.0/16:@10.2.3.4:[2001:db8::7]";
        assert_eq!(access(share, "10.9.9.9"), Some(Access::ReadOnly));
        assert_eq!(access(share, "10.1.9.9"), Some(Access::ReadWrite));
        assert_eq!(access(share, "10.2.3.4"), Some(Access::ReadWrite));
        assert_eq!(access(share, "10.2.3.5"), Some(Access::ReadOnly));
        assert_eq!(access(share, "::ffff:10.1.9.9"), Some(Access::ReadWrite));
        assert_eq!(access(share, "2001:db8::8"), Some(Access::ReadOnly));
        assert_eq!(access(share, "2001:db8::7"), Some(Access::ReadWrite));
        assert_eq!(access(share, "192.0.2.1"), None);
        assert_eq!(
            access("rw=10.0.0.1:10.0.0.1", "10.0.0.1"),
            Some(Access::ReadWrite)
        );
    }

    #[test]
    fn network_with_host_bits_is_refused_with_a_suggestion() {
        for (text, says) in [
            ("rw=10.0.0.7/24", "write 10.0.0.0/24"),
            ("rw=[2001:db8::7]/64", "write [2001:db8::]/64"),
            ("ro=0.0.0.0/0", "everybody"),
            ("rw=[::]/0", "everybody"),
            ("rw=10.0.0.0/24,ro=10.0.0.0/24", "for rw and for ro"),
        ] {
            let error = Share::parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn unsupported_share_options_are_refused() {
        for option in [
            "async",
            "fsid=0",
            "krb5",
            "rw=",
            "RW=10.0.0.1",
            " ro=10.0.0.1",
            "sync=1",
            "acl",
        ] {
            assert!(
                Share::parse(&format!("rw=10.0.0.1,{option}")).is_err(),
                "{option}"
            );
        }
        for host in [
            "10.0.0.0/33",
            "host",
            "*",
            "[::1",
            "2001:db8::1",
            "[::ffff]/a",
            "@",
        ] {
            let parsed = Share::parse(&format!("rw={host}"));
            assert!(
                matches!(parsed, Err(ShareError::BadNetwork { .. })),
                "{host}: {parsed:?}"
            );
        }
        for both in ["root_squash,all_squash", "all_squash,root_squash"] {
            let both = Share::parse(&format!("rw=10.0.0.1,{both}"));
            let all = Share::parse("rw=10.0.0.1,all_squash");
            assert_eq!(both.expect("good"), all.expect("good"));
        }
        let twice = Share::parse("rw=10.0.0.1,root_squash,no_root_squash");
        assert!(matches!(twice, Err(ShareError::Twice { .. })), "{twice:?}");
        assert!(matches!(
            Share::parse("rw=10.0.0.1,sec=lkey"),
            Err(ShareError::Security { .. })
        ));
    }

    #[test]
    fn root_is_squashed_by_default() {
        let root = Identity {
            uid: 0,
            gid: 0,
            groups: vec![0, 5],
        };
        let identity = |text: &str| {
            let share = Share::parse(text).expect("a share").expect("not off");
            let who = share.identity(root.clone());
            (who.uid, who.gid, who.groups)
        };
        assert_eq!(identity("rw=10.0.0.1"), (65_534, 65_534, vec![65_534, 5]));
        assert_eq!(identity("rw=10.0.0.1,no_root_squash"), (0, 0, vec![0, 5]));
        assert_eq!(
            identity("rw=10.0.0.1,all_squash,anonuid=7,anongid=8"),
            (7, 8, vec![])
        );
    }

    #[test]
    fn share_option_sets_transport_security() {
        let allowed = |text: &str| {
            let share = Share::parse(text).expect("a share").expect("not off");
            [Transport::Plain, Transport::Tls, Transport::Mutual].map(|one| share.allows(one))
        };
        assert_eq!(allowed("rw=10.0.0.1"), [true, true, true]);
        let known = Share::parse("rw=10.0.0.1,xprtsec=mtls").expect("a share");
        assert_eq!(known.expect("not off").least(), Transport::Mutual);
        assert_eq!(allowed("rw=10.0.0.1,xprtsec=tls:mtls"), [false, true, true]);
        assert_eq!(allowed("xprtsec=mtls,rw=10.0.0.1"), [false, false, true]);
        assert_eq!(allowed("rw=10.0.0.1,xprtsec=none"), [true, false, false]);
        for text in ["ssl", "", "tls:", "none,xprtsec=tls"] {
            Share::parse(&format!("rw=10.0.0.1,xprtsec={text}")).expect_err(text);
        }
    }

    #[test]
    fn share_option_sets_rpc_security_flavors() {
        let told = |text: &str| {
            let share = Share::parse(text).expect("a share").expect("not off");
            share.securities().to_vec()
        };
        assert_eq!(told("rw=10.0.0.1"), [Security::System]);
        assert_eq!(
            told("rw=10.0.0.1,sec=krb5p:krb5i"),
            [Security::Privacy, Security::Integrity]
        );
        assert_eq!(
            told("sec=sys:krb5,ro=10.0.0.1"),
            [Security::System, Security::Kerberos]
        );
        for text in ["", "krb5:", "krb5:krb5", "KRB5", "none", "sys,sec=krb5"] {
            Share::parse(&format!("rw=10.0.0.1,sec={text}")).expect_err(text);
        }
    }

    #[test]
    fn unprivileged_port_is_refused_by_default() {
        let address = "10.0.0.1".parse().expect("an address");
        let from_port = |text: &str| {
            let share = Share::parse(text).expect("a share").expect("not off");
            share.access(address, 40_000)
        };
        assert_eq!(from_port("rw=10.0.0.1"), None);
        assert_eq!(from_port("rw=10.0.0.1,insecure"), Some(Access::ReadWrite));
    }
}
