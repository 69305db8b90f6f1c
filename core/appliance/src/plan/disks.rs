//! Checks disks before a file names them: one that replaces a leg, and one that joins a group.

use std::collections::BTreeSet;
use std::path::PathBuf;

use legs_config::{Group, Leg, Pool};
use serde::Deserialize;
use units::PoolName;

use super::legs::Files;
use super::{Actual, Obstacle, RecordedMembers};

/// A disk as its head sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ObservedDisk {
    /// The resolved path: two names of one disk resolve to one path.
    pub place: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its contents, in words; empty if unknown.
    pub carries: String,
    /// The pool that its label names.
    pub pool: Option<String>,
    /// The GUID that ZFS assigned to it there.
    pub device: Option<u64>,
    /// The GUID of that pool. None of a head with an earlier release.
    pub pool_guid: Option<u64>,
    /// The transaction group of the label.
    pub txg: Option<u64>,
    /// The number of the record of legs in its label.
    pub record: Option<u64>,
    /// Size of the smallest disk that can join it, or replace one of its disks, in bytes. None of a
    /// raidz.
    pub least_bytes: Option<u64>,
}

/// Returns the obstacles of the disks that the file names for a pool on record.
pub(super) fn obstacles(
    actual: &Actual,
    files: &Files<'_>,
    record: Option<&RecordedMembers>,
    (name, wanted): (&PoolName, &Pool),
) -> Vec<Obstacle> {
    let look = Look {
        actual,
        name,
        wanted,
    };
    let on_record = record.and_then(|record| record.disks.as_ref());
    let mut found = Vec::new();
    for group in &wanted.groups {
        found.extend(look.occupied(group, on_record));
        for leg in &group.legs {
            let own = files.iter().find(|(head, _)| head.as_str() == leg.head);
            let old = own.and_then(|(_, file)| {
                let pool = file.pools.values().find(|one| one.guid == wanted.guid)?;
                let mut legs = pool.groups.iter().flat_map(|group| &group.legs);
                legs.find(|one| one.disk == leg.disk && one.head == leg.head)
            });
            let is_named = on_record.map_or(old.is_some(), |disks| disks.contains(&leg.disk));
            found.extend(match (is_named, old) {
                (true, Some(old)) if old.path != leg.path => look.moved(group, leg, old),
                // The old disk is still present, or its head has lost its file, and the old path is
                // unknown.
                (true, _) => None,
                (false, _) => look.room(group, leg, on_record.is_some()),
            });
        }
    }
    found
}

struct Look<'a> {
    actual: &'a Actual,
    name: &'a PoolName,
    wanted: &'a Pool,
}

