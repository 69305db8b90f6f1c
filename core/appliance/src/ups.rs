//! The uninterruptible power supplies of an appliance: which of them feed which head, and when the heads shut down.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::HeadName;

/// The port of `upsd` (RFC 9271, section 5).
const UPSD_PORT: u16 = 3493;
/// The longest name of a UPS, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The uninterruptible power supplies, as reported by Network UPS Tools (NUT).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ups {
    /// On battery, a UPS counts as low at this charge, in percent. It also does when it reports so itself.
    #[serde(default = "default_shutdown_below")]
    #[schemars(range(min = 1, max = 95))]
    pub shutdown_below: u8,
    /// On battery, a UPS counts as low when it can supply its load for this time only, in seconds.
    #[serde(default = "default_shutdown_runtime_s")]
    pub shutdown_runtime_s: u32,
    /// The supplies by name, such as `a`.
    pub feeds: BTreeMap<String, Feed>,
}

/// One uninterruptible power supply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// Its name at its `upsd`, and the address of that, as `NAME@ADDRESS` or `NAME@ADDRESS:PORT`, such as
    /// `rack-a@10.77.9.51`. The port is 3493 by default.
    pub ups: UpsAddress,
    /// The heads that it supplies. Absent: all.
    #[schemars(with = "Option<Vec<String>>")]
    pub heads: Option<Vec<HeadName>>,
    /// Name of an account of `upsd.users`, where `upsd` requires one.
    pub user: Option<String>,
    /// File on each head that holds its password, readable by root only.
    pub password_file: Option<PathBuf>,
}

/// A UPS of an `upsd`, as `NAME@ADDRESS:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct UpsAddress {
    /// The name of the UPS there.
    pub name: String,
    /// The address of `upsd`.
    pub upsd: SocketAddr,
}

impl TryFrom<String> for UpsAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no UPS: write NAME@ADDRESS or NAME@ADDRESS:PORT, such as rack-a@10.77.9.51; names of \
                 hosts may not resolve during a power failure"
            )
        };
        let (name, upsd) = text.split_once('@').ok_or_else(wrong)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            return Err(wrong());
        }
        let upsd = match upsd.strip_prefix("localhost") {
            Some(rest) if rest.is_empty() || rest.starts_with(':') => {
                format!("{}{rest}", Ipv4Addr::LOCALHOST)
            }
            _ => upsd.to_owned(),
        };
        let host = upsd
            .strip_prefix('[')
            .and_then(|upsd| upsd.strip_suffix(']'));
        let host: Result<IpAddr, _> = host.unwrap_or(&upsd).parse();
        let upsd = match host {
            Ok(address) => SocketAddr::new(address, UPSD_PORT),
            Err(_) => upsd.parse().map_err(|_| wrong())?,
        };
        Ok(Self {
            name: name.to_owned(),
            upsd,
        })
    }
}

impl From<UpsAddress> for String {
    fn from(ups: UpsAddress) -> Self {
        ups.to_string()
    }
}

impl fmt::Display for UpsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, upsd } = self;
        match (upsd.port(), upsd.ip()) {
            (UPSD_PORT, address) => write!(f, "{name}@{address}"),
            _ => write!(f, "{name}@{upsd}"),
        }
    }
}

impl Ups {
    /// The names of the supplies of a head.
    pub fn feeds_of<'a>(&'a self, head: &'a HeadName) -> impl Iterator<Item = (&'a str, &'a Feed)> {
        let feeds = self.feeds.iter();
        let feeds = feeds.filter(move |(_, feed)| match &feed.heads {
            Some(heads) => heads.contains(head),
            None => true,
        });
        feeds.map(|(name, feed)| (name.as_str(), feed))
    }
}

const fn default_shutdown_below() -> u8 {
    30
}

/// Enough to stop the pools, and the hosts.
const fn default_shutdown_runtime_s() -> u32 {
    300
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<UpsAddress, String> {
        UpsAddress::try_from(text.to_owned())
    }

    #[test]
    fn supplies_are_named_as_at_their_server() {
        for (text, upsd, shown) in [
            ("rack-a@10.77.9.51", "10.77.9.51:3493", "rack-a@10.77.9.51"),
            (
                "rack-a@10.77.9.51:3493",
                "10.77.9.51:3493",
                "rack-a@10.77.9.51",
            ),
            ("a@10.77.9.51:99", "10.77.9.51:99", "a@10.77.9.51:99"),
            ("a@localhost", "127.0.0.1:3493", "a@127.0.0.1"),
            ("a@localhost:99", "127.0.0.1:99", "a@127.0.0.1:99"),
            ("a@fd00::1", "[fd00::1]:3493", "a@fd00::1"),
            ("a@[fd00::1]", "[fd00::1]:3493", "a@fd00::1"),
            ("a@[fd00::1]:99", "[fd00::1]:99", "a@[fd00::1]:99"),
        ] {
            let found = parsed(text).expect("an address");
            assert_eq!(found.upsd.to_string(), upsd);
            assert_eq!(found.to_string(), shown);
            assert_eq!(parsed(&found.to_string()), Ok(found));
        }
        for text in [
            "",
            "a",
            "@10.0.0.1",
            "a@",
            "a b@10.0.0.1",
            "a\n@10.0.0.1",
            "a@host",
            "a@10.0.0.1:x",
            "a@localhostile",
        ] {
            assert!(parsed(text).is_err(), "{text:?}");
        }
    }
}
