//! The record of a pool's legs: the current disks, the missing data of the other disks, and the owner.

use super::membership::Membership;
use super::rules::{Rule, holds};
use std::collections::{BTreeMap, BTreeSet};

/// The last root of an owner that died may be ahead of the pool by this many groups. Groups without a change are
/// counted and have no root: an idle pool counts this many in a day.
const GROUPS_AHEAD_MAX: u64 = 20_000;

/// A head or witness, by a number that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// A disk of a pool, by the number that ZFS gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u64);

/// A term: one attempt of one head to own the pool.
///
/// The epoch grows with each term. The nonce is random: it distinguishes two terms with the same epoch that were
/// claimed without knowledge of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// The greater one wins.
    pub epoch: u64,
    /// Random.
    pub nonce: u64,
}

/// A session: one connection of one term to one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    /// The term.
    pub ballot: Ballot,
    /// Counted by the owner; a later one replaces the one before.
    pub number: u32,
}

/// The order of a pool's records: by epoch, then by sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The epoch of its proposer.
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
    /// Whether the record names the session that last wrote a leg with this stamp.
    pub fn contains(&self, mark: Session) -> bool {
        mark == self.confirmed || mark == self.possible
    }
}

/// The two newest roots on a disk, by their transaction groups; 0 where there is none.
///
/// Not each group has a root, and not on each disk: a group without a change has none, and roots go to three top-level
/// devices only. So distances between groups are meaningless. One root is written at a time, to all legs of a top-level
/// device that are in use, and is durable there before the next one: all of them have all roots except the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Roots {
    /// The newest.
    pub newest: u64,
    /// The one before.
    pub before: u64,
}

/// The missing data of an excluded disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MissingData {
    /// As [`Stale::since`].
    pub since: u64,
    /// As [`Stale::newest`].
    pub newest: u64,
}

/// A disk with missing data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stale {
    /// The first transaction group that may be missing in part. The root of the group before, or a later one, is on
    /// it: otherwise it is an older image. 0: an administrator gave up all data on it.
    pub since: u64,
    /// Its stamps.
    pub marks: Marks,
    /// The last root that may be there while it has the confirmed stamp. One more is possible.
    pub newest: u64,
    /// A resilver was announced: with the possible stamp, it may have roots of any later group.
    pub is_written: bool,
}

impl Stale {
    /// Whether a disk with these roots is an image from before it became stale.
    pub fn is_older(&self, roots: Roots) -> bool {
        roots.newest + 1 < self.since
    }

    /// Whether the roots of a disk with this stamp belong to this pool. `pool_group`: its newest group.
    pub(super) fn is_own(&self, mark: Session, roots: Roots, pool_group: u64) -> bool {
        if !self.marks.contains(mark) {
            return false;
        }
        let possible = pool_group.max(self.newest);
        if roots.newest > possible + GROUPS_AHEAD_MAX {
            return false;
        }
        let is_written = self.is_written && mark == self.marks.possible;
        let is_known = roots.newest == self.newest || roots.before == self.newest;
        is_known || roots.before < self.since || (is_written && roots.before <= possible)
    }
}

/// The replicated state of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The pool's number.
    pub pool: u64,
    /// The term of its proposer.
    pub ballot: Ballot,
    /// Sequence number in that term, from 1.
    pub sequence: u64,
    /// The owner of the pool; `None` after an export.
    pub owner: Option<MemberId>,
    /// Disks with all acknowledged writes, each with the stamp that was read from it.
    pub current: BTreeMap<DiskId, Session>,
    /// Disks with missing data.
    pub stale: BTreeMap<DiskId, Stale>,
    /// Disks with a history that is not this pool's. They are never written.
    pub divergent: BTreeSet<DiskId>,
    /// Members that lost their state once, each with the life in which it counts now; 0 for all other members.
    pub lives: BTreeMap<MemberId, u64>,
    /// The members, since a change of them or the creation of the pool. If `None`, the configured ones count.
    pub members: Option<Membership>,
}

/// Most life numbers in a record when a member is added: those of former witnesses, and of the heads. The format has
/// room for 16, so there is room for the new member, and for members that lose their state later.
const LIVES_LEFT_MAX: usize = 12;

