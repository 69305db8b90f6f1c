//! Checks that every head can be powered off, and that two heads do not power each other off.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use units::HeadName;

use super::{Checker, Code, head_key};
use crate::file::{Fencing, QuorumRule};
use crate::key::Key;
use crate::secret::is_secret;

pub(super) fn check(checker: &mut Checker<'_>) {
    if checker.appliance.heads.len() < 2 {
        return;
    }
    check_names(checker);
    for (name, head) in &checker.appliance.heads {
        match &head.fencing {
            Some(fencing) if fencing.has_device() => {
                check_fate(checker, name, fencing);
                check_reach(checker, name, fencing);
            }
            _ => checker.find(
                Code::NoFencing,
                &head_key(name).field("fencing"),
                format!("no device can power {name} off"),
                format!("describe its BMC as [heads.{name}.fencing.bmc], or its outlets, or its virtual_machine"),
            ),
        }
    }
    check_shared_network(checker);
    check_twice(checker);
    check_units(checker);
    check_hosts(checker);
    check_parameters(checker);
    check_delays(checker);
}

/// Separators of Pacemaker's `pcmk_host_map`.
const OUTLET_FORBIDDEN: &[char] = &[':', ';', ',', '='];
/// Agents for one hypervisor, as opposed to a cluster manager that may run the same virtual machine
/// elsewhere.
const AGENTS_OF_ONE_HOST: &[&str] = &["fence_virsh"];

/// A device switched by an agent of the user's choice: key, agent, parameters.
fn agents<'a>(checker: &Checker<'a>) -> Vec<(Key, &'a String, &'a BTreeMap<String, String>)> {
    let appliance = checker.appliance;
    let pdus = appliance.pdus.iter();
    let pdus = pdus.map(|(name, pdu)| (Key::of("pdus").field(name), &pdu.agent, &pdu.parameters));
    let hosts = appliance.hypervisors.iter();
    let hosts = hosts.map(|(name, one)| {
        let key = Key::of("hypervisors").field(name);
        (key, &one.agent, &one.parameters)
    });
    pdus.chain(hosts).collect()
}

fn check_names(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (key, agent, _) in agents(checker) {
        let rest = agent.strip_prefix("fence_").unwrap_or_default();
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if rest.is_empty() || !rest.bytes().all(plain) {
            checker.find(
                Code::FenceAgent,
                &key.field("agent"),
                format!("{agent:?} is no fence agent"),
                "write one of the names that `stonith_admin --list-installed` prints, such as fence_apc_snmp",
            );
        }
    }
    let passes = |name: &str| {
        let bad = |c: char| c.is_whitespace() || OUTLET_FORBIDDEN.contains(&c);
        !name.is_empty() && !name.contains(bad)
    };
    for (name, head) in &appliance.heads {
        let machine = head
            .fencing
            .as_ref()
            .and_then(|f| f.virtual_machine.as_ref());
        if let Some(machine) = machine.filter(|machine| !passes(&machine.machine)) {
            checker.find(
                Code::OutletName,
                &key_of(name).field("virtual_machine").field("machine"),
                format!("{:?} cannot be passed to a fence agent", machine.machine),
                "write the virtual machine's number or UUID if the agent accepts it, or rename the virtual machine",
            );
        }
        let outlets = head.fencing.iter().flat_map(|fencing| &fencing.outlets);
        for (index, outlet) in outlets.enumerate() {
            if !passes(&outlet.outlet) {
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
    let machine = fencing.virtual_machine.iter().filter_map(|machine| {
        let hypervisor = checker.appliance.hypervisors.get(&machine.hypervisor)?;
        Some((key_of(head).field("virtual_machine"), hypervisor.address?))
    });
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
    machine.chain(bmc).chain(outlets).collect()
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
                "write the address of the BMC, PDU or hypervisor, which is not part of the operating system",
            );
        }
    }
    check_power(checker, name, fencing);
}

