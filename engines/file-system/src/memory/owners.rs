//! The users and groups of a file system in memory, and their quotas. It has no projects.

use super::state::State;
use crate::owners::Selected;
use crate::{Attributes, Done, FileError, Measure, Owner, OwnerKind, OwnerSpace, Owners, Quota};

/// Whether an object with these attributes is charged to `owner`.
fn is_charged(attributes: &Attributes, owner: Owner) -> bool {
    let id = match owner.kind {
        OwnerKind::User => attributes.uid,
        OwnerKind::Group => attributes.gid,
        OwnerKind::Project => return false,
    };
    u64::from(id) == owner.id
}

impl State {
    fn used(&self, owner: Owner) -> (u64, u64) {
        let all = self.nodes.values().map(|object| object.attributes);
        let charged = all.filter(|attributes| is_charged(attributes, owner));
        charged.fold((0, 0), |(bytes, objects), one| {
            (bytes + one.space, objects + 1)
        })
    }

    /// The space of an owner.
    pub(super) fn owner_space(&self, owner: Owner) -> OwnerSpace {
        let (bytes, objects) = self.used(owner);
        let limit = |measure| self.quotas.get(&(owner, measure)).copied();
        OwnerSpace {
            id: owner.id,
            bytes,
            bytes_max: limit(Measure::Bytes),
            objects: Some(objects),
            objects_max: limit(Measure::Objects),
        }
    }

    /// All owners of a kind.
    pub(super) fn owners(&self, kind: OwnerKind) -> Owners {
        let of = |attributes: &Attributes| match kind {
            OwnerKind::User => u64::from(attributes.uid),
            _ => u64::from(attributes.gid),
        };
        let with_files = self.nodes.values().map(|object| of(&object.attributes));
        let limited = self.quotas.keys().map(|(owner, _)| *owner);
        let limited = limited
            .filter(|owner| owner.kind == kind)
            .map(|owner| owner.id);
        let ids: std::collections::BTreeSet<u64> = with_files.chain(limited).collect();
        let mut selected = Selected::default();
        for id in ids {
            selected.add(id, self.used(Owner { kind, id }).0);
        }
        let complete = |id, _| Ok::<_, FileError>(self.owner_space(Owner { kind, id }));
        selected.complete(complete).unwrap_or_default()
    }

    /// Sets quotas.
    pub(super) fn set_quotas(&mut self, quotas: &[Quota]) -> Done {
        if quotas
            .iter()
            .any(|quota| quota.owner.kind == OwnerKind::Project)
        {
            return Err(FileError::Unsupported);
        }
        for quota in quotas {
            let key = (quota.owner, quota.measure);
            match quota.limit {
                Some(limit) => self.quotas.insert(key, limit),
                None => self.quotas.remove(&key),
            };
        }
        Ok(())
    }

    /// Refuses a change that exceeds a quota of the owner and group of an object, of objects only if it `makes` one.
    pub(super) fn check_quotas(&self, uid: u32, gid: u32, makes: bool) -> Done {
        if self.quotas.is_empty() {
            return Ok(());
        }
        for (kind, id) in [(OwnerKind::User, uid), (OwnerKind::Group, gid)] {
            let space = self.owner_space(Owner {
                kind,
                id: id.into(),
            });
            let is_full = space.bytes_max.is_some_and(|limit| space.bytes >= limit);
            let objects = space.objects.unwrap_or(0);
            let has_all = space.objects_max.is_some_and(|limit| objects >= limit);
            if is_full || (makes && has_all) {
                return Err(FileError::Quota);
            }
        }
        Ok(())
    }
}
