//! Networks in access rules: an address and a prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network in CIDR form, such as `10.0.0.0/24` or `fd00::/64`. Host bits are cleared.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(rename = "Subnet")]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a network: write an address, or ADDRESS/BITS such as 10.0.0.0/24")]
pub struct NetworkError {
    text: String,
}

impl Network {
    /// Returns the network of `prefix_bits` leading bits around `address`; `None` if an address has
    /// fewer bits.
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = mask_bits(32, prefix_bits)? as u32;
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = mask_bits(128, prefix_bits)?;
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Some(Self {
            address,
            prefix_bits,
        })
    }

    /// First address of the network.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of leading bits that all its addresses share.
    pub fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }

    /// Returns whether `address` is in it. An IPv4 address that came over an IPv6 socket counts as
    /// IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4()
            && Self::new(address, self.prefix_bits).is_some_and(|net| net.address == self.address)
    }
}

/// The mask of `prefix` leading bits of `width`, in the low `width` bits.
fn mask_bits(width: u8, prefix: u8) -> Option<u128> {
    if prefix > width {
        return None;
    }
    let host_bits = u32::from(width - prefix);
    let all = u128::MAX >> (128 - u32::from(width));
    Some(all.checked_shl(host_bits).unwrap_or(0) & all)
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = || NetworkError {
            text: text.to_owned(),
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let bits = match bits {
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => {
                bits.parse().map_err(|_| refuse())?
            }
            Some(_) => return Err(refuse()),
            None if address.is_ipv4() => 32,
            None => 128,
        };
        Self::new(address, bits).ok_or_else(refuse)
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;
    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_parse_and_host_bits_are_cleared() {
        for (text, shown) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("fd00::1/64", "fd00::/64"),
            ("::/0", "::/0"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "fd00::/129",
            "a/8",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/x",
            "1.2.3.4/+8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn network_membership_uses_only_the_prefix() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.200.3.4", "11.0.0.1"),
            ("10.0.0.0/24", "10.0.0.255", "10.0.1.0"),
            ("192.168.1.5", "192.168.1.5", "192.168.1.4"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
        ] {
            let network: Network = network.parse().unwrap();
            let contains = |text: &str| network.contains(text.parse().unwrap());
            assert!(contains(inside), "{network} {inside}");
            assert!(!contains(outside), "{network} {outside}");
        }
    }
}