impl Look<'_> {
    fn seen(&self, head: &str, path: &std::path::Path) -> Option<&ObservedDisk> {
        let mut heads = self.actual.heads.iter();
        let (_, known) = heads.find(|(name, _)| name.as_str() == head)?;
        known.disks.get(path)
    }

    /// Checks another path for a leg on record: it must be the same disk, or one without data to
    /// lose.
    fn moved(&self, group: &Group, leg: &Leg, old: &Leg) -> Option<Obstacle> {
        let (name, told) = (self.name, disk_label(leg));
        let was = old.path.display();
        let Some(new) = self.seen(&leg.head, &leg.path) else {
            return Some(Obstacle {
                what: format!(
                    "the file names {told} instead of {was}, a leg of pool {name} on record, and the disk there cannot be read"
                ),
                mend: format!(
                    "see that the disk is there, and that {} has this release of bulkhead (`bulkhead leg-server look {}` there); or write {was} again",
                    leg.head,
                    leg.path.display()
                ),
            });
        };
        if self.is_same(leg, old, new) {
            return None;
        }
        if new.carries.is_empty() {
            return self.room(group, leg, true);
        }
        if new.pool.as_deref() == Some(name.as_str()) {
            return Some(Obstacle {
                what: format!(
                    "the file names {told} instead of {was}, a leg of pool {name} on record, and that disk carries {}: it is another leg of the pool, \
                     or was one",
                    new.carries
                ),
                mend: format!(
                    "write {was} again. The number and the path of a disk never change, even where two of a head seem to be exchangeable"
                ),
            });
        }
        Some(Obstacle {
            what: format!(
                "the file names {told} instead of {was}, a leg of pool {name} on record, and that disk carries {}: all of it may be overwritten",
                new.carries
            ),
            mend: format!(
                "write {was} again, if that is the leg. A disk that shall replace it is made empty first (`wipefs -a {}` on {}, when nothing on it is \
                 wanted), then applied, and then named to `bulkhead pool replace` (the guide, Pools without shared disks, \"Replace a disk\")",
                leg.path.display(),
                leg.head
            ),
        })
    }

    /// Returns whether it is the disk that the old path led to, under another name.
    fn is_same(&self, leg: &Leg, old: &Leg, new: &ObservedDisk) -> bool {
        let known = self.seen(&leg.head, &old.path);
        if known.is_some_and(|known| known.place == new.place) {
            return true;
        }
        let is_of_pool = new.pool.as_deref() == Some(self.name.as_str()) && new.device.is_some();
        if !is_of_pool {
            return false;
        }
        match known.filter(|known| known.device.is_some()) {
            // Both exist, so they are two disks.
            Some(_) => false,
            // The old name is gone: it is this disk, unless this one is another leg of the pool.
            None => {
                let legs = self.wanted.groups.iter().flat_map(|group| &group.legs);
                let mut others = legs.filter(|one| one.head == leg.head && one.disk != leg.disk);
                !others.any(|one| {
                    let seen = self.seen(&one.head, &one.path);
                    seen.is_some_and(|seen| seen.device == new.device)
                })
            }
        }
    }

    /// Checks that the disks of a group that joins the pool carry no data to lose. Those of an interrupted addition are on
    /// record.
    fn occupied(&self, group: &Group, on_record: Option<&BTreeSet<u64>>) -> Option<Obstacle> {
        let on_record = on_record?;
        if group.legs.iter().any(|leg| on_record.contains(&leg.disk)) {
            return None;
        }
        let legs = group.legs.iter();
        let mut seen = legs.filter_map(|leg| Some((leg, self.seen(&leg.head, &leg.path)?)));
        let (leg, seen) = seen.find(|(_, seen)| !seen.carries.is_empty())?;
        Some(Obstacle {
            what: format!(
                "the file names {} for a new group of pool {}, and that disk carries {}",
                disk_label(leg),
                self.name,
                seen.carries
            ),
            mend: format!(
                "name a different disk; or run `wipefs -a {}` on {} if nothing on it is wanted",
                leg.path.display(),
                leg.head
            ),
        })
    }

    /// Checks that a disk that joins a group, or replaces one of its disks, is large enough.
    fn room(&self, group: &Group, leg: &Leg, is_checked: bool) -> Option<Obstacle> {
        let new = self.seen(&leg.head, &leg.path).filter(|_| is_checked)?;
        let others = group.legs.iter().filter(|one| one.disk != leg.disk);
        let others = others.filter_map(|one| Some((one, self.seen(&one.head, &one.path)?)));
        let others = others.filter(|(_, seen)| seen.pool.as_deref() == Some(self.name.as_str()));
        let (beside, seen) = others
            .filter(|(_, seen)| seen.least_bytes.is_some())
            .max_by_key(|(_, seen)| seen.least_bytes)?;
        let least = seen.least_bytes.filter(|least| new.bytes < *least)?;
        Some(Obstacle {
            what: format!(
                "{} has {} bytes, which is too small for its group of pool {}: {} has {}, and {least} are needed",
                disk_label(leg),
                new.bytes,
                self.name,
                disk_label(beside),
                seen.bytes
            ),
            mend: format!(
                "name a disk or a partition of at least {least} bytes instead; it need not be of the same size. A leg that the record does not name \
                 yet can also be left out of the group: its head may serve the pool without a disk of its own"
            ),
        })
    }
}

fn disk_label(leg: &Leg) -> String {
    format!("{}:{}", leg.head, leg.path.display())
}
