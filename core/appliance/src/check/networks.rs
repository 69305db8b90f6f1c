//! Checks networks, links between heads, and every address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use units::{HeadName, NetworkName};

use super::{Checker, Code, head_key, network_key, pool_key};
use crate::key::Key;

/// Highest number of a heartbeat link (corosync.conf(5), `linknumber`).
const LINK_NUMBER_MAX: u8 = 7;
/// Packets that every host must accept: IPv4 (RFC 791) and IPv6 (RFC 8200, section 5).
const MTU_MIN_IPV4: u32 = 576;
const MTU_MIN_IPV6: u32 = 1_280;
const MTU_MAX: u32 = 65_535;

pub(super) fn check(checker: &mut Checker<'_>) {
    check_networks(checker);
    check_heartbeats(checker);
    check_families(checker);
    check_addresses(checker);
    check_serving(checker);
    check_own_addresses(checker);
}

fn check_networks(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let mut seen: Vec<(&NetworkName, crate::Subnet)> = Vec::new();
    for (name, network) in &appliance.networks {
        let has_ipv6 = network
            .subnets
            .iter()
            .any(|subnet| subnet.to_string().contains(':'));
        let mtu_min = if has_ipv6 { MTU_MIN_IPV6 } else { MTU_MIN_IPV4 };
        if !(mtu_min..=MTU_MAX).contains(&network.mtu) {
            checker.find(
                Code::MtuUnfit,
                &network_key(name).field("mtu"),
                format!("packets of {} bytes", network.mtu),
                format!("write {mtu_min} to {MTU_MAX}; usual are 1500 and 9000"),
            );
        }
        for (index, subnet) in network.subnets.iter().enumerate() {
            if let Some((other, overlap)) = seen.iter().find(|(_, one)| one.overlaps(*subnet)) {
                let (other, overlap) = (*other, *overlap);
                checker.find(
                    Code::NetworksOverlap,
                    &network_key(name).field("subnets").item(index),
                    format!("{subnet} overlaps {overlap} of {other}"),
                    "give each network address ranges of its own",
                );
            }
            seen.push((name, *subnet));
        }
    }
}

fn check_heartbeats(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let mut first: BTreeMap<u8, &NetworkName> = BTreeMap::new();
    for (name, network) in &appliance.networks {
        let Some(number) = network.heartbeat else {
            continue;
        };
        let key = network_key(name).field("heartbeat");
        if number > LINK_NUMBER_MAX {
            checker.find(
                Code::HeartbeatNumber,
                &key,
                format!("there is no link {number}"),
                format!("use a number from 0 to {LINK_NUMBER_MAX}"),
            );
        }
        if let Some(other) = first.insert(number, name) {
            checker.find(
                Code::HeartbeatNumber,
                &key,
                format!("{name} and {other} both are link {number}"),
                "give each network with heartbeats a number of its own",
            );
        }
    }
    match first.len() {
        0 => checker.find(
            Code::NoLink,
            &Key::of("networks"),
            "no network carries heartbeats",
            "write heartbeat = 0, heartbeat = 1, ... in the networks that should",
        ),
        1 if appliance.heads.len() > 1 => checker.find(
            Code::OneLink,
            &Key::of("networks"),
            "all heartbeats run over one network",
            "write heartbeat = NUMBER in a second network with its own switch",
        ),
        _ => {}
    }
    for network in first.values() {
        for (name, head) in &appliance.heads {
            if !head.links.contains_key(*network) {
                off_network(checker, name, network, "it carries heartbeats");
            }
        }
    }
}

fn off_network(checker: &mut Checker<'_>, head: &HeadName, network: &NetworkName, because: &str) {
    checker.find(
        Code::HeadOffNetwork,
        &head_key(head).field("links"),
        format!("{head} has no link in {network}, and {because}"),
        format!("add {network} = {{ interface = \"...\", addresses = [...] }} to its links"),
    );
}

/// Checks that both sides of each heartbeat link have an address of the same family.
fn check_families(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for network in appliance.heartbeat_networks().into_values() {
        let links: Vec<_> = appliance
            .heads
            .values()
            .filter_map(|head| head.links.get(network))
            .collect();
        let all_have = |is_family: fn(&IpAddr) -> bool| {
            links
                .iter()
                .all(|link| link.addresses.iter().any(is_family))
        };
        if !links.is_empty() && !all_have(IpAddr::is_ipv4) && !all_have(IpAddr::is_ipv6) {
            checker.find(
                Code::LinkFamily,
                &network_key(network),
                format!("the heads have no common family of addresses in {network}"),
                "give every head an IPv4 address there, or every head an IPv6 address",
            );
        }
    }
}

