//! Compares the facts of the heads with the file and with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use units::{HeadName, PoolName};

use super::{Checker, Code, head_key, legs_of, network_key, pool_key};
use crate::facts::{HeadFacts, ProbeResult, programs_required, secrets_required};
use crate::file::{Claims, Link, Pool, QuorumRule};
use crate::key::Key;
use crate::render::fence_ids;

/// Clocks further apart make logs hard to compare, in milliseconds.
const CLOCK_SKEW_MS_MAX: u64 = 500;
/// Permission bits of the group and of other users.
pub(super) const MODE_OTHERS: u32 = 0o077;
/// Units that import pools at boot without checking ownership.
const UNITS_THAT_IMPORT: &[&str] = &["zfs-import-cache.service", "zfs-import-scan.service"];

pub(super) fn check(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let facts = checker.facts;
    for name in appliance.heads.keys() {
        match facts.heads.get(name) {
            Some(known) => {
                check_identity(checker, name, known);
                check_software(checker, name, known);
                check_reachability(checker, name, known);
                check_interfaces(checker, name, known);
                check_secrets(checker, name, known);
                check_boot(checker, name, known);
                check_time(checker, name, known);
            }
            None => checker.find(
                Code::NotAsked,
                &head_key(name),
                format!("{name} was not queried for its binaries, disks, interfaces and clock"),
                "run the check where all heads can be reached, with --ssh",
            ),
        }
    }
    for (name, pool) in &appliance.pools {
        check_disks(checker, name, pool);
        check_features(checker, name, pool);
        check_key_files(checker, name, pool);
    }
    check_cachefiles(checker);
    check_agreement(checker);
}

fn check_identity(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    if let Some(node_name) = known.node_name.as_ref().filter(|n| *n != name.as_str()) {
        checker.find(
            Code::NodeName,
            &head_key(name),
            format!("its node name is {node_name}"),
            format!("run `hostnamectl hostname {name}` there, or rename the head in the file"),
        );
    }
    if known.identity.as_deref() == Some("") {
        checker.find(
            Code::HostId,
            &head_key(name),
            format!("{name} has no /etc/machine-id, from which its host id is derived"),
            "run `systemd-machine-id-setup` there and start it again",
        );
    }
}

fn check_software(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    if let Some(reason) = &known.engine_refused {
        checker.find(
            Code::EngineRefused,
            &head_key(name),
            format!("{name} would open no pool: {reason}"),
            "install the bulkhead that fits the OpenZFS there, on both heads the same",
        );
    }
    for program in programs_required(checker.appliance) {
        if known.programs.get(&program) == Some(&false) {
            checker.find(
                Code::ProgramMissing,
                &head_key(name),
                format!("{name} lacks {program}"),
                format!("install the package {} there", package_of(&program)),
            );
        }
    }
    let wants_witness =
        matches!(&checker.appliance.quorum, Some(quorum) if quorum.rule == QuorumRule::Witness);
    let tls = checker
        .appliance
        .quorum
        .as_ref()
        .and_then(|quorum| quorum.witness.as_ref())
        .is_some_and(|witness| witness.tls);
    if wants_witness && tls && known.witness_certificate == Some(false) {
        checker.find(
            Code::WitnessCertificate,
            &Key::of("quorum.witness"),
            format!("{name} has no certificate for the witness"),
            "run `corosync-qdevice-net-certutil -Q -n APPLIANCE WITNESS HEAD...` once",
        );
    }
}

/// Checks that this head reaches the fence devices of the other heads, and the witness.
fn check_reachability(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    for (device, answer) in &known.fence_devices {
        let ProbeResult::Missing(why) = answer else {
            continue;
        };
        let heads = checker.appliance.heads.iter();
        let mut heads = heads.filter_map(|(head, one)| Some((head, one.fencing.as_ref()?)));
        let is_of = |(head, fencing): &(&HeadName, &crate::file::Fencing)| {
            fence_ids(head, fencing)
                .iter()
                .flatten()
                .any(|id| id == device)
        };
        let key = heads
            .find(is_of)
            .map(|(head, _)| head_key(head).field("fencing"));
        checker.find(
            Code::FenceSilent,
            &key.unwrap_or_else(|| Key::of("heads")),
            format!("{device} does not tell {name} its status: {why}"),
            "check its address, user, password and outlet, and the network; its agent with `--action=status` sends the same request",
        );
    }
    if let Some(ProbeResult::Missing(why)) = &known.voting_witness {
        checker.find(
            Code::WitnessSilent,
            &Key::of("quorum.witness"),
            format!("the witness does not respond to {name}: {why}"),
            "start corosync-qnetd there, and see to its address, its port and the network; `corosync-qdevice-tool -s` shows the connection",
        );
    }
}

