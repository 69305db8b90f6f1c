//! The rules of the protocol by name, so that a test can take one away and see that it is needed.
//!
//! In a build that is no test, every rule holds and the compiler removes the question.

/// A rule that the explorer may take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    dead_code,
    reason = "some rules are asked for by the explorer's world only"
)]
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
    /// A member writes before it answers.
    MembersWriteBeforeTheyAnswer,
    /// A lender refuses older epochs.
    LendersRefuseOlderEpochs,
    /// A lender's epoch outlives its restart.
    LendersKeepTheirEpoch,
    /// A lender ends the I/O of one session before it admits the next.
    LendersDrain,
    /// A lender takes I/O of the admitted session only.
    LendersTakeOneSession,
    /// A session is resumed only with the same incarnation of the lender.
    SameIncarnation,
    /// The error of a leg is withheld until its exclusion is committed.
    ErrorsAreWithheld,
    /// A read that failed is no failure of the leg.
    ReadErrorsFailNoLeg,
    /// The last leg is used again only if no write or flush of it failed.
    LegsThatLackStayFailed,
    /// A leg that failed comes back only through a resilver.
    FailedLegsStayOut,
    /// The legs that are left after a drop can be read.
    LastLegsStay,
    /// What a leg lacks begins with the first group that no flush confirmed.
    SinceTheFirstUnconfirmed,
    /// A fault during the resilver does not shorten what the leg lacks.
    SinceOutlivesTheResilver,
    /// A leg is current only after its resilver, synced groups and a flush.
    ReturnIsComplete,
    /// What ended says of which session it was.
    ReturnsNameTheirSession,
    /// From the proposal to make a leg current on, its errors are withheld.
    GrowthBindsFromItsProposal,
    /// A record says that a stale leg is written before it is.
    ResilversAreOnRecord,
    /// Foreign history is not resilvered.
    ForeignHistoryIsDivergent,
    /// A stale leg without the root that is surely on it is copied in full.
    OlderImagesAreCopied,
    /// A leg is current only after the pool has passed every root that is on it.
    ReturnPassesItsRoots,
    /// Only current legs are opened.
    OnlyCurrentLegs,
    /// The record of a new owner is committed before the import.
    CommitBeforeImport,
    /// The owner before is known to have stopped.
    ProofOfTheStop,
    /// That proof counts for the term that was read before it was asked for.
    ProofForOneTerm,
    /// A head that serves promises nothing to others.
    OwnersPromiseNothing,
    /// It accepts nothing of others either.
    OwnersAcceptNothing,
    /// A member that lost its memory does not vote until it was told of a record that names its life.
    LostMembersDoNotVote,
    /// It is told after that record is committed.
    WelcomeAfterTheCommit,
    /// Promises of a life count only beside records that name it.
    PromisesOfThisLife,
    /// A head that the newest record leaves out does not open the pool.
    HeadsOpenAsMembers,
    /// A head goes by the members of the record that its own member accepted, not by its configuration.
    MembersOfTheRecord,
    /// A change of members is committed by the rules before and after it, and accepted by both heads.
    ChangesNeedBothHeads,
    /// A member that joins begins another life.
    JoiningBeginsALife,
    /// The life of a witness that left is none to count in again.
    LivesAreUsedOnce,
    /// A life that a member told before a record named a later one says nothing.
    LivesAreToldAnew,
    /// The own member accepts a change of members last.
    ChangesBeginElsewhere,
    /// A witness leaves in two steps.
    WitnessLeavesInTwoSteps,
    /// The second step follows when both heads have accepted the first one.
    LeavingIsAgreed,
    /// Two heads: a fence stands in for a vote until its victim is heard.
    FenceEndsWhenHeard,
    /// Two heads: after a boot the own copy is not enough.
    UnsureAfterBoot,
    /// Two heads: answers to an earlier boot say nothing.
    AnswersOfThisBoot,
    /// Two heads: a head that was frozen may have been taken for one that is off: what it heard before says nothing.
    FreezesAreNoticed,
    /// Two heads: the own copy counts if it is committed.
    SoleIsCommitted,
    /// Two heads: the own copy counts only if nothing else was proposed since.
    SoleCountsProposals,
    /// Two heads: a fence is no vote against the head that has the only current legs.
    NoFenceAgainstTheSole,
    /// Two heads: who has the only current legs accepts more of them first.
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
