//! The rules of the protocol by name, so that a test can remove one and show that it is needed.
//!
//! In a build without tests, every rule holds and the compiler removes the check.

/// A rule that the explorer may remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "only the explorer's world checks some rules")]
pub(super) enum Rule {
    /// A candidate needs promises of a quorum, not of itself alone.
    PromisesOfAQuorum,
    /// A record counts when a quorum has it, not when its proposer has it.
    CommitByAQuorum,
    /// The newest record that a quorum names is the base of the next, not the candidate's own.
    NewestRecordOfTheQuorum,
    /// A member refuses records of older epochs than it promised.
    MembersRefuseOlderEpochs,
    /// One epoch is promised to one candidate.
    OneCandidateForEachEpoch,
    /// A member writes before it responds.
    MembersWriteBeforeResponse,
    /// A lender refuses older epochs.
    LendersRefuseOlderEpochs,
    /// A lender's epoch outlives its restart.
    LendersStoreEpoch,
    /// A lender completes the I/O of one session before it admits the next.
    LendersDrain,
    /// A lender accepts I/O of the admitted session only.
    LendersAdmitOneSession,
    /// A session is resumed only with the same incarnation of the lender.
    SameIncarnation,
    /// The error of a leg is withheld until its exclusion is committed.
    ErrorsAreWithheld,
    /// A read that failed is no failure of the leg.
    ReadErrorsFailNoLeg,
    /// The last leg is used again only if no write or flush of it failed.
    StaleLegsStayFailed,
    /// A failed leg returns only through a resilver.
    FailedLegsStayOut,
    /// The remaining legs after an exclusion are readable.
    LastLegsStay,
    /// The missing data of a leg begins with the first group that no flush confirmed.
    SinceTheFirstUnconfirmed,
    /// A fault during the resilver does not reduce the missing data of the leg.
    SinceOutlivesTheResilver,
    /// A leg is current only after its resilver, synced groups and a flush.
    ReturnIsComplete,
    /// A completed return names its session.
    ReturnsNameTheirSession,
    /// From the proposal to make a leg current on, its errors are withheld.
    GrowthBindsFromItsProposal,
    /// A stale leg is written only after a record announces it.
    ResilversAreOnRecord,
    /// Foreign history is not resilvered.
    ForeignHistoryIsDivergent,
    /// A stale leg without a root that was certainly on it is copied in full.
    OlderImagesAreCopied,
    /// All disks of a group that joins the pool become current in one record.
    GroupsJoinWhole,
    /// A leg is current only after the pool has passed every root that is on it.
    ReturnPassesItsRoots,
    /// Only current legs are opened.
    OnlyCurrentLegs,
    /// The record of a new owner is committed before the import.
    CommitBeforeImport,
    /// The previous owner is known to have stopped.
    ProofOfTheStop,
    /// That proof counts for the term that was read before the fence was requested.
    ProofForOneTerm,
    /// A head that serves makes no promise to another candidate.
    OwnersPromiseNothing,
    /// It accepts no record of another term either.
    OwnersAcceptNothing,
    /// A member that lost its memory does not vote until it receives a record that names its life.
    LostMembersDoNotVote,
    /// It receives the record after the commit.
    WelcomeAfterTheCommit,
    /// Promises of a life count only together with records that name it.
    PromisesOfThisLife,
    /// A head that the newest record leaves out does not open the pool.
    HeadsOpenAsMembers,
    /// A head applies the members of the record that its own member accepted, not its configuration.
    MembersOfTheRecord,
    /// A change of members is committed by the rules before and after it, and accepted by both heads.
    ChangesNeedBothHeads,
    /// A member that joins begins another life.
    JoiningStartsNewLife,
    /// The life of a former witness never counts again.
    LivesAreUsedOnce,
    /// A life that a member reported before a record named a later one does not count.
    LivesAreAnnouncedAgain,
    /// The own member accepts a change of members last.
    ChangesBeginElsewhere,
    /// A witness leaves in two steps.
    WitnessLeavesInTwoSteps,
    /// The second step follows when both heads have accepted the first one.
    LeavingIsAgreed,
    /// Two heads: a fence replaces a vote until its victim sends a message.
    FenceExpiresOnContact,
    /// Two heads: after a boot the own copy is not enough.
    UnsureAfterBoot,
    /// Two heads: responses to an earlier boot do not count.
    ResponsesOfThisBoot,
    /// Two heads: a frozen head may have been considered off: state that it received before does not count.
    FreezesAreNoticed,
    /// Two heads: the own copy counts if it is committed.
    SoleIsCommitted,
    /// Two heads: the own copy counts only if nothing else was proposed since.
    SoleCountsProposals,
    /// Two heads: a fence is no vote against the head that has the only current legs.
    NoFenceAgainstTheSole,
    /// Two heads: the head with the only current legs accepts additional ones first.
    GrowthBeginsAtTheSole,
}

#[cfg(not(test))]
pub(super) const fn holds(_: Rule) -> bool {
    true
}

#[cfg(test)]
pub(super) use switch::{holds, without};

#[cfg(test)]
mod switch {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static REMOVED: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    pub(crate) fn holds(rule: Rule) -> bool {
        REMOVED.get() != Some(rule)
    }

    /// Runs `body` on this thread without `rule`.
    pub(crate) fn without<T>(rule: Rule, body: impl FnOnce() -> T) -> T {
        REMOVED.set(Some(rule));
        let outcome = body();
        REMOVED.set(None);
        outcome
    }
}
