//! Pools on disks of heads: no head holds all copies, heads reach each other's disks, and the record of legs has enough
//! members.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use units::{HeadName, PoolName};

use super::hosts::MODE_OTHERS;
use super::pools::is_unstable;
use super::{Checker, Code, head_key, legs_of, network_key, pool_key};
use crate::facts::{HeadFacts, MemberProbe, leg_server_addresses, leg_witness_addresses};
use crate::file::{LegGroup, LegGroupKind, LegWitness, Legs, OwnDisk, Pool};
use crate::key::Key;
use crate::render::LEGS_KEY_PATH;

/// Hex digits of a fingerprint (SHA-256).
const FINGERPRINT_DIGITS: usize = 64;
/// Copies of a mirror: up to two on each of three heads.
const MIRROR_LEGS: std::ops::RangeInclusive<usize> = 2..=6;
/// Fewest disks of a group with parity that hold data: one alone would be a mirror.
const DATA_LEGS_MIN: usize = 2;
/// Disks of equal labels differ by less, in bytes: ZFS uses multiples of it.
const SIZE_STEP_BYTES: u64 = 256 << 10;
/// The command that creates the key of a head.
const IDENTITY_COMMAND: &str = "bulkhead leg-server fingerprint";

pub(super) fn check(checker: &mut Checker<'_>) {
    check_disks(checker);
    let appliance = checker.appliance;
    if !appliance.has_legs() {
        return;
    }
    for (name, pool) in &appliance.pools {
        check_pool(checker, name, pool);
    }
    match &appliance.legs {
        Some(legs) => check_connections(checker, legs),
        None => no_network(checker, &Key::of("legs")),
    }
    check_members(checker);
    check_fingerprints(checker);
    check_leg_servers(checker);
    check_leg_keys(checker);
    for (name, pool) in &appliance.pools {
        for (field, index, group) in pool.all_groups() {
            let key = pool_key(name).field(field).item(index);
            check_alike(checker, &key, group);
        }
    }
}

/// Checks the disks of heads, and that each is used once.
fn check_disks(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, head) in &appliance.heads {
        let mut first: BTreeMap<&Path, &str> = BTreeMap::new();
        for (disk, described) in &head.disks {
            let path = &described.path;
            let key = head_key(name).field("disks").field(disk);
            if let Some(other) = first.insert(path, disk) {
                checker.find(
                    Code::DiskTwice,
                    &key,
                    format!("{other} and {disk} of {name} are both {}", path.display()),
                    "give each disk one name",
                );
            }
            if is_unstable(path) {
                checker.find(
                    Code::DiskNameUnstable,
                    &key,
                    format!("{} may be another disk after the next boot", path.display()),
                    "use its name in /dev/disk/by-id",
                );
            }
        }
    }
    check_numbers(checker);
    let mut first: BTreeMap<String, &PoolName> = BTreeMap::new();
    for (name, pool) in &appliance.pools {
        for (key, leg) in legs_of(name, pool) {
            if let Some(other) = first.insert(leg.to_string(), name) {
                checker.find(
                    Code::DiskTwice,
                    &key,
                    format!("{leg} is in {other} and in {name}"),
                    "list each disk once",
                );
            }
        }
    }
}

/// Checks the numbers by which the members identify disks and pools.
fn check_numbers(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let disks = appliance.heads.iter().flat_map(|(name, head)| {
        let described = move |(disk, one): (&String, &OwnDisk)| {
            let key = head_key(name).field("disks").field(disk).field("number");
            (key, format!("{name}:{disk}"), Some(one.number))
        };
        head.disks.iter().map(described)
    });
    let pools = appliance.pools.iter().filter(|(_, pool)| pool.has_legs());
    let pools = pools.map(|(name, pool)| {
        (
            pool_key(name).field("number"),
            name.to_string(),
            pool.number,
        )
    });
    for all in [disks.collect::<Vec<_>>(), pools.collect()] {
        let mut first: BTreeMap<u32, String> = BTreeMap::new();
        for (key, name, number) in all {
            let what = match number {
                None => format!("{name} has no number"),
                Some(0) => "numbers begin with 1".to_owned(),
                Some(number) => match first.insert(number, name.clone()) {
                    Some(other) => format!("{other} and {name} both have number {number}"),
                    None => continue,
                },
            };
            let mend = "give it a number that no other one has, and that none ever had";
            checker.find(Code::LegNumber, &key, what, mend);
        }
    }
}

