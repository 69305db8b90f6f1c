//! The record of a pool's legs: which disks hold everything, which lack what, and who may write.

use std::collections::{BTreeMap, BTreeSet};

/// The root of so many groups may be on a leg beyond what its owner knows of: one group is written at a time.
const GROUPS_AHEAD: u64 = 1;

/// A head or witness, by a number that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// A disk of a pool, by the number that ZFS gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u64);

/// A tenure: one attempt of one head to own the pool.
///
/// The epoch grows with each. The nonce is random: it tells two tenures apart that claimed the same epoch where neither
/// could know of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// The greater one wins.
    pub epoch: u64,
    /// Random.
    pub nonce: u64,
}

/// One connection of one tenure to one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    /// Whose.
    pub ballot: Ballot,
    /// Counted by the owner; a later one replaces the one before.
    pub number: u32,
}

/// The place of a record among all of its pool: the later epoch is newer, then the later sequence within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Of the owner who proposed it.
    pub epoch: u64,
    /// Counted by that owner, from 1.
    pub sequence: u64,
}

/// The stamps that may be on a leg. Stamps are written after the record that announces them, so there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marks {
    /// It was read there.
    pub confirmed: Session,
    /// It may have been written since.
    pub possible: Session,
}

impl Marks {
    /// Whether a leg with this stamp was last written by an owner whom the record knows.
    pub fn know(&self, mark: Session) -> bool {
        mark == self.confirmed || mark == self.possible
    }
}

/// A disk that lacks data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stale {
    /// The first transaction group of which something may be missing.
    pub since: u64,
    /// Its stamps.
    pub marks: Marks,
    /// The newest transaction group whose root may be on it while it has the confirmed stamp.
    pub newest: u64,
    /// A resilver was to begin: with the possible stamp, it may have roots of any later group.
    pub is_written: bool,
}

/// What the members remember of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The pool's number.
    pub pool: u64,
    /// Who proposed it, by tenure.
    pub ballot: Ballot,
    /// Which of that tenure's records it is, from 1.
    pub sequence: u64,
    /// Who owns the pool; nobody after an export.
    pub owner: Option<MemberId>,
    /// Disks that hold everything that was ever acknowledged, each with the stamp that was read from it.
    pub current: BTreeMap<DiskId, Session>,
    /// Disks that lack something.
    pub stale: BTreeMap<DiskId, Stale>,
    /// Disks with a history that is not this pool's. Nothing is written to them.
    pub divergent: BTreeSet<DiskId>,
}

impl Record {
    /// The record of a new pool: all of its disks are current, and nobody owns it.
    pub fn new(pool: u64, ballot: Ballot, disks: impl IntoIterator<Item = DiskId>) -> Self {
        let first = Session { ballot, number: 1 };
        Self {
            pool,
            ballot,
            sequence: 1,
            owner: None,
            current: disks.into_iter().map(|disk| (disk, first)).collect(),
            stale: BTreeMap::new(),
            divergent: BTreeSet::new(),
        }
    }

    /// Its place.
    pub fn version(&self) -> Version {
        Version {
            epoch: self.ballot.epoch,
            sequence: self.sequence,
        }
    }

    /// The newer of two records of the same pool.
    pub fn newer(self, other: Self) -> Self {
        match other.version() > self.version() {
            true => other,
            false => self,
        }
    }

    /// The disks that hold everything.
    pub fn current_disks(&self) -> BTreeSet<DiskId> {
        self.current.keys().copied().collect()
    }

    /// The stamps that may be on a current disk.
    pub fn marks(&self, disk: DiskId) -> Option<Marks> {
        self.current.get(&disk).map(|confirmed| Marks {
            confirmed: *confirmed,
            possible: Session {
                ballot: self.ballot,
                number: 1,
            },
        })
    }

    /// Makes a current disk stale.
    pub fn drop_disk(&mut self, disk: DiskId, since: u64) {
        let Some(marks) = self.marks(disk) else {
            return;
        };
        self.current.remove(&disk);
        let stale = Stale {
            since,
            marks,
            newest: since + GROUPS_AHEAD,
            is_written: false,
        };
        self.stale.insert(disk, stale);
    }

    /// Takes a disk out because of its history.
    pub fn diverge(&mut self, disk: DiskId) {
        self.current.remove(&disk);
        self.stale.remove(&disk);
        self.divergent.insert(disk);
    }

    /// Notes that the owner of this tenure begins to write to a stale disk, by the session `next`. `seen` is the stamp that is
    /// on it now, `newest` its newest group.
    pub fn begin_return(&mut self, disk: DiskId, seen: Session, newest: u64, next: Session) {
        if let Some(stale) = self.stale.get_mut(&disk) {
            stale.is_written = true;
            stale.newest = newest;
            stale.marks = Marks {
                confirmed: seen,
                possible: next,
            };
        }
    }

    /// Makes a stale disk that was stamped by this tenure current.
    pub fn complete_return(&mut self, disk: DiskId) {
        if let Some(stale) = self.stale.remove(&disk) {
            self.current.insert(disk, stale.marks.possible);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let ballot = Ballot { epoch: 4, nonce: 7 };
        Record::new(1, ballot, [DiskId(1), DiskId(2)])
    }

    #[test]
    fn the_epoch_counts_before_the_sequence() {
        let mut later = record();
        later.sequence = 9;
        let mut next = record();
        next.ballot.epoch = 5;
        assert_eq!(record().newer(later.clone()), later);
        assert_eq!(later.newer(next.clone()), next);
        assert_eq!(next.clone().newer(record()), next);
    }

    #[test]
    fn a_disk_is_in_one_place() {
        let mut one = record();
        one.drop_disk(DiskId(2), 30);
        assert_eq!(one.current_disks(), [DiskId(1)].into());
        assert!(!one.stale[&DiskId(2)].is_written);
        one.begin_return(DiskId(2), Session::default(), 30, Session::default());
        assert!(one.stale[&DiskId(2)].is_written);
        assert_eq!(one.stale[&DiskId(2)].since, 30);
        one.complete_return(DiskId(2));
        assert_eq!(one.current.len(), 2);
        assert!(one.stale.is_empty());
        one.diverge(DiskId(1));
        assert_eq!(one.current_disks(), [DiskId(2)].into());
        one.drop_disk(DiskId(1), 5);
        assert!(one.stale.is_empty(), "it was not current");
    }
}