/// Returns Debian's package of a binary.
fn package_of(program: &str) -> &str {
    match program {
        "corosync-cfgtool" => "corosync",
        "pacemakerd" => "pacemaker",
        "cibadmin" | "crm_diff" => "pacemaker-cli-utils",
        "ip" => "iproute2",
        "ping" => "iputils-ping",
        "ssh" => "openssh-client",
        "fence_xvm" => "fence-virt",
        agent if agent.starts_with("fence_") => "fence-agents",
        other => other,
    }
}

fn check_interfaces(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    let appliance = checker.appliance;
    let Some(interfaces) = &known.interfaces else {
        return;
    };
    for (network_name, link) in &appliance.heads[name].links {
        let key = head_key(name).field("links").field(network_name);
        if interfaces.contains_key(&link.interface) {
            check_addresses(checker, name, (&key, link), known);
        }
        match (interfaces.get(&link.interface), appliance.networks.get(network_name)) {
            (None, _) => {
                let names: Vec<&str> = interfaces.keys().map(String::as_str).collect();
                checker.find(
                    Code::InterfaceMissing,
                    &key.field("interface"),
                    format!("{name} has no interface {}", link.interface),
                    format!("use one of {}", names.join(", ")),
                );
            }
            (Some(interface), Some(network)) if interface.mtu != network.mtu => checker.find(
                Code::MtuMismatch,
                &network_key(network_name).field("mtu"),
                format!(
                    "{network_name} carries packets of {} bytes, and {} of {name} is set to {}",
                    network.mtu, link.interface, interface.mtu
                ),
                format!(
                    "run `ip link set {} mtu {}` on {name} and make it permanent; look at the switch too",
                    link.interface, network.mtu
                ),
            ),
            _ => {}
        }
    }
}

/// Checks that the interface of a link has its addresses.
fn check_addresses(
    checker: &mut Checker<'_>,
    name: &HeadName,
    (key, link): (&Key, &Link),
    known: &HeadFacts,
) {
    let Some(addresses) = &known.addresses else {
        return;
    };
    let interface = &link.interface;
    let own = addresses.get(interface);
    for (index, address) in link.addresses.iter().enumerate() {
        if own.is_some_and(|own| own.contains(address)) {
            continue;
        }
        let mut others = addresses.iter();
        let other = others.find(|(_, other)| other.contains(address));
        let own: Vec<String> = own.into_iter().flatten().map(ToString::to_string).collect();
        let what = match (other, own.as_slice()) {
            (Some((other, _)), _) => {
                format!("{address} is on {other} of {name}, and not on {interface}")
            }
            (None, []) => format!("{interface} of {name} has no address, and not {address}"),
            (None, own) => format!(
                "{interface} of {name} does not have {address}, and has {}",
                own.join(", ")
            ),
        };
        checker.find(
            Code::AddressMissing,
            &key.field("addresses").item(index),
            what,
            format!("write the address that {name} has, or give it this one: `ip address add` sets it until the next boot"),
        );
    }
}

fn check_secrets(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    for path in secrets_required(checker.appliance) {
        let shown = path.display();
        match known.secrets.get(&path) {
            Some(None) => checker.find(
                Code::SecretMissing,
                &head_key(name),
                format!("{name} has no {shown}"),
                "put the password, key or keytab there, owned by root, mode 0600",
            ),
            Some(Some(secret)) if secret.mode & MODE_OTHERS != 0 => checker.find(
                Code::SecretOpen,
                &head_key(name),
                format!("{shown} on {name} has mode {:04o}", secret.mode & 0o7777),
                format!("run `chmod 0600 {shown}` there"),
            ),
            _ => {}
        }
    }
}

