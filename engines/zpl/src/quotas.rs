//! Quotas of users, groups and projects, where a kernel has set them (`zfs set userquota@NAME=...`): ZAPs of the
//! dataset, keyed by the number of the user, group or project. The space in use is that of the last transaction group,
//! as in the kernel, so that writes within one group can exceed a quota.

use file_system::{Done, FileError};

use crate::convert::failure;
use crate::objects::{Has, ObjectError, Objects, Stored};

/// The master node, which refers to the lists.
const MASTER_NODE: u64 = 1;

/// A kind of owner: where its usage is counted, and its lists of limits in bytes and in objects.
struct Kind {
    used: u64,
    bytes: &'static [u8],
    objects: &'static [u8],
}

const USERS: Kind = Kind {
    used: u64::MAX,
    bytes: b"userquota@",
    objects: b"userobjquota@",
};
const GROUPS: Kind = Kind {
    used: u64::MAX - 1,
    bytes: b"groupquota@",
    objects: b"groupobjquota@",
};
const PROJECTS: Kind = Kind {
    used: u64::MAX - 2,
    bytes: b"projectquota@",
    objects: b"projectobjquota@",
};
const KINDS: [Kind; 3] = [USERS, GROUPS, PROJECTS];

/// The lists of a file system, by [`KINDS`]: of bytes and of objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quotas([[Option<u64>; 2]; 3]);

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

fn optional<T>(found: Result<T, ObjectError>) -> Result<Option<T>, ObjectError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(ObjectError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Quotas {
    /// Finds the lists.
    pub fn find(objects: &impl Objects) -> Result<Self, ObjectError> {
        let mut quotas = Self::default();
        for (lists, kind) in quotas.0.iter_mut().zip(&KINDS) {
            for (list, name) in lists.iter_mut().zip([kind.bytes, kind.objects]) {
                *list = optional(objects.look_up(MASTER_NODE, name))?;
            }
        }
        Ok(quotas)
    }

    /// Refuses a change that exceeds a quota of `payers`: of bytes, and with `makes` also of objects.
    pub(crate) fn check(&self, objects: &impl Objects, payers: Payers, makes: bool) -> Done {
        for ((lists, kind), payer) in self.0.iter().zip(&KINDS).zip(payers.0) {
            let Some(payer) = payer else { continue };
            let checks = [
                (lists[0], format!("{payer:x}"), true),
                (lists[1], format!("obj-{payer:x}"), makes),
            ];
            for (list, used, counts) in checks {
                let Some(list) = list.filter(|_| counts) else {
                    continue;
                };
                let limit = objects.look_up(list, format!("{payer:x}").as_bytes());
                let used = objects.look_up(kind.used, used.as_bytes());
                let limit = optional(limit).map_err(failure)?;
                let used = optional(used).map_err(failure)?;
                if limit.is_some_and(|limit| used.unwrap_or(0) >= limit) {
                    return Err(FileError::Quota);
                }
            }
        }
        Ok(())
    }
}
