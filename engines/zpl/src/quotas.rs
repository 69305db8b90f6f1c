//! Quotas of users, groups and projects, as a kernel stores them (`zfs set userquota@NAME=...`): ZAPs of the dataset,
//! keyed by the number of the user, group or project. The space in use is that of the last transaction group, as in the
//! kernel, so that writes within one group can exceed a quota.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use file_system::{Done, FileError, Measure, OwnerKind, Quota};

use crate::convert::failure;
use crate::objects::{Has, ListedQuota, ObjectError, Objects, Stored};

/// The master node, which refers to the lists.
const MASTER_NODE: u64 = 1;

/// A kind of owner: where its usage is counted, and its lists of limits in bytes and in objects.
struct Kind {
    used: u64,
    lists: [&'static [u8]; 2],
}

const USERS: Kind = Kind {
    used: u64::MAX,
    lists: [b"userquota@", b"userobjquota@"],
};
const GROUPS: Kind = Kind {
    used: u64::MAX - 1,
    lists: [b"groupquota@", b"groupobjquota@"],
};
const PROJECTS: Kind = Kind {
    used: u64::MAX - 2,
    lists: [b"projectquota@", b"projectobjquota@"],
};
const KINDS: [Kind; 3] = [USERS, GROUPS, PROJECTS];

/// The place of a kind in [`KINDS`].
const fn index(kind: OwnerKind) -> usize {
    match kind {
        OwnerKind::User => 0,
        OwnerKind::Group => 1,
        OwnerKind::Project => 2,
    }
}

/// The object that counts the space of the owners of a kind.
pub(crate) const fn counts_of(kind: OwnerKind) -> u64 {
    KINDS[index(kind)].used
}

/// The key of an owner's bytes, and of its limits.
pub(crate) fn key(id: u64) -> String {
    format!("{id:x}")
}

/// The key of the number of an owner's objects.
pub(crate) fn objects_key(id: u64) -> String {
    format!("obj-{id:x}")
}

/// The lists of a file system, by [`KINDS`]: of bytes and of objects; 0 where there is none.
#[derive(Debug, Default)]
pub struct Quotas {
    lists: [[AtomicU64; 2]; 3],
    /// Held while quotas are set.
    changing: Mutex<()>,
}

/// The user, group and project that an object is charged to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payers([Option<u64>; 3]);

impl Payers {
    /// The owners of an object.
    pub fn of(stored: &Stored) -> Self {
        let project = Some(stored.project).filter(|_| stored.has.has(Has::PROJECT));
        Self([Some(stored.uid), Some(stored.gid), project])
    }

    /// Those of `after` that were not charged before.
    pub fn new_ones(before: &Stored, after: &Stored) -> Self {
        let changed = |before, after| Some(after).filter(|after| *after != before);
        Self([
            changed(before.uid, after.uid),
            changed(before.gid, after.gid),
            None,
        ])
    }
}

pub(crate) fn optional<T>(found: Result<T, ObjectError>) -> Result<Option<T>, ObjectError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(ObjectError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Quotas {
    /// Finds the lists.
    pub fn find(objects: &impl Objects) -> Result<Self, ObjectError> {
        let quotas = Self::default();
        quotas.find_again(objects)?;
        Ok(quotas)
    }

    fn find_again(&self, objects: &impl Objects) -> Result<(), ObjectError> {
        for (lists, kind) in self.lists.iter().zip(&KINDS) {
            for (list, name) in lists.iter().zip(kind.lists) {
                let found = optional(objects.look_up(MASTER_NODE, name))?;
                list.store(found.unwrap_or(0), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The list of limits, if there is one.
    pub(crate) fn list(&self, kind: OwnerKind, measure: Measure) -> Option<u64> {
        let lists = &self.lists[index(kind)];
        let list = match measure {
            Measure::Bytes => &lists[0],
            Measure::Objects => &lists[1],
        };
        Some(list.load(Ordering::Relaxed)).filter(|list| *list != 0)
    }

    /// The limit of an owner, if it has one.
    pub(crate) fn limit(
        &self,
        objects: &impl Objects,
        (kind, id): (OwnerKind, u64),
        measure: Measure,
    ) -> Result<Option<u64>, ObjectError> {
        match self.list(kind, measure) {
            Some(list) => optional(objects.look_up(list, key(id).as_bytes())),
            None => Ok(None),
        }
    }

    /// Sets quotas, all or none. Changes are checked against them before they are on disk.
    pub(crate) fn set(&self, objects: &impl Objects, quotas: &[Quota]) -> Done {
        let counted = objects.counted();
        let has = |quota: &Quota| {
            let counts = match quota.measure {
                Measure::Bytes => counted.bytes,
                Measure::Objects => counted.objects,
            };
            counts && (quota.owner.kind != OwnerKind::Project || counted.projects)
        };
        if !quotas.iter().all(has) {
            return Err(FileError::Unsupported);
        }
        let entry = |quota: &Quota| {
            let [of_bytes, of_objects] = KINDS[index(quota.owner.kind)].lists;
            ListedQuota {
                list: match quota.measure {
                    Measure::Bytes => of_bytes,
                    Measure::Objects => of_objects,
                },
                key: key(quota.owner.id),
                limit: quota.limit.unwrap_or(0),
            }
        };
        let entries: Vec<ListedQuota<'_>> = quotas.iter().map(entry).collect();
        let changing = self.changing.lock();
        let _changing = changing.unwrap_or_else(PoisonError::into_inner);
        objects.set_quotas(&entries).map_err(failure)?;
        self.find_again(objects).map_err(failure)?;
        objects.settle().map_err(failure)
    }

    /// Refuses a change that exceeds a quota of `payers`: of bytes, and with `makes` also of objects.
    pub(crate) fn check(&self, objects: &impl Objects, payers: Payers, makes: bool) -> Done {
        for (kind, payer) in OwnerKind::ALL.into_iter().zip(payers.0) {
            let Some(payer) = payer else { continue };
            let checks = [
                (Measure::Bytes, key(payer), true),
                (Measure::Objects, objects_key(payer), makes),
            ];
            for (measure, used, counts) in checks {
                if !counts || self.list(kind, measure).is_none() {
                    continue;
                }
                let limit = self.limit(objects, (kind, payer), measure);
                let used = objects.look_up(counts_of(kind), used.as_bytes());
                let limit = limit.map_err(failure)?;
                let used = optional(used).map_err(failure)?;
                if limit.is_some_and(|limit| used.unwrap_or(0) >= limit) {
                    return Err(FileError::Quota);
                }
            }
        }
        Ok(())
    }
}