fn check_key_files(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    let facts = checker.facts;
    let Some(known) = facts.pools.get(name) else {
        return;
    };
    for head in checker.appliance.heads_of(pool) {
        let missing = facts.heads.get(&head);
        let missing = missing.and_then(|head| head.key_files_missing.as_ref());
        for path in missing
            .iter()
            .flat_map(|missing| missing.intersection(&known.key_files))
        {
            let shown = path.display();
            checker.find(
                Code::KeyFileMissing,
                &pool_key(name),
                format!("{head} has no {shown}, which opens encrypted volumes of {name}"),
                format!("copy it to {head}, owned by root, mode 0600"),
            );
        }
    }
}

fn check_boot(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    for pool in &known.cached_pools {
        let ours = checker
            .appliance
            .pools
            .keys()
            .find(|listed| listed.as_str() == pool)
            .cloned();
        if let Some(pool) = ours {
            checker.find(
                Code::CachefileSet,
                &pool_key(&pool),
                format!("a cache file on {name} names {pool}"),
                format!("run `bulkhead pool set {pool} cachefile=none` where it is served, and remove /etc/zfs/zpool.cache on {name}"),
            );
        }
    }
    for unit in UNITS_THAT_IMPORT {
        if known.enabled_units.contains(*unit) {
            checker.find(
                Code::ImportAtBoot,
                &head_key(name),
                format!("{unit} is enabled on {name}"),
                format!("run `systemctl disable --now {unit}` there"),
            );
        }
    }
}

fn check_time(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    let token_ms = checker
        .appliance
        .timeouts()
        .token_effective_ms(checker.appliance.heads.len());
    if let Some(stall_ms) = known.stall_ms_max.filter(|stall_ms| *stall_ms >= token_ms) {
        checker.find(
            Code::TokenBelowStall,
            &Key::of("timeouts.token_ms"),
            format!("{name} stood still for {stall_ms} ms, and the token is {token_ms} ms"),
            "write a longer token, or use the profile \"conservative\"",
        );
    }
    let Some(ahead_ms) = known.clock_ahead_ms else {
        return;
    };
    if ahead_ms.unsigned_abs() > CLOCK_SKEW_MS_MAX {
        let direction = if ahead_ms > 0 { "ahead" } else { "behind" };
        checker.find(
            Code::ClockSkew,
            &head_key(name),
            format!(
                "the clock of {name} is {} ms {direction}",
                ahead_ms.unsigned_abs()
            ),
            "run chrony or systemd-timesyncd on every head",
        );
    }
}

fn check_disks(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    for (key, leg) in legs_of(name, pool) {
        let known = checker.facts.heads.get(&leg.head);
        let disk = checker.appliance.leg_path(leg);
        let seen = disk.and_then(|disk| known?.disks.get(disk));
        if let (Some(disk), Some(seen)) = (disk, seen) {
            check_disk(
                checker,
                &key,
                &leg.head,
                disk,
                seen.as_ref(),
                pool.sector_bytes,
            );
        }
    }
    for head in checker.appliance.heads_of(pool) {
        let Some(known) = checker.facts.heads.get(&head) else {
            continue;
        };
        for (index, disk) in pool.disks.iter().enumerate() {
            let key = pool_key(name).field("disks").item(index);
            let Some(seen) = known.disks.get(disk) else {
                continue;
            };
            check_disk(checker, &key, &head, disk, seen.as_ref(), pool.sector_bytes);
            if known.reservations.get(disk) == Some(&false) {
                check_claims(checker, &key, &head, disk, pool.claims);
            }
        }
    }
}

fn check_disk(
    checker: &mut Checker<'_>,
    key: &Key,
    head: &HeadName,
    disk: &Path,
    seen: Option<&crate::facts::DiskFacts>,
    sector_bytes: u32,
) {
    let shown = disk.display();
    let Some(seen) = seen else {
        checker.find(
            Code::DiskMissing,
            key,
            format!("{head} does not see {shown}"),
            "look at cabling, zoning and the name; a shared disk must be seen by every head of the pool",
        );
        return;
    };
    if seen.physical_block_bytes > sector_bytes {
        checker.find(
            Code::DiskSectorLarger,
            key,
            format!(
                "{shown} on {head} writes {} bytes at once, and the pool {sector_bytes}",
                seen.physical_block_bytes
            ),
            format!(
                "create the pool with sector_bytes = {}; an existing pool cannot be changed",
                seen.physical_block_bytes
            ),
        );
    }
    if seen.alignment_offset_bytes != 0 {
        checker.find(
            Code::DiskUnaligned,
            key,
            format!(
                "{shown} begins {} bytes off its blocks on {head}",
                seen.alignment_offset_bytes
            ),
            "give ZFS whole disks, or partitions that begin at a multiple of 1 MiB",
        );
    }
}