fn check_pool(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    let has_more = !pool.log.is_empty() || !pool.cache.is_empty();
    if !pool.has_legs() && !has_more {
        return;
    }
    if !pool.disks.is_empty() || !pool.has_legs() {
        checker.find(
            Code::LegsAndDisks,
            &pool_key(name).field("disks"),
            format!("{name} has disks that all heads reach, and disks of heads"),
            "list either disks, or groups with log and cache",
        );
    }
    if !pool.cache.is_empty() && pool.has_legs() {
        checker.find(
            Code::LegExtras,
            &pool_key(name).field("cache"),
            format!("{name} has a cache, and only the head that a cache disk is in can read it: another head would serve the pool without it"),
            "leave cache out; on the head that serves the pool, `bulkhead pool add POOL cache DEVICE` adds a cache until the pool moves",
        );
    }
    for (field, index, group) in pool.all_groups() {
        let key = pool_key(name).field(field).item(index);
        check_shape(checker, &key, group, field == "log");
        check_spread(checker, &key, group);
    }
    check_own_legs(checker, name, pool);
}

fn check_shape(checker: &mut Checker<'_>, key: &Key, group: &LegGroup, is_log: bool) {
    let count = group.legs.len();
    let kind = kind_word(group.kind);
    let (fits, mend) = match group.kind {
        LegGroupKind::Mirror => (
            MIRROR_LEGS.contains(&count),
            "list two to six disks, on two heads at least".to_owned(),
        ),
        _ if is_log => (
            false,
            "write kind = \"mirror\": ZFS stores its log on mirrors only".to_owned(),
        ),
        LegGroupKind::Raidz1 | LegGroupKind::Raidz2 | LegGroupKind::Raidz3 => (
            group.needed() >= DATA_LEGS_MIN,
            match group.kind {
                LegGroupKind::Raidz1 => {
                    "list three disks on three heads; with two heads write kind = \"mirror\""
                        .to_owned()
                }
                _ => format!(
                    "list more disks, such as two on each of three heads, or take less parity than {kind}"
                ),
            },
        ),
    };
    if !fits {
        checker.find(
            Code::LegGroupShape,
            key,
            format!("a {kind} of {count} disk(s)"),
            mend,
        );
    }
}

const fn kind_word(kind: LegGroupKind) -> &'static str {
    match kind {
        LegGroupKind::Mirror => "mirror",
        LegGroupKind::Raidz1 => "raidz1",
        LegGroupKind::Raidz2 => "raidz2",
        LegGroupKind::Raidz3 => "raidz3",
    }
}

fn heads_in(group: &LegGroup) -> BTreeSet<&HeadName> {
    group.legs.iter().map(|leg| &leg.head).collect()
}

/// Checks that the disks of the remaining heads hold all data after the loss of any one head.
fn check_spread(checker: &mut Checker<'_>, key: &Key, group: &LegGroup) {
    let (all, needed) = (group.legs.len(), group.needed());
    for head in heads_in(group) {
        let count = group.legs.iter().filter(|leg| leg.head == *head).count();
        let left = all - count;
        if all > 1 && left < needed {
            let kind = kind_word(group.kind);
            checker.find(
                Code::LegsOnOneHead,
                &key.field("legs"),
                format!(
                    "{count} of {all} disks of this {kind} are on {head}: without that head {left} are left, and {needed} are needed"
                ),
                "spread the disks over the heads so that any one head can be lost, or write a kind with more parity; two heads have mirrors, \
                 or raidz2 of two disks on each",
            );
        }
    }
}

/// Checks that each head that may serve the pool has a disk of each group.
fn check_own_legs(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    for head in checker.appliance.heads_of(pool) {
        let lacks = |group: &&LegGroup| !heads_in(group).contains(&head);
        let lacking = pool.groups.iter().filter(lacks).count();
        if lacking > 0 {
            checker.find(
                Code::HeadWithoutLeg,
                &pool_key(name).field("heads"),
                format!("{head} may serve {name}, and has no disk of {lacking} of its groups"),
                format!("list the heads with disks of {name} as its heads, or give {head} a disk of each group"),
            );
        }
    }
}

