//! Adds a group of legs to a pool that is served.
//!
//! The record names the disks first, as empty ones. When all of them are stamped, one record makes them current, and
//! then the library adds them to the pool. After a crash in between, the next server of the pool completes the addition,
//! when it opens the pool or when the last leg of the group is current.

use std::path::Path;
use std::time::Duration;

use control::answer::{Answer, Done};
use control::operations::pool::DeviceGroup;
use control::{Failure, FailureKind};
use leg_record::DiskId;
use legs::{PublishedState, Reporter, Viewer};
use legs_config::{Group, LegsFile};
use units::PoolName;

use super::{LegsOfPool, Proof, give_up, kind_of, read, role_of};
use crate::requests;

/// Time-out until all disks of the group are current on record.
const CURRENT_WAIT: Duration = Duration::from_secs(60);

impl LegsOfPool {
    /// Adds a group, which the configuration names, too. `mismatch`: why it is refused, unless its addition has begun.
    pub(super) fn add_group(
        &self,
        (viewer, reporter): (&Viewer, &Reporter),
        wanted: &DeviceGroup,
        may_overwrite: bool,
        mismatch: Option<&Failure>,
    ) -> Result<Answer, Failure> {
        self.learn_groups(reporter);
        let file = self.multi_head.file();
        let group = configured((&file, &self.path), &self.pool, wanted)?;
        let disks: Vec<DiskId> = group.legs.iter().map(|leg| DiskId(leg.disk)).collect();
        let side = self.side.get().expect("the pool is open");
        if disks.iter().any(|disk| side.is_part(*disk)) {
            let legs = names(wanted).join(" ");
            return Ok(Done::already(format!(
                "the group of {legs} is part of the pool"
            )));
        }
        let is_new = |disk: &DiskId| !requests::is_named(&viewer.shown(), *disk);
        let new: Vec<DiskId> = disks.iter().copied().filter(is_new).collect();
        if let Some(mismatch) = mismatch.filter(|_| new.len() == disks.len()) {
            return Err(mismatch.clone());
        }
        for disk in &new {
            let mut network = self.network(Proof::None);
            network.configuration = file.digest(self.record()).unwrap_or_default();
            let names = self.names((*file).clone());
            ::legs::inspect_new_disk(self.config(), network, *disk, may_overwrite, names)
                .map_err(|error| self.unfit(&error))?;
            self.is_large_enough(&file, *disk)?;
        }
        for disk in &new {
            give_up(viewer, reporter, *disk, &file.disk_name(*disk))?;
        }
        let late: Vec<DiskId> = not_current(&viewer.shown(), &disks);
        late.iter().for_each(|disk| reporter.readmit(*disk));
        let shown = viewer.wait_for(CURRENT_WAIT, |shown| not_current(shown, &disks).is_empty());
        let late = not_current(&shown, &disks);
        if !late.is_empty() {
            return Err(unready(&file, &shown, &late));
        }
        side.add(disks[0]).map_err(|why| {
            let message = format!("the group is on record, and is no part of the pool yet: {why}");
            Failure::new(FailureKind::Failed, message)
                .advise("repeat the command; the next server of the pool tries it, too")
        })?;
        Ok(Done::changed(format!(
            "pool {} is wider by a group of {} legs",
            self.pool,
            disks.len()
        )))
    }

    /// Reads the configuration, if it only names more groups of the pool now.
    fn learn_groups(&self, reporter: &Reporter) {
        let known = self.multi_head.file();
        if let Ok((file, _)) = read(&self.path) {
            if file != *known && file.adds_groups_to(&known, &self.pool) {
                self.has_read(file, reporter);
            }
        }
    }
}

fn names(group: &DeviceGroup) -> Vec<String> {
    let legs = group.devices.iter();
    legs.map(|leg| leg.to_string_lossy().into_owned()).collect()
}

/// The group of exactly these legs, and of that kind.
fn configured<'a>(
    (file, path): (&'a LegsFile, &Path),
    pool: &PoolName,
    wanted: &DeviceGroup,
) -> Result<&'a Group, Failure> {
    let legs = names(wanted);
    let is_alike = |group: &&Group| kind_of(group) == wanted.kind && role_of(group) == wanted.role;
    let has = |group: &&Group| {
        let name = |leg: &legs_config::Leg| file.disk_name(DiskId(leg.disk));
        group.legs.len() == legs.len() && group.legs.iter().all(|leg| legs.contains(&name(leg)))
    };
    let mut groups = file.pools[pool].groups.iter();
    groups.find(has).filter(is_alike).ok_or_else(|| {
        let message = format!(
            "the configuration that the pool's server has read names no group of that kind and of exactly {}",
            legs.join(" ")
        );
        Failure::not_found(message).advise(format!(
            "write the group into {} of each head, with new numbers for its disks, and nothing else, restart the leg-servers, and repeat the command",
            path.display()
        ))
    })
}

/// The disks that are not current.
fn not_current(shown: &PublishedState, disks: &[DiskId]) -> Vec<DiskId> {
    let is_current = |disk: &&DiskId| {
        let record = shown.record.as_ref();
        record.is_some_and(|record| record.current.contains_key(disk))
    };
    disks
        .iter()
        .filter(|disk| !is_current(disk))
        .copied()
        .collect()
}

