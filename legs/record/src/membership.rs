//! The members of a pool, and their quorum.

use super::record::{DiskId, MemberId, Record};
use super::rules::{Rule, holds};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The members of an appliance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// One head with all disks. Its own memory is a commit.
    OneHead(MemberId),
    /// Two heads alone. A commit needs both, or one and the confirmed fence of the other.
    TwoHeads([MemberId; 2]),
    /// Two heads, and a witness that stores the record. A commit needs any two.
    TwoHeadsAndWitness {
        /// The heads.
        heads: [MemberId; 2],
        /// The witness.
        witness: MemberId,
    },
    /// The same, and the witness is being removed. A commit needs any two, and the two heads or a replacement for the
    /// vote of one.
    WitnessLeaves {
        /// The heads.
        heads: [MemberId; 2],
        /// The witness.
        witness: MemberId,
    },
    /// Three heads. A commit needs any two.
    ThreeHeads([MemberId; 3]),
}

impl Membership {
    /// All members.
    pub fn members(&self) -> Vec<MemberId> {
        match self {
            Self::OneHead(head) => vec![*head],
            Self::TwoHeads(heads) => heads.to_vec(),
            Self::TwoHeadsAndWitness { heads, witness }
            | Self::WitnessLeaves { heads, witness } => {
                heads.iter().chain([witness]).copied().collect()
            }
            Self::ThreeHeads(heads) => heads.to_vec(),
        }
    }

    /// The members with disks.
    pub fn heads(&self) -> &[MemberId] {
        match self {
            Self::OneHead(head) => std::slice::from_ref(head),
            Self::TwoHeads(heads)
            | Self::TwoHeadsAndWitness { heads, .. }
            | Self::WitnessLeaves { heads, .. } => heads,
            Self::ThreeHeads(heads) => heads,
        }
    }

    /// The member without disks.
    pub fn witness(&self) -> Option<MemberId> {
        match self {
            Self::TwoHeadsAndWitness { witness, .. } | Self::WitnessLeaves { witness, .. } => {
                Some(*witness)
            }
            _ => None,
        }
    }

    /// The member that is being removed.
    pub fn leaving(&self) -> Option<MemberId> {
        match self {
            Self::WitnessLeaves { witness, .. } => Some(*witness),
            _ => None,
        }
    }

    /// The member that `next` adds.
    pub(super) fn coming(&self, next: &Self) -> Option<MemberId> {
        let present = self.members();
        let mut coming = next.members().into_iter();
        coming.find(|member| !present.contains(member))
    }

    /// The heads that are also heads by `next`.
    pub(super) fn staying(&self, next: &Self) -> impl Iterator<Item = MemberId> {
        let heads = self.heads().iter().copied();
        heads.filter(|head| next.heads().contains(head))
    }

    /// The next step on the way to `desired`. A witness or a third head is added in one step, and a witness is removed in
    /// two: heads that are one step apart rely on the response, or the fence, of the same member. A new member has no
    /// vote before both heads apply the rule with it, so a third head replaces a witness in that step.
    pub(super) fn step_to(&self, desired: &Self) -> Option<Self> {
        match (self, desired) {
            (
                Self::TwoHeads(heads) | Self::TwoHeadsAndWitness { heads, .. },
                Self::ThreeHeads(wanted),
            ) if heads.iter().all(|head| wanted.contains(head))
                && self.witness().is_none_or(|one| !wanted.contains(&one)) =>
            {
                Some(desired.clone())
            }
            (Self::TwoHeads(heads), Self::TwoHeadsAndWitness { heads: wanted, .. })
                if heads == wanted =>
            {
                Some(desired.clone())
            }
            (Self::TwoHeadsAndWitness { heads, witness }, Self::TwoHeads(wanted))
                if heads == wanted =>
            {
                Some(match holds(Rule::WitnessLeavesInTwoSteps) {
                    true => Self::WitnessLeaves {
                        heads: *heads,
                        witness: *witness,
                    },
                    false => desired.clone(),
                })
            }
            // There is no way back from here: a head may have continued with the next record.
            (Self::WitnessLeaves { heads, .. }, _) => Some(Self::TwoHeads(*heads)),
            _ => None,
        }
    }
}

/// How many of three members are a quorum.
const QUORUM: usize = 2;

/// Disks that work together: a top-level device of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegGroup {
    /// The disks, each with the head that lends it.
    pub lenders: BTreeMap<DiskId, MemberId>,
    /// Number of disks that are needed to read all data.
    pub needed: usize,
}

impl LegGroup {
    /// Whether the group is part of the pool by that record.
    pub fn is_in_use(&self, record: &Record) -> bool {
        let mut disks = self.lenders.keys();
        disks.any(|disk| record.current.contains_key(disk))
    }
}

