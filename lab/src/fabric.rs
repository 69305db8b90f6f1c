//! The cabling: which node is plugged in where, with which addresses, derived from the appliance
//! file alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use appliance::{Appliance, Subnet};
use serde::{Deserialize, Serialize};
use units::{HeadName, NetworkName};

/// Longest name of an interface (Linux, IFNAMSIZ without its end).
const INTERFACE_NAME_BYTES_MAX: usize = 15;
/// How many addresses are tried for a client in one network.
const ADDRESSES_TRIED_MAX: u32 = 4_096;

/// One end of a cable, with its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The network it leads into.
    pub network: NetworkName,
    /// The interface's name on the node.
    pub interface: String,
    /// Addresses with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Longest packet, in bytes.
    pub mtu: u32,
}

/// A power distribution unit and the heads on its outlets.
pub type Outlets = BTreeMap<String, BTreeSet<(String, HeadName)>>;

fn subnet_of(appliance: &Appliance, network: &NetworkName, address: IpAddr) -> Option<Subnet> {
    let network = appliance.networks.get(network)?;
    let mut subnets = network.subnets.iter();
    subnets.find(|subnet| subnet.contains(address)).copied()
}

fn with_prefix(appliance: &Appliance, network: &NetworkName, address: IpAddr) -> (IpAddr, u8) {
    let host = if address.is_ipv4() { 32 } else { 128 };
    let subnet = subnet_of(appliance, network, address);
    (address, subnet.map_or(host, Subnet::prefix))
}

/// The interfaces of a head.
pub fn head_ports(appliance: &Appliance, head: &HeadName) -> Vec<Port> {
    let links = appliance.heads.get(head).map(|head| &head.links);
    links
        .into_iter()
        .flatten()
        .map(|(network, link)| Port {
            network: network.clone(),
            interface: link.interface.clone(),
            addresses: link
                .addresses
                .iter()
                .map(|address| with_prefix(appliance, network, *address))
                .collect(),
            mtu: appliance.networks.get(network).map_or(1_500, |n| n.mtu),
        })
        .collect()
}

/// The interface of a device with a single address; `None` if no network contains the address.
pub fn single_port(appliance: &Appliance, address: IpAddr, interface: &str) -> Option<Port> {
    let network = appliance.network_of(address)?;
    Some(Port {
        network: network.clone(),
        interface: interface.to_owned(),
        addresses: vec![with_prefix(appliance, network, address)],
        mtu: appliance.networks[network].mtu,
    })
}

/// The client's interfaces: one in every network, with a free address of every subnet, and the
/// addresses that the witness' heads try to reach, as if it were the router, too.
pub fn client_ports(appliance: &Appliance) -> Vec<Port> {
    let witness = appliance.quorum.as_ref().and_then(|q| q.witness.as_ref());
    let reach: Vec<IpAddr> = witness.map_or_else(Vec::new, |witness| witness.reach.clone());
    let mut used = used_addresses(appliance);
    let mut ports = Vec::new();
    for (index, (name, network)) in appliance.networks.iter().enumerate() {
        let free = network.subnets.iter().filter_map(|subnet| {
            let address = free_address(*subnet, &used)?;
            used.insert(address);
            Some((address, subnet.prefix()))
        });
        let mut addresses: Vec<_> = free.collect();
        let routers = reach.iter().filter(|address| {
            network
                .subnets
                .iter()
                .any(|subnet| subnet.contains(**address))
                && !is_in_use(appliance, **address)
        });
        addresses.extend(routers.map(|address| with_prefix(appliance, name, *address)));
        ports.push(Port {
            network: name.clone(),
            interface: interface_name(name, index),
            addresses,
            mtu: network.mtu,
        });
    }
    ports
}

/// The network's name where it fits, else a number.
fn interface_name(network: &NetworkName, index: usize) -> String {
    let name = network.as_str();
    let fits = name.len() <= INTERFACE_NAME_BYTES_MAX && name != "lo";
    match fits {
        true => name.to_owned(),
        false => format!("net{index}"),
    }
}

/// Addresses of heads, devices and pools.
fn own_addresses(appliance: &Appliance) -> BTreeSet<IpAddr> {
    let heads = appliance.heads.values();
    let links = heads.clone().flat_map(|head| head.links.values());
    let bmcs = heads
        .filter_map(|head| head.fencing.as_ref()?.bmc.as_ref())
        .map(|bmc| bmc.address);
    let pools = appliance.pools.values().flat_map(|pool| &pool.addresses);
    let witness = appliance.quorum.as_ref().and_then(|q| q.witness.as_ref());
    let remembering = appliance.witness.iter();
    links
        .flat_map(|link| link.addresses.iter().copied())
        .chain(bmcs)
        .chain(appliance.pdus.values().map(|pdu| pdu.address))
        .chain(pools.map(|one| one.address))
        .chain(witness.map(|witness| witness.address))
        .chain(remembering.flat_map(|witness| witness.addresses.iter().copied()))
        .collect()
}