impl Record {
    /// The record of a new pool: all of its disks are current, and it has no owner.
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
            lives: BTreeMap::new(),
            members: None,
        }
    }

    /// Whether it has room for the life of a new member. The life of a former one stays, because its vote may be in
    /// flight.
    pub fn uses_life_of(&self, member: MemberId) -> bool {
        self.lives.len() < LIVES_LEFT_MAX || self.lives.contains_key(&member)
    }

    /// The life of a member in which it counts: 0 until it lost its state.
    pub fn life(&self, member: MemberId) -> u64 {
        self.lives.get(&member).copied().unwrap_or_default()
    }

    /// Whether it names its members, and `member` is not among them.
    pub(super) fn leaves_out(&self, member: MemberId) -> bool {
        let members = self.members.as_ref();
        members.is_some_and(|members| !members.members().contains(&member))
    }

    /// Whether `head` is one of its heads; true if it names none.
    pub(crate) fn names_head(&self, head: MemberId) -> bool {
        let members = self.members.as_ref();
        members.is_none_or(|members| members.heads().contains(&head))
    }

    /// Adopts the members of another record, which are `members`. One that is not named by this record counts in its
    /// life there.
    pub(super) fn take_members(&mut self, other: &Self, members: &[MemberId]) {
        let named = self.members.as_ref().map(Membership::members);
        for (member, life) in &other.lives {
            let is_none = named.as_ref().is_some_and(|named| !named.contains(member));
            if is_none || !self.lives.contains_key(member) {
                self.lives.insert(*member, *life);
            }
        }
        self.members.clone_from(&other.members);
        self.leave_lives(members);
    }

    /// The life numbers of members that are not in `members` stay: they are used up.
    pub(super) fn leave_lives(&mut self, members: &[MemberId]) {
        if !holds(Rule::LivesAreUsedOnce) {
            self.lives.retain(|member, _| members.contains(member));
        }
    }

    /// Its version.
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

    /// The current disks.
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

    /// Whether the disk is one of the pool's.
    pub fn names(&self, disk: DiskId) -> bool {
        let is_divergent = self.divergent.contains(&disk);
        self.current.contains_key(&disk) || self.stale.contains_key(&disk) || is_divergent
    }

    /// All disks of the pool.
    pub fn disks(&self) -> BTreeSet<DiskId> {
        let disks = self.current.keys().chain(self.stale.keys());
        disks.chain(&self.divergent).copied().collect()
    }

    /// Marks a current disk as stale.
    pub fn drop_disk(&mut self, disk: DiskId, missing_data: MissingData) {
        let Some(marks) = self.marks(disk) else {
            return;
        };
        self.current.remove(&disk);
        let stale = Stale {
            since: missing_data.since,
            marks,
            newest: missing_data.newest,
            is_written: false,
        };
        self.stale.insert(disk, stale);
    }

    /// Excludes a disk as divergent.
    pub fn diverge(&mut self, disk: DiskId) {
        self.current.remove(&disk);
        self.stale.remove(&disk);
        self.divergent.insert(disk);
    }

    /// An administrator gave up the data on a disk that is not current, or replaced it: all data is copied to the disk.
    /// The same holds for a disk that is new to the pool.
    pub(super) fn give_up(&mut self, disk: DiskId) {
        if self.current.contains_key(&disk) {
            return;
        }
        self.divergent.remove(&disk);
        let none = Session {
            ballot: self.ballot,
            number: 0,
        };
        let stale = Stale {
            since: 0,
            marks: Marks {
                confirmed: none,
                possible: none,
            },
            newest: 0,
            is_written: true,
        };
        self.stale.insert(disk, stale);
    }

    /// Whether the owner of this term has noted that the disk was given up, and nothing since.
    pub(super) fn has_given_up(&self, disk: DiskId) -> bool {
        let mut again = self.clone();
        again.give_up(disk);
        self.stale.contains_key(&disk) && again == *self
    }

    /// Notes that the owner of this term begins to write to a stale disk, in the session `next`. `seen` and `roots` are
    /// the stamp and the roots on it now. The data on an older image does not count.
    pub fn begin_return(&mut self, disk: DiskId, seen: Session, roots: Roots, next: Session) {
        if let Some(stale) = self.stale.get_mut(&disk) {
            if stale.is_older(roots) && holds(Rule::OlderImagesAreCopied) {
                stale.since = 1;
            }
            if stale.is_written && seen == stale.marks.possible {
                stale.newest = roots.newest;
            }
            stale.is_written = true;
            stale.marks = Marks {
                confirmed: seen,
                possible: next,
            };
        }
    }

    /// Makes a stale disk that was stamped by this term current.
    pub fn complete_return(&mut self, disk: DiskId) {
        if let Some(stale) = self.stale.remove(&disk) {
            self.current.insert(disk, stale.marks.possible);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING_DATA: MissingData = MissingData {
        since: 30,
        newest: 40,
    };

    fn record() -> Record {
        let ballot = Ballot { epoch: 4, nonce: 7 };
        Record::new(1, ballot, [DiskId(1), DiskId(2)])
    }

    #[test]
    fn epoch_is_compared_before_sequence() {
        let mut later = record();
        later.sequence = 9;
        let mut next = record();
        next.ballot.epoch = 5;
        assert_eq!(record().newer(later.clone()), later);
        assert_eq!(later.newer(next.clone()), next);
        assert_eq!(next.clone().newer(record()), next);
    }

    #[test]
    fn names_head_excludes_witness_and_defaults_to_any() {
        let mut one = record();
        assert!(one.names_head(MemberId(3)));
        let (heads, witness) = ([MemberId(1), MemberId(2)], MemberId(3));
        one.members = Some(Membership::TwoHeadsAndWitness { heads, witness });
        assert!(one.names_head(MemberId(2)));
        assert!(!one.names_head(witness));
    }

    #[test]
    fn disk_is_either_current_or_stale() {
        let mut one = record();
        one.drop_disk(DiskId(2), MISSING_DATA);
        assert_eq!(one.current_disks(), [DiskId(1)].into());
        assert!(!one.stale[&DiskId(2)].is_written);
        let roots = Roots {
            newest: 29,
            before: 28,
        };
        one.begin_return(DiskId(2), Session::default(), roots, Session::default());
        assert!(one.stale[&DiskId(2)].is_written);
        assert_eq!(one.stale[&DiskId(2)].since, 30);
        one.complete_return(DiskId(2));
        assert_eq!(one.current.len(), 2);
        assert!(one.stale.is_empty());
        one.diverge(DiskId(1));
        assert_eq!(one.current_disks(), [DiskId(2)].into());
        one.drop_disk(DiskId(1), MISSING_DATA);
        assert!(one.stale.is_empty(), "it was not current");
    }

    #[test]
    fn discarded_disk_is_fully_stale_current_disk_is_kept() {
        let mut one = record();
        one.give_up(DiskId(1));
        assert_eq!(one, record());
        one.drop_disk(DiskId(2), MISSING_DATA);
        one.give_up(DiskId(2));
        let stale = one.stale[&DiskId(2)];
        assert_eq!((stale.since, stale.is_written), (0, true));
        let before = record().current[&DiskId(2)];
        assert!(
            !stale.marks.contains(before),
            "the disk that went is not known"
        );
        one.diverge(DiskId(2));
        one.give_up(DiskId(2));
        assert_eq!((one.stale.len(), one.divergent.len()), (1, 0));
        one.give_up(DiskId(3));
        assert_eq!(one.stale[&DiskId(3)].since, 0, "it joins the pool");
    }

    #[test]
    fn an_older_image_is_copied_in_full() {
        let returned = |newest| {
            let mut one = record();
            one.drop_disk(DiskId(2), MISSING_DATA);
            let roots = Roots {
                newest,
                before: newest - 1,
            };
            one.begin_return(DiskId(2), Session::default(), roots, Session::default());
            one.stale[&DiskId(2)].since
        };
        assert_eq!(returned(29), 30, "the root that is surely there");
        assert_eq!(returned(33), 30, "one more root was on its way");
        assert_eq!(returned(28), 1);
    }

    /// The pool was idle, so its roots are far apart; the last one was in flight to the legs when the owner died.
    #[test]
    fn at_most_one_uberblock_may_be_ahead() {
        let mut one = record();
        one.drop_disk(DiskId(2), MISSING_DATA);
        let (stale, mark) = (one.stale[&DiskId(2)], one.current[&DiskId(1)]);
        let is_own = |newest, before| stale.is_own(mark, Roots { newest, before }, 41);
        for (newest, before) in [(29, 20), (40, 29), (900, 29), (900, 40)] {
            assert!(is_own(newest, before), "{newest}, {before}");
        }
        for (newest, before) in [(42, 41), (36, 35), (900_000, 29)] {
            assert!(!is_own(newest, before), "{newest}, {before}");
        }
        let unknown = Session { number: 9, ..mark };
        let roots = Roots {
            newest: 29,
            before: 20,
        };
        assert!(!stale.is_own(unknown, roots, 41));
    }
}