/// Reports a disk without support for reservations.
fn check_claims(
    checker: &mut Checker<'_>,
    key: &Key,
    head: &HeadName,
    disk: &Path,
    claims: Claims,
) {
    let shown = disk.display();
    match claims {
        // The administrator chose this explicitly.
        Claims::Locks => {}
        Claims::Auto => checker.find(
            Code::NoReservations,
            key,
            format!("{shown} supports no persistent reservations on {head}"),
            "use whole disks with SCSI-3 or NVMe reservations; or accept that fencing alone \
             protects, and write claims = \"locks\"",
        ),
        Claims::Reservations => checker.find(
            Code::ReservationsMissing,
            key,
            format!(
                "{shown} supports no persistent reservations on {head}, and claims requires them"
            ),
            "use whole disks with SCSI-3 or NVMe reservations, or write claims = \"auto\"",
        ),
    }
}

fn check_features(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    let facts = checker.facts;
    let Some(in_use) = facts.pools.get(name) else {
        return;
    };
    for head in checker.appliance.heads_of(pool) {
        let usable = facts.heads.get(&head).and_then(|h| h.zfs_features.as_ref());
        let Some(usable) = usable else {
            continue;
        };
        let lacking: Vec<&str> = in_use
            .active_features
            .difference(usable)
            .map(String::as_str)
            .collect();
        if !lacking.is_empty() {
            checker.find(
                Code::FeatureUnsupported,
                &pool_key(name),
                format!(
                    "{head} does not know {}, active on {name}",
                    lacking.join(", ")
                ),
                format!("upgrade OpenZFS on {head} before anything else"),
            );
        }
    }
}

fn check_cachefiles(checker: &mut Checker<'_>) {
    let facts = checker.facts;
    for name in checker.appliance.pools.keys() {
        let cachefile = facts
            .pools
            .get(name)
            .and_then(|pool| pool.cachefile.as_ref());
        let set = cachefile.filter(|value| !["", "-", "none"].contains(&value.as_str()));
        if let Some(cachefile) = set {
            checker.find(
                Code::CachefileSet,
                &pool_key(name),
                format!("{name} has cachefile={cachefile}"),
                format!("run `bulkhead pool set {name} cachefile=none`"),
            );
        }
    }
}

/// Checks facts that must be equal, or must differ, between heads.
fn check_agreement(checker: &mut Checker<'_>) {
    let facts = checker.facts;
    let mut identities: BTreeMap<&str, &HeadName> = BTreeMap::new();
    let mut versions: BTreeMap<&str, (&HeadName, &str)> = BTreeMap::new();
    let mut features: Option<(&HeadName, &BTreeSet<String>)> = None;
    for name in checker.appliance.heads.keys() {
        let Some(known) = facts.heads.get(name) else {
            continue;
        };
        let identity = known.identity.as_deref().filter(|one| !one.is_empty());
        if let Some(other) = identity.and_then(|one| identities.insert(one, name)) {
            checker.find(
                Code::HostId,
                &head_key(name),
                format!("{other} and {name} have the same machine id, so the same host id"),
                format!("a cloned host: on {name} remove /etc/machine-id, run `systemd-machine-id-setup` and start it again"),
            );
        }
        for (package, version) in &known.versions {
            let (other, first) = *versions.entry(package).or_insert((name, version));
            if first != version {
                checker.find(
                    Code::VersionsDiffer,
                    &head_key(name),
                    format!("{package} is {first} on {other} and {version} on {name}"),
                    "finish the upgrade, head by head",
                );
            }
        }
        let Some(usable) = &known.zfs_features else {
            continue;
        };
        let (other, first) = *features.get_or_insert((name, usable));
        let differing: Vec<&str> = first
            .symmetric_difference(usable)
            .map(String::as_str)
            .collect();
        if !differing.is_empty() {
            checker.find(
                Code::FeaturesDiffer,
                &head_key(name),
                format!(
                    "only one of {other} and {name} supports {}",
                    differing.join(", ")
                ),
                "install the same OpenZFS on every head before upgrading a pool",
            );
        }
    }
}