fn no_network(checker: &mut Checker<'_>, key: &Key) {
    checker.find(
        Code::NoLegNetwork,
        key,
        "no network is named over which heads reach each other's disks",
        "write [legs] with networks = [...], the names of two networks between the heads",
    );
}

fn check_connections(checker: &mut Checker<'_>, legs: &Legs) {
    let appliance = checker.appliance;
    let key = Key::of("legs.networks");
    let names: BTreeSet<_> = legs.networks.iter().collect();
    match names.len() {
        0 => no_network(checker, &key),
        1 => checker.find(
            Code::OneLegNetwork,
            &key,
            "heads reach each other's disks over one network only",
            "name a second network with its own switch or cable",
        ),
        _ => {}
    }
    for network in &names {
        for (head, described) in &appliance.heads {
            let link = described.links.get(*network);
            if link.is_none_or(|link| link.addresses.is_empty())
                && appliance.networks.contains_key(*network)
            {
                checker.find(
                    Code::HeadOffNetwork,
                    &head_key(head).field("links"),
                    format!("{head} has no address in {network}, and disks are lent there"),
                    format!(
                        "add {network} = {{ interface = \"...\", addresses = [...] }} to its links"
                    ),
                );
            }
        }
    }
    for (name, pool) in &appliance.pools {
        let shared = pool.addresses.iter().enumerate();
        let shared = shared.filter(|(_, one)| names.contains(&one.network));
        for (index, address) in shared {
            checker.find(
                Code::LegNetworkWithClients,
                &pool_key(name).field("addresses").item(index),
                format!(
                    "clients of {name} use {}, and so do its legs",
                    address.network
                ),
                "name networks between the heads that no client uses",
            );
        }
    }
    let known = names
        .iter()
        .filter_map(|name| Some((*name, appliance.networks.get(*name)?)));
    let mut known: Vec<_> = known.collect();
    known.sort_by_key(|(_, network)| network.mtu);
    if let [(small, one), .., (large, other)] = known[..] {
        if one.mtu != other.mtu {
            checker.find(
                Code::LegMtuDiffers,
                &network_key(small).field("mtu"),
                format!(
                    "{small} carries {} bytes, and {large} {}",
                    one.mtu, other.mtu
                ),
                "let all networks of legs carry packets of one size",
            );
        }
    }
    let both_taken = legs.member_port == legs.lender_port;
    if both_taken || legs.member_port == 0 || legs.lender_port == 0 {
        checker.find(
            Code::LegPort,
            &Key::of("legs.lender_port"),
            format!("ports {} and {}", legs.member_port, legs.lender_port),
            "leave both out, or write two different ports",
        );
    }
}

/// Checks that the record of legs has enough members.
fn check_members(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let heads = appliance.heads.len();
    match (heads, &appliance.witness) {
        (2, None) => checker.find(
            Code::LegWitnessMissing,
            &Key::of("witness"),
            "two heads, and no third member of the record of legs",
            "run bulkhead-witness on any third host, such as a NAS, and describe it as [witness]",
        ),
        (2, Some(_)) | (3, None) => {}
        (3, Some(_)) => checker.find(
            Code::LegHeads,
            &Key::of("witness"),
            "three heads remember by themselves, and a witness is described",
            "remove [witness]",
        ),
        _ => checker.find(
            Code::LegHeads,
            &Key::of("heads"),
            format!("{heads} head(s), and pools with disks of heads"),
            "use two heads and a witness, or three heads; for one head list its disks as disks of the pool",
        ),
    }
    if let Some(witness) = &appliance.witness {
        check_witness(checker, witness);
        check_witness_connections(checker, witness);
    }
}

