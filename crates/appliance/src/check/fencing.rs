//! How heads are powered off, and that they do not power each other off.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use units::HeadName;

use super::{Checker, Code, head_key};
use crate::file::{Fencing, QuorumRule};
use crate::key::Key;

pub(super) fn check(checker: &mut Checker<'_>) {
    if checker.appliance.heads.len() < 2 {
        return;
    }
    check_names(checker);
    for (name, head) in &checker.appliance.heads {
        match &head.fencing {
            Some(fencing) if fencing.bmc.is_some() || !fencing.outlets.is_empty() => {
                check_fate(checker, name, fencing);
                check_reach(checker, name, fencing);
            }
            _ => checker.find(
                Code::NoFencing,
                &head_key(name).field("fencing"),
                format!("nobody can power {name} off"),
                format!("describe its BMC as [heads.{name}.fencing.bmc], or its outlets, or both"),
            ),
        }
    }
    check_shared_network(checker);
    check_twice(checker);
    check_delays(checker);
}

/// What divides the entries of Pacemaker's `pcmk_host_map`.
const OUTLET_FORBIDDEN: &[char] = &[':', ';', ',', '='];

fn check_names(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, pdu) in &appliance.pdus {
        let rest = pdu.agent.strip_prefix("fence_").unwrap_or_default();
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if rest.is_empty() || !rest.bytes().all(plain) {
            checker.find(
                Code::FenceAgent,
                &Key::of("pdus").field(name).field("agent"),
                format!("{:?} is no fence agent", pdu.agent),
                "write one of the names that `stonith_admin --list-installed` prints, such as fence_apc_snmp",
            );
        }
    }
    for (name, head) in &appliance.heads {
        let outlets = head.fencing.iter().flat_map(|fencing| &fencing.outlets);
        for (index, outlet) in outlets.enumerate() {
            let bad = |c: char| c.is_whitespace() || OUTLET_FORBIDDEN.contains(&c);
            if outlet.outlet.is_empty() || outlet.outlet.contains(bad) {
                checker.find(
                    Code::OutletName,
                    &key_of(name).field("outlets").item(index).field("outlet"),
                    format!("{:?} cannot be passed to a fence agent", outlet.outlet),
                    "write the outlet's number",
                );
            }
        }
    }
}

fn key_of(head: &HeadName) -> Key {
    head_key(head).field("fencing")
}

/// The addresses of all devices that power a head off, with the keys that name them.
fn device_addresses(
    checker: &Checker<'_>,
    head: &HeadName,
    fencing: &Fencing,
) -> Vec<(Key, IpAddr)> {
    let bmc = fencing
        .bmc
        .iter()
        .map(|bmc| (key_of(head).field("bmc").field("address"), bmc.address));
    let outlets = fencing
        .outlets
        .iter()
        .enumerate()
        .filter_map(|(index, outlet)| {
            let pdu = checker.appliance.pdus.get(&outlet.pdu)?;
            Some((key_of(head).field("outlets").item(index), pdu.address))
        });
    bmc.chain(outlets).collect()
}

fn check_fate(checker: &mut Checker<'_>, name: &HeadName, fencing: &Fencing) {
    let appliance = checker.appliance;
    let links = appliance
        .heads
        .values()
        .flat_map(|head| head.links.values());
    let of_heads = links.flat_map(|link| link.addresses.iter().copied());
    let pools = appliance.pools.values().flat_map(|pool| &pool.addresses);
    let own: BTreeSet<IpAddr> = of_heads
        .chain(pools.map(|address| address.address))
        .collect();
    for (key, address) in device_addresses(checker, name, fencing) {
        if own.contains(&address) {
            checker.find(
                Code::FencingOnHead,
                &key,
                format!("{address} is an address of the appliance itself"),
                "write the address of the BMC or PDU, which lives outside the operating system",
            );
        }
    }
    let units: BTreeSet<&String> = fencing.outlets.iter().map(|outlet| &outlet.pdu).collect();
    if fencing.outlets.is_empty() {
        checker.find(
            Code::FencingSharesPower,
            &key_of(name),
            format!("{name} can be powered off by its BMC only"),
            "add the outlets of its power supplies; without switched outlets an operator must confirm by hand when the power fails",
        );
    } else if units.len() == 1 {
        checker.find(
            Code::OneOutlet,
            &key_of(name).field("outlets"),
            format!("all power of {name} comes from one PDU"),
            "list the outlets of all its power supplies, on PDUs with separate feeds",
        );
    }
}