fn is_in_use(appliance: &Appliance, address: IpAddr) -> bool {
    own_addresses(appliance).contains(&address)
}

/// Addresses of one node.
pub fn used_addresses(appliance: &Appliance) -> BTreeSet<IpAddr> {
    let mut used = own_addresses(appliance);
    let witness = appliance.quorum.as_ref().and_then(|q| q.witness.as_ref());
    used.extend(witness.iter().flat_map(|witness| &witness.reach));
    used
}

/// A free address near the end of the subnet, where people seldom put anything.
fn free_address(subnet: Subnet, used: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    let text = subnet.to_string();
    let base: IpAddr = text.split_once('/')?.0.parse().ok()?;
    let host_bits = match base {
        IpAddr::V4(_) => 32 - u32::from(subnet.prefix()),
        // Sixteen bits of the rest are enough to choose from.
        IpAddr::V6(_) => (128 - u32::from(subnet.prefix())).min(16),
    };
    let last = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
    let nth = |host: u128| match base {
        IpAddr::V4(four) => IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() | host as u32)),
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() | host)),
    };
    (0..=last.min(u128::from(ADDRESSES_TRIED_MAX)))
        .map(|back| nth(last - back))
        .find(|address| !used.contains(address) && !subnet.reserves(*address))
}

/// A free address in the subnet of `beside`. It is used from then on.
pub fn free_address_near(
    appliance: &Appliance,
    beside: IpAddr,
    used: &mut BTreeSet<IpAddr>,
) -> Option<IpAddr> {
    let network = appliance.network_of(beside)?;
    let free = free_address(subnet_of(appliance, network, beside)?, used)?;
    used.insert(free);
    Some(free)
}

/// The head on each outlet.
pub fn outlets(appliance: &Appliance) -> Outlets {
    let mut outlets = Outlets::new();
    for (name, head) in &appliance.heads {
        for outlet in head.fencing.iter().flat_map(|fencing| &fencing.outlets) {
            let unit = outlets.entry(outlet.pdu.clone()).or_default();
            unit.insert((outlet.outlet.clone(), name.clone()));
        }
    }
    outlets
}

/// A locally administered hardware address, the same at every boot. `kind` distinguishes nodes of
/// the same number.
pub fn mac(kind: u8, number: u32, port: usize) -> String {
    let [_, _, high, low] = number.to_be_bytes();
    format!("02:4c:{kind:02x}:{high:02x}:{low:02x}:{:02x}", port & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(text: &str) -> Appliance {
        appliance::parse(text).expect("well formed").appliance
    }

    fn witness() -> Appliance {
        example(include_str!("../../examples/witness.toml"))
    }

    #[test]
    fn a_head_has_the_interfaces_of_the_file() {
        let ports = head_ports(&witness(), &"left".parse().expect("a name"));
        let names: Vec<&str> = ports.iter().map(|port| port.interface.as_str()).collect();
        assert_eq!(names, ["eno1", "ens1f0", "ens1f1"]);
        assert_eq!(ports[1].addresses[0].0.to_string(), "10.77.1.11");
        assert_eq!((ports[1].addresses[0].1, ports[1].mtu), (24, 9_000));
    }

    #[test]
    fn client_has_free_addresses_and_responds_as_routers() {
        let appliance = witness();
        let ports = client_ports(&appliance);
        assert_eq!(ports.len(), 3);
        let of = |name: &str| {
            let port = ports.iter().find(|port| port.network.as_str() == name);
            let port = port.expect("a port");
            let texts = port.addresses.iter().map(|one| one.0.to_string());
            (port.interface.clone(), texts.collect::<Vec<_>>())
        };
        let (name, addresses) = of("storage-a");
        assert_eq!(name, "storage-a");
        assert_eq!(addresses, ["10.77.1.254", "10.77.1.1"]);
        assert_eq!(of("management").1, ["10.77.9.254"]);
        let both = example(include_str!("../../examples/two-pools.toml"));
        let ports = client_ports(&both);
        let six = ports.iter().flat_map(|port| &port.addresses);
        assert_eq!(six.filter(|one| one.0.is_ipv6()).count(), 3);
    }

    #[test]
    fn used_address_is_skipped_and_full_network_has_none() {
        let subnet: Subnet = "10.0.0.0/30".parse().expect("a subnet");
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut used = BTreeSet::from([address("10.0.0.2")]);
        assert_eq!(free_address(subnet, &used), Some(address("10.0.0.1")));
        used.insert(address("10.0.0.1"));
        assert_eq!(free_address(subnet, &used), None);
        let appliance = witness();
        let mut used = used_addresses(&appliance);
        let mut beside = || free_address_near(&appliance, address("10.77.9.11"), &mut used);
        assert_eq!(beside(), Some(address("10.77.9.254")));
        assert_eq!(beside(), Some(address("10.77.9.253")));
    }

    #[test]
    fn address_outside_all_networks_has_no_port() {
        let nowhere = "192.0.2.1".parse().expect("an address");
        assert_eq!(single_port(&witness(), nowhere, "bmc0"), None);
    }
}