/// Checks that each head can be fenced when its own power fails.
fn check_power(checker: &mut Checker<'_>, name: &HeadName, fencing: &Fencing) {
    let units: BTreeSet<&String> = fencing.outlets.iter().map(|outlet| &outlet.pdu).collect();
    if fencing.outlets.is_empty() && fencing.bmc.is_none() {
        checker.find(
            Code::FencingSharesHost,
            &key_of(name).field("virtual_machine"),
            format!("{name} can be powered off by its hypervisor only"),
            "add the outlets of its host; without them an operator must confirm by hand when that host fails",
        );
    } else if fencing.outlets.is_empty() {
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

/// Checks that every other head has a link in the network of the device.
fn check_reach(checker: &mut Checker<'_>, name: &HeadName, fencing: &Fencing) {
    let appliance = checker.appliance;
    for (key, address) in device_addresses(checker, name, fencing) {
        // A device outside the described networks is reached by routes that are not in the file.
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
        let machine = fencing.virtual_machine.iter().map(|machine| {
            let device = format!("machine {} of {}", machine.machine, machine.hypervisor);
            (key_of(name).field("virtual_machine"), device)
        });
        for (key, device) in machine.chain(bmc).chain(outlets).collect::<Vec<_>>() {
            if let Some(other) = first.insert(device.clone(), name.clone()) {
                checker.find(
                    Code::FenceDeviceTwice,
                    &key,
                    format!("{device} is named for both {other} and {name}"),
                    "look at the cables and write each device once",
                );
            }
        }
    }
}

/// Finds a unit that is described under two names. Parameters may distinguish two units behind one address.
fn check_units(checker: &mut Checker<'_>) {
    let pdus: Vec<_> = checker.appliance.pdus.iter().collect();
    for (index, (name, pdu)) in pdus.iter().enumerate() {
        let same = pdus[..index].iter().find(|(_, other)| {
            (other.address, other.port, &other.parameters)
                == (pdu.address, pdu.port, &pdu.parameters)
        });
        if let Some((other, _)) = same {
            checker.find(
                Code::PduTwice,
                &Key::of("pdus").field(name).field("address"),
                format!("{other} and {name} are both at {}", pdu.address),
                "write the second unit's own address; if there is one unit only, describe it once",
            );
        }
    }
}

fn check_hosts(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let mut first: BTreeMap<&String, &HeadName> = BTreeMap::new();
    for (name, head) in &appliance.heads {
        let fencing = head.fencing.as_ref();
        let Some(machine) = fencing.and_then(|fencing| fencing.virtual_machine.as_ref()) else {
            continue;
        };
        let host = appliance.hypervisors.get(&machine.hypervisor);
        if !host.is_some_and(|host| AGENTS_OF_ONE_HOST.contains(&host.agent.as_str())) {
            continue;
        }
        if let Some(other) = first.insert(&machine.hypervisor, name) {
            checker.find(
                Code::HeadsOnOneHost,
                &key_of(name).field("virtual_machine").field("hypervisor"),
                format!("{other} and {name} both run on {}", machine.hypervisor),
                "run each head on a host of its own; for trials this is acceptable",
            );
        }
    }
}

fn check_parameters(checker: &mut Checker<'_>) {
    for (key, _, parameters) in agents(checker) {
        for name in parameters.keys().filter(|name| is_secret(name)) {
            let mend = match name.as_str() {
                "community" => {
                    "use version 3 of SNMP, with user and password_file, if the unit can"
                }
                _ => "write it to a file of mode 0600 on each head, and name that as password_file",
            };
            checker.find(
                Code::SecretInFile,
                &key.field("parameters").field(name),
                format!("{name} is in the file"),
                mend,
            );
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
    let is_needless = appliance.has_consent() || quorum.rule != QuorumRule::TwoNode;
    match (is_needless, delays.as_slice()) {
        // Which head survives makes no difference.
        (false, _) if appliance.pools.is_empty() => {}
        (false, [(_, a), (last, b)]) if a == b => checker.find(
            Code::FenceDelayEqual,
            &key_of(last).field("delay_s"),
            match a {
                0 => "neither head has a delay before it is powered off".to_owned(),
                _ => format!("both heads are powered off after {a} s"),
            },
            "write delay_s = 1 for the head that serves fewer pools, and 0 for the other",
        ),
        (true, delays) => {
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