/// Every other head must have a link in the network of the device.
fn check_reach(checker: &mut Checker<'_>, name: &HeadName, fencing: &Fencing) {
    let appliance = checker.appliance;
    for (key, address) in device_addresses(checker, name, fencing) {
        // A device outside the described networks is reached by routes that the file does not know.
        let Some(network) = appliance.network_of(address) else {
            continue;
        };
        for (other, head) in &appliance.heads {
            if other != name && !head.links.contains_key(network) {
                checker.find(
                    Code::FencingUnreachable,
                    &key,
                    format!("{other} has no link in {network}, where {address} is"),
                    format!("connect {other} to {network} and add the link to the file"),
                );
            }
        }
    }
}

fn check_shared_network(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let heartbeats: Vec<_> = appliance.heartbeat_networks().into_values().collect();
    let [only] = heartbeats.as_slice() else {
        return;
    };
    for (name, head) in &appliance.heads {
        let Some(fencing) = &head.fencing else {
            continue;
        };
        let devices = device_addresses(checker, name, fencing);
        let all_there = devices
            .iter()
            .all(|(_, address)| appliance.network_of(*address) == Some(*only));
        if all_there && !devices.is_empty() {
            checker.find(
                Code::FencingSharesNetwork,
                &key_of(name),
                format!("the devices that power {name} off are in {only}, as are all heartbeats"),
                "run heartbeats over a further network",
            );
        }
    }
}

fn check_twice(checker: &mut Checker<'_>) {
    let mut first: BTreeMap<String, HeadName> = BTreeMap::new();
    for (name, head) in &checker.appliance.heads {
        let Some(fencing) = &head.fencing else {
            continue;
        };
        let bmc = fencing.bmc.iter().map(|bmc| {
            let device = format!("BMC {} port {}", bmc.address, bmc.port);
            (key_of(name).field("bmc").field("address"), device)
        });
        let outlets = fencing.outlets.iter().enumerate().map(|(index, outlet)| {
            let device = format!("outlet {} of PDU {}", outlet.outlet, outlet.pdu);
            (key_of(name).field("outlets").item(index), device)
        });
        for (key, device) in bmc.chain(outlets).collect::<Vec<_>>() {
            if let Some(other) = first.insert(device.clone(), name.clone()) {
                checker.find(
                    Code::FenceDeviceTwice,
                    &key,
                    format!("{device} is said to power {other} and {name}"),
                    "look at the cables and write each device once",
                );
            }
        }
    }
}

fn check_delays(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let Some(quorum) = &appliance.quorum else {
        return;
    };
    let delays: Vec<(&HeadName, u32)> = appliance
        .heads
        .iter()
        .filter_map(|(name, head)| Some((name, head.fencing.as_ref()?.delay_s)))
        .collect();
    match (quorum.rule, delays.as_slice()) {
        (QuorumRule::TwoNode, [(_, a), (last, b)]) if a == b => checker.find(
            Code::FenceDelayEqual,
            &key_of(last).field("delay_s"),
            match a {
                0 => "neither head has a delay before it is powered off".to_owned(),
                _ => format!("both heads are powered off after {a} s"),
            },
            "write delay_s = 1 for the head that serves fewer pools, and 0 for the other",
        ),
        (QuorumRule::Witness | QuorumRule::Majority, delays) => {
            for (name, delay) in delays.iter().filter(|(_, delay)| *delay > 0) {
                checker.find(
                    Code::FenceDelayNeedless,
                    &key_of(name).field("delay_s"),
                    format!("{name} is powered off {delay} s later than possible"),
                    "remove delay_s",
                );
            }
        }
        _ => {}
    }
}
