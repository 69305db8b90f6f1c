//! The users, groups and projects that space is charged to, and their quotas.

use std::collections::BTreeSet;

/// A kind of owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    /// A user, by its number.
    User,
    /// A group, by its number.
    Group,
    /// A project, by its number.
    Project,
}

impl OwnerKind {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];
}

/// A user, group or project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: OwnerKind,
    /// Its number. That of a user of an identity mapper has more than 32 bits.
    pub id: u64,
}

/// The limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Bytes on disk.
    Bytes,
    /// Files, directories and the like.
    Objects,
}

/// A quota to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The limited owner.
    pub owner: Owner,
    /// The limited resource.
    pub measure: Measure,
    /// The limit, which is not 0; `None` removes it.
    pub limit: Option<u64>,
}

/// The space of an owner, and its quotas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerSpace {
    /// The number of the owner.
    pub id: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// The quota of bytes.
    pub bytes_max: Option<u64>,
    /// Number of objects; `None` where they are not counted.
    pub objects: Option<u64>,
    /// The quota of objects.
    pub objects_max: Option<u64>,
}

/// The owners in a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// At most [`OWNERS_MAX`]: those that use the most bytes, in this order. Equal ones are in the order of their
    /// numbers.
    pub first: Vec<OwnerSpace>,
    /// Number of owners that are left out.
    pub left_out: u64,
}

/// Owners that are listed.
pub const OWNERS_MAX: usize = 10_000;

/// Selects the owners that are listed, in memory for those only.
#[derive(Debug, Default)]
pub struct Selected {
    /// Bytes and numbers. The smallest is the last one, as a number is inverted.
    kept: BTreeSet<(u64, std::cmp::Reverse<u64>)>,
    left_out: u64,
}

impl Selected {
    /// Considers an owner.
    pub fn add(&mut self, id: u64, bytes: u64) {
        self.kept.insert((bytes, std::cmp::Reverse(id)));
        if self.kept.len() > OWNERS_MAX {
            self.kept.pop_first();
            self.left_out += 1;
        }
    }

    /// The selected owners, each completed by `complete` from its number and bytes.
    pub fn complete<E>(
        self,
        mut complete: impl FnMut(u64, u64) -> Result<OwnerSpace, E>,
    ) -> Result<Owners, E> {
        let kept = self.kept.into_iter().rev();
        let first = kept.map(|(bytes, std::cmp::Reverse(id))| complete(id, bytes));
        Ok(Owners {
            first: first.collect::<Result<_, _>>()?,
            left_out: self.left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(id: u64, bytes: u64) -> Result<OwnerSpace, ()> {
        Ok(OwnerSpace {
            id,
            bytes,
            ..OwnerSpace::default()
        })
    }

    #[test]
    fn owners_with_most_bytes_come_first_and_the_rest_is_counted() {
        let mut selected = Selected::default();
        for id in 0..OWNERS_MAX as u64 + 2 {
            selected.add(id, 512 + id % 2);
        }
        let owners = selected.complete(complete).expect("complete");
        assert_eq!(owners.first.len(), OWNERS_MAX);
        assert_eq!(owners.left_out, 2);
        let first = owners.first.iter().map(|one| (one.id, one.bytes));
        assert_eq!(
            first.take(3).collect::<Vec<_>>(),
            [(1, 513), (3, 513), (5, 513)]
        );
        // Of those that use the least, the highest numbers are left out.
        let last = owners.first.last().expect("many");
        assert_eq!((last.id, last.bytes), (OWNERS_MAX as u64 - 4, 512));
    }
}
