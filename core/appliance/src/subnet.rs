//! Networks written as an address and the length of its prefix, of both families.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network such as `10.77.1.0/24` or `fd00:77:1::/64`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    base: IpAddr,
    prefix: u8,
}

/// Why a text is not a network. The sentence contains the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSubnetError {
    /// Not an address, a slash and a prefix length.
    #[error("{text:?} is not a network: write it like 10.77.1.0/24 or fd00:77:1::/64")]
    Malformed {
        /// The invalid text.
        text: String,
    },
    /// Bits are set right of the prefix.
    #[error("{text:?} names a host, not a network: write {network}")]
    HostBits {
        /// The invalid text.
        text: String,
        /// The network that was probably meant.
        network: Subnet,
    },
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(four.to_bits()) << 96,
        IpAddr::V6(six) => six.to_bits(),
    }
}

/// The leftmost `prefix` bits set.
const fn mask(prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        _ => u128::MAX << (128 - prefix as u32),
    }
}

impl Subnet {
    /// Bits of the network part.
    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether `address` belongs to this network (never across families).
    pub fn contains(self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4()
            && bits_of(address) & mask(self.prefix) == bits_of(self.base)
    }

    /// Whether the two networks share an address.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.base) || other.contains(self.base)
    }

    /// Whether no host may have `address` here: the network's own and IPv4's broadcast address,
    /// except in the two smallest IPv4 networks (RFC 3021), and the router anycast address of
    /// IPv6 (RFC 4291, section 2.6.1).
    pub fn reserves(self, address: IpAddr) -> bool {
        let host_bits_mask = !mask(self.prefix);
        match address {
            IpAddr::V4(_) if self.prefix >= 31 => false,
            IpAddr::V4(_) => {
                let host = (bits_of(address) & host_bits_mask) >> 96;
                host == 0 || host == host_bits_mask >> 96
            }
            IpAddr::V6(_) => self.prefix < 127 && bits_of(address) & host_bits_mask == 0,
        }
    }

    fn of(address: IpAddr, prefix: u8) -> Self {
        let bits = bits_of(address) & mask(prefix);
        let base = match address {
            IpAddr::V4(_) => IpAddr::from(((bits >> 96) as u32).to_be_bytes()),
            IpAddr::V6(_) => IpAddr::from(bits.to_be_bytes()),
        };
        Self { base, prefix }
    }
}

impl FromStr for Subnet {
    type Err = ParseSubnetError;

    fn from_str(text: &str) -> Result<Self, ParseSubnetError> {
        let malformed = || ParseSubnetError::Malformed {
            text: text.to_owned(),
        };
        let (address, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let prefix: u8 = prefix.parse().map_err(|_| malformed())?;
        let prefix_max = if address.is_ipv4() { 32 } else { 128 };
        if prefix > prefix_max {
            return Err(malformed());
        }
        let network = Self::of(address, prefix);
        if network.base != address {
            return Err(ParseSubnetError::HostBits {
                text: text.to_owned(),
                network,
            });
        }
        Ok(network)
    }
}

impl TryFrom<String> for Subnet {
    type Error = ParseSubnetError;
    fn try_from(text: String) -> Result<Self, ParseSubnetError> {
        text.parse()
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        text.parse().unwrap()
    }

    #[test]
    fn subnet_contains_only_its_own_addresses() {
        for (network, address, inside) in [
            ("10.77.1.0/24", "10.77.1.255", true),
            ("10.77.1.0/24", "10.77.2.1", false),
            ("10.77.1.0/24", "::a4d:101", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("fd00:77:1::/64", "fd00:77:1::5", true),
            ("fd00:77:1::/64", "fd00:77:2::5", false),
            ("10.0.0.4/32", "10.0.0.4", true),
        ] {
            assert_eq!(
                subnet(network).contains(address.parse().unwrap()),
                inside,
                "{network} {address}"
            );
        }
    }

    #[test]
    fn subnet_with_host_bits_is_refused_with_a_suggestion() {
        let refused = "10.77.1.9/24".parse::<Subnet>().unwrap_err();
        assert!(refused.to_string().ends_with("write 10.77.1.0/24"));
        for bad in [
            "",
            "10.77.1.0",
            "10.77.1.0/33",
            "fd00::/129",
            "x/24",
            "10.77.1.0/-1",
        ] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn network_and_broadcast_addresses_are_reserved() {
        for (network, address, reserved) in [
            ("10.77.1.0/24", "10.77.1.0", true),
            ("10.77.1.0/24", "10.77.1.255", true),
            ("10.77.1.0/24", "10.77.1.1", false),
            ("10.77.1.0/31", "10.77.1.0", false),
            ("fd00:77:1::/64", "fd00:77:1::", true),
            ("fd00:77:1::/64", "fd00:77:1::ffff", false),
        ] {
            assert_eq!(
                subnet(network).reserves(address.parse().unwrap()),
                reserved,
                "{network} {address}"
            );
        }
    }

    #[test]
    fn subnets_overlap_if_one_contains_the_other() {
        assert!(subnet("10.0.0.0/8").overlaps(subnet("10.77.1.0/24")));
        assert!(!subnet("10.77.1.0/24").overlaps(subnet("10.77.2.0/24")));
        assert!(!subnet("0.0.0.0/0").overlaps(subnet("::/0")));
    }
}