/// A head's configuration of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This head.
    pub me: MemberId,
    /// The pool's number.
    pub pool: u64,
    /// The configured members. They count for records that name none.
    pub membership: Membership,
    /// Where the disks are.
    pub groups: Vec<LegGroup>,
}

/// Replacements for votes, with two heads.
#[derive(Clone, Copy, Debug, Default)]
pub struct VoteSubstitute {
    /// The other head is confirmed to be off, by a fence or an administrator, and has sent no message since.
    pub is_other_fenced: bool,
    /// The own, committed copy names no disk of another head as current.
    pub is_sole: bool,
}

impl Config {
    /// All members.
    pub fn members(&self) -> Vec<MemberId> {
        self.membership.members()
    }

    /// The same with the members of a record. A head applies the record that its own member accepted: no change of
    /// members is committed without that.
    pub fn by(&self, record: Option<&Record>) -> Cow<'_, Self> {
        let named = record.and_then(|record| record.members.as_ref());
        match named.filter(|_| holds(Rule::MembersOfTheRecord)) {
            Some(named) => self.with(named),
            None => Cow::Borrowed(self),
        }
    }

    /// The same configuration with these members.
    pub(super) fn with(&self, membership: &Membership) -> Cow<'_, Self> {
        match *membership == self.membership {
            true => Cow::Borrowed(self),
            false => Cow::Owned(Self {
                membership: membership.clone(),
                ..self.clone()
            }),
        }
    }

    /// The other one of two heads.
    pub fn other_head(&self) -> Option<MemberId> {
        match self.membership.heads() {
            [one, other] if *one == self.me => Some(*other),
            [one, other] if *other == self.me => Some(*one),
            _ => None,
        }
    }

    /// The other one of two heads, if no third member exists or counts.
    pub fn other_of_two(&self) -> Option<MemberId> {
        match &self.membership {
            Membership::TwoHeads(_) | Membership::WitnessLeaves { .. } => self.other_head(),
            _ => None,
        }
    }

    /// The head that lends a disk.
    pub fn lender(&self, disk: DiskId) -> Option<MemberId> {
        let mut groups = self.groups.iter();
        groups.find_map(|group| group.lenders.get(&disk).copied())
    }

    /// Whether all data can be read from these disks.
    pub fn is_readable(&self, disks: &BTreeSet<DiskId>) -> bool {
        self.groups.iter().all(|group| {
            let present = group.lenders.keys().filter(|disk| disks.contains(disk));
            present.count() >= group.needed
        })
    }

    /// The same for the groups that are part of the pool by `record`. A group keeps the disks that it needs: one without
    /// a current disk has not joined the pool yet. A group with current disks that are not configured cannot be read.
    pub fn is_readable_by(&self, record: &Record, disks: &BTreeSet<DiskId>) -> bool {
        let is_readable = |group: &LegGroup| {
            let present = group.lenders.keys().filter(|disk| disks.contains(disk));
            present.count() >= group.needed || !group.is_in_use(record)
        };
        self.unlisted(record).is_empty() && self.groups.iter().all(is_readable)
    }

    /// The current disks of a record that the configuration does not name. It is older than the record then: an owner
    /// could not claim these disks, and would exclude them, with all data of their groups.
    pub fn unlisted(&self, record: &Record) -> BTreeSet<DiskId> {
        let current = record.current.keys().copied();
        current
            .filter(|disk| self.lender(*disk).is_none())
            .collect()
    }

    /// The group of a disk.
    pub fn group(&self, disk: DiskId) -> Option<&LegGroup> {
        let mut groups = self.groups.iter();
        groups.find(|group| group.lenders.contains_key(&disk))
    }

    /// Whether every current disk is one of this head.
    pub fn is_sole<'a>(&self, mut current: impl Iterator<Item = &'a DiskId>) -> bool {
        current.all(|disk| self.lender(*disk) == Some(self.me))
    }

    /// Two heads: whether the fence of the other one is a vote. Not if that head has the only current disks: it may
    /// continue alone after a restart, without the records that were committed without it.
    pub fn may_vote_by_fence<'a>(&self, current: impl Iterator<Item = &'a DiskId>) -> bool {
        let mut lenders = current.map(|disk| self.lender(*disk));
        lenders.any(|lender| lender == Some(self.me)) || !holds(Rule::NoFenceAgainstTheSole)
    }

    /// Whether the promises of these members are enough to own the pool.
    pub fn may_claim(&self, promised: &BTreeSet<MemberId>, by: VoteSubstitute) -> bool {
        if !holds(Rule::PromisesOfAQuorum) {
            return promised.contains(&self.me);
        }
        self.is_quorum(promised, by)
    }

    /// Whether a record is committed once these members have accepted it.
    pub fn is_committed(&self, accepted: &BTreeSet<MemberId>, by: VoteSubstitute) -> bool {
        if !holds(Rule::CommitByAQuorum) {
            return accepted.contains(&self.me);
        }
        self.is_quorum(accepted, by)
    }

    fn is_quorum(&self, members: &BTreeSet<MemberId>, by: VoteSubstitute) -> bool {
        let count = |all: &[MemberId]| all.iter().filter(|one| members.contains(one)).count();
        let is_replaced = by.is_other_fenced || by.is_sole;
        let stands_alone = members.contains(&self.me) && is_replaced;
        match &self.membership {
            Membership::OneHead(head) => members.contains(head),
            Membership::TwoHeads(heads) => count(heads) >= QUORUM || stands_alone,
            Membership::WitnessLeaves { heads, .. } => {
                count(&self.members()) >= QUORUM && (count(heads) >= QUORUM || stands_alone)
            }
            Membership::TwoHeadsAndWitness { .. } | Membership::ThreeHeads(_) => {
                count(&self.members()) >= QUORUM
            }
        }
    }

    /// The members that must accept `proposed` first, if the order matters. With two heads, the lender of the only
    /// current disks must accept that they no longer are the only ones before the other head may act on it.
    pub fn first_to_accept(
        &self,
        before: &Record,
        proposed: &Record,
    ) -> Option<BTreeSet<MemberId>> {
        let is_growth = proposed
            .current
            .keys()
            .any(|disk| !before.current.contains_key(disk));
        if self.other_of_two().is_none() || !is_growth || !holds(Rule::GrowthBeginsAtTheSole) {
            return None;
        }
        let lenders = before.current.keys();
        Some(lenders.filter_map(|disk| self.lender(*disk)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Ballot;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);

    fn two_heads() -> Config {
        let lenders = [(DiskId(1), A), (DiskId(2), B)].into();
        Config {
            me: A,
            pool: 1,
            membership: Membership::TwoHeads([A, B]),
            groups: vec![LegGroup { lenders, needed: 1 }],
        }
    }

    #[test]
    fn two_heads_need_both_or_a_fence_of_the_stale_one() {
        let config = two_heads();
        let fence = VoteSubstitute {
            is_other_fenced: true,
            ..VoteSubstitute::default()
        };
        let none = VoteSubstitute::default();
        assert!(config.is_committed(&[A, B].into(), none));
        assert!(!config.is_committed(&[A].into(), none));
        assert!(config.is_committed(&[A].into(), fence));
        assert!(!config.is_committed(&[B].into(), fence));
        assert!(config.may_vote_by_fence([DiskId(1), DiskId(2)].iter()));
        assert!(!config.may_vote_by_fence([DiskId(2)].iter()));
    }

    #[test]
    fn single_head_commits_its_stored_record() {
        let config = Config {
            membership: Membership::OneHead(A),
            ..two_heads()
        };
        let none = VoteSubstitute::default();
        assert_eq!(config.members(), [A]);
        assert!(config.is_committed(&[A].into(), none));
        assert!(!config.is_committed(&[].into(), none));
        assert_eq!(config.other_of_two(), None);
    }

    #[test]
    fn fence_is_no_vote_with_a_witness() {
        let witness = MemberId(9);
        let config = Config {
            membership: Membership::TwoHeadsAndWitness {
                heads: [A, B],
                witness,
            },
            ..two_heads()
        };
        let fence = VoteSubstitute {
            is_other_fenced: true,
            ..VoteSubstitute::default()
        };
        assert!(!config.may_claim(&[A].into(), fence));
        assert!(config.may_claim(&[A, witness].into(), VoteSubstitute::default()));
    }

    #[test]
    fn witness_is_added_in_one_step_and_removed_in_two() {
        let (heads, witness) = ([A, B], MemberId(9));
        let two = Membership::TwoHeads(heads);
        let three = Membership::TwoHeadsAndWitness { heads, witness };
        let leaves = Membership::WitnessLeaves { heads, witness };
        assert_eq!(two.step_to(&three), Some(three.clone()));
        assert_eq!(three.step_to(&two), Some(leaves.clone()));
        assert_eq!(leaves.step_to(&three), Some(two.clone()));
        assert_eq!(two.step_to(&two), None);
        let others = [A, MemberId(7)];
        let elsewhere = Membership::TwoHeadsAndWitness {
            heads: others,
            witness,
        };
        assert_eq!(two.step_to(&elsewhere), None);
    }

    #[test]
    fn third_head_is_added_in_one_step_also_for_a_witness() {
        let (heads, witness, coming) = ([A, B], MemberId(9), MemberId(3));
        let two = Membership::TwoHeads(heads);
        let with_witness = Membership::TwoHeadsAndWitness { heads, witness };
        let leaves = Membership::WitnessLeaves { heads, witness };
        let three = Membership::ThreeHeads([A, B, coming]);
        for before in [&two, &with_witness] {
            assert_eq!(before.step_to(&three), Some(three.clone()));
            assert_eq!(before.coming(&three), Some(coming));
            assert_eq!(before.staying(&three).collect::<Vec<_>>(), heads);
        }
        assert_eq!(leaves.step_to(&three), Some(two.clone()));
        assert_eq!(two.coming(&with_witness), Some(witness));
        assert_eq!(with_witness.coming(&two), None);
        let others = Membership::ThreeHeads([A, coming, MemberId(4)]);
        assert_eq!(two.step_to(&others), None, "a head would go");
        let same = Membership::ThreeHeads([A, B, witness]);
        assert_eq!(with_witness.step_to(&same), None, "it is the witness");
        assert_eq!(three.step_to(&two), None);
    }

    #[test]
    fn both_quorums_apply_during_witness_removal() {
        let (heads, witness) = ([A, B], MemberId(9));
        let config = Config {
            membership: Membership::WitnessLeaves { heads, witness },
            ..two_heads()
        };
        let (none, fence) = (
            VoteSubstitute::default(),
            VoteSubstitute {
                is_other_fenced: true,
                ..VoteSubstitute::default()
            },
        );
        assert!(config.is_committed(&[A, B].into(), none));
        assert!(!config.is_committed(&[A, witness].into(), none));
        assert!(config.is_committed(&[A, witness].into(), fence));
        assert!(!config.is_committed(&[A].into(), fence));
        assert_eq!(config.other_of_two(), Some(B));
    }

    #[test]
    fn quorum_uses_recorded_not_configured_members() {
        let config = two_heads();
        let mut record = Record::new(1, Ballot::default(), [DiskId(1)]);
        assert_eq!(config.by(Some(&record)).membership, config.membership);
        let (heads, witness) = ([A, B], MemberId(9));
        record.members = Some(Membership::TwoHeadsAndWitness { heads, witness });
        assert_eq!(config.by(Some(&record)).members(), [A, B, witness]);
        assert_eq!(config.by(None).members(), [A, B]);
    }

    #[test]
    fn a_group_without_a_current_disk_has_not_joined_the_pool() {
        let mut config = two_heads();
        let coming = LegGroup {
            lenders: [(DiskId(3), A), (DiskId(4), B)].into(),
            needed: 1,
        };
        config.groups.push(coming);
        let record = |disks: &[u64]| {
            let disks = disks.iter().map(|disk| DiskId(*disk));
            Record::new(1, Ballot::default(), disks)
        };
        let reads = |record: &Record, disks: &[u64]| {
            let disks = disks.iter().map(|disk| DiskId(*disk)).collect();
            config.is_readable_by(record, &disks)
        };
        assert!(reads(&record(&[1, 2]), &[1]));
        assert!(!reads(&record(&[1, 2, 3, 4]), &[1]));
        assert!(reads(&record(&[1, 2, 4]), &[1, 4]));
        // The second group has other numbers in the configuration that the record was made by.
        assert!(!reads(&record(&[1, 2, 8, 9]), &[1, 8]));
    }

    /// The group was added on another head, and this head has the earlier file.
    #[test]
    fn record_of_a_group_that_is_not_configured_is_not_readable() {
        let config = two_heads();
        let disks = |disks: &[u64]| -> BTreeSet<DiskId> {
            disks.iter().map(|disk| DiskId(*disk)).collect()
        };
        let mut record = Record::new(1, Ballot::default(), disks(&[1, 2, 8, 9]));
        assert_eq!(config.unlisted(&record), disks(&[8, 9]));
        assert!(!config.is_readable_by(&record, &disks(&[1])));
        let missing_data = crate::MissingData {
            since: 3,
            newest: 3,
        };
        record.drop_disk(DiskId(9), missing_data);
        assert!(!config.is_readable_by(&record, &disks(&[1, 2])));
        // The pool has no group without a current disk.
        let mut coming = Record::new(1, Ballot::default(), disks(&[1, 2]));
        coming.give_up(DiskId(8));
        assert_eq!(config.unlisted(&coming), disks(&[]));
        assert!(config.is_readable_by(&coming, &disks(&[1])));
    }

    #[test]
    fn sole_current_head_accepts_an_addition_first() {
        let config = two_heads();
        let ballot = Ballot::default();
        let before = Record::new(1, ballot, [DiskId(2)]);
        let after = Record::new(1, ballot, [DiskId(1), DiskId(2)]);
        assert_eq!(config.first_to_accept(&before, &after), Some([B].into()));
        assert_eq!(config.first_to_accept(&after, &before), None);
    }
}