/// Checks that the heads reach the third member.
fn check_witness_connections(checker: &mut Checker<'_>, witness: &LegWitness) {
    let appliance = checker.appliance;
    let key = Key::of("witness.addresses");
    for name in appliance.heads.keys() {
        let Some(known) = checker.facts.heads.get(name) else {
            continue;
        };
        let ways = witness.addresses.iter();
        let ways = ways.map(|address| SocketAddr::new(*address, witness.port));
        let asked = ways.filter_map(|way| Some((way, known.ways_to_witness.get(&way)?)));
        for (way, is_open) in asked.collect::<Vec<_>>() {
            if !is_open {
                checker.find(
                    Code::LegWitnessUnreached,
                    &key,
                    format!("{name} reaches no bulkhead-witness at {way}"),
                    "start bulkhead-witness there, and see to the network and its firewall",
                );
            }
        }
    }
}

fn check_witness(checker: &mut Checker<'_>, witness: &LegWitness) {
    let appliance = checker.appliance;
    let key = Key::of("witness");
    if witness.number == 0
        || appliance
            .heads
            .values()
            .any(|head| head.number == witness.number)
    {
        checker.find(
            Code::HeadNumber,
            &key.field("number"),
            format!("the witness cannot have number {}", witness.number),
            "give it a number of its own, which is also an option of bulkhead-witness",
        );
    }
    if witness.addresses.is_empty() {
        checker.find(
            Code::NoLegNetwork,
            &key.field("addresses"),
            "the witness has no address",
            "write where bulkhead-witness listens",
        );
    }
    let links = appliance
        .heads
        .values()
        .flat_map(|head| head.links.values());
    let of_heads = links.flat_map(|link| link.addresses.iter().copied());
    let of_pools = appliance.pools.values().flat_map(|pool| &pool.addresses);
    let own: BTreeSet<IpAddr> = of_heads.chain(of_pools.map(|one| one.address)).collect();
    for (index, address) in witness.addresses.iter().enumerate() {
        if own.contains(address) {
            checker.find(
                Code::WitnessSharesFate,
                &key.field("addresses").item(index),
                format!("{address} is an address of the appliance itself"),
                "run the witness on a third host",
            );
        }
    }
}

fn check_fingerprints(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let heads = appliance.heads.iter().map(|(name, head)| {
        let how = format!("write the output of `{IDENTITY_COMMAND}` on {name}");
        (
            name.to_string(),
            head_key(name),
            head.fingerprint.as_deref(),
            how,
        )
    });
    let witness = appliance.witness.iter().map(|witness| {
        let how = "write the output of `bulkhead-witness identity` there".to_owned();
        (
            "the witness".to_owned(),
            Key::of("witness"),
            Some(witness.fingerprint.as_str()),
            how,
        )
    });
    for (who, key, fingerprint, how) in heads.chain(witness) {
        let key = key.field("fingerprint");
        let Some(fingerprint) = fingerprint else {
            checker.find(
                Code::LegFingerprint,
                &key,
                format!("{who} has no fingerprint"),
                how,
            );
            continue;
        };
        let is_hex = fingerprint.bytes().all(|digit| digit.is_ascii_hexdigit());
        if fingerprint.len() != FINGERPRINT_DIGITS || !is_hex {
            let what = format!("the fingerprint of {who} is not {FINGERPRINT_DIGITS} hex digits");
            checker.find(Code::LegFingerprint, &key, what, how);
            continue;
        }
        if let Some(other) = first.insert(fingerprint.to_ascii_lowercase(), who.clone()) {
            checker.find(
                Code::LegFingerprintTwice,
                &key,
                format!("{other} and {who} have one fingerprint"),
                "create a separate key on each host; after a host is cloned, remove the copied key from the clone",
            );
        }
    }
    for (name, head) in &appliance.heads {
        let known = checker.facts.heads.get(name);
        let real = known.and_then(|known| known.leg_fingerprint.as_deref());
        let key = head_key(name).field("fingerprint");
        match (head.fingerprint.as_deref(), real) {
            (Some(_), Some("")) => checker.find(
                Code::LegFingerprintDiffers,
                &key,
                format!("{name} has no key for lending its disks"),
                format!("run `{IDENTITY_COMMAND}` on {name}, and write its output"),
            ),
            (Some(told), Some(real)) if !told.eq_ignore_ascii_case(real) => checker.find(
                Code::LegFingerprintDiffers,
                &key,
                format!("the certificate of {name} has fingerprint {real}"),
                format!("if you trust the way to {name}, write that; else look at `{IDENTITY_COMMAND}` on {name} itself"),
            ),
            _ => {}
        }
    }
}