/// Some disks of the group were not claimed and stamped in time.
fn unready(file: &LegsFile, shown: &PublishedState, late: &[DiskId]) -> Failure {
    let why = |disk: &DiskId| match shown.troubles.get(disk) {
        Some(why) => format!("{} ({why})", file.disk_name(*disk)),
        None => file.disk_name(*disk),
    };
    let late: Vec<String> = late.iter().map(why).collect();
    let message = format!(
        "the group is on record, and is no part of the pool yet: {} cannot be used",
        late.join(", ")
    );
    Failure::new(FailureKind::Unavailable, message)
        .advise("check these disks and their heads, and repeat the command")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use control::operations::pool::{GroupKind, GroupRole};

    use super::*;
    use crate::multi_head::tests::two_heads;

    fn tank() -> PoolName {
        "tank".parse().expect("a name")
    }

    #[test]
    fn a_group_is_found_by_all_of_its_legs_and_only_more_groups_are_read() {
        let known = two_heads();
        let mut file = known.clone();
        let pool = file.pools.get_mut(&tank()).expect("a pool");
        let mut group = pool.groups[0].clone();
        for (leg, disk) in group.legs.iter_mut().zip([33, 44]) {
            (leg.disk, leg.path) = (disk, format!("/new{disk}").into());
        }
        pool.groups.push(group);
        assert!(file.adds_groups_to(&known, &tank()));
        assert!(!known.adds_groups_to(&file, &tank()), "one is gone");
        // As `apply` writes a group of data of a pool with a log.
        let mut first = file.clone();
        let pool = first.pools.get_mut(&tank()).expect("a pool");
        pool.groups.rotate_right(1);
        assert!(first.adds_groups_to(&known, &tank()));
        let mut moved = file.clone();
        moved.pools.get_mut(&tank()).expect("a pool").groups[0].legs[0].path = "/z".into();
        assert!(!moved.adds_groups_to(&known, &tank()), "a disk is another");
        let mut renumbered = file.clone();
        renumbered.pools.get_mut(&tank()).expect("a pool").guid = 124;
        assert!(!renumbered.adds_groups_to(&known, &tank()));
        let mut others = file.clone();
        let head = others.members.get_mut("b").expect("a head");
        head.lends = vec!["10.9.1.9:7072".parse().expect("an address")];
        assert!(
            !others.adds_groups_to(&known, &tank()),
            "a member is another"
        );
        let find = |kind, legs: &[&str]| {
            let wanted = DeviceGroup {
                kind,
                role: GroupRole::Data,
                devices: legs.iter().map(PathBuf::from).collect(),
            };
            let found = configured((&file, Path::new("/legs")), &tank(), &wanted);
            found
                .map(|group| group.legs[0].disk)
                .map_err(|error| error.to_string())
        };
        let both = ["b:/new44", "a:/new33"];
        assert_eq!(find(GroupKind::Mirror, &both), Ok(33));
        find(GroupKind::Raidz { parity: 1 }, &both).expect_err("another kind");
        let refused = find(GroupKind::Stripe, &["a:/new33"]).expect_err("not all of them");
        assert!(refused.contains("of exactly a:/new33"), "{refused}");
    }

    /// Both pools of the file grew. The server of each reads the groups of its pool.
    #[test]
    fn groups_are_read_also_if_another_pool_grew() {
        let other: PoolName = "other".parse().expect("a name");
        let with_other = |file: &LegsFile, disks: &[[u64; 2]]| {
            let mut file = file.clone();
            let mut pool = file.pools[&tank()].clone();
            let shape = pool.groups[0].clone();
            let group = |numbers: &[u64; 2]| {
                let mut group = shape.clone();
                for (leg, disk) in group.legs.iter_mut().zip(numbers) {
                    (leg.disk, leg.path) = (*disk, format!("/other{disk}").into());
                }
                group
            };
            (pool.guid, pool.groups) = (124, disks.iter().map(group).collect());
            file.pools.insert(other.clone(), pool);
            file
        };
        let known = with_other(&two_heads(), &[[55, 66]]);
        let mut grown = two_heads();
        let pool = grown.pools.get_mut(&tank()).expect("a pool");
        let mut group = pool.groups[0].clone();
        for (leg, disk) in group.legs.iter_mut().zip([33, 44]) {
            (leg.disk, leg.path) = (disk, format!("/new{disk}").into());
        }
        pool.groups.push(group);
        let both = with_other(&grown, &[[55, 66], [77, 88]]);
        for pool in [&tank(), &other] {
            assert!(both.adds_groups_to(&known, pool), "{pool}");
        }
        let one = with_other(&two_heads(), &[[55, 66], [77, 88]]);
        assert!(
            !one.adds_groups_to(&known, &tank()),
            "only the other pool grew"
        );
        assert!(one.adds_groups_to(&known, &other));
        // The other pool has fewer groups, or is gone.
        assert!(with_other(&grown, &[]).adds_groups_to(&known, &tank()));
        assert!(grown.adds_groups_to(&known, &tank()));
    }
}
