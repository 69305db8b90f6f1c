//! Checks pools: their heads, disks, addresses and caches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use units::{ByteCount, HeadName, PoolName};

use super::{Checker, Code, head_key, pool_key};
use crate::file::Pool;

/// Share of a head's memory that caches may use, in percent: the rest is for dirty data, buffers of
/// connections, the cluster and the system.
const ARC_PERCENT_MAX: u64 = 70;
/// Sizes that ZFS can use as the smallest unit of a device, in bytes (`ashift` 9 to 16).
const SECTOR_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

pub(super) fn check(checker: &mut Checker<'_>) {
    let mut disk_owner: BTreeMap<&Path, &PoolName> = BTreeMap::new();
    for (name, pool) in &checker.appliance.pools {
        check_heads(checker, name, pool);
        check_addresses(checker, name, pool);
        check_disks(checker, name, pool, &mut disk_owner);
    }
    check_arc(checker);
}

fn check_heads(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    if checker.appliance.heads.len() < 2 {
        return;
    }
    let heads = checker.appliance.heads_of(pool);
    if heads.len() == 1 {
        checker.find(
            Code::PoolOnOneHead,
            &pool_key(name).field("heads"),
            format!("only {} may serve {name}", heads[0]),
            "list a second head, or leave heads out to allow all",
        );
    } else if pool.home.is_none() {
        checker.find(
            Code::PoolWithoutHome,
            &pool_key(name).field("home"),
            format!("{name} has no home"),
            "write home = \"HEAD\"",
        );
    }
}

fn check_addresses(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    let networks: BTreeSet<_> = pool
        .addresses
        .iter()
        .map(|address| &address.network)
        .collect();
    match networks.len() {
        0 => checker.find(
            Code::NoAddress,
            &pool_key(name).field("addresses"),
            format!("{name} has no address"),
            "list one address in each of two networks",
        ),
        1 => checker.find(
            Code::OnePortal,
            &pool_key(name).field("addresses"),
            format!("{name} is reached over one network only"),
            "add an address in a second network, and use multipath on the clients",
        ),
        _ => {}
    }
}

fn check_disks<'a>(
    checker: &mut Checker<'_>,
    name: &'a PoolName,
    pool: &'a Pool,
    owner: &mut BTreeMap<&'a Path, &'a PoolName>,
) {
    let key = pool_key(name).field("disks");
    if pool.disks.is_empty() && !pool.has_legs() {
        checker.find(
            Code::NoDisk,
            &key,
            format!("{name} has no disk"),
            "list its disks by their names in /dev/disk/by-id, or groups of disks that the heads have",
        );
    }
    if !pool.sector_bytes.is_power_of_two() || !SECTOR_BYTES.contains(&pool.sector_bytes) {
        checker.find(
            Code::SectorSize,
            &pool_key(name).field("sector_bytes"),
            format!("{} bytes cannot be a sector", pool.sector_bytes),
            "write 4096, or 512 for old disks",
        );
    }
    for (index, disk) in pool.disks.iter().enumerate() {
        if let Some(other) = owner.insert(disk, name) {
            checker.find(
                Code::DiskTwice,
                &key.item(index),
                format!("{} is in {other} and in {name}", disk.display()),
                "list each disk once",
            );
        }
        if is_unstable(disk) {
            checker.find(
                Code::DiskNameUnstable,
                &key.item(index),
                format!("{} may be another disk after the next boot", disk.display()),
                "use its name in /dev/disk/by-id",
            );
        }
    }
}

/// Returns whether the kernel assigned the name in the order of discovery.
pub(super) fn is_unstable(disk: &Path) -> bool {
    let Ok(name) = disk.strip_prefix("/dev") else {
        return false;
    };
    let first = name.to_string_lossy();
    ["sd", "nvme", "vd", "hd", "xvd", "dm-", "loop"]
        .iter()
        .any(|prefix| first.starts_with(prefix))
}

/// Checks that all pools that a head may serve fit on it at once.
fn check_arc(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, pool) in &appliance.pools {
        if pool.arc.is_none() {
            checker.find(
                Code::ArcUnset,
                &pool_key(name).field("arc"),
                format!("the cache of {name} has no size"),
                "write arc = \"SIZE\", such as \"16G\"",
            );
        }
    }
    for (name, head) in &appliance.heads {
        let known = checker.facts.heads.get(name).and_then(|facts| facts.memory);
        let Some(memory) = smaller(head.memory, known) else {
            continue;
        };
        let here: Vec<&PoolName> = pools_possible(checker, name);
        let wanted: u64 = here
            .iter()
            .filter_map(|pool| appliance.pools[*pool].arc)
            .fold(0, |sum, arc| sum.saturating_add(arc.get()));
        let free = memory.get() / 100 * ARC_PERCENT_MAX;
        if wanted > free {
            checker.find(
                Code::ArcTooLarge,
                &head_key(name),
                format!(
                    "{} pool(s) that {name} may serve want {} of cache, and {name} has {memory} of memory",
                    here.len(),
                    ByteCount(wanted),
                ),
                format!("let the sum of arc be at most {} ({ARC_PERCENT_MAX} %)", ByteCount(free)),
            );
        }
    }
}

fn smaller(a: Option<ByteCount>, b: Option<ByteCount>) -> Option<ByteCount> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn pools_possible<'a>(checker: &Checker<'a>, head: &HeadName) -> Vec<&'a PoolName> {
    let appliance = checker.appliance;
    appliance
        .pools
        .iter()
        .filter(|(_, pool)| appliance.heads_of(pool).contains(head))
        .map(|(name, _)| name)
        .collect()
}
