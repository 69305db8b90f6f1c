//! Why a pool is not opened, and the notices to the operator.

use super::membership::Config;
use super::record::{DiskId, MemberId, Record};
use std::collections::{BTreeMap, BTreeSet};

/// The location of the data that is missing on the reachable disks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Newer {
    /// Epoch of the newest known record.
    pub epoch: u64,
    /// The current disks, each with its head.
    pub disks: BTreeMap<DiskId, Option<MemberId>>,
    /// The disks of this head with missing data, each with the first transaction group that is missing.
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
    /// No member has the pool's record.
    NoRecord,
    /// By the newest record this head is none of its heads: it was not added yet.
    NoMember,
    /// By the newest record these disks are current, and the configuration of this head does not name them.
    Unlisted {
        /// The disks.
        disks: BTreeSet<DiskId>,
        /// Another head that served the pool last, so that its configuration names them.
        owner: Option<MemberId>,
    },
    /// Too few members respond.
    NoQuorum {
        /// The members that responded.
        received: BTreeSet<MemberId>,
    },
    /// Two heads: the other one may have continued alone. A message of it is needed, or an administrator's confirmation
    /// that it has nothing newer.
    OtherHeadUnresponsive {
        /// The other head.
        head: MemberId,
        /// The contents of the own copy.
        known: Newer,
    },
    /// The reachable disks have missing data.
    Stale(Newer),
    /// Current disks have histories that exclude each other. An administrator must choose one.
    Diverged(BTreeSet<DiskId>),
    /// Its owner serves it.
    OwnerLives(MemberId),
    /// Nothing proves that its owner has stopped.
    OwnerUnconfirmed(MemberId),
    /// Another head claims the pool.
    Outbid,
    /// The record changed during the opening: try again.
    Changed,
}

/// A notice to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The pool is not opened.
    Refused(Refusal),
    /// No record can be committed, so writes are blocked.
    WritesWait {
        /// The members that accepted the record.
        accepted: BTreeSet<MemberId>,
    },
    /// The last current disk failed. Writes are blocked until it is available.
    LastLeg(DiskId),
    /// A disk has a history that is not this pool's. It is not used.
    Divergent(DiskId),
    /// A change of members was taken back: the other head did not accept it in time.
    MembersStay,
    /// A disk returned in a state from before it became stale: it is copied in full.
    OlderImage(DiskId),
}
