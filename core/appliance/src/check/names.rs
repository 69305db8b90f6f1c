//! Names and numbers: every reference is defined, and no name or number is used twice.

use std::collections::BTreeMap;

use units::HeadName;

use super::{Checker, Code, head_key, legs_of, pool_key};
use crate::key::Key;

/// The version of the format that this code supports.
const FORMAT: u32 = 1;
/// Longest name of an appliance, in bytes (totem's `cluster_name` is stored in a map of short
/// keys).
const APPLIANCE_NAME_BYTES_MAX: usize = 64;

pub(super) fn check(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    if appliance.format != FORMAT {
        checker.find(
            Code::Format,
            &Key::of("format"),
            format!("format {} is not known here", appliance.format),
            format!("write format = {FORMAT}, or use a newer bulkhead"),
        );
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let name_fits = (1..=APPLIANCE_NAME_BYTES_MAX).contains(&appliance.name.len())
        && appliance.name.bytes().all(plain);
    if !name_fits {
        checker.find(
            Code::ApplianceName,
            &Key::of("name"),
            format!("{:?} is no name for an appliance", appliance.name),
            "use 1 to 64 letters, digits, - and _",
        );
    }
    if appliance.heads.is_empty() {
        checker.find(
            Code::NoHead,
            &Key::of("heads"),
            "the appliance has no head",
            "describe each head as [heads.NAME]",
        );
    }
    check_numbers(checker);
    check_references(checker);
}

fn check_numbers(checker: &mut Checker<'_>) {
    let mut first: BTreeMap<u32, &HeadName> = BTreeMap::new();
    for (name, head) in &checker.appliance.heads {
        let key = head_key(name).field("number");
        if head.number == 0 {
            checker.find(
                Code::HeadNumber,
                &key,
                "heads are counted from 1",
                "give the head a number of its own, 1 or more",
            );
        }
        if let Some(other) = first.insert(head.number, name) {
            checker.find(
                Code::HeadNumber,
                &key,
                format!("{name} and {other} both have number {}", head.number),
                "give each head a number of its own",
            );
        }
    }
}

fn check_references(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let mut unknown: Vec<(Key, String, Vec<String>)> = Vec::new();
    let texts = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let heads = texts(appliance.heads.keys().map(HeadName::as_str).collect());
    let networks = texts(
        appliance
            .networks
            .keys()
            .map(|name| name.as_str())
            .collect(),
    );
    let pdus: Vec<String> = appliance.pdus.keys().cloned().collect();
    let hypervisors: Vec<String> = appliance.hypervisors.keys().cloned().collect();
    let mut refer = |key: Key, name: &str, known: &[String]| {
        if !known.iter().any(|one| one == name) {
            unknown.push((key, name.to_owned(), known.to_vec()));
        }
    };
    for (name, head) in &appliance.heads {
        for network in head.links.keys() {
            let key = head_key(name).field("links").field(network);
            refer(key, network.as_str(), &networks);
        }
        let machine = head
            .fencing
            .as_ref()
            .and_then(|f| f.virtual_machine.as_ref());
        if let Some(machine) = machine {
            let key = head_key(name).field("fencing").field("virtual_machine");
            refer(key.field("hypervisor"), &machine.hypervisor, &hypervisors);
        }
        let outlets = head.fencing.iter().flat_map(|fencing| &fencing.outlets);
        for (index, outlet) in outlets.enumerate() {
            let key = head_key(name).field("fencing").field("outlets").item(index);
            refer(key.field("pdu"), &outlet.pdu, &pdus);
        }
    }
    for (name, pool) in &appliance.pools {
        if let Some(home) = &pool.home {
            refer(pool_key(name).field("home"), home.as_str(), &heads);
        }
        for (index, head) in pool.heads.iter().flatten().enumerate() {
            refer(
                pool_key(name).field("heads").item(index),
                head.as_str(),
                &heads,
            );
        }
        for (index, address) in pool.addresses.iter().enumerate() {
            let key = pool_key(name)
                .field("addresses")
                .item(index)
                .field("network");
            refer(key, address.network.as_str(), &networks);
        }
    }
    let networks_of_legs = appliance.legs.iter().flat_map(|legs| &legs.networks);
    for (index, network) in networks_of_legs.enumerate() {
        let key = Key::of("legs.networks").item(index);
        refer(key, network.as_str(), &networks);
    }
    for (name, pool) in &appliance.pools {
        for (key, leg) in legs_of(name, pool) {
            refer(key.clone(), leg.head.as_str(), &heads);
            if let Some(head) = appliance.heads.get(&leg.head) {
                let disks: Vec<String> = head.disks.keys().cloned().collect();
                refer(key, &leg.disk, &disks);
            }
        }
    }
    for (key, name, known) in unknown {
        checker.find(
            Code::UnknownName,
            &key,
            format!("{name} is defined nowhere"),
            match known.as_slice() {
                [] => "define it first".to_owned(),
                known => format!("write one of {}, or define it", known.join(", ")),
            },
        );
    }
}
