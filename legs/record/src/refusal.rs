//! Why a pool is not opened, and what its owner tells the operator.

use super::membership::Config;
use super::record::{DiskId, MemberId, Record};
use std::collections::{BTreeMap, BTreeSet};

/// Who has what the disks that can be reached lack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Newer {
    /// Of the newest record that is known.
    pub epoch: u64,
    /// The disks that hold everything, each with its head.
    pub disks: BTreeMap<DiskId, Option<MemberId>>,
    /// The disks of this head that lack data, each with the first transaction group of which something is missing.
    pub since: BTreeMap<DiskId, u64>,
}

impl Newer {
    pub(super) fn of(config: &Config, record: &Record) -> Self {
        let disks = record.current.keys();
        let is_mine = |disk: &DiskId| config.lender(*disk) == Some(config.me);
        let stale = record.stale.iter().filter(|(disk, _)| is_mine(disk));
        Self {
            epoch: record.ballot.epoch,
            disks: disks.map(|disk| (*disk, config.lender(*disk))).collect(),
            since: stale.map(|(disk, stale)| (*disk, stale.since)).collect(),
        }
    }
}

/// Why a pool is not opened now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No member knows the pool.
    NoRecord,
    /// By the newest record this head is none of its heads: it was not added yet.
    NoMember,
    /// Too few members answer.
    NoQuorum {
        /// Who answered.
        heard: BTreeSet<MemberId>,
    },
    /// Two heads: the other one may have gone on alone. It has to be heard, or a person has to say that it has nothing
    /// newer.
    OtherHeadUnheard {
        /// The other head.
        head: MemberId,
        /// What the own copy says.
        known: Newer,
    },
    /// The disks that can be reached lack data.
    Stale(Newer),
    /// Current disks have histories that exclude each other. A person has to choose one.
    Diverged(BTreeSet<DiskId>),
    /// Its owner serves it.
    OwnerLives(MemberId),
    /// Nothing proves that its owner has stopped.
    OwnerUnconfirmed(MemberId),
    /// Another head claims the pool.
    Outbid,
    /// The record changed meanwhile: look again.
    Changed,
}

/// What the operator is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The pool is not opened.
    Refused(Refusal),
    /// No record can be committed, so writes wait.
    WritesWait {
        /// Who accepted the record.
        accepted: BTreeSet<MemberId>,
    },
    /// The last disk that holds everything failed. Writes wait for it.
    LastLeg(DiskId),
    /// A disk has a history that is not this pool's. It is left alone.
    Divergent(DiskId),
    /// A change of members was taken back: the other head did not accept it in its time.
    MembersStay,
    /// A disk that comes back is older than it was when it became stale: everything is copied to it.
    OlderImage(DiskId),
}