/// Whether a fingerprint is one byte again and again, as in the examples. That of no key is.
fn is_example(fingerprint: &str) -> bool {
    let first = fingerprint.get(..2).unwrap_or_default();
    !first.is_empty() && fingerprint.eq_ignore_ascii_case(&first.repeat(FINGERPRINT_DIGITS / 2))
}

/// Checks that no fingerprint of an example is left, where the real one could be queried. A head that returns its own
/// has a more specific finding.
fn check_examples(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let facts = checker.facts;
    for (name, head) in &appliance.heads {
        let is_unknown = |known: &HeadFacts| known.leg_fingerprint.is_none();
        let is_asked = facts.heads.get(name).is_some_and(is_unknown);
        if is_asked && head.fingerprint.as_deref().is_some_and(is_example) {
            checker.find(
                Code::LegFingerprintExample,
                &head_key(name).field("fingerprint"),
                format!("the fingerprint of {name} is that of an example"),
                format!("write the output of `{IDENTITY_COMMAND}` on {name}"),
            );
        }
    }
    let ways = leg_witness_addresses(appliance);
    let is_known = facts.heads.values().any(|head| {
        let probes = ways.iter().filter_map(|way| head.members.get(way));
        let mut probes = probes.filter(|probe| !matches!(probe, MemberProbe::Closed(_)));
        probes.next().is_some()
    });
    let witness = appliance.witness.iter();
    for _ in witness.filter(|witness| is_example(&witness.fingerprint)) {
        if !facts.heads.is_empty() && !is_known {
            checker.find(
                Code::LegFingerprintExample,
                &Key::of("witness.fingerprint"),
                "the fingerprint of the witness is that of an example",
                "write the output of `bulkhead-witness identity` there",
            );
        }
    }
}

/// Checks the handshakes of the heads with the leg-servers and the witness.
fn check_leg_servers(checker: &mut Checker<'_>) {
    check_examples(checker);
    let appliance = checker.appliance;
    let facts = checker.facts;
    let witness_ways = leg_witness_addresses(appliance);
    let mut differing: BTreeSet<SocketAddr> = BTreeSet::new();
    for (name, known) in &facts.heads {
        for way in &witness_ways {
            let key = Key::of("witness.fingerprint");
            match known.members.get(way) {
                Some(MemberProbe::Fingerprint(real)) if differing.insert(*way) => checker.find(
                    Code::LegFingerprintDiffers,
                    &key,
                    format!("the witness at {way} has fingerprint {real}"),
                    "if you trust the way to it, write that; else look at `bulkhead-witness identity` there",
                ),
                Some(MemberProbe::Rejected) => checker.find(
                    Code::LegRejected,
                    &key,
                    format!("the witness at {way} refuses the certificate of {name}"),
                    format!("write the fingerprint of {name} (`{IDENTITY_COMMAND}` there) into the options of the witness, and restart bulkhead-witness"),
                ),
                _ => {}
            }
        }
        for other in appliance.heads.keys() {
            check_leg_server(checker, (name, known), other, &mut differing);
        }
    }
}

