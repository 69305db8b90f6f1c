//! Conflicts between the identities of several pools: targets and disks that initiators take for
//! the same one.

use std::collections::{BTreeMap, BTreeSet};

use units::{IscsiName, VolumeName};

use super::Status;

/// Returns sentences about targets and disks that several of these pools have, by the pool that reports them.
/// Initiators identify a target by its name only, and a disk by its designators. They treat the same target at another
/// portal as another path to it.
pub fn shared_names(statuses: &[&Status]) -> BTreeMap<String, Vec<String>> {
    let mut reported = shared_targets(statuses);
    let mut units: BTreeMap<&str, BTreeMap<&str, &VolumeName>> = BTreeMap::new();
    for status in statuses {
        for unit in status.targets.iter().flat_map(|target| &target.units) {
            for designator in [&unit.naa, &unit.serial] {
                let pools = units.entry(designator).or_default();
                pools.insert(&status.pool.name, &unit.volume);
            }
        }
    }
    // Most volumes with one designator in common have both.
    let shared: BTreeSet<_> = units
        .into_values()
        .filter(|pools| pools.len() > 1)
        .collect();
    for pools in &shared {
        for (pool, volume) in pools {
            let others = pools.iter().filter(|(other, _)| other != &pool);
            let others: Vec<&str> = others.map(|(_, volume)| volume.as_str()).collect();
            reported.entry((*pool).to_owned()).or_default().push(format!(
                "{volume} has the serial number of {}, and initiators take them for one disk: unmap the one that is not the disk, here with \
                 `bulkhead target unmap`",
                others.join(", ")
            ));
        }
    }
    reported
}

fn shared_targets(statuses: &[&Status]) -> BTreeMap<String, Vec<String>> {
    let mut pools: BTreeMap<&IscsiName, Vec<&str>> = BTreeMap::new();
    for status in statuses {
        for target in &status.targets {
            pools
                .entry(&target.name)
                .or_default()
                .push(&status.pool.name);
        }
    }
    let mut reported: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (target, pools) in pools.iter().filter(|(_, pools)| pools.len() > 1) {
        for pool in pools {
            let others = pools.iter().filter(|other| *other != pool).copied();
            let others = others.collect::<Vec<_>>().join(", ");
            reported.entry((*pool).to_owned()).or_default().push(format!(
                "target {target} is also in pool {others}, and initiators cannot distinguish them: create it again under \
                 another name in one of the pools, and destroy it there, here with \
                 `bulkhead target destroy {target} --pool {pool}`"
            ));
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{PoolStatus, TargetView, UnitView};
    use crate::exports::AccessRule;

    fn status(pool: &str, target: &str, naa: &str) -> Status {
        let unit = UnitView {
            lun: 0,
            volume: format!("{pool}/v").parse().expect("a name"),
            read_only: false,
            write_cache: false,
            naa: naa.to_owned(),
            serial: format!("bh{naa}"),
        };
        Status {
            pool: PoolStatus {
                name: pool.to_owned(),
                ..PoolStatus::default()
            },
            targets: vec![TargetView {
                name: format!("iqn.2026-01.org.example:{target}")
                    .parse()
                    .expect("a name"),
                portal_groups: Vec::new(),
                access: AccessRule::default(),
                chap_users: Vec::new(),
                mutual_user: None,
                units: vec![unit],
                sessions: Vec::new(),
            }],
            ..Status::default()
        }
    }

    #[test]
    fn disks_and_targets_in_several_pools_are_reported_by_each() {
        let all = [
            status("a", "x", "1"),
            status("b", "y", "1"),
            status("c", "y", "2"),
        ];
        let all: Vec<&Status> = all.iter().collect();
        let reported = shared_names(&all);
        let has = |pool: &str, part: &str| {
            let found = reported.get(pool).into_iter().flatten();
            found.filter(|sentence| sentence.contains(part)).count()
        };
        assert_eq!((has("a", "b/v"), has("b", "a/v")), (1, 1));
        assert_eq!((has("b", "target iqn"), has("c", "target iqn")), (1, 1));
        assert_eq!((has("a", "target iqn"), has("c", "serial number")), (0, 0));
    }
}