/// One address of the file: its key, its owner, and the network it should belong to.
struct Written<'a> {
    key: Key,
    owner: String,
    address: IpAddr,
    network: &'a NetworkName,
}

fn written<'a>(checker: &Checker<'a>) -> Vec<Written<'a>> {
    let appliance = checker.appliance;
    let mut all = Vec::new();
    for (name, head) in &appliance.heads {
        for (network, link) in &head.links {
            for (index, address) in link.addresses.iter().enumerate() {
                let key = head_key(name).field("links").field(network);
                all.push(Written {
                    key: key.field("addresses").item(index),
                    owner: format!("head {name}"),
                    address: *address,
                    network,
                });
            }
        }
    }
    for (name, pool) in &appliance.pools {
        for (index, address) in pool.addresses.iter().enumerate() {
            let key = pool_key(name).field("addresses").item(index);
            all.push(Written {
                key: key.field("address"),
                owner: format!("pool {name}"),
                address: address.address,
                network: &address.network,
            });
        }
    }
    all
}

fn check_addresses(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let mut first: BTreeMap<IpAddr, String> = BTreeMap::new();
    for one in written(checker) {
        let network = appliance.networks.get_key_value(one.network);
        if let Some((name, network)) = network {
            let subnet = network.subnets.iter().find(|s| s.contains(one.address));
            match subnet {
                None => checker.find(
                    Code::AddressOutsideNetwork,
                    &one.key,
                    format!("{} of {} is not in {name}", one.address, one.owner),
                    format!("use an address of {}", subnets_text(&network.subnets)),
                ),
                Some(subnet) if subnet.reserves(one.address) => checker.find(
                    Code::AddressReserved,
                    &one.key,
                    format!("{} is not for hosts in {subnet}", one.address),
                    "use another address of the network",
                ),
                Some(_) => {}
            }
        }
        if let Some(other) = first.insert(one.address, one.owner.clone()) {
            checker.find(
                Code::AddressTwice,
                &one.key,
                format!("{} belongs to {other} and to {}", one.address, one.owner),
                "give each its own address",
            );
        }
    }
}

fn subnets_text(subnets: &[crate::Subnet]) -> String {
    let texts: Vec<String> = subnets.iter().map(ToString::to_string).collect();
    texts.join(" or ")
}

/// Checks that each head that may serve a pool has an address in the networks of the pool's
/// addresses.
fn check_serving(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, pool) in &appliance.pools {
        for head_name in appliance.heads_of(pool) {
            let Some(head) = appliance.heads.get(&head_name) else {
                continue;
            };
            let mut told: Vec<&NetworkName> = Vec::new();
            for address in &pool.addresses {
                let network = &address.network;
                if !head.links.contains_key(network) && !told.contains(&network) {
                    told.push(network);
                    let because = format!("pool {name} has an address there");
                    off_network(checker, &head_name, network, &because);
                }
            }
        }
    }
}

/// Where heads use different interface names, each needs an address of its own in the range of
/// every address that may move to it.
fn check_own_addresses(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, pool) in &appliance.pools {
        for address in &pool.addresses {
            let Some(network) = appliance.networks.get(&address.network) else {
                continue;
            };
            let heads = appliance.heads_of(pool);
            let links: Vec<_> = heads
                .iter()
                .filter_map(|head| {
                    Some((
                        head,
                        appliance.heads.get(head)?.links.get(&address.network)?,
                    ))
                })
                .collect();
            let differ = links
                .windows(2)
                .any(|two| two[0].1.interface != two[1].1.interface);
            let subnet = network.subnets.iter().find(|s| s.contains(address.address));
            let Some(subnet) = subnet.filter(|_| differ) else {
                continue;
            };
            for (head, link) in links {
                if !link.addresses.iter().any(|own| subnet.contains(*own)) {
                    checker.find(
                        Code::HeadAddressMissing,
                        &head_key(head).field("links").field(&address.network),
                        format!("{head} has no address in {subnet}, where {} of {name} moves", address.address),
                        format!("give {head} an address in {subnet}, or the interface the same name on every head"),
                    );
                }
            }
        }
    }
}