/// Checks the handshake of a head with the leg-server of `other`, which is another head or the same.
fn check_leg_server(
    checker: &mut Checker<'_>,
    (name, known): (&HeadName, &HeadFacts),
    other: &HeadName,
    differing: &mut BTreeSet<SocketAddr>,
) {
    let facts_of_other = checker.facts.heads.get(other);
    // Before the first `apply` no leg-server runs.
    if facts_of_other.is_some_and(|head| !head.has_leg_config) || !known.has_leg_config {
        return;
    }
    let key = head_key(other);
    for way in leg_server_addresses(checker.appliance, other) {
        let is_closed_there = facts_of_other
            .and_then(|head| head.members.get(&way))
            .is_some_and(|probe| matches!(probe, MemberProbe::Closed(_)));
        match known.members.get(&way) {
            Some(MemberProbe::Closed(why)) if name == other => checker.find(
                Code::LegServerSilent,
                &key,
                format!("no leg-server of {name} responds at {way}: {why}"),
                format!("run `systemctl start bulkhead-leg-server` on {name}; `journalctl -u bulkhead-leg-server` shows why it is not there"),
            ),
            // The other head reports its own.
            Some(MemberProbe::Closed(why)) if !is_closed_there => checker.find(
                Code::LegServerSilent,
                &key,
                format!("{name} does not reach the leg-server of {other} at {way}: {why}"),
                "check the network between the heads and its firewall, and that the leg-server runs there",
            ),
            Some(MemberProbe::Fingerprint(real)) => {
                let in_file = facts_of_other.and_then(|head| head.leg_fingerprint.as_deref());
                let is_told = in_file.is_some_and(|one| one.eq_ignore_ascii_case(real));
                if !is_told && differing.insert(way) {
                    checker.find(
                        Code::LegFingerprintDiffers,
                        &key.field("fingerprint"),
                        format!("the leg-server of {other} at {way} has fingerprint {real}"),
                        format!("restart bulkhead-leg-server on {other} if its key was replaced; else compare `{IDENTITY_COMMAND}` there, and the address"),
                    );
                }
            }
            Some(MemberProbe::Rejected) => checker.find(
                Code::LegRejected,
                &key,
                format!("the leg-server of {other} refuses the certificate of {name}"),
                format!("run `bulkhead appliance apply`, and restart bulkhead-leg-server on {other}: it has read an older legs.toml"),
            ),
            _ => {}
        }
    }
}

/// Checks that only root can read the keys of the leg-servers.
fn check_leg_keys(checker: &mut Checker<'_>) {
    for (name, known) in &checker.facts.heads {
        let open = known.leg_key_mode.filter(|mode| mode & MODE_OTHERS != 0);
        if let Some(mode) = open {
            checker.find(
                Code::LegKeyOpen,
                &head_key(name),
                format!("{LEGS_KEY_PATH} on {name} has mode {:04o}", mode & 0o7777),
                format!("run `chmod 0600 {LEGS_KEY_PATH}` there; create a new key if a user may have read it"),
            );
        }
    }
}

/// Checks that the disks of a group are alike, according to the facts of their heads.
fn check_alike(checker: &mut Checker<'_>, key: &Key, group: &LegGroup) {
    let known = group.legs.iter().filter_map(|leg| {
        let path = checker.appliance.leg_path(leg)?;
        let disks = &checker.facts.heads.get(&leg.head)?.disks;
        Some((leg, disks.get(path)?.as_ref()?))
    });
    let known: Vec<_> = known.collect();
    let sizes = known.iter().filter(|(_, disk)| disk.size_bytes > 0);
    let small = sizes.clone().min_by_key(|(_, disk)| disk.size_bytes);
    let large = sizes.max_by_key(|(_, disk)| disk.size_bytes);
    if let (Some((small, one)), Some((large, other))) = (small, large) {
        if other.size_bytes - one.size_bytes >= SIZE_STEP_BYTES {
            checker.find(
                Code::LegSizeDiffers,
                &key.field("legs"),
                format!("{small} has {} bytes, and {large} {}", one.size_bytes, other.size_bytes),
                "use disks of one size, or partitions of one size; a replacement must be as large as the smallest",
            );
        }
    }
    let sectors = known
        .iter()
        .filter(|(_, disk)| disk.physical_block_bytes > 0);
    let small = sectors
        .clone()
        .min_by_key(|(_, disk)| disk.physical_block_bytes);
    let large = sectors.max_by_key(|(_, disk)| disk.physical_block_bytes);
    if let (Some((small, one)), Some((large, other))) = (small, large) {
        if one.physical_block_bytes != other.physical_block_bytes {
            checker.find(
                Code::LegSectorDiffers,
                &key.field("legs"),
                format!(
                    "{small} writes {} bytes at once, and {large} {}",
                    one.physical_block_bytes, other.physical_block_bytes
                ),
                "use disks of one kind, and create the pool with the larger size as sector_bytes",
            );
        }
    }
}
